"""``jointplda info``: what a model or calibration file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jointplda.commands import options


@click.command("info", short_help="Say what a model or calibration file holds.")
@click.argument("model", type=options.IN_FILE)
@options.as_json
@options.common
def command(model: Path, as_json: bool, quiet: bool, verbose: bool) -> None:
    """Say what MODEL holds: ranks, preprocessing, training, settings. Calibration files are understood too."""
    from jointplda.commands.console import print_facts, print_json
    from jointplda.storage.tensors import read_metadata

    with options.talking(quiet, verbose):
        kind = read_metadata(model).get("kind")
        result = _calibration(model) if kind == "calibration" else _model(model)
        if as_json:
            print_json(result)
        else:
            print_facts(str(model), [(name, _text(value)) for name, value in result.items()])


def _model(path: Path) -> dict[str, Any]:
    import numpy as np

    from jointplda.estimators.pipeline import Pipeline
    from jointplda.storage.tensors import read_metadata

    pipe = Pipeline.load(path)
    model = pipe[-1]
    training = getattr(model, "training_", {})
    speaker, *channels = found_ranks(model)
    result: dict[str, Any] = {
        "holds": type(model).__name__,
        "preprocessing": [_step(step) for _, step in pipe.steps[:-1]],
        "dimensions": len(model.mean_),
        "speaker rank": speaker,
        "channel ranks": dict(zip(_conditions(model), channels, strict=True)),
        "training": training,
        "iterations": model.n_iter_,
        "converged": model.converged_,
        "log-likelihood per sample": float(model.log_likelihoods_[-1]) if model.n_iter_ else None,
        "settings": {k: v for k, v in model.get_params(deep=False).items() if k != "callback"},
        "singular values of V": np.linalg.svd(model.V_, compute_uv=False)[:8],
        "singular values of U": np.linalg.svd(model.U_, compute_uv=False)[:8],
        "written with": read_metadata(path).get("versions", {}),
    }
    if model.calibration_ is not None:
        result["calibration"] = {"scale": model.calibration_.scale, "offset": model.calibration_.offset}
    if hasattr(model, "tried_"):
        result["chosen"] = model.settings_
        result["settings tried"] = len(model.tried_)
        result["held-out Cllr"] = {
            "raw": model.checked_.raw_cllr,
            "calibrated": model.checked_.calibrated_cllr,
            "at best": model.checked_.min_cllr,
        }
    if model.seen_ is not None:
        names = [name for name, rank in result["channel ranks"].items() if rank]
        pairs = zip(names, model.seen_.channels, strict=True)
        result["channels"] = {name: [str(label) for label in labels] for name, labels in pairs}
    return result


def found_ranks(model: Any) -> list[int]:
    """Ranks of V and of U of every condition as EM found them; shares and priors fill V and U up after it."""
    if model.reshaping_ is None:
        return [model.V_.shape[1], *model.channel_ranks_]
    speaker, *channels = model.reshaping_.ranks
    found = iter(channels)
    return [speaker, *(next(found) if rank else 0 for rank in model.channel_ranks_)]


def _conditions(model: Any) -> list[str]:
    names = list(getattr(model, "training_", {}).get("conditions", []))
    ranks = model.channel_ranks_
    return names if len(names) == len(ranks) else [f"channel {k + 1}" for k in range(len(ranks))]


def _calibration(path: Path) -> dict[str, Any]:
    from jointplda.calibration import AffineCalibration, load_calibration

    found = load_calibration(path)
    if isinstance(found, AffineCalibration):
        return {"holds": "affine calibration", "scale": found.scale, "offset": found.offset, "prior": found.prior}
    ends = [float(found.llrs[0]), float(found.llrs[-1])]
    return {"holds": "PAV calibration", "blocks": len(found.scores) // 2, "llrs from, to": ends}


def _step(step: Any) -> str:
    settings = ", ".join(f"{k}={v!r}" for k, v in step.get_params(deep=False).items() if v not in (None, False))
    return f"{type(step).__name__}({settings})"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(entry)}" for name, entry in value.items()) or "none"
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        shown = ", ".join(_text(entry) for entry in value[:12])
        return f"{shown}, ... ({len(value)})" if len(value) > 12 else shown or "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
