"""Statistics as safetensors files."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from os import PathLike

import numpy as np

from jointplda._typing import AnyArray, Array
from jointplda.errors import FileError
from jointplda.model.sums import Levels, Links, PatternSums
from jointplda.storage.tensors import pack_labels, read_tensors, unpack_labels, write_tensors

KIND, VERSION = "statistics", 1


@dataclass(frozen=True)
class Content:
    """The fields of ``Statistics``."""

    labels: tuple[tuple[Hashable, ...], ...]
    conditions: tuple[str, ...]
    shift: Array
    parts: Mapping[tuple[bool, ...], PatternSums]


def write(path: str | PathLike[str], content: Content) -> None:
    """Write statistics; the file is whole or not there."""
    tensors: dict[str, AnyArray] = {"shift": content.shift, "labels": pack_labels(content.labels)}
    for p, part in enumerate(content.parts.values()):
        tensors |= {f"part.{p}.total": part.total, f"part.{p}.scatter": part.scatter}
        tensors[f"part.{p}.count"] = np.array([part.count])
        for k, level in part.levels.items():
            tensors |= {f"part.{p}.levels.{k}.{name}": array for name, array in vars(level).items()}
        for (k, j), links in part.links.items():
            tensors |= {f"part.{p}.links.{k}.{j}.{name}": array for name, array in vars(links).items()}
    metadata = {
        "conditions": list(content.conditions),
        "patterns": [list(pattern) for pattern in content.parts],
    }
    write_tensors(path, KIND, VERSION, tensors, metadata)


def read(path: str | PathLike[str]) -> Content:
    """Read what ``write`` wrote."""
    tensors, metadata = read_tensors(path, KIND, VERSION)
    try:
        patterns = [tuple(pattern) for pattern in metadata["patterns"]]
        parts = {pattern: _part(tensors, f"part.{p}", pattern) for p, pattern in enumerate(patterns)}
        return Content(unpack_labels(tensors["labels"]), tuple(metadata["conditions"]), tensors["shift"], parts)
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path}: a jointplda statistics file that lacks some of its content ({error}).") from None


def _part(tensors: dict[str, AnyArray], name: str, pattern: tuple[bool, ...]) -> PatternSums:
    factors = [0, *(k + 1 for k, seen in enumerate(pattern) if seen)]
    return PatternSums(
        count=float(tensors[f"{name}.count"][0]),
        total=tensors[f"{name}.total"],
        scatter=tensors[f"{name}.scatter"],
        levels={
            k: Levels(*(tensors[f"{name}.levels.{k}.{field}"] for field in ("index", "counts", "sums")))
            for k in factors
        },
        links={
            (k, j): Links(*(tensors[f"{name}.links.{k}.{j}.{field}"] for field in ("rows", "columns", "counts")))
            for k in factors
            for j in factors
            if k < j
        },
    )
