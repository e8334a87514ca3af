"""Conversion of files of version 1 to the present version.

Version 1 (of the development versions of 0.1.0) had names of its own for tensors and attributes. Its headers are
rearranged into those of ``records``; no number changes.
"""

import json
from typing import Any

import numpy as np

from jointplda._typing import AnyArray

Header = dict[str, Any]
Tensors = dict[str, AnyArray]
_POSTERIOR = ("channel_means", "channel_covariance", "speaker_means", "speaker_counts", "observed")


def upgraded(kind: str, metadata: Header, tensors: Tensors) -> Header:
    """The header of a record in the present form; tensors are added where version 1 had others."""
    if metadata["version"] == 1:
        return _FROM_VERSION_1[kind](metadata, tensors)
    header: Header = metadata["record"]
    return header


def _statistics(metadata: Header, tensors: Tensors) -> Header:
    parts = []
    for p, pattern in enumerate(metadata["patterns"]):
        factors = [0, *(k + 1 for k, labelled in enumerate(pattern) if labelled)]
        pairs = [[k, j] for k in factors for j in factors if k < j]
        levels = [[k, _tensors(f"part.{p}.levels.{k}", ("index", "counts", "sums"))] for k in factors]
        links = [[[k, j], _tensors(f"part.{p}.links.{k}.{j}", ("rows", "columns", "counts"))] for k, j in pairs]
        count = float(tensors[f"part.{p}.count"][0])
        parts.append(
            [pattern, {"count": count, **_tensors(f"part.{p}", ("total", "scatter")), "levels": levels, "links": links}]
        )
    return {
        "labels": _labels("labels", tensors),
        "conditions": metadata["conditions"],
        "shift": {"tensor": "shift"},
        "parts": parts,
    }


def _calibration(metadata: Header, tensors: Tensors) -> Header:
    if metadata["method"] != "affine":
        return {"affine": None, "pav": _tensors("", ("scores", "llrs"))}
    scale, offset = (float(tensors[name].item()) for name in ("scale", "offset"))
    return {"affine": {"scale": scale, "offset": offset, "prior": metadata["prior"]}, "pav": None}


def _model(metadata: Header, tensors: Tensors) -> Header:
    model = metadata["model"]
    automatic = model["class"] == "JointPLDACV"
    attributes, settings = model["attributes"], dict(model["settings"])
    if automatic:
        settings["cv"] = settings.pop("folds")
        threads = settings.pop("threads", None)
        settings["n_jobs"] = -1 if threads is None else threads
    return {
        "estimator": model["class"],
        "step": model["step"],
        "settings": settings,
        "feature_names": attributes.get("feature_names_in_"),
        "fitted": _fitted(model["class"], attributes, tensors),
        "selection": _selection(attributes) if automatic else None,
        "steps": [_step(i, step) for i, step in enumerate(metadata["steps"])],
        "versions": metadata["versions"],
    }


def _fitted(name: str, attributes: Header, tensors: Tensors) -> Header:
    ranks = attributes["channel_ranks_"]
    ends = np.cumsum([0, *ranks])
    for k in range(len(ranks)):
        tensors[f"U.{k}"] = np.ascontiguousarray(tensors["model.U"][:, ends[k] : ends[k + 1]])
    training = attributes.get("training_")
    return {
        "mean": {"tensor": "model.mean"},
        "loadings": [{"tensor": "model.V"}, *({"tensor": f"U.{k}"} for k in range(len(ranks)))],
        "precision": {"tensor": "model.D"},
        "conditions": None if training is None else training["conditions"],
        "channels_shared": name != "PLDA",
        "trace": {"log_likelihoods": {"tensor": "model.log_likelihoods"}, "converged": attributes["converged_"]},
        "counts": None if training is None else {key: training[key] for key in ("samples", "speakers", "channels")},
        "shrinkage": attributes.get("reshaping_"),
        "training": _posterior(tensors) if "seen.labels" in tensors else None,
        "calibration": attributes.get("calibration_"),
    }


def _posterior(tensors: Tensors) -> Header:
    speakers, *channels = _labels("seen.labels", tensors)
    for part in ("data", "indices", "indptr"):
        tensors[f"seen.{part}"] = tensors[f"seen.slots.{part}"]
    return {
        "channels": channels,
        "channel_counts": [{"tensor": f"seen.channel_counts.{k}"} for k in range(len(channels))],
        "speakers": speakers,
        "slots": {"sparse": "seen", "shape": tensors["seen.slots.shape"].tolist()},
        **_tensors("seen", _POSTERIOR),
    }


def _selection(attributes: Header) -> Header:
    candidates = []
    for result in attributes["tried_"]:
        ranks = result["candidate"]["channel_ranks"]
        candidate = {"channel_priors": [0.0] * len(ranks), **result["candidate"]}
        candidates.append({**result, "candidate": candidate})
    return {"candidates": candidates, "design": attributes["design_"], "checked": attributes["checked_"]}


def _step(i: int, step: Header) -> Header:
    arrays = {name: {"tensor": f"step.{i}.{name}"} for name in step["tensors"]}
    return {
        "step": step["step"],
        "transformer": step["class"],
        "settings": step["settings"],
        "attributes": step["attributes"] | arrays,
    }


def _tensors(prefix: str, names: tuple[str, ...]) -> Header:
    return {name: {"tensor": f"{prefix}.{name}" if prefix else name} for name in names}


def _labels(name: str, tensors: Tensors) -> list[Header]:
    """Split a tensor of several lists of labels into one tensor for each list."""
    lists = json.loads(tensors[name].tobytes().decode("utf-8", "surrogatepass"))
    for k, labels in enumerate(lists):
        text = json.dumps(labels, ensure_ascii=False)
        tensors[f"{name}.{k}"] = np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)
    return [{"labels": f"{name}.{k}"} for k in range(len(lists))]


_FROM_VERSION_1 = {"statistics": _statistics, "calibration": _calibration, "model": _model}
