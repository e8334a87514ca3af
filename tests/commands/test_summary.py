"""The sentence above a report, and the counts in it, say which system they are of."""

import re

import numpy as np
import pytest

from jointplda.commands.comparison import summary_of
from jointplda.commands.results import write_report
from jointplda.evaluation.evaluate import POOLED, Evaluation, EvaluationSettings, Part, evaluate
from jointplda.evaluation.systems import AUTOMATIC, AUTOMATIC_PLAIN, JOINT, PLAIN
from jointplda.metrics import CROSS_SAME, Measures
from jointplda.report.gather import system_of


def result(eer, cllr=0.5, hard=None):
    """An evaluation with the given figures, pooled and across channels against within one."""
    parts = {POOLED: Part(Measures(eer, cllr, cllr), {}, 3, 4)}
    if hard is not None:
        parts[CROSS_SAME] = Part(Measures(hard, cllr, cllr), {}, 1, 2)
    return Evaluation(np.zeros(0), np.zeros(0, dtype=bool), None, parts, True, 0, 0, 0.9)


def figures(text):
    return re.findall(r"([\d.]+) % with (.*?)(?=[,;.] | and |\.$)", text)


@pytest.mark.parametrize("key, name", [(JOINT, "Joint PLDA"), (AUTOMATIC, "automatic Joint PLDA")])
def test_each_figure_is_named_after_its_system(key, name):
    results = {PLAIN: result(0.11, 0.41, 0.31), key: result(0.02, 0.12, 0.07)}
    for ordered in (results, dict(reversed(results.items()))):
        text = summary_of(ordered, "language")
        assert figures(text) == [("2.00", name), ("11.00", PLAIN), ("7.00", name), ("31.00", PLAIN)]
        assert "Cllr 0.120 against 0.410" in text
        assert "language" in text


def test_the_automatic_system_is_preferred():
    results = {PLAIN: result(0.11), JOINT: result(0.05), AUTOMATIC: result(0.02), "cosine": result(0.06, np.nan)}
    assert figures(summary_of(results, "room")) == [("2.00", "automatic Joint PLDA"), ("5.00", JOINT)]
    results |= {AUTOMATIC_PLAIN: result(0.04), AUTOMATIC: result(0.05)}
    assert figures(summary_of(results, "room")) == [("5.00", "automatic Joint PLDA"), ("4.00", "automatic PLDA")]
    del results[AUTOMATIC_PLAIN], results[JOINT], results[PLAIN]
    assert "Cllr" not in summary_of(results, "room")


def test_the_cells_are_mentioned_only_where_both_systems_have_them():
    assert "room" not in summary_of({PLAIN: result(0.11), JOINT: result(0.02, hard=0.1)}, "room")


def test_the_best_of_other_systems():
    text = summary_of({"cosine": result(0.2), "LDA + PLDA": result(0.1), PLAIN: result(0.15)}, "room")
    assert text == "Lowest pooled equal error rate: LDA + PLDA, 10.00 %."


def test_the_counts_of_a_report_are_those_of_its_last_system(tmp_path):
    settings = EvaluationSettings(draws=0)
    results = [
        evaluate([2.0, 1.0, 0.5, -1.0], [1, 1, 1, 0], settings=settings),
        evaluate([2.0, -0.5, -1.0], [1, 0, 0], settings=settings),
    ]
    systems = [system_of(name, each) for name, each in zip(("first", "last"), results)]
    write_report(tmp_path / "r.html", "Two systems", systems, results, "", [])
    text = (tmp_path / "r.html").read_text()
    assert '<p class="summary">1 target and 2 non-target trials.</p>' in text
    assert "<dt>trials</dt><dd>1 target and 2 non-target trials</dd>" in text
    assert "1 targets and 2 non-targets or 3 targets and 1 non-targets" in text
