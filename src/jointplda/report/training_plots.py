"""Plots of the training of a model: the objective of EM, settings tried, singular values, positions of channels."""

from __future__ import annotations

from os import PathLike

import numpy as np

from jointplda._atomic import replacing
from jointplda._typing import Array
from jointplda.preprocessing.front_ends import AUTO, GIVEN
from jointplda.report import scales, svg
from jointplda.report.content import Channels, Training
from jointplda.report.svg import LETTER, Axes, Drawing, drawing, entry, nothing
from jointplda.selection.candidates import CandidateResult

MOST_LABELS = 60
MOST_ATTEMPTS = 20
USUAL = ("", GIVEN, AUTO[0].name)
STYLE = (
    "svg{background:#fff}text{font:12px sans-serif;fill:#333}.grid{stroke:#ddd;fill:none}.base{stroke:#888}"
    ".line{fill:none;stroke-width:1.5}.s0{stroke:#0072b2}.s1{stroke:#c44e00}.hollow{fill:#fff}"
    ".s0 .filled{fill:#0072b2}.s1 .filled{fill:#c44e00}"
)


def trace_plot(training: Training) -> Drawing:
    """Distance of the objective of EM to its final value by iteration; the objective itself where it ever fell."""
    objective = np.asarray(training.objective, dtype=np.float64)
    iterations = np.arange(1, len(objective) + 1)
    finite = np.isfinite(objective)
    if finite.sum() < 2:
        return nothing("EM made fewer than two iterations: no trace to show.")
    gap = objective[-1] - objective[:-1]
    x = scales.linear(1, float(iterations[-1]), 7, whole=True)
    if len(gap) > 2 and np.all(np.isfinite(gap)) and np.all(gap > 0) and np.ptp(objective) > 0:
        y = scales.log(float(gap.min()), float(gap.max()))
        iterations, values, name = iterations[:-1], gap, "Below the final value, nats per sample"
    else:
        y = scales.linear(float(objective[finite].min()), float(objective[finite].max()), 5)
        values, name = objective, training.objective_name
    axes = Axes(x, y, left=60, width=384)
    with axes.coloured("s0"):
        axes.line(iterations, values)
        for i, value in zip(iterations, values, strict=True) if len(values) <= 30 else ():
            axes.dot(float(i), float(value), 2.4, "filled")
    final = f"{objective[finite][-1]:.6g}"
    description = f"{training.objective_name} over {len(objective)} iterations, up to {final}."
    end = "converged" if training.converged else "stopped before it converged"
    note = f"EM {end} after {len(objective)} iterations, at {final} nats per sample.".replace("-", "−")
    return drawing("EM's objective", description, axes.body("Iteration", name), note=note)


def attempts_plot(training: Training) -> Drawing:
    """The criterion of every candidate of the search, with its standard error; the chosen candidate is filled."""
    attempts = sorted(training.attempts, key=lambda attempt: attempt.criterion)[:MOST_ATTEMPTS]
    if not attempts:
        return nothing("No settings were tried.")
    names = [_attempt_name(attempt) for attempt in attempts]
    low = min(attempt.criterion - attempt.error for attempt in attempts)
    high = max(attempt.criterion + attempt.error for attempt in attempts)
    room = 0.04 * max(high - low, 1e-6)
    left, height = min(24 + LETTER * max(map(len, names)), 250), 20.0 * len(attempts)
    x, rows = scales.linear(max(low - room, 0.0), high + room, 5), scales.linear(0.0, float(len(attempts)))
    axes = Axes(x, rows, left=left, width=444 - left, height=height)
    for i, (attempt, name) in enumerate(zip(attempts, names, strict=True)):
        value, at = attempt.criterion, len(attempts) - i - 0.5
        css, size, kind = ("s1", 5.0, "filled") if attempt.chosen else ("s0", 3.5, "hollow")
        with axes.coloured(css):
            axes.line([value - attempt.error, value + attempt.error], [at, at], "line thin")
            axes.dot(value, at, size, kind, f"{name}: {value:.4f} ± {attempt.error:.4f} bits")
        axes.word(-8, 20.0 * i + 14, svg.shorten(name, 34), "", "end")
    best = next((i for i, attempt in enumerate(attempts) if attempt.chosen), 0)
    description = f"{len(attempts)} settings tried; chosen: {names[best]}, {attempts[best].criterion:.4f} bits."
    body = axes.body("minCllr of held-out training speakers, bits", y_ticks=False)
    left_out = len(training.attempts) - len(attempts)
    note = f"The {left_out} worst are left out." if left_out else ""
    return drawing("Settings tried", description, body, height=height + 56, note=note)


