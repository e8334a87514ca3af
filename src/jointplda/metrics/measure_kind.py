"""What a figure measures, as data: the kind of measure, and the target prior of a detection cost."""

from dataclasses import dataclass
from enum import Enum


class MeasureKind(Enum):
    """Kinds of measures; each value is the name in tables and files."""

    EER = "EER"
    CLLR = "Cllr"
    MIN_CLLR = "minCllr"
    CALIBRATION_LOSS = "calibration loss"
    MIN_DCF = "minDCF"
    ACT_DCF = "actDCF"

    @property
    def needs_llr(self) -> bool:
        """Whether the measure is defined for log-likelihood ratios only."""
        return self in (MeasureKind.CLLR, MeasureKind.CALIBRATION_LOSS, MeasureKind.ACT_DCF)


@dataclass(frozen=True)
class Measure:
    """A measure, for example the minimum detection cost at a target prior of 0.05.

    Parameters
    ----------
    kind : MeasureKind
    prior : float, optional
        Target prior of a detection cost; None for the other kinds.
    """

    kind: MeasureKind
    prior: float | None = None

    def __str__(self) -> str:
        """The name in tables and files: "EER", "minDCF(0.05)"."""
        return self.kind.value if self.prior is None else f"{self.kind.value}({self.prior:g})"


EER, CLLR, MIN_CLLR, CALIBRATION_LOSS = (
    Measure(kind) for kind in (MeasureKind.EER, MeasureKind.CLLR, MeasureKind.MIN_CLLR, MeasureKind.CALIBRATION_LOSS)
)


@dataclass(frozen=True)
class Estimate:
    """A figure and its interval; ``low`` and ``high`` are NaN where no interval was computed."""

    value: float
    low: float = float("nan")
    high: float = float("nan")
