"""Records as files: every record that can be written reads back equal."""

import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from scipy.sparse import csr_array

from jointplda import FileError
from jointplda._typing import Array
from jointplda.storage.records import read_record, write_record


@dataclass(frozen=True)
class Leaf:
    """A record within a record."""

    number: float
    name: str


@dataclass(frozen=True, eq=False)
class Example:
    """One field of every kind."""

    array: Array
    sparse: csr_array
    labels: tuple[Hashable, ...]
    many: tuple[tuple[Hashable, ...], ...]
    leaves: tuple[Leaf, ...]
    leaf: Leaf | None
    by_name: Mapping[str, float]
    by_pair: Mapping[tuple[int, int], Leaf]
    anything: Mapping[str, Any]
    flag: bool = False
    cached: int | None = field(default=None, metadata={"stored": False})


labels = st.recursive(
    st.text(st.characters(), max_size=5) | st.integers() | st.booleans() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)
numbers = st.floats()
leaves = st.builds(Leaf, numbers, st.text(st.characters(codec="utf-8"), max_size=5))


def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


@given(
    st.lists(numbers, max_size=5),
    st.lists(labels, max_size=4).map(tuple),
    st.lists(leaves, max_size=3).map(tuple),
    st.none() | leaves,
    st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), st.floats(allow_nan=False), max_size=3),
    st.dictionaries(st.tuples(st.integers(0, 9), st.integers(0, 9)), leaves, max_size=3),
    st.booleans(),
)
def test_what_is_written_is_read(tmp_path_factory, values, names, several, leaf, by_name, by_pair, flag):
    path = tmp_path_factory.mktemp("record") / "file"
    sparse = csr_array(np.array([[0.0, 1.5, 0.0], [0.0, 0.0, -2.0]]))
    anything = {"a": [1, "x", None, [2.5]], "b": np.arange(3), "c": {"d": True}}
    record = Example(np.array(values), sparse, names, (names, ()), several, leaf, by_name, by_pair, anything, flag, 7)
    write_record(path, "statistics", record)
    found = read_record(path, "statistics", Example)
    np.testing.assert_array_equal(found.array, record.array)
    assert (found.sparse != sparse).nnz == 0
    assert repr(found.labels) == repr(names)
    assert repr(found.many) == repr((names, ()))
    assert repr((found.leaves, found.leaf)) == repr((several, leaf))
    assert found.by_name == by_name
    assert repr(found.by_pair) == repr(by_pair)
    assert found.anything["a"] == anything["a"]
    np.testing.assert_array_equal(found.anything["b"], anything["b"])
    assert found.anything["c"] == {"d": True}
    assert found.flag is flag
    assert found.cached is None


def test_the_header_is_strict_json(tmp_path):
    write_record(tmp_path / "file", "statistics", Leaf(float("nan"), "x"))
    with safe_open(tmp_path / "file", framework="numpy") as stored:
        text = stored.metadata()["jointplda"]
    assert json.loads(text, parse_constant=pytest.fail)["record"]["number"] == "nan"
    assert math.isnan(read_record(tmp_path / "file", "statistics", Leaf).number)


def test_what_cannot_be_stored_is_refused(tmp_path):
    for record, message in (
        (Leaf(1.0, object()), r"statistics.name: a value of type object cannot be stored"),
        (
            Example(np.zeros(1), csr_array((1, 1)), (b"x",), (), (), None, {}, {}, {}),
            "Labels of type bytes cannot be stored",
        ),
    ):
        with pytest.raises(FileError, match=message):
            write_record(tmp_path / "file", "statistics", record)
    assert list(tmp_path.iterdir()) == []
