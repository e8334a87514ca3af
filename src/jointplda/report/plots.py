"""Plots that compare systems, and plots of one system's scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jointplda.evaluation.evaluate import POOLED
from jointplda.metrics.measure_kind import EER
from jointplda.metrics.trial_types import CROSS, CROSS_SAME, SAME, TRIAL_TYPES, TYPE_PAIRS
from jointplda.report import scales, svg
from jointplda.report.content import Curve, Distribution, System
from jointplda.report.svg import Axes, Drawing, drawing, entry, nothing

_NO_ERRORS = 1e-12
"""Stands for an error rate of 0, and 1 minus it for 1, on probit axes: far beyond their edges."""

_LOWEST = (0.01, 0.001, 0.0001, 0.00001)
_HIGHEST = ((0.015, 0.05), (0.03, 0.1), (0.06, 0.2), (0.12, 0.4), (0.3, 0.6), (0.45, 0.8))
"""Ends of DET axes: an equal error rate up to the first is shown on axes up to the second."""

TYPE_CLASS = {**dict(zip(TRIAL_TYPES, ("t1", "t2", "n1", "n2"), strict=True)), "target": "t1", "non-target": "n1"}


def system_class(index: int, count: int) -> str:
    """CSS class of a system's colour; the last system, which the page is about, has a colour of its own."""
    return "s0" if index == count - 1 else f"s{1 + index % 8}"


def percent(share: float) -> str:
    """A share in percent, with two digits below 10 % and one above."""
    digits = 2 if share < 0.0995 else 1
    return f"{100 * share:.{digits}f}\u00a0%"


def bars_plot(systems: Sequence[System]) -> Drawing:
    """EER of each system by part of the trials, with whiskers for intervals."""
    parts = [part for part in (POOLED, *TYPE_PAIRS) if any(np.isfinite(_eer(system, part)[0]) for system in systems)]
    if not parts:
        return nothing("No equal error rate could be computed: it needs targets and non-targets.")
    tops = [v for system in systems for part in parts for v in _eer(system, part)]
    top = max([100 * v for v in tops if np.isfinite(v)] + [0.05])
    scale = scales.linear(0.0, top * 1.06, 5)
    axes = Axes(scales.linear(0, len(parts), 1), scale, left=46, top=26, width=1040, height=290)
    slot = axes.width / len(parts)
    bar = min(46.0, slot * 0.84 / len(systems))
    behind = ""
    for j, part in enumerate(parts):
        centre = (j + 0.5) * slot
        of_targets, of_nontargets = TYPE_PAIRS.get(part, ("", ""))
        lines = (f"{of_targets} targets", f"{of_nontargets} non-targets") if of_targets else ("all trials", part)
        css = "strong" if part == CROSS_SAME else "name"
        for y, line in zip((20, 36), lines, strict=True):
            axes.word(centre, axes.height + y, line, css, "middle")
        if part == CROSS_SAME and len(parts) > 1:
            behind = svg.box(j * slot + 4, -20, slot - 8, axes.height + 64, "band")
        start = centre - bar * len(systems) / 2
        for i, system in enumerate(systems):
            axes.outside.append(_bar(axes, system, part, start + i * bar, bar, system_class(i, len(systems))))
    description = "; ".join(
        f"{part}: " + ", ".join(f"{s.name} {percent(_eer(s, part)[0])}" for s in systems if _eer(s, part)[0] >= 0)
        for part in parts
    )
    title, description = "Equal error rate by part of the trials", f"Equal error rates in percent. {description}."
    body = axes.body("", "EER, %", behind=behind, x_ticks=False)
    return drawing(title, description, body, width=1096, height=372, css="plot wide")


def _bar(axes: Axes, system: System, part: str, x: float, width: float, css: str) -> str:
    """A bar from x on, with its whisker, and its value above where there is room; a dash where there is no EER."""
    eer, low, high = _eer(system, part)
    if not np.isfinite(eer):
        return svg.label(x + width / 2, axes.height - 6, "–", "", "middle")
    y, y1, y2 = axes.height * (1 - axes.y(np.array([eer, low, high]) * 100))
    ranged = np.isfinite(low) and np.isfinite(high)
    tip = f"{system.name}, {part}: {percent(eer)}" + (f" ({percent(low)} to {percent(high)})" if ranged else "")
    draw = [svg.box(x + width * 0.09, y, width * 0.82, axes.height - y, "bar", tip)]
    if ranged:
        draw.append(svg.segment(x + width / 2, y1, x + width / 2, y2, "whisker"))
    if width >= 27 or css == "s0":
        above = np.nanmin([y, y2]) - 6
        place, anchor = (x + width / 2, "middle") if width >= 27 else (x, "")
        draw.append(svg.label(place, above, percent(eer).removesuffix("\u00a0%"), "value", anchor))
    return f'<g class="{css}">{"".join(draw)}</g>'


