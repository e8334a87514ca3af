"""The main result of a comparison in a sentence or two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jointplda.evaluation.evaluate import Evaluation


def summary_of(results: Mapping[str, Evaluation], condition: str) -> str:
    """PLDA against Joint PLDA (automatic, if there), or the best system by pooled EER where one of them is missing."""
    from jointplda.commands.console import number, percent
    from jointplda.evaluation.systems import AUTOMATIC, JOINT, PLAIN
    from jointplda.metrics.trial_types import CROSS_SAME

    key, name = (AUTOMATIC, "automatic Joint PLDA") if AUTOMATIC in results else (JOINT, JOINT)
    pooled = {name: result.pooled.measures for name, result in results.items()}
    plain, joint = pooled.get(PLAIN), pooled.get(key)
    if plain is None or joint is None:
        rates = {name: measures.eer for name, measures in pooled.items() if measures is not None}
        best = min(rates, key=rates.__getitem__)
        return f"Lowest pooled equal error rate: {best}, {percent(rates[best])}."
    text = (
        f"Equal error rate over all trials: {percent(joint.eer)} with {name}, {percent(plain.eer)} with {PLAIN}; "
        f"Cllr {number(joint.cllr)} against {number(plain.cllr)}."
    )
    crossed = {key: results[key].parts.get(CROSS_SAME) for key in (PLAIN, key)}
    hard = {key: part.measures.eer for key, part in crossed.items() if part is not None and part.measures is not None}
    if len(hard) == 2:
        text += (
            f" Where targets differ in {condition} and non-targets share it, the equal error rate is "
            f"{percent(hard[key])} with {name} and {percent(hard[PLAIN])} with {PLAIN}."
        )
    return text
