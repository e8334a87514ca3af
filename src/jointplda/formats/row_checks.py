"""What embeddings and their ids should be: ids that are there and unique, numbers that are finite."""

import numpy as np

from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import JointPLDAError
from jointplda.formats.text import PathLikeStr


def check_rows(table: EmbeddingTable, path: PathLikeStr, error: type[JointPLDAError], first: int = 0) -> None:
    """Refuse empty ids, and numbers that are not finite, in rows of which the first is row ``first`` of the file."""
    if np.any(table.ids == ""):
        raise error(f"{path}: the id of row {first + int(np.argmax(table.ids == ''))} is empty.")
    # A row with a finite sum holds finite numbers only; sums may also overflow, so the other rows are looked through.
    with np.errstate(over="ignore", invalid="ignore"):
        doubtful = np.flatnonzero(~np.isfinite(table.X.sum(axis=1, dtype=np.float64)))
    bad = doubtful[~np.isfinite(table.X[doubtful]).all(axis=1)]
    if len(bad):
        raise error(
            f"{path}: embeddings should be finite; that of {str(table.ids[bad[0]])!r} in row {first + bad[0]} holds "
            f"NaN or infinity ({len(bad)} such embeddings in rows {first} to {first + len(table.X) - 1})."
        )