def _attempt_name(attempt: CandidateResult) -> str:
    candidate, front_end = attempt.candidate, "" if attempt.front_end in USUAL else f", {attempt.front_end}"
    channels = "".join(
        f" / {prior:g} ×{rank}" if rank else " / no U"
        for rank, prior in zip(candidate.channel_rank, candidate.channel_prior, strict=True)
    )
    interaction = f", {candidate.interaction}" if candidate.interaction else ""
    share = f" ({candidate.cell_share:g})" if candidate.interaction and candidate.cell_share < 1.0 else ""
    return f"{candidate.noise_prior:g} / {candidate.speaker_prior:g}{channels}{interaction}{share}{front_end}"


def write_attempts(training: Training, path: str | PathLike[str]) -> None:
    """Write the picture of ``attempts_plot`` as an SVG file, whole or not at all."""
    text = attempts_plot(training).body
    with replacing(path) as name:
        name.write_text(text.replace("<title>", f"<style>{STYLE}</style><title>", 1), encoding="utf-8", newline="\n")


def shares_plot(training: Training) -> Drawing:
    """One bar of the variance of an embedding, divided among speaker, channel, the two together, and noise."""
    width, bars, start, legend, parts = 444.0, [], 8.0, "", []
    for k, (name, share) in enumerate(training.variance_shares.items()):
        if not (np.isfinite(share) and share > 0):
            continue
        length, shown = share * width, f"{100 * share:.0f}\u00a0%"
        said = "the two together" if name == "interaction" else name
        bars.append(f'<g class="s{k % 8}">{svg.box(start, 8, length, 34, "bar", f"{said}: {shown}")}</g>')
        if length > LETTER * len(shown) + 4:
            bars.append(svg.label(start + length / 2, 62, shown, "", "middle"))
        start += length
        legend += entry(f"s{k % 8}", "bar", said)
        parts.append(f"{said} {shown}")
    if not parts:
        return nothing("The shares of variance are not known.")
    text = ", ".join(parts) + "."
    return drawing("Shares of the variance", text, *bars, height=72, note=f"Of the variance: {text}", legend=legend)


def singular_plot(training: Training) -> Drawing:
    """Singular values of V and of each U, largest first."""
    spectra = {name: np.asarray(v, dtype=np.float64) for name, v in training.singular_values.items()}
    spectra = {name: v[np.isfinite(v)] for name, v in spectra.items() if np.isfinite(v).any()}
    if not spectra:
        return nothing("There are no loadings, hence no singular values.")
    longest = max(len(v) for v in spectra.values())
    every = np.concatenate(list(spectra.values()))
    y = scales.linear(0.0, float(every.max()) * 1.05 or 1.0, 5)
    if every.min() > 0 and every.max() > 300 * every.min():
        y = scales.log(float(every.min()), float(every.max()))
    axes = Axes(scales.linear(0.5, longest + 0.5, min(8, longest), whole=True), y)
    legend = ""
    for k, (name, values) in enumerate(spectra.items()):
        index = np.arange(1, len(values) + 1)
        css = "s0" if name == "V" else f"s{1 + (k - 1) % 7}"
        legend += entry(css, "filled", name)
        with axes.coloured(css):
            axes.line(index, values, "line thin")
            for i, value in zip(index, values, strict=True) if len(values) <= 80 else ():
                axes.dot(float(i), float(value), 3.0, "filled")
    description = "; ".join(f"{name}: {len(v)} values from {v[0]:.3g} to {v[-1]:.3g}" for name, v in spectra.items())
    body = axes.body("Direction, strongest first", "Singular value")
    return drawing("Singular values of the loadings", description + ".", body, legend=legend)


