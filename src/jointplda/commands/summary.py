"""What a comparison says, in a sentence or two, from its own figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jointplda.evaluation.evaluate import Evaluation

HARD = "cross / same"


def summary_of(results: Mapping[str, Evaluation], channel: str) -> str:
    """PLDA against Joint PLDA (automatic, if there) where both are there, else the best system by pooled EER."""
    from jointplda.commands.console import number, percent
    from jointplda.evaluation.systems import AUTOMATIC, JOINT

    found, name = (AUTOMATIC, "automatic Joint PLDA") if AUTOMATIC in results else (JOINT, JOINT)
    plain, joint = results.get("PLDA"), results.get(found)
    if plain is None or joint is None or plain.pooled.measures is None or joint.pooled.measures is None:
        rated = {name: each.pooled.measures.eer for name, each in results.items() if each.pooled.measures is not None}
        best = min(rated, key=rated.__getitem__)
        return f"Lowest pooled equal error rate: {best}, {percent(rated[best])}."
    text = (
        f"Equal error rate over all trials: {percent(joint.pooled.measures.eer)} with {name}, "
        f"{percent(plain.pooled.measures.eer)} with PLDA; Cllr {number(joint.pooled.measures.cllr)} against "
        f"{number(plain.pooled.measures.cllr)}."
    )
    parts = plain.parts.get(HARD), joint.parts.get(HARD)
    if all(part is not None and part.measures is not None for part in parts):
        low, high = (part.measures.eer for part in parts if part is not None and part.measures is not None)
        text += (
            f" Where trials of one speaker cross the {channel} and trials of two speakers share it, PLDA errs in "
            f"{percent(low)} and {name} in {percent(high)}."
        )
    return text
