"""From statistics to parameters: the EM engine of the whole PLDA family."""
