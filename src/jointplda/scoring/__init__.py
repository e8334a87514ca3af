"""From parameters to log-likelihood ratios: pairs, enrollments, sets, and what training has seen."""