def channels_plot(channels: Channels) -> Drawing:
    """A dot for each channel, larger where it has more training samples, with its name where there is room."""
    at = np.asarray(channels.at, dtype=np.float64)[:, :2]
    usable = np.flatnonzero(np.isfinite(at).all(axis=1)).tolist()
    if not usable:
        return nothing(f"No channels of {channels.condition} to show.")
    spots = at[usable]
    axes = _equal_axes(spots)
    counts = np.asarray(channels.counts, dtype=np.float64)[usable]
    radii = 3.0 + 4.0 * np.sqrt(np.maximum(counts, 0) / max(float(counts.max()), 1.0))
    axes.line([0, 0], [axes.y.low, axes.y.high], "origin")
    axes.line([axes.x.low, axes.x.high], [0, 0], "origin")
    pixels = axes.at(spots[:, 0], spots[:, 1])
    with axes.coloured("s1"):
        for (px, py), radius, i in zip(pixels, radii, usable, strict=True):
            tip = f"{channels.names[i]}: {int(channels.counts[i]):,} samples"
            axes.outside.append(svg.circle(px, py, radius, "bubble", tip))
    named = _name_spots(axes, pixels, radii, [svg.shorten(str(channels.names[i]), 22) for i in usable])
    shares = [f"{100 * s:.0f} %" if np.isfinite(s) else "–" for s in channels.shares]
    body = axes.body(f"First axis of U ({shares[0]} of UUᵀ)", f"Second axis ({shares[1]})")
    description = f"{len(usable)} channels of {channels.condition} in the plane of U's first two principal axes."
    left = f"{len(usable) - named} of {len(usable)}"
    note = f"{left} names are left out for want of room: point at a dot to read its name."
    note = note if named < len(usable) else ""
    return drawing(f"Channels of {channels.condition}", description, body, note=note)


def _equal_axes(spots: Array) -> Axes:
    """Axes around the spots and the origin, with one unit for both."""
    low, high = np.minimum(spots.min(axis=0), 0.0), np.maximum(spots.max(axis=0), 0.0)
    unit = max((high - low)[0] / (0.78 * Axes.width), (high - low)[1] / (0.84 * Axes.height), 1e-12)
    centre, half = (low + high) / 2, np.array([Axes.width, Axes.height]) * unit / 2
    (left, bottom), (right, top) = (centre - half).tolist(), (centre + half).tolist()
    return Axes(scales.linear(left, right, 6), scales.linear(bottom, top, 5))


def _name_spots(axes: Axes, pixels: Array, radii: Array, names: list[str]) -> int:
    """Write names where they overlap nothing, the outermost channels first, and return how many were written."""
    taken = np.column_stack((pixels - radii[:, None], pixels + radii[:, None]))
    size = np.array([axes.width, axes.height])
    named = 0
    outwards = np.hypot(*(pixels - pixels.mean(axis=0)).T)
    for i in np.argsort(-outwards, kind="stable")[:MOST_LABELS]:
        boxes = _places(pixels[i], radii[i] + 3, LETTER * len(names[i]), axes.width)
        low, high = boxes[:, None, :2], boxes[:, None, 2:]
        hit = np.any(np.all((low < taken[:, 2:]) & (taken[:, :2] < high), axis=2), axis=1)
        free = boxes[~hit & (boxes[:, :2] >= 0).all(axis=1) & (boxes[:, 2:] <= size).all(axis=1)]
        for left, top, right, bottom in free[:1]:
            axes.word((left + right) / 2, bottom - 3, names[i], "spot", "middle")
            taken = np.vstack((taken, [left - 4, top, right + 4, bottom]))
            named += 1
    return named


def _places(spot: Array, away: float, width: float, room: float) -> Array:
    """Boxes (8, 4) for a name, best first: beside its dot, above, below, then at its corners."""
    x, y = spot
    side, low, high = 0.6 * away, y - away - 7, y + away + 7
    middle = min(max(x, width / 2), room - width / 2) - width / 2
    right, left = x + side, x - side - width
    lefts = np.array([x + away, x - away - width, middle, middle, right, left, right, left])
    centres = np.array([y, y, low, high, low + 2, low + 2, high - 2, high - 2])
    return np.column_stack((lefts, centres - 7, lefts + width, centres + 7))
