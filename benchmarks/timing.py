"""Ratios of times within one run, with the limits they are held to."""

import time

import numpy as np

RESULTS = []


def report(text, value, limit, least=False):
    """Print a ratio and its limit."""
    good = value >= limit if least else value <= limit
    RESULTS.append(good)
    print(f"{'ok  ' if good else 'MISS'} {text:<78} {value:9.2f}  ({'>=' if least else '<='} {limit:g})", flush=True)


def seconds(*calls, rounds=15):
    """Median times of several calls, taken in turn so that a busy machine slows all of them alike."""
    times = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(rounds):
        for call, mine in zip(calls, times):
            began = time.perf_counter()
            call()
            mine.append(time.perf_counter() - began)
    return [float(np.median(mine)) for mine in times]


def summary():
    """Print how many were within their limits; 0 if all were."""
    print(f"\n{sum(RESULTS)} of {len(RESULTS)} within their limits")
    return 0 if all(RESULTS) else 1
