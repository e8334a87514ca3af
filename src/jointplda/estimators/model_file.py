"""Model files: an estimator, its fitted record and its preprocessing in one safetensors file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from jointplda.errors import FileError, InputError
from jointplda.model.fitted import FittedModel
from jointplda.preprocessing import STEPS
from jointplda.selection.search import Selection
from jointplda.storage.records import read_record, write_record

LIBRARIES = ("jointplda", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class StepDescription:
    """A fitted transformer: its name in the pipeline, its class, settings and fitted attributes."""

    step: str
    transformer: str
    settings: Mapping[str, Any]
    attributes: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class ModelDescription:
    """The contents of a model file.

    Attributes
    ----------
    estimator : str
        Name of the estimator's class.
    step : str
        Name of the estimator in its pipeline; empty if it is in none.
    settings : mapping
        Arguments of its constructor.
    feature_names : tuple of str, or None
    fitted : FittedModel
    selection : Selection or None
        The search, if settings were chosen automatically.
    steps : tuple of StepDescription
        The transformers before it.
    front_end : tuple of StepDescription
        The fitted front end of a model that has one of its own.
    versions : mapping
        Versions of the libraries that wrote the file.
    """

    estimator: str
    step: str
    settings: Mapping[str, Any]
    feature_names: tuple[str, ...] | None
    fitted: FittedModel
    selection: Selection | None
    steps: tuple[StepDescription, ...]
    front_end: tuple[StepDescription, ...]
    versions: Mapping[str, str]


def description(
    estimator: Any,
    fitted: FittedModel,
    selection: Selection | None = None,
    step: str = "",
    steps: tuple[StepDescription, ...] = (),
    front_end: tuple[StepDescription, ...] = (),
) -> ModelDescription:
    """Describe a fitted estimator, without its callback, and without a seed or splitter that is not a number.

    A front end of the user's own is described by its fitted steps.
    """
    settings = dict(estimator.get_params(deep=False)) | {"callback": None}
    for name, substitute in (("random_state", None), ("cv", 4)):
        if name in settings and not isinstance(settings[name], int | np.integer | None):
            settings[name] = substitute
    if not isinstance(settings.get("front_end", ""), str):
        del settings["front_end"]
    names = getattr(estimator, "feature_names_in_", None)
    return ModelDescription(
        type(estimator).__name__,
        step,
        {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in settings.items()},
        None if names is None else tuple(names),
        fitted,
        selection,
        steps,
        front_end,
        {name: version(name) for name in LIBRARIES},
    )


def described_steps(steps: Iterable[tuple[str, Any]]) -> tuple[StepDescription, ...]:
    """The contents of fitted steps; raises if there is one of another kind than those of ``STEPS``."""
    found = []
    for name, step in steps:
        if step is None or step == "passthrough":
            continue
        if type(step) not in STEPS.values():
            storable = ", ".join(f"jointplda.preprocessing.{transformer}" for transformer in STEPS)
            raise FileError(f"Step {name!r} ({type(step).__name__}) cannot be stored; these can: {storable}.")
        check_is_fitted(step)
        attributes = {key: value for key, value in vars(step).items() if key.endswith("_")}
        attributes.pop("feature_names_in_", None)
        found.append(StepDescription(name, type(step).__name__, step.get_params(deep=False), attributes))
    return tuple(found)


def restored_steps(steps: Iterable[StepDescription]) -> list[tuple[str, Any]]:
    """Fitted steps with their names."""
    found = []
    for stored in steps:
        if stored.transformer not in STEPS:
            raise FileError(f"The file holds a step {stored.transformer!r}, which this release does not know.")
        step = STEPS[stored.transformer](**stored.settings)
        step.__dict__.update(stored.attributes)
        found.append((stored.step, step))
    return found


def write_model(path: str | PathLike[str], model: ModelDescription) -> None:
    """Write a model to a file, completely or not at all."""
    _check(path, model.fitted)
    write_record(path, "model", model)


def read_model(path: str | PathLike[str], estimator: str | None = None) -> ModelDescription:
    """Read a model; raise if ``estimator`` is the name of another class, or there is preprocessing before it."""
    model = read_record(path, "model", ModelDescription)
    _check(path, model.fitted)
    if estimator is not None and model.steps:
        raise InputError(
            f"{path}: holds a pipeline with {len(model.steps)} step(s) before the model; use Pipeline.load."
        )
    if estimator is not None and model.estimator != estimator:
        raise InputError(f"{path}: holds a {model.estimator}, not a {estimator}; use {model.estimator}.load.")
    return model


def _check(path: str | PathLike[str], fitted: FittedModel) -> None:
    d = len(fitted.mean)
    arrays = (fitted.mean, *(factor.loading for factor in fitted.factors), fitted.precision)
    loadings = all(factor.loading.shape == (d, factor.loading.shape[-1]) for factor in fitted.factors)
    if not loadings or fitted.mean.shape != (d,) or fitted.precision.shape != (d, d):
        raise FileError(f"{path}: the shapes of mean, V, U and D do not agree.")
    if not all(np.isfinite(array).all() for array in arrays):
        raise FileError(f"{path}: the parameters are not all finite numbers.")
