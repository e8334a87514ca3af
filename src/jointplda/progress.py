"""How far long work has come: the one thing that every progress callback of the library is called with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Progress:
    """A step that was done.

    Attributes
    ----------
    stage : str
        What is being done: "EM", "settings", "scores", "bootstrap", or the name of a system.
    done : int
        Steps done so far: iterations, candidates, rows, draws.
    total : int or None
        Steps in all (for EM at most so many); None where it is not known.
    detail : object
        What the step gave: an ``Iteration`` of EM, a ``CandidateResult`` of the search for settings; else None.
    """

    stage: str
    done: int
    total: int | None = None
    detail: Any = None


ProgressCallback = Callable[[Progress], object]
