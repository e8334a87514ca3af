"""``jointplda info``: the contents of a model or calibration file."""

from pathlib import Path
from typing import Any

import numpy as np

from jointplda.calibration import AffineCalibration, load_calibration
from jointplda.commands.console import print_facts, print_json
from jointplda.commands.model_facts import (
    em_ranks,
    interaction_fact,
    scoring_model,
    scoring_pipeline,
    training_channels,
)
from jointplda.estimators.model_file import read_model
from jointplda.estimators.pipeline import Pipeline
from jointplda.storage.tensors import read_metadata

VALUES_SHOWN = 12


def info(path: Path, *, as_json: bool) -> None:
    """Print what a file holds."""
    result = _calibration(path) if read_metadata(path).get("kind") == "calibration" else _model(path)
    if as_json:
        print_json(result)
    else:
        print_facts(str(path), [(name, _text(value)) for name, value in result.items()])


def _model(path: Path) -> dict[str, Any]:
    stored = read_model(path)
    pipe = Pipeline.from_description(stored, path)
    model = scoring_model(pipe)
    speaker_rank, *channel_ranks = em_ranks(model)
    result: dict[str, Any] = {
        "holds": type(pipe[-1]).__name__,
        "preprocessing": [_step(step) for _, step in scoring_pipeline(pipe).steps[:-1]],
        "dimensions": len(model.mean_),
        "speaker rank": speaker_rank,
        "channel ranks": dict(zip(model.fitted_.condition_names, channel_ranks, strict=True)),
        "interaction": interaction_fact(model) if model.fitted_.interacts else "none",
        "shares of variance": {name: f"{100 * share:.0f} %" for name, share in model.fitted_.variance_shares.items()},
        "training": getattr(model, "training_", {}),
        "iterations": model.n_iter_,
        "converged": model.converged_,
        "solver": model.fitted_.trace.solver,
        "log-likelihood per sample": float(model.log_likelihoods_[-1]) if model.n_iter_ else None,
        "standard error of it": model.fitted_.trace.standard_error,
        "settings": {
            name: value
            for name, value in pipe[-1].get_params(deep=False).items()
            if name not in ("callback", "front_end")
        },
        "singular values of V": np.linalg.svd(model.V_, compute_uv=False)[:8],
        "singular values of U": np.linalg.svd(model.U_, compute_uv=False)[:8],
        "written with": dict(stored.versions),
    }
    if model.calibration_ is not None:
        result["calibration"] = {"scale": model.calibration_.scale, "offset": model.calibration_.offset}
    if hasattr(pipe[-1], "best_estimator_"):
        chosen = pipe[-1].selection_.chosen
        result["chosen"] = {"front_end": chosen.front_end, **pipe[-1].best_params_}
        result["candidates"] = len(pipe[-1].candidates_)
        result["held-out Cllr"] = {
            "raw": pipe[-1].held_out_cllr_.raw_cllr,
            "calibrated": pipe[-1].held_out_cllr_.calibrated_cllr,
            "at best": pipe[-1].held_out_cllr_.min_cllr,
        }
    channels = training_channels(model)
    return result | ({"channels": channels} if channels else {})


def _calibration(path: Path) -> dict[str, Any]:
    stored = load_calibration(path)
    if isinstance(stored, AffineCalibration):
        return {"holds": "affine calibration", "scale": stored.scale, "offset": stored.offset, "prior": stored.prior}
    ends = [float(stored.llrs[0]), float(stored.llrs[-1])]
    return {"holds": "PAV calibration", "blocks": len(stored.scores) // 2, "lowest and highest LLR": ends}


def _step(step: Any) -> str:
    settings = ", ".join(f"{k}={v!r}" for k, v in step.get_params(deep=False).items() if v not in (None, False))
    return f"{type(step).__name__}({settings})"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(entry)}" for name, entry in value.items()) or "none"
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        shown = ", ".join(_text(entry) for entry in value[:VALUES_SHOWN])
        return f"{shown}, ... ({len(value)})" if len(value) > VALUES_SHOWN else shown or "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
