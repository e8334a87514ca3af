"""The record of a finished search for settings."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from jointplda.selection.candidates import CandidateResult
from jointplda.selection.design import Design
from jointplda.selection.held_out_calibration import HeldOutCllr


@dataclass(frozen=True)
class Selection:
    """A finished search.

    Attributes
    ----------
    candidates : tuple of CandidateResult
        All candidates in the order in which they were tried; one of them is chosen.
    design : Design
        How speakers and channels are crossed in training.
    held_out : HeldOutCllr
        Cllr on held-out training speakers, before and after calibration.
    """

    candidates: tuple[CandidateResult, ...]
    design: Design
    held_out: HeldOutCllr

    @cached_property
    def best_index(self) -> int:
        """Position of the chosen candidate."""
        return next(i for i, result in enumerate(self.candidates) if result.chosen)

    @property
    def chosen(self) -> CandidateResult:
        """The candidate that was chosen."""
        return self.candidates[self.best_index]

    def results(self) -> dict[str, Any]:
        """Columns with one entry per candidate, as in scikit-learn's ``cv_results_``.

        ``test_score`` is -minCllr in bits, so that greater is better; ``cllr`` is that of raw scores. EM of a candidate
        starts where that of an earlier one ended, so a fit from scratch may differ in the third digit.
        """
        params = [result.candidate.searched for result in self.candidates]
        names = list(dict.fromkeys(name for settings in params for name in settings))
        scores = -np.array([result.min_cllrs for result in self.candidates])
        cllrs = np.array([result.cllrs for result in self.candidates])
        columns: dict[str, Any] = {"params": params}
        columns |= {f"param_{name}": _objects([settings.get(name) for settings in params]) for name in names}
        columns |= {f"split{i}_test_score": scores[:, i] for i in range(scores.shape[1])}
        columns |= {"mean_test_score": scores.mean(axis=1), "std_test_score": scores.std(axis=1)}
        columns["rank_test_score"] = np.array(
            [1 + int(np.sum(columns["mean_test_score"] > s)) for s in columns["mean_test_score"]]
        )
        columns |= {
            "mean_cllr": cllrs.mean(axis=1),
            "fit_time": np.array([result.seconds for result in self.candidates]),
        }
        columns["chosen"] = np.array([result.chosen for result in self.candidates])
        return columns


def _objects(values: list[Any]) -> Any:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
