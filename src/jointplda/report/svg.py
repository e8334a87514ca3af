"""A small drawing kit: axes, clipped and thinned curves, areas, marks and words, as SVG coloured by CSS classes."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from jointplda._typing import Array
from jointplda.report.scales import Scale

TOLERANCE = 0.3
"""Largest distance, in pixels, between a curve and its thinned version."""

LETTER = 6.8
"""Approximate width of a letter of a label in pixels, to find labels that overlap."""

_ZERO_BEFORE_POINT = re.compile(r"(?<!\d)0(?=\.)")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Drawing:
    """A picture, or the sentence that stands for it, a note for its caption, and the entries of its legend."""

    body: str
    note: str = ""
    legend: str = ""


def words(text: str) -> str:
    """Text made safe for HTML, SVG and attributes; characters that XML cannot hold become replacement marks."""
    return html.escape(_FORBIDDEN.sub("\ufffd", text), quote=True)


def shorten(text: str, length: int) -> str:
    """At most ``length`` characters, with an ellipsis for the rest."""
    return text if len(text) <= length else text[: max(1, length - 1)].rstrip() + "…"


def nothing(sentence: str) -> Drawing:
    """A sentence where there is no picture to draw."""
    return Drawing(f'<p class="none">{words(sentence)}</p>')


def coordinate(value: float) -> str:
    """A length rounded to 0.1 pixel, without needless digits."""
    text = f"{value:.1f}"
    return "0" if text == "-0.0" else text.removesuffix(".0")


def thin(points: Array, tolerance: float = TOLERANCE) -> Array:
    """Leave out points of a polyline that lie within ``tolerance`` of the rest (Douglas and Peucker)."""
    keep = np.zeros(len(points), dtype=bool)
    keep[[0, -1]] = True
    stack = [(0, len(points) - 1)]
    while stack:
        first, last = stack.pop()
        if last - first < 2:
            continue
        start, chord = points[first], points[last] - points[first]
        offset = points[first + 1 : last] - start
        length2 = float(chord @ chord)
        along = np.clip(offset @ chord / length2, 0.0, 1.0) if length2 > 0 else np.zeros(len(offset))
        distance = np.hypot(*(offset - along[:, None] * chord).T)
        worst = int(distance.argmax())
        if distance[worst] > tolerance:
            middle = first + 1 + worst
            keep[middle] = True
            stack += [(first, middle), (middle, last)]
    return points[keep]


def clip(points: Array, width: float, height: float) -> list[Array]:
    """The pieces of a polyline inside the box from (0, 0) to (width, height) (Liang and Barsky).

    A point of the segment from a to b is a + t (b - a); each edge of the box bounds t from below where the segment
    enters through it and from above where it leaves.
    """
    start, step = points[:-1], np.diff(points, axis=0)
    enter, leave = np.zeros(len(step)), np.ones(len(step))
    for axis, size in ((0, width), (1, height)):
        for towards, room in ((-step[:, axis], start[:, axis]), (step[:, axis], size - start[:, axis])):
            with np.errstate(divide="ignore", invalid="ignore"):
                t = room / towards
            enter = np.where(towards < 0, np.maximum(enter, t), enter)
            leave = np.where(towards > 0, np.minimum(leave, t), leave)
            leave = np.where((towards == 0) & (room < 0), -1.0, leave)
    shown = np.flatnonzero(enter <= leave)
    joined = (np.diff(shown) == 1) & (leave[shown[:-1]] == 1)
    pieces = []
    for run in np.split(shown, np.flatnonzero(~joined) + 1) if len(shown) else ():
        first, last = run[0], run[-1]
        ends = start[[first, last]] + np.array([[enter[first]], [leave[last]]]) * step[[first, last]]
        pieces.append(np.vstack((ends[:1], points[run[1:]], ends[1:])))
    return pieces


def path(points: Array) -> str:
    """Path data through the points, rounded to 0.1 px, in relative steps because these are shorter."""
    tenths = np.rint(points * 10).astype(np.int64)
    steps = ["M{} {}".format(*map(coordinate, tenths[0] / 10))]
    for dx, dy in np.diff(tenths, axis=0) / 10:
        if dy == 0:
            steps.append(f"h{coordinate(dx)}" if dx else "")
        else:
            steps.append(f"l{coordinate(dx)} {coordinate(dy)}" if dx else f"v{coordinate(dy)}")
    return _ZERO_BEFORE_POINT.sub("", "".join(steps).replace(" -", "-"))


def label(x: float, y: float, text: str, css: str = "", anchor: str = "") -> str:
    """A text element; ``anchor`` is "middle" or "end" where it is not "start"."""
    extra = (f' class="{css}"' if css else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{coordinate(x)}" y="{coordinate(y)}"{extra}>{words(text)}</text>'


def segment(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    """A straight line."""
    return f'<path class="{css}" d="{path(np.array([[x1, y1], [x2, y2]]))}"/>'


def box(x: float, y: float, width: float, height: float, css: str, tip: str = "") -> str:
    """A rectangle, with a tip that shows on hovering."""
    place = f'x="{coordinate(x)}" y="{coordinate(y)}" width="{coordinate(width)}" height="{coordinate(height)}"'
    return f'<rect class="{css}" {place}>' + (f"<title>{words(tip)}</title>" if tip else "") + "</rect>"


def circle(x: float, y: float, radius: float, css: str, tip: str = "") -> str:
    """A dot, with a tip that shows on hovering."""
    place = f'cx="{coordinate(x)}" cy="{coordinate(y)}" r="{coordinate(radius)}"'
    return f'<circle class="{css}" {place}>' + (f"<title>{words(tip)}</title>" if tip else "") + "</circle>"


def entry(css: str, shape: str, name: str, data: str = "") -> str:
    """A name in a legend beside its symbol: a "line", a "bar", an "area", a "hollow" or a "filled" dot."""
    signs = {
        "line": '<path class="line" d="M1 6H25"/>',
        "bar": '<rect class="bar" x="7" y="0" width="12" height="12"/>',
        "area": '<rect class="area" x="5" y="1" width="16" height="10"/><path class="line" d="M5 1H21"/>',
        "hollow": '<circle class="hollow" cx="13" cy="6" r="4"/>',
        "filled": '<circle class="filled" cx="13" cy="6" r="4"/>',
    }
    sign = f'<svg class="key" viewBox="0 0 26 12" aria-hidden="true"><g class="{css}">{signs[shape]}</g></svg>'
    return f"<li{data}>{sign}{words(name)}</li>"


@dataclass
class Axes:
    """One pair of axes in a picture, with what is drawn inside them and across their edges."""

    x: Scale
    y: Scale
    left: float = 50
    top: float = 14
    width: float = 394
    height: float = 290
    inside: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    @contextmanager
    def coloured(self, css: str) -> Iterator[None]:
        """Give what is drawn meanwhile the colour of a class."""
        starts = [(drawn, len(drawn)) for drawn in (self.inside, self.outside)]
        yield
        for drawn, start in starts:
            if len(drawn) > start:
                drawn[start:] = [f'<g class="{css}">', *drawn[start:], "</g>"]

    def at(self, x: ArrayLike, y: ArrayLike) -> Array:
        """Pixels of the points, relative to the corner of the axes; points with a NaN are left out."""
        points = np.column_stack([self.x(x) * self.width, (1.0 - self.y(y)) * self.height])
        return points[~np.isnan(points).any(axis=1)]

    def line(self, x: ArrayLike, y: ArrayLike, css: str = "line", tolerance: float = TOLERANCE) -> bool:
        """Draw a curve through the points; False if none of it lies within the axes."""
        points = self.at(x, y)
        pieces = clip(points, self.width, self.height) if len(points) > 1 else []
        if pieces:
            data = "".join(path(thin(piece, tolerance)) for piece in pieces)
            self.inside.append(f'<path class="{css}" d="{data}"/>')
        return bool(pieces)

    def area(self, x: ArrayLike, y: ArrayLike) -> None:
        """Draw a curve of steps and the area between it and the lower edge."""
        size = np.array([self.width, self.height])
        points = np.clip(self.at(x, y), -size, 2 * size)
        if len(points) > 1:
            start, end = [points[0, 0], self.height], [points[-1, 0], self.height]
            self.inside.append(f'<path class="line area" d="{path(np.vstack([[start], thin(points), [end]]))}"/>')

    def dot(self, x: float, y: float, radius: float, css: str, tip: str = "") -> None:
        """Draw a dot whose centre lies within the axes; it may reach over the edge."""
        for px, py in self.at([x], [y]):
            if -0.5 <= px <= self.width + 0.5 and -0.5 <= py <= self.height + 0.5:
                self.outside.append(circle(px, py, radius, css, tip))

    def word(self, x: float, y: float, text: str, css: str = "", anchor: str = "") -> None:
        """Write text at pixels relative to the corner of the axes."""
        self.outside.append(label(x, y, text, css, anchor))

    def body(
        self,
        x_name: str = "",
        y_name: str = "",
        *,
        behind: str = "",
        x_ticks: bool = True,
        y_ticks: bool = True,
        x_labels: bool = True,
    ) -> str:
        """The axes with grid, ticks and names, on what lies ``behind`` them and below all that was drawn on them."""
        grid, marks = "", ""
        free = -1e9
        for value, text in self.x.ticks if x_ticks else ():
            px = float(self.x(value)) * self.width
            grid += f"M{coordinate(px)} 0V{coordinate(self.height)}"
            half = LETTER * len(text) / 2
            if x_labels and px - half >= free:
                marks += label(px, self.height + 17, text, "", "middle")
                free = px + half + 5
        for value, text in self.y.ticks if y_ticks else ():
            py = (1.0 - float(self.y(value))) * self.height
            grid += f"M0 {coordinate(py)}H{coordinate(self.width)}"
            marks += label(-8, py + 4, text, "", "end")
        name = label(self.width / 2, self.height + 37, x_name, "name", "middle") if x_name else ""
        if y_name:
            turn = f'transform="translate({coordinate(13 - self.left)} {coordinate(self.height / 2)}) rotate(-90)"'
            name += f'<text class="name" text-anchor="middle" {turn}>{words(y_name)}</text>'
        base = segment(0, self.height, self.width, self.height, "base")
        frame = f'{behind}<path class="grid" d="{grid or "M0 0"}"/>{base}{marks}{name}'
        width, height = coordinate(self.width), coordinate(self.height)
        clipped = f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}">{"".join(self.inside)}</svg>'
        corner = f"translate({coordinate(self.left)} {coordinate(self.top)})"
        return f'<g transform="{corner}">{frame}{clipped}{"".join(self.outside)}</g>'


def drawing(
    title: str,
    description: str,
    *bodies: str,
    width: float = 460,
    height: float = 346,
    css: str = "plot",
    note: str = "",
    legend: str = "",
) -> Drawing:
    """The whole SVG, with a title and a description for screen readers."""
    head = f'<svg class="{css}" xmlns="http://www.w3.org/2000/svg" role="img" '
    size = f'viewBox="0 0 {coordinate(width)} {coordinate(height)}">'
    about = f"<title>{words(title)}</title><desc>{words(description)}</desc>"
    return Drawing(f"{head}{size}{about}{''.join(bodies)}</svg>", note, legend)
