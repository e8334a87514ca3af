"""What training would do, from the labels and the dimension alone: nothing is fitted."""

import time

import numpy as np

from jointplda.commands.console import bytes_text, print_facts, print_json, seconds_text
from jointplda.commands.settings_search import channel_arguments
from jointplda.estimators.pipeline import Pipeline
from jointplda.evaluation.protocol import LabelledSamples
from jointplda.preprocessing.front_ends import front_ends_of


def planned_dimension(pipe: Pipeline, samples: LabelledSamples) -> int:
    """Dimension of the embeddings after the preprocessing of a pipeline that is not fitted yet."""
    steps = pipe.steps[:-1]
    front_end = front_ends_of(getattr(pipe[-1], "front_end", [step for _, step in steps]))[0]
    return front_end.dimension(len(samples.X), samples.X.shape[1], len(set(samples.speakers.tolist())))


def print_plan(
    pipe: Pipeline, samples: LabelledSamples, dimension: int, *, searches: bool, in_passes: bool, as_json: bool
) -> None:
    """Print factors, memory and time of a fit, which labels and dimension decide, and how the samples are read."""
    model, count = pipe[-1], len(samples.X)
    width = samples.X.shape[1] if searches else dimension  # a search has a front end of its own
    X = np.broadcast_to(np.zeros(width), (count, width))
    plan = model.plan(X, samples.speakers, **channel_arguments(samples))
    flops = measured_flops()
    seconds, whole = plan.work / flops, plan.total_work / flops
    if as_json:
        print_json(
            {
                "samples": count, "in_passes": in_passes, "dimensions": dimension, "factors": plan.names,
                "levels": plan.levels, "ranks": plan.ranks, "eliminated": plan.names[plan.eliminated],
                "components": plan.components, "largest": plan.largest, "solver": plan.solver, "reason": plan.reason,
                "memory_bytes": plan.memory,
                "seconds_per_iteration": seconds, "max_iterations": model.max_iter, "seconds": whole,
            }
        )  # fmt: skip
        return
    facts: list[tuple[str, str]] = [
        ("samples", f"{count:,}, {dimension} dimensions after preprocessing"),
        ("reading", "in passes, within --memory" if in_passes else "in one piece"),
    ]
    for name, levels, rank in zip(plan.names, plan.levels, plan.ranks, strict=True):
        alone = "one level per cell" if name == "interaction" else "one level per sample"
        facts.append((f"factor {name}", f"{f'{levels:,} levels' if levels else alone}, rank {rank}"))
    coupled = f"{plan.components:,}, the largest with {plan.largest:,} unknowns" if plan.components else "none"
    whole_text = "about" if searches else f"{model.max_iter} iterations at most,"
    facts += [
        ("eliminated factor", plan.names[plan.eliminated]),
        ("coupled systems", coupled),
        ("memory", f"{bytes_text(8 * count * dimension)} for the samples, about {bytes_text(plan.memory)} for EM"),
        ("solver", f"{plan.solver} ({plan.reason})"),
        ("iteration", f"about {seconds_text(seconds)}"),
        ("whole command", f"{whole_text} {seconds_text(whole)}"),
    ]  # fmt: skip
    print_facts("What training would do (nothing was written)", facts)


def measured_flops() -> float:
    """Floating-point operations per second of a matrix product on this machine, measured in some milliseconds."""
    A = np.ones((512, 512))
    A @ A
    start = time.perf_counter()
    for _ in range(4):
        A @ A
    return float(4 * 2 * 512.0**3 / max(time.perf_counter() - start, 1e-9))