def _eer(system: System, part: str) -> tuple[float, float, float]:
    eer = system.estimate(part, EER)
    return eer.value, eer.low, eer.high


def det_plot(systems: Sequence[System], part: str = POOLED) -> Drawing:
    """Misses against false alarms on probit axes, all systems; operating points on the pooled curves."""
    drawn = [(i, s) for i, s in enumerate(systems) if part in s.det and len(s.det[part].x) > 1]
    if not drawn:
        return nothing("No DET curve: it needs both targets and non-targets.")
    low, high = _det_range([s.det[part] for _, s in drawn])
    axes = Axes(scales.probit(low, high), scales.probit(low, high), left=56, top=12, width=392, height=392)
    axes.line([low, high], [low, high], "faint")
    better, worse = [], []
    for i, system in drawn:
        curve, css = system.det[part], system_class(i, len(systems))
        with axes.coloured(css):
            x, y = (np.clip(rates, _NO_ERRORS, 1 - _NO_ERRORS) for rates in (curve.x, curve.y))
            shown = axes.line(x, y, tolerance=0.6)
            if not shown and _equal_error(curve) > high:
                worse.append(system.name)
            elif not shown:
                better.append(system.name)
                axes.dot(low, low, 5.0, "filled", f"{system.name}: no errors in the range shown")
            for point in system.points if part == POOLED else ():
                where = f"{system.name}, prior {point.prior:g}"
                if point.actual is not None:
                    axes.dot(*point.actual, 3.2, "filled", f"{where}: actual threshold")
                axes.dot(*point.best, 4.2, "hollow", f"{where}: best threshold")
    body = axes.body("False alarms, % of non-targets", "Misses, % of targets")
    description = (
        "Detection error trade-off, lower left is better. Systems: " + ", ".join(s.name for _, s in drawn) + "."
    )
    notes = [f"Without errors in the range shown: {', '.join(better)}."] if better else []
    notes += [f"With more errors than the range shows: {', '.join(worse)}."] if worse else []
    return drawing(f"DET curves, {part}", description, body, height=452, note=" ".join(notes))


def _det_range(curves: Sequence[Curve]) -> tuple[float, float]:
    """Ends of both axes: low enough for the best system or its number of trials, high enough for the worst."""
    rates = [_equal_error(curve) for curve in curves]
    every = np.concatenate([np.concatenate((curve.x, curve.y)) for curve in curves])
    smallest = float(np.min(every[every > 0], initial=1.0))
    wanted = max(min(rates) / 20, smallest / 2)
    low = next((end for end in _LOWEST if end <= wanted), _LOWEST[-1])
    return low, next((high for rate, high in _HIGHEST if max(rates) <= rate), 0.985)


def _equal_error(curve: Curve) -> float:
    """Least of the larger error rate over the points of a curve."""
    return float(np.nanmin(np.maximum(curve.x, curve.y), initial=1.0))


def histograms_plot(system: System) -> Drawing:
    """Histograms of the scores: of trials within a channel above, across channels below."""
    drawn = {n: d for n, d in system.histograms.items() if np.isfinite(d.edges).all() and np.nansum(d.density) > 0}
    if not drawn:
        return nothing("No scores to count.")
    drawn = {name: drawn[name] for name in TRIAL_TYPES if name in drawn} or drawn
    places = {name: TRIAL_TYPES.get(name, ("",))[0] for name in drawn}
    rows = [(where, [name for name in drawn if places[name] == where]) for where in (SAME, CROSS, "")]
    rows = [(where, names) for where, names in rows if names]
    low = min(float(d.edges[0]) for d in drawn.values())
    high = max(float(d.edges[-1]) for d in drawn.values())
    if system.is_llr:
        low, high = min(low, 0.0), max(high, 0.0)
    x = scales.linear(low, high, 7)
    top = max(float(np.nanmax(d.density)) for d in drawn.values())
    bodies, tall = [], 132.0 if len(rows) == 2 else 280.0
    for k, (channel, names) in enumerate(rows):
        axes = Axes(x, scales.linear(0, top * 1.08, 3), left=14, top=10 + k * (tall + 10), width=432, height=tall)
        for name in names:
            x_steps, y_steps = np.repeat(drawn[name].edges, 2)[1:-1], np.repeat(np.nan_to_num(drawn[name].density), 2)
            with axes.coloured(TYPE_CLASS.get(name, "t1")):
                axes.area(x_steps, y_steps)
        if system.is_llr:
            axes.line([0, 0], [0, top * 1.08], "zero")
        if channel:
            axes.word(6, 15, {SAME: "within a channel", CROSS: "across channels"}[channel], "name")
        last = k == len(rows) - 1
        name = ("Log-likelihood ratio (natural log)" if system.is_llr else "Score") if last else ""
        bodies.append(axes.body(name, x_labels=last, y_ticks=False))
    note = "; ".join(text for text in map(_outside, drawn, drawn.values()) if text)
    description = "Score densities of " + ", ".join(f"{name} ({d.count:,} trials)" for name, d in drawn.items()) + "."
    note = f"Beyond the edges: {note}." if note else ""
    legend = "".join(entry(TYPE_CLASS.get(name, "t1"), "area", name) for name in system.histograms)
    return drawing(f"Scores of {system.name}", description, *bodies, note=note, legend=legend)


