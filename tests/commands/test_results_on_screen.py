"""Sentences and tables that commands print: which figure belongs to which system."""

import numpy as np
import pytest

from jointplda.commands import console, result_tables
from jointplda.commands.summary import summary_of
from jointplda.evaluation.evaluate import EvaluationSettings, TrialSides, evaluate
from jointplda.evaluation.systems import AUTOMATIC, JOINT, PLAIN


def evaluation(misses, cross_misses, is_llr=True):
    """100 trials of each cell and class, of which so many per cent of the targets (and of non-targets) are wrong."""
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


def test_the_summary_gives_each_system_its_own_figures():
    results = {"cosine": evaluation(1, 1), PLAIN: evaluation(20, 40), JOINT: evaluation(10, 30)}
    rate = {name: 100 * result.pooled.measures.eer for name, result in results.items()}
    cost = {name: result.pooled.measures.cllr for name, result in results.items()}
    hard = {name: 100 * result.parts["cross / same"].measures.eer for name, result in results.items()}
    assert len({f"{each[name]:.2f}" for each in (rate, hard) for name in (PLAIN, JOINT)}) == 4
    assert summary_of(results, "language") == (
        f"Equal error rate over all trials: {rate[JOINT]:.2f} % with Joint PLDA, {rate[PLAIN]:.2f} % with PLDA; Cllr "
        f"{cost[JOINT]:.3f} against {cost[PLAIN]:.3f}. Where targets differ in language and non-targets share it, the "
        f"equal error rate is {hard[JOINT]:.2f} % with Joint PLDA and {hard[PLAIN]:.2f} % with PLDA."
    )
    results[AUTOMATIC] = evaluation(5, 15)
    text, automatic = summary_of(results, "language"), results[AUTOMATIC].pooled.measures.eer
    assert f"{100 * automatic:.2f} % with automatic Joint PLDA, {rate[PLAIN]:.2f} % with PLDA" in text


def test_the_summary_of_other_systems_names_the_best():
    results = {"cosine": evaluation(12, 12), "LDA + PLDA": evaluation(8, 8), "x": evaluation(9, 9)}
    assert summary_of(results, "language") == "Lowest pooled equal error rate: LDA + PLDA, 8.00 %."


def test_tables_have_a_row_per_system_or_per_part(capsys):
    results = {"good": evaluation(5, 10), "cosine": evaluation(20, 40, is_llr=False)}
    result_tables.print_results(results)
    header, _, good, cosine = [line for line in capsys.readouterr().out.splitlines() if line.strip()][:4]
    columns = ["system", "EER", "minDCF(0.05)", "actDCF(0.05)", "Cllr", "minCllr", "EER cross / same"]
    assert header.split() == " ".join(columns).split()
    assert good.split()[:2] == ["good", f"{100 * results['good'].pooled.measures.eer:.2f}"]
    assert good.split()[-2] == f"{100 * results['good'].parts['cross / same'].measures.eer:.2f}"
    assert cosine.split().count("–") == 2  # no actual cost and no Cllr
    result_tables.print_results({"good": results["good"]})
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
    for width in (result_tables.WIDTH_FOR_INTERVALS, result_tables.WIDTH_FOR_INTERVALS - 1):
        monkeypatch.setattr(console, "width", lambda width=width: width)
        result_tables.print_results({"a": result})
        assert (bracket in capsys.readouterr().out) == (width >= result_tables.WIDTH_FOR_INTERVALS)
    result_tables.print_intervals([result], inferred=True)
    assert "20 draws of 20 speakers, inferred" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        (console.percent, 0.1236, "12.36 %"),
        (console.percent, float("nan"), "–"),
        (console.number, 999.5, "999.500"),
        (console.number, 1000.0, "1e+03"),
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
