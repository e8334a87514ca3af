"""Tables of figures: headline figures, and systems by measures for each part of the trials."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jointplda.evaluation.evaluate import POOLED
from jointplda.metrics.measure_kind import CLLR, EER, MIN_CLLR, Estimate, Measure, MeasureKind
from jointplda.metrics.trial_types import CROSS_SAME, TYPE_PAIRS
from jointplda.report.content import Page, System
from jointplda.report.plots import system_class
from jointplda.report.scales import number
from jointplda.report.svg import words

_ORDER = {kind: rank for rank, kind in enumerate(MeasureKind)}


def part_title(part: str) -> str:
    """A part of the trials in words."""
    if part in TYPE_PAIRS:
        of_targets, of_nontargets = TYPE_PAIRS[part]
        return f"{of_targets.capitalize()}-channel targets against {of_nontargets}-channel non-targets"
    return "All trials, pooled" if part == POOLED else part


def parts_of(systems: Sequence[System]) -> list[str]:
    """Every part that a system has figures for, pooled first."""
    parts = dict.fromkeys(part for system in systems for part in system.metrics)
    return sorted(parts, key=lambda part: part != POOLED)


def metrics_of(systems: Sequence[System], part: str) -> list[Measure]:
    """Every measure of a part: EER, the costs of log-likelihood ratios, then detection costs."""
    measures = dict.fromkeys(measure for system in systems for measure in system.metrics.get(part, {}))
    return sorted(measures, key=lambda measure: _ORDER[measure.kind])


def shown(measure: Measure, value: float) -> str:
    """A value as it is written: EER in percent, all others with three decimals."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if measure == EER:
        return number(100 * value, 2)
    return number(value, 3 if abs(value) < 100 else 1)


def interval(measure: Measure, value: Estimate) -> str:
    """The interval as it is written; empty where there is none."""
    if math.isnan(value.low) or math.isnan(value.high):
        return ""
    return f"{shown(measure, value.low)}–{shown(measure, value.high)}"


def table(page: Page, part: str) -> str:
    """Systems by measures for one part of the trials; the lowest of each column is marked."""
    systems = page.systems
    measures = metrics_of(systems, part)
    if not measures:
        return '<p class="none">No figure could be computed on these trials.</p>'
    best = {measure: _lowest(systems, part, measure) for measure in measures}
    heads = '<th scope="col">System</th>' + "".join(f'<th scope="col">{_head(measure)}</th>' for measure in measures)
    rows = ""
    for i, system in enumerate(systems):
        cells = "".join(_cell(system, part, measure, best[measure]) for measure in measures)
        swatch = f'<i class="swatch {system_class(i, len(systems))}"></i>'
        rows += f'<tr><th scope="row">{swatch}{words(system.name)}</th>{cells}</tr>'
    title = part_title(part)
    caption = f"<caption><span>{words(title)}{_counts(systems, part)}</span></caption>"
    return (
        f'<div class="table"><div class="scroll" tabindex="0" role="region" aria-label="{words(title)}">'
        f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></div>"
    )


def headline(page: Page) -> str:
    """The figures of the system that the page is about, each beside the best of the others."""
    wanted = [(POOLED, EER), (CROSS_SAME, EER)]
    pooled = metrics_of(page.systems, POOLED)
    wanted += [(POOLED, measure) for measure in pooled if measure.kind is MeasureKind.MIN_DCF][:1]
    wanted += [(POOLED, measure) for measure in (CLLR, MIN_CLLR) if measure in pooled][:1]
    own = page.systems[-1].metrics
    known = [(part, m) for part, m in wanted if m in own.get(part, {}) and not math.isnan(own[part][m].value)]
    cards = [_card(page, part, measure) for part, measure in known]
    if not cards:
        return '<p class="none">No figure could be computed: it needs both targets and non-targets.</p>'
    return f'<div class="cards">{"".join(cards)}</div>'


def _card(page: Page, part: str, measure: Measure) -> str:
    value = page.systems[-1].metrics[part][measure]
    unit = "<small>%</small>" if measure == EER else ""
    between = interval(measure, value)
    others = [(s.metrics.get(part, {}).get(measure), s.name) for s in page.systems[:-1]]
    finite = [(v.value, name) for v, name in others if v is not None and math.isfinite(v.value)]
    beside = ""
    if finite:
        rival, name = min(finite)
        beside = f'<p class="beside">best of the others: {shown(measure, rival)} ({words(name)})</p>'
    return (
        f'<div class="card"><p class="what">{words(measure_words(measure))}</p>'
        f'<p class="figure">{shown(measure, value.value)}{unit}</p>'
        f'<p class="range">{between or "&nbsp;"}</p><p class="where">{words(part_title(part))}</p>{beside}</div>'
    )


def measure_words(measure: Measure) -> str:
    """The name of a measure in a running text."""
    return measure.kind.value if measure.prior is None else f"{measure.kind.value} at prior {measure.prior:g}"


def _head(measure: Measure) -> str:
    if measure == EER:
        return "EER <small>%</small>"
    below = "" if measure.prior is None else f" <small>{measure.prior:g}</small>"
    return f"{measure.kind.value}{below}"


def _lowest(systems: Sequence[System], part: str, measure: Measure) -> float:
    values = [system.metrics.get(part, {}).get(measure, Estimate(math.nan)).value for system in systems]
    finite = [value for value in values if math.isfinite(value)]
    return min(finite) if len(finite) > 1 else math.nan


def _cell(system: System, part: str, measure: Measure, best: float) -> str:
    value = system.metrics.get(part, {}).get(measure)
    if value is None or math.isnan(value.value):
        needs = not system.is_llr and measure.kind.needs_llr
        why = "its scores are not log-likelihood ratios" if needs else "cannot be computed on these trials"
        return f'<td title="{why}">–</td>'
    between = interval(measure, value)
    below = f"<small>{between}</small>" if between else ""
    mark = ' class="best"' if value.value == best else ""
    return f"<td{mark}>{shown(measure, value.value)}{below}</td>"


def _counts(systems: Sequence[System], part: str) -> str:
    counts = sorted({system.counts[part] for system in systems if part in system.counts})
    if not counts:
        return ""
    numbers = " or ".join(f"{targets:,} targets and {others:,} non-targets" for targets, others in counts[:3])
    return f" <small>{numbers}</small>"
