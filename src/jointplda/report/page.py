"""One self-contained HTML page: styles, script and pictures are inside it, and nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from importlib.resources import files
from os import PathLike

from jointplda._atomic import replacing
from jointplda.evaluation.evaluate import POOLED
from jointplda.metrics.trial_types import CROSS_SAME
from jointplda.report.content import Page, System, Training
from jointplda.report.glossary import GLOSSARY
from jointplda.report.plots import bars_plot, det_plot, histograms_plot, pav_plot, system_class, tippett_plot
from jointplda.report.svg import Drawing, entry, words
from jointplda.report.tables import headline, part_title, parts_of, table
from jointplda.report.training_plots import attempts_plot, channels_plot, shares_plot, singular_plot, trace_plot

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Ccircle cx='6' cy='8' r='5' fill='%23c44e00'/%3E"
    "%3Ccircle cx='10' cy='8' r='5' fill='%230072b2' fill-opacity='.75'/%3E%3C/svg%3E"
)


def write_page(page: Page, path: str | PathLike[str]) -> None:
    """Write the page, whole or not at all."""
    text = render(page)
    with replacing(path) as name:
        name.write_text(text, encoding="utf-8", newline="\n")


def render(page: Page) -> str:
    """The page as HTML; the same records give the same bytes."""
    title = words(page.title or "Report")
    sections = '<p class="none">There are no systems to show.</p>'
    if page.systems:
        sections = "".join(make(page) for make in (_headline, _by_channel, _figures, _det, _systems))
    sections += _section("meaning", "What the numbers mean", "", _list("glossary", GLOSSARY.items()))
    facts = _list("facts", page.facts) if page.facts else '<p class="none">No facts were recorded.</p>'
    sections += _section("facts", "Facts", "", facts)
    styles = _asset("page.css")
    if len(page.systems) > 1:
        chosen = ",".join(f"#tab{i}:checked~.panels>.panel{i}" for i in range(len(page.systems)))
        styles += f"@media screen{{{chosen}{{display:block}}}}\n"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<title>{title}</title>\n<link rel="icon" href="{_ICON}">\n'
        f"<style>\n{styles}</style>\n</head>\n<body>\n"
        f"{_header(page, title)}\n<main>\n{sections}</main>\n"
        f"<footer>jointplda {words(version('jointplda'))}</footer>\n"
        f"<script>\n{_asset('page.js')}</script>\n</body>\n</html>\n"
    )


def _joined(text: str) -> str:
    """Safe text in which a number and its percent sign stay on one line."""
    return words(text.replace(" %", "\u00a0%"))


def _asset(name: str) -> str:
    return files("jointplda.report").joinpath(name).read_text(encoding="utf-8")


def _header(page: Page, title: str) -> str:
    summary = f'<p class="summary">{words(page.summary)}</p>' if page.summary else ""
    links = (("channels", "By channel"), ("figures", "Figures"), ("det", "DET"), ("systems", "Systems"))
    nav = "".join(f'<a href="#{name}">{text}</a>' for name, text in links) if page.systems else ""
    return (
        f'<header><nav aria-label="Contents">{nav}<a href="#meaning">Glossary</a><a href="#facts">Facts</a>'
        '<button type="button" id="theme" class="js" aria-label="Switch between light and dark">'
        '<span aria-hidden="true">◐</span></button></nav>'
        f"<h1>{title}</h1>{summary}</header>"
    )


def _section(name: str, title: str, lead: str, body: str) -> str:
    above = f'<p class="lead">{lead}</p>' if lead else ""
    return f'<section id="{name}"><h2>{words(title)}</h2>{above}{body}</section>\n'


def _figure(drawing: Drawing, caption: str, legend: str = "", title: str = "", level: int = 4) -> str:
    head = f"<h{level}>{words(title)}</h{level}>" if title else ""
    below, keys = f"{caption} {words(drawing.note)}".strip(), _keys(legend or drawing.legend)
    if drawing.body.startswith("<p"):
        below, keys = "", ""
    return f"<figure><div>{head}{keys}</div>{drawing.body}<figcaption>{below}</figcaption></figure>"


def _keys(items: str) -> str:
    return f'<ul class="legend">{items}</ul>' if items else ""


def _legend(systems: Sequence[System], shape: str, extra: str = "") -> str:
    colours = [system_class(i, len(systems)) for i in range(len(systems))]
    named = zip(colours, systems, strict=True)
    return "".join(entry(css, shape, system.name, f' data-key="{css}"') for css, system in named) + extra


def _headline(page: Page) -> str:
    last = page.systems[-1]
    lead = words(last.description.rstrip(".") + "." if last.description else "")
    if page.interval:
        lead += f"{' ' if lead else ''}Ranges are intervals: {_joined(page.interval)}."
    return _section("headline", last.name, lead, headline(page))


def _by_channel(page: Page) -> str:
    title, lead = (
        "Equal error rates",
        "The channels of these trials are not known, so that there are no types of trials to compare.",
    )
    caption = "Equal error rate of each system; lower is better."
    if page.channel:
        title = "Who is confused by the channel?"
        lead = (
            "The pooled EER hides the failure that Joint PLDA exists for. Targets recorded in two channels, against "
            "non-targets recorded in one, are the trials where a system must not mistake the channel for the speaker."
        )
        caption += f" Same and cross say whether the two sides of a trial share the channel: {words(page.channel)}."
    if page.interval:
        caption += f" Whiskers: {_joined(page.interval)}."
    return _section("channels", title, lead, _figure(bars_plot(page.systems), caption, _legend(page.systems, "bar")))


def _figures(page: Page) -> str:
    parts = parts_of(page.systems)
    if not parts:
        return _section("figures", "All figures", "", '<p class="none">No figure could be computed.</p>')
    others = [part for part in parts if part != POOLED]
    body = table(page, POOLED) if POOLED in parts else ""
    if others:
        chosen = CROSS_SAME if CROSS_SAME in others else others[0]
        options = "".join(
            f'<option value="{i}"{" selected" if part == chosen else ""}>{words(part_title(part))}</option>'
            for i, part in enumerate(others)
        )
        body += (
            '<div class="parts"><h3>Part by part</h3>'
            f'<label class="js chooser">Trials <select>{options}</select></label>'
            + "".join(f'<div class="part">{table(page, part)}</div>' for part in others)
            + "</div>"
        )
    lead = "Lower is better in every column" + ("; the lowest is in bold." if len(page.systems) > 1 else ".")
    if page.interval:
        lead += f" Beneath each value its interval: {_joined(page.interval)}."
    return _section("figures", "All figures", lead, body)


def _det(page: Page) -> str:
    parts = list(dict.fromkeys(part for system in page.systems for part in system.det))
    parts = sorted(parts, key=lambda part: (part != POOLED, part != CROSS_SAME)) or [POOLED]
    lead, marks = "Misses against false alarms at every threshold.", ""
    if any(system.points for system in page.systems):
        marks = entry("ink", "hollow", "best threshold") + entry("ink", "filled", "actual threshold")
        priors = ", ".join(dict.fromkeys(f"{p.prior:g}" for s in page.systems for p in s.points))
        lead += f" The dots on the pooled curves are for target priors of {priors}."
    caption = "Nearer the lower left is better; where a curve meets the dotted diagonal, both error rates are equal."
    drawn = [_figure(det_plot(page.systems, part), caption, title=part_title(part), level=3) for part in parts]
    shown = f'<div class="pair">{"".join(drawn[:2])}</div>'
    if len(drawn) > 2:
        shown += f'<details><summary>Other parts</summary><div class="pair">{"".join(drawn[2:])}</div></details>'
    return _section("det", "Detection error trade-off", lead, _keys(_legend(page.systems, "line", marks)) + shown)


def _systems(page: Page) -> str:
    systems, tabs, panels = page.systems, "", ""
    for i, system in enumerate(systems):
        css, on = system_class(i, len(systems)), " checked" if i == len(systems) - 1 else ""
        if len(systems) > 1:
            tabs += (
                f'<input type="radio" name="system" id="tab{i}"{on}>'
                f'<label for="tab{i}"><i class="swatch {css}"></i>{words(system.name)}</label>'
            )
        panels += f'<div class="panel panel{i}">{_panel(page, system, css)}</div>'
    kind = "tabs" if len(systems) > 1 else "tabs single"
    body = f'<div class="{kind}" role="group" aria-label="Systems">{tabs}<div class="panels">{panels}</div></div>'
    return _section("systems", "System by system", "", body)


def _panel(page: Page, system: System, css: str) -> str:
    scores = "Log-likelihood ratios" if system.is_llr else "Scores"
    apart = "Targets should lie on the right and non-targets on the left, within and across channels."
    pav = (
        "Log-likelihood ratios on the diagonal are well calibrated."
        if system.is_llr
        else "These scores are not log-likelihood ratios: they have no diagonal to lie on, and need calibration."
    )
    figures = _figure(histograms_plot(system), f"{scores} by truth and channel. {apart}", title="Scores")
    figures += _figure(
        tippett_plot(system),
        "Share of trials at or above each score. The steeper the curves and the farther apart, the better.",
        title="Tippett plot",
    )
    figures += _figure(pav_plot(system), pav, title="Calibration (PAV)")
    if system.training is not None:
        figures += _training(system.training)
    trained = f'<p class="lead">{words(system.description)}</p>' if system.description else ""
    return f'<h3><i class="swatch {css}"></i>{words(system.name)}</h3>{trained}<div class="pair">{figures}</div>'


def _training(training: Training) -> str:
    objective = words(training.objective_name or "objective")
    figures = _figure(trace_plot(training), f"The {objective} of EM by iteration.", title="Training")
    figures += _figure(
        singular_plot(training),
        "How strongly each direction of the speaker (V) and of the channel (U) moves an embedding.",
        title="Singular values",
    )
    if training.variance_shares:
        caption = "How the variance of an embedding divides, as the model sees it."
        figures += _figure(shares_plot(training), caption, title="Shares of the variance")
    if training.attempts:
        caption = (
            "Each candidate on held-out training speakers, with its standard error; the chosen candidate is filled. "
            "Priors of noise / speaker / U × columns, then the interaction (and its share in scores, if not 1)."
        )
        figures += _figure(attempts_plot(training), caption, title="Settings tried")
    for channels in training.channels:
        caption = (
            "Posterior mean of each training channel, in the units of the embeddings; larger dots have more samples."
        )
        figures += _figure(channels_plot(channels), caption, title=f"Channels: {channels.condition}")
    return figures


def _list(css: str, pairs: Iterable[tuple[str, str]]) -> str:
    items = "".join(f"<div><dt>{words(term)}</dt><dd>{words(text)}</dd></div>" for term, text in pairs)
    return f'<dl class="{css}">{items}</dl>'
