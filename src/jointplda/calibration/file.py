"""Calibrations as files."""

from os import PathLike

import numpy as np

from jointplda.calibration.affine import AffineCalibration
from jointplda.calibration.pav import PAVCalibration
from jointplda.errors import FileError
from jointplda.storage.tensors import read_tensors, write_tensors

Calibration = AffineCalibration | PAVCalibration

KIND, VERSION = "calibration", 1


def save_calibration(calibration: Calibration, path: str | PathLike[str]) -> None:
    """Write a calibration as safetensors, whole or not at all."""
    if isinstance(calibration, AffineCalibration):
        tensors = {"scale": np.array([calibration.scale]), "offset": np.array([calibration.offset])}
        write_tensors(path, KIND, VERSION, tensors, {"method": "affine", "prior": calibration.prior})
    else:
        tensors = {"scores": calibration.scores, "llrs": calibration.llrs}
        write_tensors(path, KIND, VERSION, tensors, {"method": "pav"})


def load_calibration(path: str | PathLike[str]) -> Calibration:
    """Read what ``save_calibration`` wrote."""
    tensors, metadata = read_tensors(path, KIND, VERSION)
    try:
        if metadata["method"] == "affine":
            scale, offset = (float(tensors[name].item()) for name in ("scale", "offset"))
            return AffineCalibration(scale, offset, float(metadata["prior"]))
        scores, llrs = tensors["scores"], tensors["llrs"]
    except (KeyError, ValueError, TypeError):
        raise FileError(f"{path}: a calibration file that lacks some of its parts.") from None
    if scores.ndim != 1 or scores.shape != llrs.shape or (np.diff(scores) < 0).any():
        raise FileError(f"{path}: a calibration file whose parts do not fit each other.")
    return PAVCalibration(scores, llrs)
