"""Calibration: from scores to well-calibrated log-likelihood ratios."""

from jointplda.calibration.affine import AffineCalibration, fit_affine
from jointplda.calibration.calibration_file import Calibration, load_calibration, save_calibration
from jointplda.calibration.pav import PAVCalibration, fit_pav

__all__ = [
    "AffineCalibration",
    "Calibration",
    "PAVCalibration",
    "fit_affine",
    "fit_pav",
    "load_calibration",
    "save_calibration",
]
