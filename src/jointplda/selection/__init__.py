"""The choice of settings, and the calibration, by cross-validation over training speakers."""