def _outside(name: str, histogram: Distribution) -> str:
    shares = (histogram.below, "below"), (histogram.above, "above")
    sides = [f"{percent(share)} {side}" for share, side in shares if share >= 0.0015]
    return f"{name} {' and '.join(sides)}" if sides else ""


def tippett_plot(system: System) -> Drawing:
    """Share of targets and of non-targets whose score is at least x."""
    curves = {name: c for name, c in system.tippett.items() if np.isfinite(c.x).sum() > 1}
    if not curves:
        return nothing("No Tippett plot: it needs scored trials.")
    ends = np.array([_span(c) for c in curves.values()])
    low, high = ends[:, 0].min(), ends[:, 1].max()
    if system.is_llr:
        low, high = min(low, 0.0), max(high, 0.0)
    axes = Axes(scales.linear(*_around(low, high), 7), scales.linear(0, 1, 5))
    if system.is_llr:
        axes.line([0, 0], [0, 1], "zero")
    for name, curve in curves.items():
        with axes.coloured(TYPE_CLASS.get(name, "t1")):
            axes.line([-np.inf, *curve.x, np.inf], [1.0, *curve.y, 0.0])
    name = "x: log-likelihood ratio (natural log)" if system.is_llr else "x: score"
    description = f"Cumulative shares of {' and '.join(curves)} with a score of at least x, for {system.name}."
    legend = "".join(entry(TYPE_CLASS.get(name, "t1"), "line", name) for name in system.tippett)
    body = axes.body(name, "Share of trials at or above x")
    return drawing(f"Tippett plot of {system.name}", description, body, legend=legend)


def _span(curve: Curve) -> tuple[float, float]:
    """The range of x over which a curve falls from nearly 1 to nearly 0."""
    finite = np.isfinite(curve.x) & np.isfinite(curve.y)
    x, y = curve.x[finite], curve.y[finite]
    moving = x[(y > 0.002) & (y < 0.998)]
    moving = moving if len(moving) > 1 else x
    return float(moving.min()), float(moving.max())


def pav_plot(system: System) -> Drawing:
    """Log-likelihood ratios after pool-adjacent-violators against the scores."""
    finite = np.isfinite(system.pav.x) & np.isfinite(system.pav.y)
    if finite.sum() < 2:
        return nothing("No PAV plot: targets and non-targets do not overlap, or one of them is absent.")
    x, y = system.pav.x[finite], system.pav.y[finite]
    if system.is_llr:
        x = y = np.concatenate((x, y))
    (low, high), (bottom, top) = (_around(float(values.min()), float(values.max())) for values in (x, y))
    axes = Axes(scales.linear(low, high, 7), scales.linear(bottom, top, 7))
    if system.is_llr:
        axes.line([low, high], [low, high], "faint")
    order = np.argsort(system.pav.x, kind="stable")
    with axes.coloured("s0"):
        axes.line(system.pav.x[order], system.pav.y[order])
    name = "Log-likelihood ratio before PAV" if system.is_llr else "Score"
    description = (
        f"Log-likelihood ratios that the trials support, by pool-adjacent-violators, against scores of {system.name}."
    )
    return drawing(f"PAV plot of {system.name}", description, axes.body(name, "Log-likelihood ratio after PAV"))


def _around(low: float, high: float) -> tuple[float, float]:
    margin = 0.06 * (high - low) or 1.0
    return low - margin, high + margin
