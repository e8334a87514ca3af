"""Calibrations as files."""

from dataclasses import dataclass
from os import PathLike

import numpy as np

from jointplda.calibration.affine import AffineCalibration
from jointplda.calibration.pav import PAVCalibration
from jointplda.errors import FileError
from jointplda.storage.records import read_record, write_record

Calibration = AffineCalibration | PAVCalibration


@dataclass(frozen=True)
class _StoredCalibration:
    """One of the two kinds."""

    affine: AffineCalibration | None
    pav: PAVCalibration | None


def save_calibration(calibration: Calibration, path: str | PathLike[str]) -> None:
    """Write a calibration to a path as safetensors, whole or not at all."""
    affine = calibration if isinstance(calibration, AffineCalibration) else None
    pav = calibration if isinstance(calibration, PAVCalibration) else None
    write_record(path, "calibration", _StoredCalibration(affine, pav))


def load_calibration(path: str | PathLike[str]) -> Calibration:
    """Read what ``save_calibration`` wrote to a path."""
    stored = read_record(path, "calibration", _StoredCalibration)
    if stored.affine is not None:
        return stored.affine
    if stored.pav is None:
        raise FileError(f"{path}: a calibration file without a calibration.")
    scores, llrs = stored.pav.scores, stored.pav.llrs
    if scores.ndim != 1 or scores.shape != llrs.shape or (np.diff(scores) < 0).any():
        raise FileError(f"{path}: a calibration file whose parts do not fit each other.")
    return stored.pav
