"""Lists of ids: what messages say of them."""

import numpy as np
import pytest

from jointplda import InputError
from jointplda._identifiers import listed, no_duplicates, positions


def test_messages_list_the_first_few_names_and_state_the_number_of_all():
    assert listed(["a", "b"]) == "'a', 'b' (2 in all)"
    assert listed(np.array(list("abcde"))) == "'a', 'b', 'c', 'd', 'e' (5 in all)"
    assert listed(list("abcdef")) == "'a', 'b', 'c', 'd', 'e', ... (6 in all)"
    assert listed((f"s{i}" for i in range(1720)), show=2) == "'s0', 's1', ... (1,720 in all)"


def test_names_of_a_known_number_are_made_only_if_they_are_shown():
    made = []

    def names():
        for i in range(720):
            made.append(i)
            yield f"s{i}"

    assert listed(names(), 720, show=3) == "'s0', 's1', 's2', ... (720 in all)"
    assert made == [0, 1, 2]


def test_repeated_names_are_listed_once_each():
    no_duplicates(["a", "b"], "ids", "file")
    with pytest.raises(InputError, match=r"file: ids should be unique; more than once occur 'a', 'c' \(2 in all\)"):
        no_duplicates(["a", "b", "a", "a", "c", "c"], "ids", "file")


def test_positions():
    assert positions(["c", "x", "a"], ["a", "b", "c"]).tolist() == [2, -1, 0]
