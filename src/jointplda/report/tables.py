"""Tables of figures: headline figures, and systems by metrics for each part of the trials."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from jointplda.report.content import Page, System, Value
from jointplda.report.plots import HARD, system_class
from jointplda.report.scales import number
from jointplda.report.svg import words

_KINDS = ("EER", "Cllr", "minCllr", "calibration loss", "minDCF", "actDCF")
_NEED_LLR = ("actDCF", "Cllr", "calibration loss")
_COST = re.compile(r"(minDCF|actDCF)\((.+)\)")

_CELL_WORDS = {"same": "same-channel", "cross": "cross-channel"}


def part_title(part: str) -> str:
    """A part of the trials in words."""
    target, slash, other = part.partition(" / ")
    if slash and target in _CELL_WORDS and other in _CELL_WORDS:
        return f"{_CELL_WORDS[target].capitalize()} targets against {_CELL_WORDS[other]} non-targets"
    return "All trials, pooled" if part == "pooled" else part


def parts_of(systems: Sequence[System]) -> list[str]:
    """Every part that some system has figures for, pooled first."""
    found = dict.fromkeys(part for system in systems for part in system.metrics)
    return sorted(found, key=lambda part: part != "pooled")


def metrics_of(systems: Sequence[System], part: str) -> list[str]:
    """Every metric of a part: EER, costs, then the costs of log-likelihood ratios, then any other."""
    found = list(dict.fromkeys(metric for system in systems for metric in system.metrics.get(part, {})))
    order = {kind: rank for rank, kind in enumerate(_KINDS)}
    return sorted(found, key=lambda metric: order.get(metric.partition("(")[0], len(order)))


def shown(metric: str, value: float) -> str:
    """A value as it is written: EER in percent, all others with three decimals."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if metric == "EER":
        return number(100 * value, 2)
    return number(value, 3 if abs(value) < 100 else 1)


def interval(metric: str, value: Value) -> str:
    """The interval as it is written; empty where there is none."""
    if math.isnan(value.low) or math.isnan(value.high):
        return ""
    return f"{shown(metric, value.low)}–{shown(metric, value.high)}"


def table(page: Page, part: str) -> str:
    """Systems by metrics for one part of the trials; the lowest of each column is marked."""
    systems = page.systems
    metrics = metrics_of(systems, part)
    if not metrics:
        return '<p class="none">No figure could be computed on these trials.</p>'
    best = {metric: _lowest(systems, part, metric) for metric in metrics}
    heads = '<th scope="col">System</th>' + "".join(f'<th scope="col">{_head(metric)}</th>' for metric in metrics)
    rows = ""
    for i, system in enumerate(systems):
        cells = "".join(_cell(system, part, metric, best[metric]) for metric in metrics)
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
    wanted = [("pooled", "EER"), (HARD, "EER")]
    pooled = metrics_of(page.systems, "pooled")
    wanted += [("pooled", metric) for metric in pooled if metric.startswith("minDCF")][:1]
    wanted += [("pooled", metric) for metric in ("Cllr", "minCllr") if metric in pooled][:1]
    found = page.systems[-1].metrics
    known = [(part, m) for part, m in wanted if m in found.get(part, {}) and not math.isnan(found[part][m].value)]
    cards = [_card(page, part, metric) for part, metric in known]
    if not cards:
        return '<p class="none">No figure could be computed: it needs both targets and non-targets.</p>'
    return f'<div class="cards">{"".join(cards)}</div>'


def _card(page: Page, part: str, metric: str) -> str:
    value = page.systems[-1].metrics[part][metric]
    unit = "<small>%</small>" if metric == "EER" else ""
    between = interval(metric, value)
    others = [(s.metrics.get(part, {}).get(metric), s.name) for s in page.systems[:-1]]
    finite = [(v.value, name) for v, name in others if v is not None and math.isfinite(v.value)]
    beside = ""
    if finite:
        rival, name = min(finite)
        beside = f'<p class="beside">best of the others: {shown(metric, rival)} ({words(name)})</p>'
    return (
        f'<div class="card"><p class="what">{words(metric_words(metric))}</p>'
        f'<p class="figure">{shown(metric, value.value)}{unit}</p>'
        f'<p class="range">{between or "&nbsp;"}</p><p class="where">{words(part_title(part))}</p>{beside}</div>'
    )


def metric_words(metric: str) -> str:
    """A metric's name in a running text."""
    cost = _COST.fullmatch(metric)
    return f"{cost[1]} at prior {cost[2]}" if cost else metric


def _head(metric: str) -> str:
    cost = _COST.fullmatch(metric)
    if cost:
        return f"{cost[1]} <small>{words(cost[2])}</small>"
    return "EER <small>%</small>" if metric == "EER" else words(metric)


def _lowest(systems: Sequence[System], part: str, metric: str) -> float:
    values = [system.metrics.get(part, {}).get(metric, Value(math.nan)).value for system in systems]
    finite = [value for value in values if math.isfinite(value)]
    return min(finite) if len(finite) > 1 else math.nan


def _cell(system: System, part: str, metric: str, best: float) -> str:
    value = system.metrics.get(part, {}).get(metric)
    if value is None or math.isnan(value.value):
        needs = not system.is_llr and metric.partition("(")[0] in _NEED_LLR
        why = "its scores are not log-likelihood ratios" if needs else "cannot be computed on these trials"
        return f'<td title="{why}">–</td>'
    between = interval(metric, value)
    below = f"<small>{between}</small>" if between else ""
    mark = ' class="best"' if value.value == best else ""
    return f"<td{mark}>{shown(metric, value.value)}{below}</td>"


def _counts(systems: Sequence[System], part: str) -> str:
    found = sorted({system.counts[part] for system in systems if part in system.counts})
    if not found:
        return ""
    told = " or ".join(f"{targets:,} targets and {others:,} non-targets" for targets, others in found[:3])
    return f" <small>{told}</small>"
