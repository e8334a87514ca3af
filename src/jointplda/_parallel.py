"""Work in pieces on several threads, and matrices that are filled piece by piece."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from jointplda._typing import AnyArray
from jointplda._validation import check_number
from jointplda.progress import Progress, ProgressCallback

ROWS, COLUMNS = 256, 2048

Fill = Callable[[Any, Any, AnyArray], None]  # of rows and columns, each a slice or an array of indexes


@cache
def _libraries() -> ThreadpoolController:
    """The BLAS libraries of this process, which are searched for once."""
    return ThreadpoolController()


def one_thread() -> Any:
    """A context in which BLAS runs on one thread, since many small products are faster so."""
    return _libraries().limit(limits=1, user_api="blas")


def fill_matrix(
    fill: Fill,
    matrix: AnyArray,
    start: tuple[int, int] = (0, 0),
    threads: int | None = None,
    callback: ProgressCallback | None = None,
) -> AnyArray:
    """Fill a matrix piece by piece, and return it.

    Parameters
    ----------
    fill : callable
        (rows, columns, piece) writes one piece.
    matrix : (n, m)
        What is filled.
    start : (int, int)
        Row and column of a larger matrix at which this one begins.
    threads : int, optional
        Number of threads; default: one per core.
    callback : callable, optional
        Called after every piece with a ``Progress`` of the stage "scores", counted in rows.
    """
    (n, m), done, lock = matrix.shape, [0], threading.Lock()
    across = max(1, -(-m // COLUMNS))

    def work(numbers: slice) -> None:
        for number in range(numbers.start, numbers.stop):
            top, left = number // across * ROWS, number % across * COLUMNS
            rows, columns = slice(top, min(top + ROWS, n)), slice(left, min(left + COLUMNS, m))
            piece = matrix[rows, columns]
            fill(_moved(rows, start[0]), _moved(columns, start[1]), piece)
            if callback is not None:
                with lock:
                    done[0] += piece.size
                    callback(Progress("scores", done[0] // m, n))

    in_pieces(work, -(-n // ROWS) * across, 1, threads)
    return matrix


def _moved(piece: slice, by: int) -> slice:
    return slice(piece.start + by, piece.stop + by)


def _number(threads: int | None) -> int:
    """The number of threads asked for, or one per core."""
    return os.cpu_count() or 1 if threads is None else int(check_number("threads", threads, 1, whole=True))


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
