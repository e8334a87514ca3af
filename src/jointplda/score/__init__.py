"""From parameters to log-likelihood ratios: pairs, enrolments, sets, and what training has seen."""
