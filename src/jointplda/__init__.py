"""Joint PLDA: is it the same identity, when a known nuisance also shapes the embeddings?

    from jointplda import JointPLDA
    model = JointPLDA(speaker_rank=100, channel_rank=20).fit(X, speakers, channels=languages)

All scores and likelihoods are in natural logarithms. Names are imported when first used, so that
``import jointplda`` is quick.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jointplda.errors import DataWarning, FileError, InputError, InputTypeError, JointPLDAError, TooLargeError
    from jointplda.estimators.joint import JointPLDA
    from jointplda.estimators.plain import PLDA
    from jointplda.learn.em import Iteration
    from jointplda.learn.posterior import LatentPosterior, Posterior
    from jointplda.learn.statistics import Statistics
    from jointplda.pipeline import Pipeline, automatic_pipeline, make_pipeline
    from jointplda.score.enrolment import Enrolment
    from jointplda.score.pairs import Side
    from jointplda.selection.automatic import JointPLDACV
    from jointplda.selection.candidates import Tried

__version__ = version("jointplda")

_HOME = {
    "DataWarning": "errors",
    "Enrolment": "score.enrolment",
    "FileError": "errors",
    "InputError": "errors",
    "InputTypeError": "errors",
    "Iteration": "learn.em",
    "JointPLDA": "estimators.joint",
    "JointPLDACV": "selection.automatic",
    "JointPLDAError": "errors",
    "LatentPosterior": "learn.posterior",
    "PLDA": "estimators.plain",
    "Pipeline": "pipeline",
    "Posterior": "learn.posterior",
    "Side": "score.pairs",
    "Statistics": "learn.statistics",
    "TooLargeError": "errors",
    "Tried": "selection.candidates",
    "automatic_pipeline": "pipeline",
    "make_pipeline": "pipeline",
}

__all__ = [
    "PLDA",
    "DataWarning",
    "Enrolment",
    "FileError",
    "InputError",
    "InputTypeError",
    "Iteration",
    "JointPLDA",
    "JointPLDACV",
    "JointPLDAError",
    "LatentPosterior",
    "Pipeline",
    "Posterior",
    "Side",
    "Statistics",
    "TooLargeError",
    "Tried",
    "automatic_pipeline",
    "make_pipeline",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"jointplda.{_HOME[name]}"), name)
    raise AttributeError(f"module 'jointplda' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
