"""How much memory there is."""

import ctypes
import os
from contextlib import suppress
from pathlib import Path

_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_UNKNOWN = 16e9


def physical_memory() -> float:
    """Bytes of memory of this machine, or of the container that the program runs in."""
    try:
        whole = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        whole = _UNKNOWN
    return min([whole, *(limit for path in _LIMITS if (limit := _number(path)) is not None)])


def free_memory() -> float:
    """Bytes that can be taken without pushing anything else out of memory."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(1024.0 * float(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return 0.5 * physical_memory()
    return min(free, physical_memory())


def _number(path: Path) -> float | None:
    try:
        return float(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def give_back() -> None:
    """Hand memory that is free inside this process back to the system, where its C library keeps it (glibc)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
