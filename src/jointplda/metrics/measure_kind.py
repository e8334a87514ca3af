"""What a figure measures, as data, and how it is written: the kind of measure, and the prior of a detection cost."""

import math
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

    @property
    def unit(self) -> str:
        """The sign "%" for the equal error rate, nothing for costs."""
        return "%" if self.kind is MeasureKind.EER else ""

    def figure(self, value: float) -> str:
        """A value as it is written, without its unit: percent with two decimals, costs with three."""
        if math.isnan(value):
            return "–"
        if math.isinf(value):
            return "∞" if value > 0 else "−∞"
        return number(100 * value, 2) if self.unit else number(value, 3 if abs(value) < 100 else 1)

    def text(self, value: float) -> str:
        """A value with its unit: "1.23 %", "0.123"."""
        return f"{self.figure(value)} {self.unit}" if self.unit and math.isfinite(value) else self.figure(value)


EER, CLLR, MIN_CLLR, CALIBRATION_LOSS = (
    Measure(kind) for kind in (MeasureKind.EER, MeasureKind.CLLR, MeasureKind.MIN_CLLR, MeasureKind.CALIBRATION_LOSS)
)


@dataclass(frozen=True)
class Estimate:
    """A figure and its interval; ``low`` and ``high`` are NaN where no interval was computed."""

    value: float
    low: float = float("nan")
    high: float = float("nan")


def number(value: float, digits: int) -> str:
    """Fixed digits with a true minus sign; very large values in powers of ten."""
    if value != 0 and abs(value) >= 1e6:
        return f"{value:.3g}".replace("e+0", "e").replace("e+", "e").replace("-", "−")
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")
