"""Conversion of models from and to Kaldi's PLDA, by way of their covariances."""

from typing import Any

import numpy as np
from scipy.linalg import eigh

from jointplda._typing import Array
from jointplda.errors import InputError, Remedy, warn
from jointplda.estimators.automatic import JointPLDACV
from jointplda.estimators.base import BasePLDA
from jointplda.estimators.plain import PLDA
from jointplda.formats.foreign_plda import KaldiPlda
from jointplda.linalg import inverse, symmetric


def from_kaldi(plda: KaldiPlda) -> PLDA:
    """A fitted PLDA from Kaldi's mean, transform A and psi: V V' = A^-1 diag(psi) A^-T, D^-1 = A^-1 A^-T.

    V has no columns for directions without between-speaker variance. Scores of single samples equal those of Kaldi's
    ``ivector-plda-scoring`` without its length normalisation.
    """
    mean, between, within = to_covariances(plda)
    values, vectors = np.linalg.eigh(symmetric(between))
    kept = values > 1e-12 * max(float(values.max()), 0.0)
    if not kept.any():
        raise InputError("the model has no between-speaker variance: psi is zero.")
    V = (vectors[:, kept] * np.sqrt(values[kept]))[:, ::-1]
    return PLDA.from_parameters(mean, V, None, inverse(symmetric(within))[0])


def to_kaldi(model: Any, *, absorb_channel: bool = False) -> KaldiPlda:
    """Kaldi's mean, transform and psi of a fitted model.

    Parameters
    ----------
    model : PLDA, JointPLDA or JointPLDACV
        Its calibration, if it has one, is left out with a warning, and an interaction becomes noise.
    absorb_channel : bool
        Kaldi's model has no channels. True adds U U' to the within-speaker covariance, which gives every sample a
        channel of its own; False raises if the model has a U.
    """
    if isinstance(model, JointPLDACV):
        model = model.best_estimator_[-1]
    if not isinstance(model, BasePLDA):
        raise InputError(f"expected a fitted PLDA or JointPLDA, got {type(model).__name__}.")
    if model.calibration_ is not None:
        warn("Kaldi's and pyannote's models hold no calibration: scores made with the file are raw.")
    fitted = model.fitted_
    within = fitted.parameters.noise
    if fitted.interacts:
        warn("Kaldi's and pyannote's models hold no interaction of speaker and channel: it is written as noise.")
        within = within + fitted.cell_loading @ fitted.cell_loading.T
    if model.U_.shape[1]:
        if not absorb_channel:
            raise InputError(
                "the model has a channel loading U, which Kaldi's and pyannote's models cannot hold. Train PLDA "
                "without channels, or absorb U.",
                remedy=Remedy("absorb_channel", True, "puts every sample into a channel of its own"),
            )
        within = within + model.U_ @ model.U_.T
    return from_covariances(model.mean_, model.V_ @ model.V_.T, symmetric(within))


def to_covariances(plda: KaldiPlda) -> tuple[Array, Array, Array]:
    """Mean and covariances of a model: between = A^-1 diag(psi) A^-T, within = A^-1 A^-T."""
    try:
        back = np.linalg.inv(plda.transform)
    except np.linalg.LinAlgError:
        raise InputError(
            "the transform of the PLDA model has no inverse, so the model has no covariances.", parameter="plda"
        ) from None
    return plda.mean, symmetric((back * plda.psi) @ back.T), symmetric(back @ back.T)


def from_covariances(mean: Array, between: Array, within: Array) -> KaldiPlda:
    """A model from its covariances, by diagonalising both at once; psi in descending order.

    ``between`` and ``within`` (d, d) are symmetric; ``within`` is positive definite, ``between`` semidefinite.
    """
    mean, between, within = (np.asarray(a, dtype=np.float64) for a in (mean, between, within))
    for name, matrix in (("between", between), ("within", within)):
        if matrix.shape != (mean.size, mean.size):
            raise InputError(f"expected shape {(mean.size, mean.size)}, got {matrix.shape}.", parameter=name)
        if not np.all(np.isfinite(matrix)) or not np.allclose(matrix, matrix.T, atol=1e-8 * np.abs(matrix).max()):
            raise InputError("expected a finite and symmetric matrix.", parameter=name)
    try:
        psi, vectors = eigh(symmetric(between), symmetric(within))
    except np.linalg.LinAlgError:
        raise InputError(
            "expected a positive definite matrix; add a small number to its diagonal.", parameter="within"
        ) from None
    if psi[0] < -1e-8 * max(psi[-1], 1.0):
        raise InputError(
            f"expected a positive semidefinite matrix, got one with a variance of {psi[0]:.3g} relative to within.",
            parameter="between",
        )
    return KaldiPlda(mean, np.ascontiguousarray(vectors[:, ::-1].T), np.maximum(psi[::-1], 0.0))
