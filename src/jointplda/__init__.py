"""Joint PLDA: is it the same identity, when a known nuisance also shapes the embeddings?

    from jointplda import JointPLDACV
    model = JointPLDACV().fit(X, speakers, channels=languages)

All scores and likelihoods are in natural logarithms. Names are imported when first used, so that
``import jointplda`` is quick.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # "as" marks what the package hands on
    from jointplda.errors import ClusterError as ClusterError
    from jointplda.errors import DataWarning as DataWarning
    from jointplda.errors import FileError as FileError
    from jointplda.errors import InputError as InputError
    from jointplda.errors import InputTypeError as InputTypeError
    from jointplda.errors import JointPLDAError as JointPLDAError
    from jointplda.errors import TooLargeError as TooLargeError
    from jointplda.estimators.automatic import JointPLDACV as JointPLDACV
    from jointplda.estimators.joint import JointPLDA as JointPLDA
    from jointplda.estimators.pipeline import Pipeline as Pipeline
    from jointplda.estimators.pipeline import make_pipeline as make_pipeline
    from jointplda.estimators.plain import PLDA as PLDA
    from jointplda.model.em import Iteration as Iteration
    from jointplda.model.fitted import FittedModel as FittedModel
    from jointplda.model.posterior import LatentPosterior as LatentPosterior
    from jointplda.model.posterior import Posterior as Posterior
    from jointplda.model.statistics import Statistics as Statistics
    from jointplda.progress import Progress as Progress
    from jointplda.scoring.enrollment import Enrollment as Enrollment
    from jointplda.scoring.pairs import PreparedSide as PreparedSide
    from jointplda.selection.candidates import CandidateResult as CandidateResult

__version__ = version("jointplda")

_NAMES = {
    "errors": (
        "ClusterError",
        "DataWarning",
        "FileError",
        "InputError",
        "InputTypeError",
        "JointPLDAError",
        "TooLargeError",
    ),
    "estimators.automatic": ("JointPLDACV",),
    "estimators.joint": ("JointPLDA",),
    "estimators.pipeline": ("Pipeline", "make_pipeline"),
    "estimators.plain": ("PLDA",),
    "model.em": ("Iteration",),
    "model.fitted": ("FittedModel",),
    "model.posterior": ("LatentPosterior", "Posterior"),
    "model.statistics": ("Statistics",),
    "progress": ("Progress",),
    "scoring.enrollment": ("Enrollment",),
    "scoring.pairs": ("PreparedSide",),
    "selection.candidates": ("CandidateResult",),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"jointplda.{_HOME[name]}"), name)
    raise AttributeError(f"module 'jointplda' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
