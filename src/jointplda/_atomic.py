"""Files that are written completely or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from jointplda.errors import FileError


def checked_target(path: str | PathLike[str], *, folder: bool = False) -> Path:
    """Where ``path``, or what it points to if it is a link, is written; raise if no file (or ``folder``) can be."""
    target = Path(os.path.realpath(path))
    if not folder and (not str(path) or target.is_dir()):
        raise FileError(f"{str(path)!r}: expected the name of a file to write, got a folder.")
    if folder and (not str(path) or (target.exists() and not target.is_dir())):
        raise FileError(f"{str(path)!r}: expected the name of a folder to write, got a file.")
    if not target.parent.is_dir():
        raise FileError(f"{target}: the folder {target.parent} does not exist; create it first.")
    if target.exists() and not os.access(target, os.W_OK):
        raise FileError(f"{target}: no permission to write this {'folder' if folder else 'file'}.")
    return target


def sync_folder(folder: Path) -> None:
    """Wait until the entries of a folder are on disk."""
    if os.name == "nt":
        return  # which has no way to ask for it
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def replacing(path: str | PathLike[str]) -> Iterator[Path]:
    """A temporary file beside ``path``, or beside what it points to if it is a link.

    It takes that place when the block ends, and is removed if an error occurs.
    """
    target = checked_target(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    try:
        yield Path(name)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)  # the permissions of a new file
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
