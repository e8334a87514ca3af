"""Tables of figures: headline figures, and systems by measures for each part of the trials."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jointplda.evaluation.evaluate import POOLED
from jointplda.metrics.measure_kind import CLLR, EER, MIN_CLLR, Estimate, Measure, MeasureKind
from jointplda.metrics.trial_types import CROSS_SAME, TYPE_PAIRS
from jointplda.report.content import Page, System
from jointplda.report.plots import system_class
from jointplda.report.svg import words


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
    return sorted(measures, key=lambda measure: list(MeasureKind).index(measure.kind))


def table(page: Page, part: str) -> str:
    """Systems by measures for one part of the trials; the lowest of each column is marked."""
    systems = page.systems
    measures = metrics_of(systems, part)
    if not measures:
        return '<p class="none">No figure could be computed on these trials.</p>'
    best = {measure: _lowest(systems, part, measure) for measure in measures}
    heads = '<th scope="col">System</th>'
    for measure in measures:
        below = measure.unit or ("" if measure.prior is None else f"{measure.prior:g}")
        heads += f'<th scope="col">{measure.kind.value}{f" <small>{below}</small>" if below else ""}</th>'
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
    own = page.systems[-1]
    known = [pair for pair in wanted if not math.isnan(own.estimate(*pair).value)]
    cards = [_card(page, *pair) for pair in known]
    if not cards:
        return '<p class="none">No figure could be computed: it needs both targets and non-targets.</p>'
    return f'<div class="cards">{"".join(cards)}</div>'


def _card(page: Page, part: str, measure: Measure) -> str:
    own = page.systems[-1].estimate(part, measure)
    unit = f"<small>{measure.unit}</small>" if measure.unit else ""
    others = [(system.estimate(part, measure).value, system.name) for system in page.systems[:-1]]
    rival, name = min((pair for pair in others if math.isfinite(pair[0])), default=(math.nan, ""))
    beside = f'<p class="beside">best of the others: {measure.figure(rival)} ({words(name)})</p>'
    prior = "" if measure.prior is None else f" at prior {measure.prior:g}"
    return (
        f'<div class="card"><p class="what">{measure.kind.value}{prior}</p>'
        f'<p class="figure">{measure.figure(own.value)}{unit}</p>'
        f'<p class="range">{_interval(measure, own) or "&nbsp;"}</p><p class="where">{words(part_title(part))}</p>'
        f"{'' if math.isnan(rival) else beside}</div>"
    )


def _interval(measure: Measure, value: Estimate) -> str:
    """The interval as it is written; empty where there is none."""
    known = not math.isnan(value.low) and not math.isnan(value.high)
    return f"{measure.figure(value.low)}–{measure.figure(value.high)}" if known else ""


def _lowest(systems: Sequence[System], part: str, measure: Measure) -> float:
    values = [system.estimate(part, measure).value for system in systems]
    finite = [value for value in values if math.isfinite(value)]
    return min(finite) if len(finite) > 1 else math.nan


def _cell(system: System, part: str, measure: Measure, best: float) -> str:
    value = system.estimate(part, measure)
    if math.isnan(value.value):
        needs = not system.is_llr and measure.kind.needs_llr
        why = "its scores are not log-likelihood ratios" if needs else "cannot be computed on these trials"
        return f'<td title="{why}">–</td>'
    between = _interval(measure, value)
    below = f"<small>{between}</small>" if between else ""
    mark = ' class="best"' if value.value == best else ""
    return f"<td{mark}>{measure.figure(value.value)}{below}</td>"


def _counts(systems: Sequence[System], part: str) -> str:
    counts = sorted({system.counts[part] for system in systems if part in system.counts})
    if not counts:
        return ""
    numbers = " or ".join(f"{targets:,} targets and {others:,} non-targets" for targets, others in counts[:3])
    return f" <small>{numbers}</small>"
