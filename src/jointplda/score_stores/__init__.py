"""Matrices of scores that are written block by block, larger than memory, and gone on with after an interruption."""
