"""PLDA models of other programs: Kaldi's ``plda``, and the NumPy files of pyannote and DiariZen.

All of them hold a mean, a square matrix A and psi: A (x - mean) has the within-class covariance I and the
between-class covariance diag(psi).
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointplda._typing import Array
from jointplda.errors import FileError
from jointplda.formats.kaldi_records import BINARY, binary, read_binary
from jointplda.formats.npz import read_npz, recognises, write_npz
from jointplda.formats.text import PathLikeStr, existing, head, opened, target_file

_OPEN, _CLOSE = b"<Plda> ", b"</Plda> "


@dataclass(frozen=True)
class KaldiPlda:
    """A two-covariance PLDA model in the form of Kaldi.

    Parameters
    ----------
    mean : ndarray, shape (d,)
    transform : ndarray, shape (d, d)
        A, such that A (x - mean) has the within-class covariance I.
    psi : ndarray, shape (d,)
        The between-class variances after the transform.
    """

    mean: Array
    transform: Array
    psi: Array


def read_kaldi_plda(path: PathLikeStr) -> KaldiPlda:
    """Read Kaldi's ``plda`` file, binary or text, in float64."""
    target = existing(path)
    mean, transform, psi = _binary_parts(target) if head(target, 2) == BINARY else _text_parts(target)
    return _checked(mean, transform, psi, target)


def _binary_parts(path: Path) -> list[NDArray[Any]]:
    with opened(path) as stream:
        start = stream.read(len(BINARY + _OPEN))
        if start != BINARY + _OPEN:
            raise FileError(f"{path}: expected a Kaldi PLDA model (<Plda>), got {start!r}.")
        parts = [read_binary(stream, f"{path}, {name}") for name in ("mean", "transform", "psi")]
        if stream.read(len(_CLOSE)).strip() != _CLOSE.strip():
            raise FileError(f"{path}: expected </Plda> after psi; the file may be truncated.")
    return parts


def _text_parts(path: Path) -> list[NDArray[Any]]:
    with opened(path) as stream:
        text = stream.read().strip()
    if not text.startswith(_OPEN.strip()):
        raise FileError(f"{path}: expected a Kaldi PLDA model (<Plda>), got {text[:30]!r}.")
    blocks = re.findall(rb"\[([^\[\]]*)\]", text)
    if len(blocks) != 3 or not text.endswith(_CLOSE.strip()):
        raise FileError(
            f"{path}: expected a mean, a transform and psi, each in brackets, before </Plda>; got {len(blocks)} "
            "of them; the file may be truncated."
        )
    try:
        mean, transform, psi = (np.array([float(number) for number in block.split()]) for block in blocks)
    except ValueError as error:
        raise FileError(f"{path}: expected numbers in brackets ({error}).") from None
    rows = len([row for row in blocks[1].split(b"\n") if row.strip()])
    return [mean, transform.reshape(rows, -1) if rows and transform.size % rows == 0 else transform, psi]


def write_kaldi_plda(plda: KaldiPlda, path: PathLikeStr) -> None:
    """Write a model (``plda``) as Kaldi's file of that name, in binary form."""
    checked = _checked(plda.mean, plda.transform, plda.psi, Path(path))
    parts = (checked.mean, checked.transform, checked.psi)
    with target_file(path) as name, open(name, "wb") as stream:
        stream.write(BINARY + _OPEN + b"".join(binary(part) for part in parts) + _CLOSE)


def read_pyannote_plda(path: PathLikeStr) -> KaldiPlda:
    """Read ``plda.npz`` of pyannote or DiariZen: ``mu``, ``tr``, ``psi``."""
    target, names = existing(path), ("mu", "tr", "psi")
    if not recognises(target, head(target)):
        raise FileError(f"{target}: expected an .npz file with {', '.join(names)}, got another kind of file.")
    arrays = read_npz(target)
    if not set(names) <= set(arrays):
        raise FileError(f"{target}: expected the arrays {', '.join(names)}, got {', '.join(arrays) or 'none'}.")
    return _checked(arrays["mu"], arrays["tr"], arrays["psi"], target)


def write_pyannote_plda(plda: KaldiPlda, path: PathLikeStr) -> None:
    """Write a model (``plda``) as ``plda.npz`` for pyannote or DiariZen: ``mu``, ``tr``, ``psi``."""
    checked = _checked(plda.mean, plda.transform, plda.psi, Path(path))
    write_npz(path, {"mu": checked.mean, "tr": checked.transform, "psi": checked.psi})


def _checked(mean: NDArray[Any], transform: NDArray[Any], psi: NDArray[Any], path: Path) -> KaldiPlda:
    plda = KaldiPlda(_real(mean, "the mean", path), _real(transform, "the transform", path), _real(psi, "psi", path))
    d = plda.mean.size
    if plda.mean.shape != (d,) or plda.transform.shape != (d, d) or plda.psi.shape != (d,) or not d:
        raise FileError(
            f"{path}: expected a mean (d,), a transform (d, d) and psi (d,), got the shapes {plda.mean.shape}, "
            f"{plda.transform.shape}, {plda.psi.shape}."
        )
    if plda.psi.min() < 0:
        raise FileError(f"{path}: psi should hold variances, got {plda.psi.min():.4g}.")
    return plda


def _real(values: NDArray[Any], what: str, path: Path) -> Array:
    values = np.asarray(values)
    if values.dtype.kind not in "fiu":
        raise FileError(f"{path}: {what} should hold real numbers, got type {values.dtype}.")
    if not np.all(np.isfinite(values)):
        raise FileError(f"{path}: {what} holds NaN or infinity.")
    return np.ascontiguousarray(values, dtype=np.float64)
