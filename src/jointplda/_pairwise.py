"""Sums as pairwise trees: neighbours first, then neighbours of these, so that the result depends on the order alone."""

from collections.abc import Callable, Iterable
from typing import TypeVar

Part = TypeVar("Part")


def merged_pairwise(parts: Iterable[Part], merge: Callable[[Part, Part], Part]) -> Part | None:
    """Merge parts as they come, of which only one for each depth of the tree is kept; None if there are none."""
    tree: list[tuple[int, Part]] = []
    for part in parts:
        depth = 0
        while tree and tree[-1][0] == depth:
            part, depth = merge(tree.pop()[1], part), depth + 1
        tree.append((depth, part))
    if not tree:
        return None
    whole = tree.pop()[1]
    while tree:
        whole = merge(tree.pop()[1], whole)
    return whole
