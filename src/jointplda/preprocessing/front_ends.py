"""Front ends: steps between embeddings and a model, which a search fits inside its folds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags

from jointplda._typing import AnyArray, IntArray
from jointplda.errors import InputError
from jointplda.preprocessing.steps import PCA, Center, LengthNorm, Reduce, Scale, Step, Whiten

GIVEN = "given"


@dataclass(frozen=True)
class FrontEnd:
    """A named sequence of steps that are not fitted."""

    name: str
    steps: tuple[Any, ...]

    @property
    def supervised(self) -> bool:
        """Whether any step learns from the speakers."""
        return any(learns_from_speakers(step) for step in self.steps)

    def fitted(self, X: AnyArray, y: IntArray) -> tuple[tuple[Any, ...], AnyArray]:
        """The steps fitted to samples X (n, d) of speakers y (n,), and the samples that they make of X."""
        steps = []
        for step in self.steps:
            try:
                steps.append(clone(step).fit(X, y))
                X = np.asarray(steps[-1].transform(X))
            except ValueError as error:
                name, speakers = type(step).__name__, len(np.unique(y))
                text = str(error) if name in str(error) else f"{name}: {error}"
                raise InputError(f"{text} ({len(X)} samples of {speakers} speakers)", parameter="front_end") from None
        return tuple(steps), X

    def sized(self, samples: int, dimension: int, speakers: int, fewest: int) -> "FrontEnd":
        """The same with the number of components decided by the size of all training data, so that folds agree.

        ``fewest`` is the number of samples of the smallest fold, which must do for all components.
        """
        steps = list(self.steps)
        for i, step in enumerate(steps):
            if not isinstance(step, Step):
                break  # what it leaves is not known before it is fitted
            left = step.kept(samples, dimension, speakers)
            if isinstance(step, Reduce):
                left = left if left < fewest else dimension
                steps[i] = PCA(left) if left < dimension else Center()
            dimension = left
        return replace(self, steps=tuple(steps))

    def dimension(self, samples: int, dimension: int, speakers: int) -> int:
        """Dimension of the result, as far as it is known before the steps are fitted."""
        for step in self.steps:
            dimension = step.kept(samples, dimension, speakers) if isinstance(step, Step) else dimension
        return dimension


NONE = (FrontEnd("none", ()),)
AUTO = (
    FrontEnd("length norm", (Center(), LengthNorm(), Reduce())),
    FrontEnd("no length norm", (Reduce(),)),
    FrontEnd("scaled features", (Scale(), LengthNorm(), Reduce())),
    FrontEnd("whitening", (Whiten(), LengthNorm(), Reduce())),
)
"""What automatic settings try; the first stays unless another is clearly better."""


def learns_from_speakers(step: Any) -> bool:
    """Whether a transformer, or one inside it, needs labels to be fitted."""
    for name in ("steps", "transformer_list", "transformers"):  # of scikit-learn's compositions
        if any(learns_from_speakers(inner[1]) for inner in getattr(step, name, None) or ()):
            return True
    return isinstance(step, BaseEstimator) and bool(get_tags(step).target_tags.required)


def applied(steps: Sequence[Any], X: Any) -> Any:
    """Samples after fitted steps."""
    for step in steps:
        X = np.asarray(step.transform(X))
    return X


def front_ends_of(front_end: Any) -> tuple[FrontEnd, ...]:
    """The front ends that a search tries: "auto" for several, "none", or the one that the user gives."""
    if isinstance(front_end, str):
        if front_end not in ("auto", "none"):
            raise InputError(f'expected "auto", "none" or steps, got {front_end!r:.60}.', parameter="front_end")
        return AUTO if front_end == "auto" else NONE
    if hasattr(front_end, "steps"):
        front_end = [step for _, step in front_end.steps]
    elif hasattr(front_end, "transform"):
        front_end = [front_end]
    if not isinstance(front_end, Sequence):
        problem = f'expected "auto", "none", a pipeline or a list of steps, got {type(front_end).__name__}.'
        raise InputError(problem, parameter="front_end")
    bare = (step[1] if isinstance(step, tuple) and len(step) == 2 else step for step in front_end)
    steps = tuple(step for step in bare if step is not None and step != "passthrough")
    for step in steps:
        if not (hasattr(step, "fit") and hasattr(step, "transform")) or isinstance(step, type):
            problem = f"expected transformers that are not fitted, such as PCA(60), got {step!r:.60}."
            raise InputError(problem, parameter="front_end")
    return (FrontEnd(GIVEN, steps),)
