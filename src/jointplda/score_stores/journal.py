"""The folder of a file that is being written: what it was begun with, and which of its blocks are on disk."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from jointplda._atomic import replacing, sync_folder
from jointplda.errors import FileError, Remedy


@dataclass(frozen=True)
class Journal:
    """Which blocks of a file are on disk: an empty file for each, named by its number.

    A process marks a block after its bytes are on disk. Several processes may mark blocks at the same time.
    """

    folder: Path

    @classmethod
    def beside(cls, path: str | os.PathLike[str]) -> Self:
        """That of the file at ``path``, or of what it points to if it is a link: ``path`` + ".unfinished"."""
        target = Path(os.path.realpath(path))
        return cls(target.with_name(f"{target.name}.unfinished"))

    @property
    def _marks(self) -> Path:
        return self.folder / "finished"

    @property
    def _begun(self) -> Path:
        return self.folder / "begun.json"

    def begin(self, begun: Mapping[str, Any]) -> None:
        """Write what the file is begun with; from then on, blocks may be marked."""
        self._marks.mkdir()
        with replacing(self._begun) as name, open(name, "w", encoding="utf-8") as stream:
            json.dump(begun, stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        sync_folder(self.folder)

    def begun(self) -> dict[str, Any] | None:
        """What the file was begun with; None if no block can have been written."""
        try:
            found: dict[str, Any] = json.loads(self._begun.read_text(encoding="utf-8"))
            return dict(found)
        except FileNotFoundError:
            return None
        except (OSError, TypeError, ValueError) as error:
            raise FileError(f"{self._begun}: cannot be read ({error}); remove {self.folder} to begin anew.") from None

    def mark(self, number: int) -> None:
        """Say that a block is on disk."""
        (self._marks / str(number)).touch()
        sync_folder(self._marks)

    def finished(self) -> frozenset[int]:
        """Numbers of the blocks that are on disk."""
        marks = self._marks.iterdir() if self._marks.is_dir() else ()
        return frozenset(int(mark.name) for mark in marks if mark.name.isdecimal())

    def discard(self) -> None:
        """Remove the folder with all that is in it."""
        if self.folder.is_dir():
            shutil.rmtree(self.folder)

    def check(self, wanted: Mapping[str, Any]) -> None:
        """Raise unless the file was begun with what is ``wanted``; the hashes of its origin are compared one by one."""
        begun = self.begun() or {}
        (old, old_origin), (new, new_origin) = ((each, each.get("origin", {})) for each in (begun, wanted))
        names = [f"the {name}" for name in new if name != "origin" and old.get(name) != new[name]]
        names += [name for name in {**old_origin, **new_origin} if old_origin.get(name) != new_origin.get(name)]
        if names:
            raise FileError(
                f"{self.folder}: was begun with something else: {', '.join(names)} differ{'s' * (len(names) == 1)}. "
                "Give what it was begun with, or remove this folder to begin anew."
            )

    def refuse(self, total: int) -> None:
        """Raise because a file would be begun anew of which some of all ``total`` blocks are finished."""
        raise FileError(
            f"{self.folder}: holds {len(self.finished()):,} of the {total:,} blocks of an unfinished matrix; remove "
            "this folder to begin anew.",
            remedy=Remedy("resume", True, "goes on with it"),
        )
