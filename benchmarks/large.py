"""Automatic training on a file that is larger than its memory: time, and the peak of memory above the interpreter.

python -m benchmarks.large               2,000,000 samples x 256, 200,000 speakers, 40 channels, within 2 GB
python -m benchmarks.large --samples N   fewer or more
python -m benchmarks.large --keep FILE   draw into FILE (.npz), or use it if it is there, and keep it

The file is drawn a chunk at a time: speakers in random order, each heard in 4 of the channels, with an interaction.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
from benchmarks.timing import report, summary

CHUNK = 20_000
RANKS, CHANNELS, EACH, SCALE = (80, 20), 40, 4, 2.0
PEAK = """
import json, sys, time
import jointplda.commands.train_run  # all that the interpreter loads
from jointplda.commands.app import app

def peak():
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

before = peak()
began = time.perf_counter()
try:
    app.main(sys.argv[1:], prog_name="jointplda", standalone_mode=False)
finally:
    result = {"before": before, "peak": peak(), "seconds": time.perf_counter() - began}
    print(json.dumps(result), file=sys.stderr)
"""


def draw(path, samples, d, speakers, seed=0):
    """Write labelled samples in random order to an .npz file, with at most a chunk of them in memory."""
    rng = np.random.default_rng(seed)
    V, U = (rng.normal(size=(rank, d)).astype(np.float32) / np.float32(np.sqrt(rank)) for rank in RANKS)
    G = 0.3 * rng.normal(size=(40, d)).astype(np.float32) / np.float32(np.sqrt(40))
    x = rng.normal(size=(CHANNELS, RANKS[1])).astype(np.float32) @ U
    who = rng.integers(0, speakers, samples)
    heard = (who * 7 + rng.integers(0, EACH, samples) * 11) % CHANNELS
    with zipfile.ZipFile(path, "w") as archive:
        for name, values in (("ids", np.arange(samples)), ("speaker", who), ("channel", heard)):
            texts = np.char.add(name[0], values.astype(np.str_))
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, texts)
        with archive.open("embeddings.npy", "w", force_zip64=True) as stream:
            header = {"descr": "<f4", "fortran_order": False, "shape": (samples, d)}
            np.lib.format.write_array_header_1_0(stream, header)
            for start in range(0, samples, CHUNK):
                own, at = who[start : start + CHUNK], heard[start : start + CHUNK]
                X = latents(own, RANKS[0], seed + 1) @ V + x[at] + latents(own * CHANNELS + at, 40, seed + 2) @ G
                X += np.float32(SCALE) * rng.standard_normal(X.shape, dtype=np.float32) + np.float32(1.0)
                stream.write(X.tobytes())


def latents(keys, rank, seed):
    """Standard normal latents (n, rank) that only the key decides: hashes of key and column, as normal quantiles."""
    words = (keys[:, None].astype(np.uint64) * np.uint64(1_000_003) + np.arange(rank, dtype=np.uint64)) ^ np.uint64(
        seed * 0x9E3779B97F4A7C15 % 2**64
    )
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    # The sum of four uniform numbers is near enough to normal, and quick.
    quarters = sum(((words >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.float32) for shift in (0, 16, 32, 48))
    return (quarters / np.float32(65536.0) - np.float32(2.0)) * np.float32(np.sqrt(3.0))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2_000_000)
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--speakers", type=int, help="default: a tenth of the samples")
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = given.keep or Path(folder) / "large.npz"
        if not data.exists():
            began = time.perf_counter()
            draw(data, given.samples, given.dimension, given.speakers or given.samples // 10)
            print(f"drawn: {data.stat().st_size / 1e9:.2f} GB in {time.perf_counter() - began:.0f} s", flush=True)
        arguments = ["train", str(data), "--speaker", "speaker", "--channel", "channel", "--memory", given.memory]
        command = [*arguments, "--out", str(Path(folder) / "model.safetensors")]
        done = subprocess.run([sys.executable, "-c", PEAK, *command], stderr=subprocess.PIPE, text=True, check=False)
    print(done.stderr)
    if done.returncode:
        return 1
    result = json.loads(done.stderr.strip().splitlines()[-1])
    above, limit = result["peak"] - result["before"], float(given.memory.removesuffix("GB"))
    print(f"{result['seconds']:.0f} s, peak {result['peak'] / 1e9:.2f} GB, {above / 1e9:.2f} GB above the interpreter")
    report("peak above the interpreter, GB", above / 1e9, limit)
    return summary()


if __name__ == "__main__":
    sys.exit(main())
