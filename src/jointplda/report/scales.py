"""Scales of axes: from values to shares of an axis, with its ticks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from jointplda._typing import Array
from jointplda.metrics.measure_kind import number

Ticks = tuple[tuple[float, str], ...]

_PROBIT_TICKS = (
    *(digit * 10.0**power for power in (-5, -4, -3, -2) for digit in (1, 2, 5)),
    *(0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.98),
)
_PROBIT_GAP = 0.075  # least share of the axis between two ticks
_FARTHEST = 1e4  # in lengths of the axis, so that what lies beyond it can still be clipped
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _probit(values: Array) -> Array:
    return np.asarray(ndtri(np.clip(values, 0.0, 1.0)), dtype=np.float64)


def _log(values: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.log10(np.maximum(values, 0.0))


@dataclass(frozen=True)
class Scale:
    """A range of values, the warp that spaces them, and ticks as (value, label)."""

    low: float
    high: float
    ticks: Ticks
    warp: Callable[[Array], Array] = np.asarray

    def __call__(self, values: ArrayLike) -> Array:
        """Share of the axis: 0 at ``low``, 1 at ``high``; infinities fall on the ends, NaN stays NaN."""
        ends = self.warp(np.array([self.low, self.high]))
        warped = self.warp(np.asarray(values, dtype=np.float64))
        share = np.clip((warped - ends[0]) / (ends[1] - ends[0]), -_FARTHEST, _FARTHEST)
        return np.where(np.isinf(warped), warped > 0, share)


def linear(low: float, high: float, count: int = 6, *, whole: bool = False) -> Scale:
    """From ``low`` to ``high`` with about ``count`` round ticks; whole numbers only if ``whole``."""
    low, high = _sound(low, high)
    step = round_step((high - low) / max(count, 1))
    if whole:
        step = max(1.0, round(step))
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    ticks = tuple((i * step, number(i * step, digits)) for i in range(first, last + 1))
    return Scale(low, high, ticks)


def probit(low: float, high: float) -> Scale:
    """Normal deviates of shares, with labels in percent: the axes of a DET plot."""
    bare = Scale(low, high, (), _probit)
    ticks: list[tuple[float, str]] = []
    for p in _PROBIT_TICKS:
        near = bool(ticks) and float(bare(p)) - float(bare(ticks[-1][0])) < _PROBIT_GAP
        if low * 0.999 <= p <= high and not near:
            ticks.append((p, f"{100 * p:g}"))
    return Scale(low, high, tuple(ticks), _probit)


def log(low: float, high: float) -> Scale:
    """Powers of ten, from the one below ``low`` to the one above ``high``."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    last = max(last, first + 1)
    every = max(1, math.ceil((last - first) / 6))
    ticks = tuple((10.0**k, _power(k)) for k in range(first, last + 1, every))
    return Scale(10.0**first, 10.0**last, ticks, _log)


def round_step(rough: float) -> float:
    """The nearest (by ratio) of 1, 2, 5 and 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return min((k * power for k in (1.0, 2.0, 5.0, 10.0)), key=lambda step: abs(math.log(step / rough)))


def _power(k: int) -> str:
    return {-1: "0.1", 0: "1", 1: "10", 2: "100"}.get(k, "10" + str(k).translate(_SUPERSCRIPTS))


def _sound(low: float, high: float) -> tuple[float, float]:
    """The range as a finite one that is wider than rounding errors."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return 0.0, 1.0
    low, high = max(min(low, high), -1e15), min(max(low, high), 1e15)
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-3):
        margin = max(abs(low), 1.0) * 0.5
        return low - margin, high + margin
    return low, high
