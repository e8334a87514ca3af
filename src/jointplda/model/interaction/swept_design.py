"""Least-squares means of channels beside those of speakers: the design with the speakers swept out."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, diags_array, hstack

from jointplda._typing import Array
from jointplda.linalg import symmetric
from jointplda.model.sums import PatternSums


@dataclass(frozen=True)
class SweptDesign:
    """Indicators of the channels of all conditions after least-squares means of speakers are swept out.

    Attributes
    ----------
    counts : (speakers,)
        n_s.
    table : sparse (speakers, levels)
        Number of samples of each speaker in each channel; the conditions side by side.
    inverse : (levels, levels)
        Generalised inverse of A = N' N - table' diag(1 / n_s) table, with N the indicators of channels.
    rank : int
        Of A: the independent channel means beside those of speakers.
    """

    counts: Array
    table: csr_array
    inverse: Array
    rank: int


def swept_design(part: PatternSums) -> SweptDesign:
    """Sweep the speakers out of the design of samples that have all labels."""
    factors = sorted(part.levels)
    sizes = [len(part.levels[k].index) for k in factors]
    tables = part.link_tables()
    table = hstack([tables[factors[0], k] for k in factors[1:]], format="csr")
    counts = part.levels[factors[0]].counts
    gram = -np.asarray((table.T @ (diags_array(1.0 / counts) @ table)).todense(), dtype=np.float64)
    starts = np.concatenate([[0], np.cumsum(sizes[1:])])
    for i, k in enumerate(factors[1:]):
        own = slice(starts[i], starts[i + 1])
        gram[own, own] += np.diag(part.levels[k].counts)
        for j, other in enumerate(factors[1:]):
            if k < other:
                linked = np.asarray(tables[k, other].todense())
                gram[own, starts[j] : starts[j + 1]] += linked
                gram[starts[j] : starts[j + 1], own] += linked.T
    values, vectors = np.linalg.eigh(symmetric(gram))
    kept = values > 1e-9 * max(float(np.max(np.diagonal(gram), initial=0.0)), 1e-300)
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    return SweptDesign(counts, table, inverse, int(kept.sum()))
