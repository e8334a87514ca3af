"""Statistics in which the cell is one more condition, to hold the sums of cells against."""

from collections.abc import Hashable

import numpy as np

from jointplda.model.statistics import Statistics
from jointplda.model.sums import Levels, PatternSums, summed_links


def with_cell_condition(statistics: Statistics) -> Statistics:
    """The same statistics with the cell as one more condition; samples that lack a label lack this one too."""
    parts: dict[tuple[bool, ...], PatternSums] = {}
    labels: tuple[Hashable, ...] = ()
    for pattern, part in statistics.parts.items():
        if not all(pattern) or part.cells is None:
            parts[*pattern, False] = part
            continue
        cells, at = part.cells, len(pattern) + 1
        index = np.arange(len(cells.counts))
        labels = tuple(map(tuple, cells.codes.tolist()))
        links = {(k, at): summed_links(cells.codes[:, k], index, cells.counts) for k in range(at)}
        levels = {**part.levels, at: Levels(index, cells.counts, cells.sums)}
        parts[*pattern, True] = PatternSums(part.count, part.total, part.scatter, levels, {**part.links, **links})
    return Statistics((*statistics.labels, labels), (*statistics.conditions, "cell"), statistics.shift, parts)
