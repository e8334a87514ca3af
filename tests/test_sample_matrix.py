"""Matrices of embeddings are read in chunks, and errors name the rows of the whole matrix."""

import numpy as np
import pytest

from jointplda import InputError, sample_matrix


@pytest.fixture(autouse=True)
def chunks_of_three(monkeypatch):
    monkeypatch.setattr(sample_matrix, "CHUNK_ROWS", 3)


def test_chunks_make_up_the_matrix():
    X = np.arange(16.0, dtype=np.float32).reshape(8, 2)
    pieces = list(sample_matrix.chunks(X))
    assert [piece.start for piece, _ in pieces] == [0, 3, 6]
    np.testing.assert_array_equal(np.concatenate([values for _, values in pieces]), X)
    rows = np.array([7, 0, 5, 2])
    np.testing.assert_array_equal(np.concatenate([values for _, values in sample_matrix.chunks(X, rows)]), X[rows])


@pytest.mark.parametrize("rows, named", [(None, "[4]"), (np.array([0, 1, 2, 4]), "[4]"), (np.array([4, 0]), "[4]")])
def test_rows_that_are_not_finite_are_named(rows, named):
    X = np.ones((8, 2))
    X[4, 1] = np.nan
    with pytest.raises(InputError) as caught:
        list(sample_matrix.chunks(X, rows))
    assert f"X: expected finite numbers, got NaN or infinity in row(s) {named};" in str(caught.value)
    assert caught.value.parameter == "X"


def test_many_such_rows_are_cut_short():
    with pytest.raises(InputError, match=r"row\(s\) \[0, 1, 2\];"):
        sample_matrix.check_numbers(np.full((8, 2), np.inf))
    with pytest.raises(InputError, match="too large to square"):
        sample_matrix.check_numbers(np.full((8, 2), -1e200))
