"""What the commands read from a fitted pipeline: its model, the ranks that EM found, the channels it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jointplda.estimators.pipeline import Pipeline


def scoring_model(pipe: Pipeline) -> Any:
    """The PLDA or JointPLDA that scores: the last step, or the best estimator of its search."""
    return getattr(pipe[-1], "best_estimator_", pipe[-1])


def input_dimension(pipe: Pipeline) -> int:
    """Dimension of the embeddings that a fitted pipeline expects."""
    return int(pipe.n_features_in_) if len(pipe.steps) > 1 else len(scoring_model(pipe).mean_)


def condition_names(model: Any) -> list[str]:
    """Names of the conditions of a model, or numbers for conditions without a name."""
    names = list(getattr(model, "training_", {}).get("conditions", []))
    ranks = model.channel_ranks_
    return names if len(names) == len(ranks) else [f"condition {k + 1}" for k in range(len(ranks))]


def em_ranks(model: Any) -> list[int]:
    """Ranks of V and of the U of every condition as EM found them, before channel shares and priors filled them up."""
    if model.reshaping_ is None:
        return [model.V_.shape[1], *model.channel_ranks_]
    speaker, *channels = model.reshaping_.ranks
    kept = iter(channels)
    return [speaker, *(next(kept) if rank else 0 for rank in model.channel_ranks_)]


def training_channels(model: Any) -> dict[str, list[str]]:
    """Channels of the training data, by the name of their condition; empty where the model keeps none."""
    if model.seen_ is None:
        return {}
    names = [name for name, rank in zip(condition_names(model), em_ranks(model)[1:], strict=True) if rank]
    return {name: [str(label) for label in labels] for name, labels in zip(names, model.seen_.channels, strict=True)}
