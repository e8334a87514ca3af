"""Work in pieces on several threads, and matrices that are filled block by block, in memory or on disk."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from os import PathLike
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from jointplda._atomic import replacing
from jointplda._typing import AnyArray
from jointplda._validation import check_number
from jointplda.progress import Progress, ProgressCallback

ROWS, COLUMNS = 256, 2048

Fill = Callable[[slice, slice, AnyArray], None]


@cache
def _libraries() -> ThreadpoolController:
    """The BLAS libraries of this process, which are searched for once."""
    return ThreadpoolController()


def one_thread() -> Any:
    """A context in which BLAS runs on one thread, since many small products are faster so."""
    return _libraries().limit(limits=1, user_api="blas")


def fill_matrix(
    fill: Fill,
    shape: tuple[int, int],
    dtype: Any,
    out: str | PathLike[str] | None = None,
    threads: int | None = None,
    callback: ProgressCallback | None = None,
) -> AnyArray:
    """Fill a matrix of a ``shape`` and ``dtype`` block by block; ``fill`` (rows, columns, block) writes one block.

    Parameters
    ----------
    out : path, optional
        A .npy file to write instead, a few rows at a time; it is returned as a read-only memmap.
    threads : int, optional
        Number of threads; default: one per core.
    callback : callable, optional
        Called after every block of rows with a ``Progress`` of the stage "scores", counted in rows.
    """
    if out is None:
        matrix = np.empty(shape, dtype=dtype)
        _fill_rows(fill, matrix, 0, shape[0], threads, callback)
        return matrix
    threads = _number(threads)
    with replacing(out) as name, open(name, "wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, shape[0], ROWS * threads):
            piece = np.empty((min(ROWS * threads, shape[0] - start), shape[1]), dtype=dtype)
            _fill_rows(fill, piece, start, shape[0], threads, callback)
            piece.tofile(file)
    result: AnyArray = np.load(out, mmap_mode="r")
    return result


def _number(threads: int | None) -> int:
    """The number of threads asked for, or one per core."""
    return os.cpu_count() or 1 if threads is None else int(check_number("threads", threads, 1, whole=True))


def _fill_rows(
    fill: Fill, matrix: AnyArray, offset: int, total: int, threads: int | None, callback: ProgressCallback | None
) -> None:
    """Fill ``matrix`` with the rows of the whole matrix that begin at ``offset``."""
    done, lock = [offset], threading.Lock()

    def work(rows: slice) -> None:
        for start in range(0, matrix.shape[1], COLUMNS):
            columns = slice(start, min(start + COLUMNS, matrix.shape[1]))
            fill(slice(rows.start + offset, rows.stop + offset), columns, matrix[rows, columns])
        if callback is not None:
            with lock:
                done[0] += rows.stop - rows.start
                callback(Progress("scores", done[0], total))

    in_pieces(work, len(matrix), ROWS, threads)


def in_pieces(work: Callable[[slice], None], n: int, size: int, threads: int | None = None) -> None:
    """Call ``work`` on consecutive slices of range(n), on several threads.

    An interrupt drops the pieces that have not begun. BLAS runs on one thread meanwhile, unless there is only one
    piece, for which limiting it would take longer than it saves.
    """
    if n <= size:
        if threads is not None:
            _number(threads)  # refuses what is not one
        if n:
            work(slice(0, n))
        return
    threads = _number(threads)
    pieces = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    with one_thread():
        if threads == 1:
            for piece in pieces:
                work(piece)
            return
        pool = ThreadPoolExecutor(threads)
        try:
            for _ in pool.map(work, pieces):
                pass
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
