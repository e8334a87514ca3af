"""The record of progress that every callback of the library is called with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Progress:
    """How far a long computation has come.

    Attributes
    ----------
    stage : str
        What is computed: "EM", "settings", "scores", "bootstrap", or the name of a system.
    done : int
        Number of steps done: iterations, candidates, rows or draws.
    total : int or None
        Number of all steps (for EM the greatest possible number); None where it is not known.
    detail : object
        Result of the last step: an ``Iteration`` of EM, a ``CandidateResult`` of the search for settings, the
        address of the worker of a cluster that did the step, or None.
    """

    stage: str
    done: int
    total: int | None = None
    detail: Any = None


ProgressCallback = Callable[[Progress], object]
