"""Tables, facts and JSON that commands print, and their progress on a terminal."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from jointplda.calibration import AffineCalibration
from jointplda.commands import console, progress_display, results, settings_search
from jointplda.commands.messages import Messages
from jointplda.evaluation.evaluate import EvaluationSettings, TrialSides, evaluate
from jointplda.metrics.measure_kind import CLLR, EER
from jointplda.model.em import Iteration
from jointplda.model.settings import ModelSettings
from jointplda.progress import Progress
from jointplda.selection.candidates import CandidateResult
from jointplda.selection.design import ChannelTest, Design
from jointplda.selection.held_out_calibration import HeldOutCllr


def evaluation(misses, cross_misses, is_llr=True):
    """100 trials of each type, of which so many per cent of the targets (and of non-targets) are wrong."""
    scores, target, same = [], [], []
    for shared, wrong in ((1, misses), (0, cross_misses)):
        for is_target in (True, False):
            sign = 1 if is_target else -1
            scores += [-sign] * (wrong if shared != is_target else misses)
            scores += [sign] * (100 - (wrong if shared != is_target else misses))
            target += [is_target] * 100
            same += [shared] * 100
    settings = EvaluationSettings(draws=0, is_llr=is_llr)
    return evaluate(np.array(scores, float), np.array(target), TrialSides(same_channel=np.array(same)), settings)


def test_tables_have_a_row_per_system_or_per_part(capsys):
    systems = {"good": evaluation(5, 10), "cosine": evaluation(20, 40, is_llr=False)}
    results.print_results(systems)
    header, _, good, cosine = [line for line in capsys.readouterr().out.splitlines() if line.strip()][:4]
    columns = ["system", "EER", "minDCF(0.05)", "actDCF(0.05)", "Cllr", "minCllr", "EER cross / same"]
    assert header.split() == " ".join(columns).split()
    assert good.split()[:2] == ["good", f"{100 * systems['good'].pooled.measures.eer:.2f}"]
    assert good.split()[-2] == f"{100 * systems['good'].parts['cross / same'].measures.eer:.2f}"
    assert cosine.split().count("–") == 2  # no actual cost and no Cllr
    results.print_results({"good": systems["good"]})
    rows = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert rows[2].split()[:3] == ["pooled", "200", "200"]
    assert [row[:14].strip() for row in rows[3:7]] == ["same / same", "cross / same", "same / cross", "cross / cross"]


def test_intervals_are_printed_where_there_is_room(capsys, monkeypatch):
    rng = np.random.default_rng(0)
    target = rng.random(400) < 0.5
    sides = TrialSides(rng.integers(0, 20, 400), rng.integers(0, 20, 400))
    result = evaluate(rng.normal(size=400) + target, target, sides, EvaluationSettings(draws=20))
    low, high = result.pooled.intervals["EER"]
    bracket = f"[{100 * low:.2f}, {100 * high:.2f}]"
    for width in (results.WIDTH_FOR_INTERVALS, results.WIDTH_FOR_INTERVALS - 1):
        monkeypatch.setattr(console, "width", lambda width=width: width)
        results.print_results({"a": result})
        assert (bracket in capsys.readouterr().out) == (width >= results.WIDTH_FOR_INTERVALS)
    results.print_intervals([result], inferred=True)
    assert "20 draws of 20 speakers, inferred" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        (EER.text, 0.1236, "12.36 %"),
        (EER.text, float("nan"), "–"),
        (CLLR.text, 99.95, "99.950"),
        (CLLR.text, 1000.0, "1000.0"),
        (console.bytes_text, 999, "999 bytes"),
        (console.bytes_text, 1.5e9, "1.5 GB"),
        (console.seconds_text, 0.25, "250 ms"),
        (console.seconds_text, 119, "119.0 s"),
        (console.seconds_text, 7199, "120 min"),
        (console.seconds_text, 7200, "2.0 h"),
    ],
)
def test_numbers_in_a_suitable_form(function, value, text):
    assert function(value) == text


def test_json_has_no_numbers_that_json_lacks(capsys):
    console.print_json({"a": [np.float64("inf"), -np.inf], "b": (np.nan, np.arange(2)), 3: None})
    found = json.loads(capsys.readouterr().out)
    assert found == {"a": ["inf", "-inf"], "b": [None, [0, 1]], "3": None}


@pytest.mark.parametrize(
    ("raw", "best", "text"),
    [(1.01, 0.5, "(overconfident: worse"), (0.99, 0.5, "(overconfident)"), (0.55, 0.5, "0.550 bits raw, 0.600 cal")],
)
def test_the_search_says_how_confident_raw_scores_are(raw, best, text):
    candidate = ModelSettings(
        noise_prior=1.0, speaker_prior=2.0, channel_rank=(3,), channel_share=(1.0,), channel_prior=(0.5,)
    )
    result = CandidateResult(candidate, (0.5, 0.7), (0.6, 0.8), 1.0, True, "whitening")
    test = ChannelTest("room", 20, 4, 3.5, 0.01)
    model = SimpleNamespace(
        candidates_=(result,), design_=Design((0,), (test, None)), calibration_=AffineCalibration(0.5, -1.0),
        held_out_cllr_=HeldOutCllr(raw, 0.6, best, 20, 100, cross_channel_targets=False, separable=True),
        selection_=SimpleNamespace(stretch=4.0),
    )  # fmt: skip
    facts = settings_search.search_facts(model)
    assert [text for name, text in facts if not name] == [
        "a threshold separates these trials, so the calibration leaves scores near raw",
        "candidates were compared on harder trials, of samples 4 times as far from their speaker's mean",
    ]
    facts = dict(facts)
    assert facts["settings"].startswith(
        "front end whitening, noise prior 1, speaker prior 2, U of rank 3 with prior 0.5; chosen among 1"
    )
    assert facts["test of room"] == "F 3.5, p 0.01 (20 speakers, 4 channels)"
    assert text in facts["held-out Cllr"]
    assert "too few were recorded in two channels" in facts["held-out Cllr"]
    assert facts["calibration"] == "llr = 0.5 s -1, part of the model"


class Terminal(Messages):
    """Messages as on a terminal."""

    shows_progress = True


def test_progress_on_a_terminal(monkeypatch):
    drawn = []
    monkeypatch.setattr(progress_display, "_iteration_table", lambda rows: drawn.append([row.done for row in rows]))
    with progress_display.em_progress(Terminal()) as callback:
        for k in range(1, 12):
            callback(Progress("EM", k, 20))
    assert drawn[-1] == list(range(4, 12))
    shown = []
    monkeypatch.setattr("rich.status.Status.update", lambda self, text: shown.append(text))
    with settings_search.search_progress(Terminal()) as callback:
        for k, criterion in enumerate((0.5, 0.25, 0.75)):
            callback(Progress("settings", k + 1, None, SimpleNamespace(criterion=criterion)))
    assert shown[-1] == "choosing settings: 3 candidates, best held-out minCllr 0.2500 (Ctrl-C takes it)"
    moved = []
    monkeypatch.setattr("rich.progress.Progress.update", lambda self, task, **settings: moved.append(settings))
    with progress_display.bar(Terminal(), "work") as callback:
        callback(Progress("scores", 3, 7))
    assert moved == [{"completed": 3, "total": 7}]


def test_the_table_of_iterations():
    rows = [Progress("EM", 2, 9, Iteration(2, -1.5, 0.25, 0.012, None))]
    cells = [next(iter(column.cells)) for column in progress_display._iteration_table(rows).columns]
    assert cells == ["2 / 9", "-1.500000", "0.25", "12 ms"]


def test_a_line_now_and_then_where_there_is_no_terminal(capsys, monkeypatch):
    clock = iter([0.0, 9.0, 11.0, 11.0, 12.0])
    monkeypatch.setattr(progress_display, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with progress_display.em_progress(Messages()) as callback:
        for k in (1, 2, 3):
            callback(Progress("EM", k, 9, Iteration(k, -1.0, 0.1, 0.01, None)))
    assert capsys.readouterr().err == "iteration 2: -1.000000 nats per sample, gain 0.1\n"
