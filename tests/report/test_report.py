"""Reports: well-formed, safe, self-contained, and sensible where there is little to show."""

import itertools
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr, ndtri

from jointplda.errors import FileError
from jointplda.metrics.measure_kind import CALIBRATION_LOSS, CLLR, EER, MIN_CLLR, Estimate, Measure, MeasureKind
from jointplda.report import scales, svg
from jointplda.report.content import Channels, Curve, Distribution, Page, Training
from jointplda.report.glossary import GLOSSARY
from jointplda.report.page import render, write_page
from jointplda.report.plots import bars_plot, det_plot, histograms_plot
from jointplda.report.tables import metrics_of
from jointplda.report.training_plots import channels_plot, trace_plot
from worlds.report_pages import EDGES, bare, example, system, training

VOID = {"meta", "link", "input", "br"}
NASTY = """<b>"&'</script><script>alert(1)</script> \x00\ud800 é"""
NAN, INF = float("nan"), float("inf")


class Checker(HTMLParser):
    """Every tag closes in order; ids are unique; headings never skip a level."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.levels, self.words, self.tags = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes another"

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.words.append(data)


def pictures(text):
    """Each outermost SVG of the page, parsed as XML."""
    found, depth, start = [], 0, 0
    for tag in re.finditer(r"<svg\b|</svg>", text.partition("<body>")[2]):
        start = tag.start() if depth == 0 else start
        depth += 1 if tag[0] == "<svg" else -1
        if depth == 0:
            found.append(ElementTree.fromstring(text.partition("<body>")[2][start : tag.end()]))
    return found


def check(page):
    """Render, and check all that holds for every page."""
    text = render(page)
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    assert len(checker.ids) == len(set(checker.ids))
    assert checker.levels[0] == 1
    assert all(b - a <= 1 for a, b in zip(checker.levels, checker.levels[1:]))
    assert "nan" not in re.sub(r"<style>.*?</style>|<script>.*?</script>", "", text, flags=re.DOTALL).lower()
    links = re.findall(r"https?://[^\s\"'<]+", text)
    assert set(links) <= {"http://www.w3.org/2000/svg"}
    for picture in pictures(text):
        if picture.get("class").startswith("plot"):
            names = [child.tag.rpartition("}")[2] for child in picture]
            assert names[:2] == ["title", "desc"]
            assert picture.get("role") == "img"
            assert all(child.text for child in list(picture)[:2])
        else:
            assert picture.get("aria-hidden") == "true"
    text.encode("utf-8")
    return text, checker


@pytest.fixture(scope="module")
def six():
    return example(6)


def test_a_whole_page(six):
    text, checker = check(six)
    words = " ".join(checker.words)
    for expected in (six.title, six.summary, "What the numbers mean", "PLDA, calibrated", "language = zh", "train.npz"):
        assert expected in words
    assert len(text.encode()) < 250_000
    assert len(pictures(text)) > 40
    footer = text.partition("<footer>")[2].partition("</footer>")[0]
    assert re.fullmatch(r"jointplda [\w.+]+", footer)


def test_the_same_page_twice(six):
    assert render(six) == render(six)


def test_every_plot_is_small(six):
    sizes = [len(ElementTree.tostring(p)) for p in pictures(render(six))]
    assert max(sizes) < 22_000
    assert sorted(sizes)[len(sizes) // 2] < 8_000


@pytest.mark.parametrize("count", [1, 2, 8])
def test_few_and_many_systems(count):
    text, checker = check(example(count))
    checked = [attrs for tag, attrs in checker.tags if tag == "input" and "checked" in attrs]
    assert [attrs["id"] for attrs in checked] == ([f"tab{count - 1}"] if count > 1 else [])
    assert len(re.findall('class="panel ', text)) == count


def test_names_are_escaped():
    page = Page(NASTY, NASTY, [nasty()] * 2, facts=[(NASTY, NASTY)], channel=NASTY, interval=NASTY)
    text, checker = check(page)
    assert "<b>" not in text
    assert [tag for tag, _ in checker.tags].count("script") == 1
    assert not any(name.startswith("on") for _, attrs in checker.tags for name in attrs)
    assert any("<b>\"&'</script>" in word for word in checker.words)


def nasty():
    made = system("x", 2.0, 1.0)
    channels = Channels(NASTY, [NASTY, "b"], np.eye(2), np.array([3, 4]), (0.5, 0.5))
    learnt = replace(training(0), objective_name=NASTY, singular_values={NASTY: np.ones(3)}, channels=[channels])
    metrics = {**made.metrics, NASTY: {EER: Estimate(1.0)}}
    counts = {**made.counts, NASTY: (1, 2)}
    histograms = {**made.histograms, NASTY: made.histograms["same target"]}
    return replace(
        made, name=NASTY, description=NASTY, metrics=metrics, counts=counts, histograms=histograms,
        det={**made.det, NASTY: made.det["pooled"]}, tippett={NASTY: made.tippett["target"]}, training=learnt,
    )  # fmt: skip


def test_scores_that_are_no_ratios_say_so(six):
    text = render(six)
    row = re.search(r"<tr><th scope=\"row\"><i[^>]*></i>Cosine</th>(.*?)</tr>", text)[1]
    assert row.count('<td title="its scores are not log-likelihood ratios">–</td>') == 6
    assert "they have no diagonal to lie on" in text


def test_the_lowest_of_each_column_is_marked(six):
    text = render(six)
    table = text.partition("All trials, pooled")[2].partition("<table")[2].partition("</table>")[0]
    for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", table):
        assert ('class="best"' in row) == ("</i>Joint PLDA</th>" in row)
    assert 'class="best"' not in render(example(1))


def test_the_headline_names_the_best_of_the_others():
    systems = [bare(name, metrics={"pooled": {EER: Estimate(rate)}}) for name, rate in zip("abc", (0.3, 0.1, 0.2))]
    assert "best of the others: 10.00 (b)" in render(Page("Three", "", systems))


def test_whiskers_reach_from_one_end_of_the_interval_to_the_other():
    systems = [bare(metrics={"pooled": {EER: Estimate(0.05, 0.02, 0.1)}})]
    drawn = ElementTree.fromstring(bars_plot(systems).body)
    box = next(each for each in drawn.iter() if each.tag.endswith("rect") and each.get("class") == "bar")
    line = next(each for each in drawn.iter() if each.get("class") == "whisker")
    start = float(re.match(r"M[\d.]+ ([\d.]+)", line.get("d"))[1])
    length = abs(float(re.search(r"v(-?[\d.]+)", line.get("d"))[1]))
    size = float(box.get("height"))
    assert_allclose(float(box.get("y")) + size - start, size * 0.02 / 0.05, atol=0.2)
    assert_allclose(length, size * 0.08 / 0.05, atol=0.2)


def test_what_lies_beyond_a_histogram_is_stated():
    cell = Distribution(np.array([0.0, 1.0, 2.0]), np.array([0.3, 0.45]), 0.2, 0.05, 100)
    note = histograms_plot(bare(histograms={"target": cell}, is_llr=False)).note
    assert note == "Beyond the edges: target 20.0\u00a0% below and 5.00\u00a0% above."


def test_metrics_keep_one_order_whoever_lacks_some(six):
    kinds = MeasureKind.MIN_DCF, MeasureKind.ACT_DCF
    costs = [Measure(kind, prior) for kind in kinds for prior in (0.05, 0.01, 0.005, 0.001)]
    assert metrics_of(six.systems, "pooled") == [EER, CLLR, MIN_CLLR, CALIBRATION_LOSS, *costs]


def test_names_of_measures(six):
    text = render(six)
    heads = re.findall(r'<th scope="col">(.*?)</th>', text.partition("<thead>")[2].partition("</thead>")[0])
    assert heads[:6] == [
        "System",
        "EER <small>%</small>",
        "Cllr",
        "minCllr",
        "calibration loss",
        "minDCF <small>0.05</small>",
    ]
    assert '<p class="what">minDCF at prior 0.05</p>' in text


@pytest.mark.parametrize(
    "metric, value, text",
    [(EER, 0.0123, "1.23"), (CLLR, INF, "∞"), (CLLR, NAN, "–"), (CLLR, -0.0001, "0.000"), (CLLR, 1e7, "1e7")],
)
def test_values_as_written(metric, value, text):
    assert metric.figure(value) == text


@pytest.mark.parametrize("page", EDGES.values(), ids=EDGES.keys())
def test_little_to_show(page):
    text, _ = check(page)
    if not page.systems or not any(s.metrics.get("pooled") for s in page.systems):
        assert 'class="none"' in text


def test_enormous_and_tiny_numbers():
    made = system("PLDA", 3.0, 1.0, scale=1e9)
    tiny = system("tiny", 3.0, 1.0, scale=1e-12)
    check(Page("Far", "", [made, tiny]))


def test_training_of_odd_shapes():
    one = Channels("room", ["only"], np.zeros((1, 2)), np.array([0]), (NAN, NAN))
    assert ">only</text>" in channels_plot(one).body
    none = Channels("room", [], np.zeros((0, 2)), np.array([], dtype=np.int64), (0.0, 0.0))
    assert "No channels of room" in channels_plot(none).body
    assert "fewer than two iterations" in trace_plot(Training(np.array([-1.0]), "x", True, {})).body
    falling = Training(np.array([-1.0, -3.0, -2.0, -2.5]), "log-likelihood", False, {})
    assert "stopped before it converged" in trace_plot(falling).note
    ElementTree.fromstring(trace_plot(falling).body)


def test_a_trace_shows_what_was_left_to_gain():
    training_ = Training(np.array([-110.0, -20.0, -11.0, -10.0]), "log-likelihood", True, {})
    drawn = trace_plot(training_).body
    heights = [float(y) for y in re.findall(r'<circle class="filled" cx="[\d.]+" cy="([\d.]+)"', drawn)]
    assert len(heights) == 3
    assert_allclose(heights, [0.0, 145.0, 290.0], atol=0.1)  # 100, 10 and 1 below the last value, on a log axis


def test_names_of_channels_do_not_overlap():
    learnt = training(3, names=[f"channel {i}" for i in range(70)])
    drawn = channels_plot(learnt.channels[0])
    assert "left out for want of room" in drawn.note
    boxes = []
    for x, y, anchor, name in re.findall(
        r'<text x="([\d.-]+)" y="([\d.-]+)" class="spot"(?: text-anchor="(\w+)")?>(.*?)</text>', drawn.body
    ):
        wide = svg.LETTER * len(name)
        left = float(x) - {"": 0.0, "end": wide, "middle": wide / 2}[anchor]
        boxes.append((left, float(y), left + wide))
    assert len(boxes) > 10
    for i, a in enumerate(boxes):
        assert not any(a[0] < b[2] - 1 and b[0] < a[2] - 1 and abs(a[1] - b[1]) < 13 for b in boxes[:i])


def test_thinned_curves_stay_within_tolerance():
    rng = np.random.default_rng(0)
    points = np.column_stack([np.linspace(0, 400, 5000), 150 + 100 * np.sin(np.linspace(0, 9, 5000))])
    points[:, 1] += rng.normal(scale=0.02, size=5000)
    kept = svg.thin(points)
    assert len(kept) < 120
    assert np.abs(np.interp(points[:, 0], kept[:, 0], kept[:, 1]) - points[:, 1]).max() < 0.6
    assert np.array_equal(svg.thin(points[:2]), points[:2])


def test_paths_end_where_the_points_end():
    points = np.random.default_rng(1).normal(scale=300, size=(200, 2))
    points[50:60, 0] = points[50, 0]
    points[100:110, 1] = points[100, 1]
    x = y = 0.0
    for command, numbers in re.findall(r"([Mlhv])([^Mlhv]*)", svg.path(points)):
        values = [float(v) for v in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", numbers)]
        x, y = {
            "M": lambda v: (v[0], v[1]),
            "l": lambda v, x=x, y=y: (x + v[0], y + v[1]),
            "h": lambda v, x=x, y=y: (x + v[0], y),
            "v": lambda v, x=x, y=y: (x, y + v[0]),
        }[command](values)
    assert np.allclose([x, y], points[-1], atol=0.051)


@pytest.mark.parametrize(
    "low, high", [(0, 1), (-3.2, 17.9), (5, 5), (NAN, 1), (-1e12, 1e12), (1e-9, 2e-9), (0, 0), (1e300, -1e300)]
)
def test_linear_ticks_are_inside_and_distinct(low, high):
    scale = scales.linear(low, high)
    values, texts = zip(*scale.ticks)
    assert 2 <= len(values) <= 13
    assert len(set(texts)) == len(texts)
    assert np.all((scale(values) > -1e-6) & (scale(values) < 1 + 1e-6))


def test_probit_scale():
    scale = scales.probit(0.001, 0.6)
    assert [text for _, text in scale.ticks][:4] == ["0.1", "0.5", "2", "5"]
    assert scale(0.001) == 0
    assert scale(0.6) == 1
    assert scale(0.0) == 0
    assert np.isnan(scale(NAN))


def test_a_det_plot_says_who_made_no_errors():
    perfect = bare("Oracle", det={"pooled": Curve(np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0]))})
    assert det_plot([perfect]).note == "Without errors in the range shown: Oracle."
    assert "Oracle: no errors in the range shown" in det_plot([perfect]).body
    reversed_ = bare("Liar", det={"pooled": Curve(np.array([1.0, 1.0, 0.0]), np.array([0.0, 1.0, 1.0]))})
    assert det_plot([reversed_]).note == "With more errors than the range shows: Liar."


def det_of(rate, n=100_000):
    """A curve through (rate, rate) that is straight on probit axes, of n trials of either class."""
    z = np.linspace(-6, 6, 2001)
    x, y = (np.round(ndtr(side + ndtri(rate)) * n) / n for side in (-z, z))
    return bare(det={"pooled": Curve(x, y)})


@pytest.mark.parametrize(
    "rates, ends",
    [
        ([0.005], ("0.01", "5")),
        ([0.02], ("0.1", "10")),
        ([0.08], ("0.1", "40")),
        ([0.25], ("1", "60")),
        ([0.5], ("1", "98")),
        ([0.005, 0.25], ("0.01", "60")),
        ([0.0004], ("0.001", "5")),
    ],
)
def test_det_axes_follow_the_systems(rates, ends):
    texts = re.findall(r'text-anchor="end">([\d.]+)</text>', det_plot([det_of(rate) for rate in rates]).body)
    assert (texts[0], texts[-1]) == ends
    assert 5 <= len(texts) <= 13


def test_few_trials_do_not_stretch_the_det_axes():
    assert 'text-anchor="end">0.01</text>' in det_plot([det_of(0.0001, n=1000)]).body
    assert 'text-anchor="end">0.001</text>' not in det_plot([det_of(0.0001, n=1000)]).body


def test_ticks_of_det_axes_do_not_crowd():
    for low, high in itertools.product((0.01, 0.001, 0.0001, 0.00001), (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.985)):
        scale = scales.probit(low, high)
        values = [value for value, _ in scale.ticks]
        assert np.diff(scale(values)).min() * 392 > 28
        assert len(values) >= 3
        assert_allclose(values[0], low)


def test_labels_below_an_axis_do_not_touch():
    for low, high in ((0.00001, 0.985), (0.0001, 0.05), (0.001, 0.6)):
        frame = svg.Axes(scales.probit(low, high), scales.probit(low, high), width=392).body()
        labels = re.findall(r'<text x="([\d.]+)" y="[\d.]+" text-anchor="middle">([\d.]+)</text>', frame)
        ends = [(float(x) - svg.LETTER * len(text) / 2, float(x) + svg.LETTER * len(text) / 2) for x, text in labels]
        assert len(ends) > 4
        assert all(right + 4.9 < left for (_, right), (left, _) in itertools.pairwise(ends))


def clipped_by_sampling(points, width, height, each=4001):
    """Points along a polyline that are inside the box."""
    along = np.linspace(0, 1, each)[:, None]
    every = np.concatenate([a + along * (b - a) for a, b in itertools.pairwise(points)])
    return every[((every >= 0) & (every <= [width, height])).all(axis=1)]


@pytest.mark.parametrize("seed", range(8))
def test_clipping_keeps_what_is_inside_and_nothing_else(seed):
    rng = np.random.default_rng(seed)
    points = rng.uniform(-60, 160, (rng.integers(2, 9), 2))
    if seed % 2:
        points = np.repeat(points, 2, axis=0)
        points[1::2, 0] = np.roll(points[:, 0], -1)[1::2]  # steps, as a ROC has
    pieces = svg.clip(points, 100, 80)
    inside = clipped_by_sampling(points, 100, 80)
    for piece in pieces:
        assert len(piece) > 1
        assert ((piece >= -1e-9) & (piece <= [100 + 1e-9, 80 + 1e-9])).all()
    drawn = (
        np.concatenate([clipped_by_sampling(piece, 101, 81, 201) for piece in pieces]) if pieces else np.zeros((0, 2))
    )
    gaps = np.hypot(*(inside[:, None] - drawn[None]).T) if len(inside) and len(drawn) else np.zeros((1, 1))
    assert len(inside) < 20 or len(drawn)
    assert gaps.min(axis=0).max() < 2.5, "a part of the curve is missing"
    assert not len(drawn) or gaps.min(axis=1).max() < 2.5, "something else is drawn"


def test_the_corner_of_a_curve_outside_is_not_cut():
    corner = np.array([[150.0, 50.0], [-50.0, 50.0], [-50.0, 200.0], [50.0, 200.0], [50.0, -20.0]])
    pieces = svg.clip(corner, 100, 100)
    assert [piece.tolist() for piece in pieces] == [[[100, 50], [0, 50]], [[50, 100], [50, 0]]]


def test_writing(tmp_path, six):
    write_page(six, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_bytes() == render(six).encode()
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(FileError, match="does not exist"):
        write_page(six, tmp_path / "nowhere" / "report.html")


def test_every_metric_is_explained(six):
    terms = {term.lower() for term in GLOSSARY}
    assert {measure.kind.value.lower() for measure in metrics_of(six.systems, "pooled")} <= terms
