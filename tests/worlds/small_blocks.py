"""Matrices of scores in blocks of a few rows and columns."""

from jointplda.score_stores import score_blocks


def blocks_of(monkeypatch, size):
    """Make blocks of this many rows and columns, or one less where that makes them equal."""
    for name, value in (("BLOCK", size), ("ROWS", 1), ("COLUMNS", 1)):
        monkeypatch.setattr(score_blocks, name, value)
