"""Joint PLDA: is it the same identity, when a known nuisance also shapes the embeddings?

    from jointplda import automatic_pipeline
    model = automatic_pipeline().fit(X, speakers, channels=languages)

All scores and likelihoods are in natural logarithms. Names are imported when first used, so that
``import jointplda`` is quick.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jointplda.errors import DataWarning, FileError, InputError, InputTypeError, JointPLDAError, TooLargeError
    from jointplda.estimators.automatic import JointPLDACV
    from jointplda.estimators.joint import JointPLDA
    from jointplda.estimators.pipeline import Pipeline, automatic_pipeline, make_pipeline
    from jointplda.estimators.plain import PLDA
    from jointplda.model.em import Iteration
    from jointplda.model.fitted import FittedModel
    from jointplda.model.posterior import LatentPosterior, Posterior
    from jointplda.model.statistics import Statistics
    from jointplda.progress import Progress
    from jointplda.scoring.enrollment import Enrollment
    from jointplda.scoring.pairs import PreparedSide
    from jointplda.selection.candidates import CandidateResult

__version__ = version("jointplda")

_HOME = {
    "CandidateResult": "selection.candidates",
    "DataWarning": "errors",
    "Enrollment": "scoring.enrollment",
    "FileError": "errors",
    "FittedModel": "model.fitted",
    "InputError": "errors",
    "InputTypeError": "errors",
    "Iteration": "model.em",
    "JointPLDA": "estimators.joint",
    "JointPLDACV": "estimators.automatic",
    "JointPLDAError": "errors",
    "LatentPosterior": "model.posterior",
    "PLDA": "estimators.plain",
    "Pipeline": "estimators.pipeline",
    "Posterior": "model.posterior",
    "PreparedSide": "scoring.pairs",
    "Progress": "progress",
    "Statistics": "model.statistics",
    "TooLargeError": "errors",
    "automatic_pipeline": "estimators.pipeline",
    "make_pipeline": "estimators.pipeline",
}

__all__ = [
    "PLDA",
    "CandidateResult",
    "DataWarning",
    "Enrollment",
    "FileError",
    "FittedModel",
    "InputError",
    "InputTypeError",
    "Iteration",
    "JointPLDA",
    "JointPLDACV",
    "JointPLDAError",
    "LatentPosterior",
    "Pipeline",
    "Posterior",
    "PreparedSide",
    "Progress",
    "Statistics",
    "TooLargeError",
    "automatic_pipeline",
    "make_pipeline",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"jointplda.{_HOME[name]}"), name)
    raise AttributeError(f"module 'jointplda' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
