"""What the commands read from a fitted pipeline: its model, the ranks that EM found, the channels it knows."""

from typing import Any

from jointplda.estimators.joint import JointPLDA
from jointplda.estimators.pipeline import Pipeline
from jointplda.estimators.plain import PLDA

Model = PLDA | JointPLDA


def scoring_pipeline(pipe: Pipeline) -> Pipeline:
    """The steps and the PLDA or JointPLDA that score: the pipeline, or the best estimator of the search it ends in."""
    best = getattr(pipe[-1], "best_estimator_", None)
    return pipe if best is None else Pipeline([*pipe.steps[:-1], *best.steps])


def scoring_model(pipe: Pipeline) -> Model:
    """The PLDA or JointPLDA that scores."""
    model: Model = scoring_pipeline(pipe)[-1]
    return model


def em_ranks(model: Model) -> list[int]:
    """Ranks of V and of the U of every condition as EM found them, before channel shares and priors filled them up."""
    settings = model.fitted_.settings
    return [settings.speaker_rank or 0, *settings.channel_rank]


def training_channels(model: Model) -> dict[str, list[str]]:
    """Channels of the training data, by the name of their condition; empty where the model keeps none."""
    if model.fitted_.training is None:
        return {}
    names = model.fitted_.condition_names
    channels = zip(model.fitted_.conditions_used, model.fitted_.training.channels, strict=True)
    return {names[k]: [str(label) for label in labels] for k, labels in channels}


def interaction_fact(model: Any) -> str:
    """The form of the interaction of a fitted model, kappa, its share of the variance, and its share in scores."""
    fitted, form = model.fitted_, getattr(model, "interaction", 0.0)
    share = f"{100 * fitted.variance_shares['interaction']:.0f} % of the variance"
    counted = "" if fitted.settings.cell_share == 1.0 else f", cell share {fitted.settings.cell_share:g}"
    return f"{form if isinstance(form, str) else 'given'}, kappa {model.interaction_:.3g} ({share}){counted}"
