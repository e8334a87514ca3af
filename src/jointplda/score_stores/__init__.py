"""Matrices of scores that are written block by block, larger than memory, and gone on with after an interruption."""

from jointplda.score_stores.block_writing import write_blocks
from jointplda.score_stores.score_blocks import ScoreBlocks
from jointplda.score_stores.stores import MatrixNames

__all__ = ["MatrixNames", "ScoreBlocks", "write_blocks"]
