"""The fitted model, and its scores: log-likelihood ratios of pairs, enrolled models and sets of samples."""
