"""Labels of any kind, and what counts as missing."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from jointplda import InputError
from jointplda.labels import ConditionColumns, conditions, encode, is_missing

NAN = float("nan")


@pytest.mark.parametrize(
    "labels, codes, levels",
    [
        (["b", "a", "b"], [1, 0, 1], ["a", "b"]),
        (np.array(["b", "a", ""]), [1, 0, -1], ["a", "b"]),
        ([3, 1, 3], [1, 0, 1], [1, 3]),
        (np.array([3, 1, 3], dtype=np.int8), [1, 0, 1], [1, 3]),
        (np.array([2.5, np.nan, 1.0, np.nan]), [1, -1, 0, -1], [1.0, 2.5]),
        (["en", NAN, None, "", "fr"], [0, -1, -1, -1, 1], ["en", "fr"]),
        ([("a", 1), ("b", 2), ("a", 1)], [0, 1, 0], [("a", 1), ("b", 2)]),
        (["x", 7, None, frozenset("q"), 7], [0, 1, -1, 2, 1], ["x", 7, frozenset("q")]),
        (pd.Series(["u", None, "v"]), [0, -1, 1], ["u", "v"]),
        (pd.Series([1, None, 2], dtype="Int64"), [0, -1, 1], [1, 2]),
        (pd.Series(["u", pd.NA, "v"], dtype="string"), [0, -1, 1], ["u", "v"]),
        (pd.Series(["v", "u", None], dtype="category"), [1, 0, -1], ["u", "v"]),
        (np.array([True, False, True]), [1, 0, 1], [False, True]),
        ([b"x", b"", b"y"], [0, -1, 1], [b"x", b"y"]),
        (np.array([["b"], ["a"]]), [1, 0], ["a", "b"]),
        ([], [], []),
        (np.ma.array(["a", "b", "c"], mask=[0, 1, 0]), [0, -1, 1], ["a", "c"]),
        (np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"), [0, -1], [np.datetime64("2020-01-01")]),
    ],
)
def test_encode(labels, codes, levels):
    found, found_levels = encode(labels, what="labels")
    assert found.tolist() == codes
    assert found_levels == levels


def test_a_list_and_an_array_give_the_same_levels():
    labels = ["c", "a", "b", "a"]
    assert encode(labels, what="y")[0].tolist() == encode(np.array(labels), what="y")[0].tolist()


@pytest.mark.parametrize(
    "value", [None, NAN, np.float32("nan"), "", b"", pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("nan"), np.ma.masked]
)
def test_missing(value):
    assert is_missing(value)


@pytest.mark.parametrize("value", [0, 0.0, False, "nan", " ", (), "None"])
def test_not_missing(value):
    assert not is_missing(value)


@pytest.mark.parametrize(
    "labels, message",
    [
        ("abc", "got str 'abc'"),
        (7, "got int 7"),
        ({"a": 1}, "got dict"),
        ({1, 2}, "got set"),
        ((x for x in "ab"), "got generator"),
        ([["a"], ["b"]], "hashable"),
        (np.zeros((2, 2)), r"shape \(2, 2\)"),
    ],
)
def test_bad_labels(labels, message):
    with pytest.raises(InputError, match=message):
        encode(labels, what="y")


def test_conditions():
    assert conditions(["a", "b"]).names == ("channel",)
    assert conditions(np.array([["a", "x"], ["b", "y"]])).names == ("channel0", "channel1")
    columns = conditions([["a", None], ["b", NAN]]).values
    assert [encode(c, what="c")[0].tolist() for c in columns] == [[0, 1], [-1, -1]]
    assert len(conditions([("a", 1), ("b", 2)]).values) == 1
    for ragged in ([["a"], ["a", "b"]], [["a", "b"], None], [["a", "b"], "ab"]):
        with pytest.raises(InputError, match="ragged"):
            conditions(ragged)


def test_conditions_with_names_have_different_ones():
    frame = pd.DataFrame([["a", "x"], ["b", "y"]], columns=["mic", "mic"])
    with pytest.raises(InputError, match="channels: expected a name of its own for every condition, got 'mic' twice"):
        conditions(frame)
    with pytest.raises(InputError, match="'mic' twice"):
        ConditionColumns(("room", "mic", "mic"), (["a"], ["b"], ["c"]))


def test_other_frames():
    class Frame:
        """Columns by name, as polars has them."""

        columns = ("u", "v")

        def __getitem__(self, name):
            return ["a", "b"] if name == "u" else ["x", None]

    given = conditions(Frame())
    assert given.names == ("u", "v")
    assert given.values[1] == ["x", None]


def test_conditions_are_matched_by_name():
    given = conditions(pd.DataFrame({"room": [1, 2], "language": [3, 4]}))
    assert given.ordered(("language", "room")).values[0].tolist() == [3, 4]
    assert given.ordered(("channel0", "channel1")).values[0].tolist() == [1, 2]
    assert conditions(np.array([[1, 2]])).ordered(("language", "room")).values[0].tolist() == [1]
    with pytest.raises(InputError, match=r"expected the condition\(s\) \(language, mic\), got \(room, language\)"):
        given.ordered(("language", "mic"))
