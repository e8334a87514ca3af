"""A matrix of scores larger than the memory it may take: its speed, its memory, and what an interrupted run costs.

python -m benchmarks.score --store
"""

import hashlib
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from benchmarks.timing import report
from threadpoolctl import threadpool_limits

from jointplda import JointPLDA
from jointplda.score_stores.block_writing import finished_blocks, write_blocks

N, THREADS = 30_000, 2


def child(folder, out):
    """Score all pairs, into memory or to a file, and print what that took."""
    model, X = JointPLDA.load(folder / "model"), np.load(folder / "X.npy")
    computed, began = [], time.perf_counter()
    with threadpool_limits(THREADS):
        if out == "nothing":
            model.score_matrix(X[:2], X[:2], threads=THREADS)
        elif out == "memory":
            model.score_matrix(X, X, threads=THREADS)
        else:
            blocks = model.score_blocks(X, X, threads=THREADS)
            write_blocks(folder / out, blocks, resume=True, callback=computed.append)
    print(json.dumps({"seconds": time.perf_counter() - began, "peak": peak(), "blocks": len(computed)}))


def peak():
    """The most memory that this process has held, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def command(folder, out):
    return [sys.executable, "-m", "benchmarks.score_store", str(folder), out]


def measured(folder, out):
    """What a child prints that runs to its end."""
    return json.loads(subprocess.run(command(folder, out), stdout=subprocess.PIPE, check=True).stdout)


def large_matrices(model, dimension, folder):
    """A matrix of 30,000 x 30,000 in memory, and to files of two kinds, whole and interrupted."""
    folder = Path(folder)
    model.save(folder / "model")
    np.save(folder / "X.npy", np.random.default_rng(1).normal(size=(N, dimension)).astype(np.float32))
    interpreter, memory = measured(folder, "nothing"), measured(folder, "memory")
    print(f"\n{N:,} x {N:,} in float32 (3,600 MB): in memory {memory['seconds']:.1f} s", flush=True)
    for kind in ("npy", "zarr"):
        whole = measured(folder, f"whole.{kind}")
        print(f"to a {kind} file: {whole['seconds']:.1f} s in {whole['blocks']} blocks")
        report(f"{kind}: throughput over that of the matrix in memory", memory["seconds"] / whole["seconds"], 0.6, True)
        report(f"{kind}: peak memory above the interpreter, MB", (whole["peak"] - interpreter["peak"]) / 1e6, 2000)
        interrupted(folder, kind, whole["blocks"])
        same = bytes_of(folder / f"whole.{kind}") == bytes_of(folder / f"parts.{kind}")
        report(f"{kind}: the same bytes after a killed run (1 if so)", float(same), 1, True)


def interrupted(folder, kind, total):
    """Kill a run in the middle, go on with it, and report how many finished blocks were computed again."""
    out = folder / f"parts.{kind}"
    running = subprocess.Popen(command(folder, out.name), stdout=subprocess.DEVNULL)
    while finished_blocks(out) < total // 2 and running.poll() is None:
        time.sleep(0.01)
    running.kill()
    running.wait()
    finished = finished_blocks(out)
    again = measured(folder, out.name)
    print(f"killed after {finished} of {total} blocks; then {again['blocks']} blocks in {again['seconds']:.1f} s")
    report(f"{kind}: finished blocks that were computed again", again["blocks"] - (total - finished), 0)


def bytes_of(path):
    """Hashes of a file, or of all files below a folder."""
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return [digest_of(each) for each in files]


def digest_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    child(Path(sys.argv[1]), sys.argv[2])
