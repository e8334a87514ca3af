"""Model files: parameters and preprocessing in one safetensors file, with one JSON value of metadata."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from importlib.metadata import version
from os import PathLike
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from jointplda._typing import AnyArray
from jointplda.calibration.affine import AffineCalibration
from jointplda.errors import FileError
from jointplda.model.channel_shrinkage import ChannelShrinkage
from jointplda.model.training_posterior import TrainingPosterior
from jointplda.storage.tensors import pack_labels, read_tensors, unpack_labels, write_tensors

KIND, VERSION = "model", 1
TENSORS = ("mean_", "V_", "U_", "D_", "log_likelihoods_")
PLAIN = ("channel_ranks_", "n_iter_", "converged_", "n_features_in_", "training_")
CHOSEN = ("settings_", "tried_", "design_", "checked_")  # of settings chosen automatically
RECORDS = ("calibration_", "reshaping_", *CHOSEN)
SEEN = ("channel_means", "channel_covariance", "speaker_means", "speaker_counts", "observed")
LIBRARIES = ("jointplda", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class StoredModel:
    """A fitted model as a file holds it: class name, settings, fitted attributes, name in a pipeline (or "")."""

    name: str
    settings: dict[str, Any]
    attributes: dict[str, Any]
    step: str = ""


@dataclass(frozen=True)
class StoredStep:
    """A transformer before the model: name in the pipeline, class name, settings, fitted attributes."""

    step: str
    name: str
    settings: dict[str, Any]
    attributes: dict[str, Any]


def describe_model(model: Any) -> StoredModel:
    """What to store of a fitted model; a callback is left out, and a seed that is not a number."""
    settings = {name: _plain(value) for name, value in model.get_params(deep=False).items()}
    settings["callback"] = None
    if not isinstance(settings["random_state"], int | None):
        settings["random_state"] = None
    attributes = {name: getattr(model, name) for name in (*TENSORS, *PLAIN) if hasattr(model, name)}
    attributes |= {name: _plain(vars(model)[name]) for name in RECORDS if vars(model).get(name) is not None}
    if hasattr(model, "feature_names_in_"):
        attributes["feature_names_in_"] = list(model.feature_names_in_)
    if model.seen_ is not None:
        attributes["seen_"] = model.seen_
    return StoredModel(type(model).__name__, settings, attributes)


def write(path: str | PathLike[str], model: StoredModel, steps: Sequence[StoredStep], step: str = "") -> None:
    """Write a model and the steps before it; the file is whole or not there.

    ``step`` is the name of the model in its pipeline.
    """
    _check(path, model.attributes)
    tensors = {f"model.{name.rstrip('_')}": model.attributes[name] for name in TENSORS}
    if "seen_" in model.attributes:
        tensors |= _seen_tensors(model.attributes["seen_"])
    for i, one in enumerate(steps):
        arrays = {name: value for name, value in one.attributes.items() if isinstance(value, np.ndarray)}
        tensors |= {f"step.{i}.{name}": value for name, value in arrays.items()}
    metadata = {
        "model": {
            "class": model.name,
            "step": step,
            "settings": model.settings,
            "attributes": {k: _plain(v) for k, v in model.attributes.items() if k not in (*TENSORS, "seen_")},
        },
        "ranks": {
            "speaker": int(model.attributes["V_"].shape[1]),
            "channels": list(model.attributes["channel_ranks_"]),
        },
        "training": model.attributes.get("training_"),
        "seed": model.settings["random_state"],
        "versions": {name: version(name) for name in LIBRARIES},
        "steps": [
            {
                "step": one.step,
                "class": one.name,
                "settings": {k: _plain(v) for k, v in one.settings.items()},
                "attributes": {k: _plain(v) for k, v in one.attributes.items() if not isinstance(v, np.ndarray)},
                "tensors": [k for k, v in one.attributes.items() if isinstance(v, np.ndarray)],
            }
            for one in steps
        ],
    }
    write_tensors(path, KIND, VERSION, tensors, metadata)


def read(path: str | PathLike[str]) -> tuple[StoredModel, list[StoredStep]]:
    """Read a model and the steps before it, checked for shapes and finite numbers."""
    tensors, metadata = read_tensors(path, KIND, VERSION)
    try:
        stored = metadata["model"]
        attributes = {name: tensors[f"model.{name.rstrip('_')}"] for name in TENSORS} | stored["attributes"]
        attributes["channel_ranks_"] = tuple(attributes["channel_ranks_"])
        kept = attributes.get("calibration_")
        attributes["calibration_"] = None if kept is None else AffineCalibration(**kept)
        reshaped = attributes.get("reshaping_")
        attributes["reshaping_"] = (
            None if reshaped is None else ChannelShrinkage(**{k: tuple(v) for k, v in reshaped.items()})
        )
        attributes["seen_"] = _seen_from(tensors) if "seen.labels" in tensors else None
        if "feature_names_in_" in attributes:
            attributes["feature_names_in_"] = np.array(attributes["feature_names_in_"], dtype=object)
        steps = [
            StoredStep(
                step["step"],
                step["class"],
                step["settings"],
                step["attributes"] | {name: tensors[f"step.{i}.{name}"] for name in step["tensors"]},
            )
            for i, step in enumerate(metadata["steps"])
        ]
        model = StoredModel(stored["class"], stored["settings"], attributes, stored["step"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FileError(f"{path}: a jointplda model file that lacks some of its content ({error}).") from None
    _check(path, model.attributes)
    return model, steps


def _seen_tensors(seen: TrainingPosterior) -> dict[str, AnyArray]:
    """What training has seen, as arrays."""
    tensors: dict[str, AnyArray] = {
        "seen.labels": pack_labels((seen.speakers, *seen.channels)),
        "seen.slots.indptr": seen.slots.indptr.astype(np.int64),
        "seen.slots.indices": seen.slots.indices.astype(np.int64),
        "seen.slots.data": seen.slots.data,
        "seen.slots.shape": np.array(seen.slots.shape, dtype=np.int64),
    }
    tensors |= {f"seen.{name}": getattr(seen, name) for name in SEEN}
    return tensors | {f"seen.channel_counts.{k}": counts for k, counts in enumerate(seen.channel_counts)}


def _seen_from(tensors: dict[str, AnyArray]) -> TrainingPosterior:
    """Inverse of ``_seen_tensors``."""
    speakers, *channels = unpack_labels(tensors["seen.labels"])
    slots = csr_array(
        tuple(tensors[f"seen.slots.{part}"] for part in ("data", "indices", "indptr")),
        shape=(int(tensors["seen.slots.shape"][0]), int(tensors["seen.slots.shape"][1])),
    )
    return TrainingPosterior(
        speakers=speakers,
        channels=tuple(channels),
        channel_counts=tuple(tensors[f"seen.channel_counts.{k}"] for k in range(len(channels))),
        slots=slots,
        **{name: tensors[f"seen.{name}"] for name in SEEN},
    )


def _check(path: str | PathLike[str], attributes: dict[str, Any]) -> None:
    mean, V, U, D = (attributes[name] for name in ("mean_", "V_", "U_", "D_"))
    d, rank = attributes["n_features_in_"], sum(attributes["channel_ranks_"])
    shapes = (mean.shape, V.shape[:1], U.shape, D.shape)
    if shapes != ((d,), (d,), (d, rank), (d, d)) or V.ndim != 2:
        raise FileError(f"{path}: mean, V, U and D have shapes that do not belong together.")
    if not all(np.isfinite(array).all() for array in (mean, V, U, D)):
        raise FileError(f"{path}: the parameters are not all finite numbers.")


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if callable(value):
        return None
    return value
