"""``jointplda statistics``: from labelled embeddings to sums."""

from pathlib import Path

import click

from jointplda.cluster import statistics_on_cluster
from jointplda.commands.cluster_input import shards_of
from jointplda.commands.console import print_facts, print_json
from jointplda.commands.data_input import SampleReader
from jointplda.commands.messages import Messages
from jointplda.commands.model_facts import scoring_pipeline
from jointplda.commands.options import LabelOptions
from jointplda.commands.progress_display import pass_progress
from jointplda.commands.streamed_input import FileSource, given_memory
from jointplda.estimators.pipeline import Pipeline
from jointplda.estimators.statistics_file import read_statistics, write_statistics
from jointplda.passes.training import SUMS_SHARE, statistics_in_passes


def sum_up(
    labels: LabelOptions,
    messages: Messages,
    *,
    data: tuple[Path, ...],
    of_sums: bool,
    front_end: Path | None,
    memory: float | None,
    scheduler: str | None,
    out: Path,
    as_json: bool,
) -> None:
    """Write the statistics of embeddings, or the sum of statistics."""
    bytes_allowed = given_memory(memory)
    if of_sums:
        statistics, steps = read_statistics(data, SUMS_SHARE * bytes_allowed)
    else:
        source = FileSource(data, SampleReader(labels, messages))
        steps = [] if front_end is None else scoring_pipeline(Pipeline.load(front_end)).steps[:-1]
        width = steps[0][1].n_features_in_ if steps else source.n_features
        if width != source.n_features:
            raise click.ClickException(
                f"{data[0]}: has {source.n_features} dimensions, but the preprocessing of {front_end} was made for "
                f"{width}. Use embeddings of the same extractor."
            )
        transformers = [step for _, step in steps]
        with pass_progress(messages, "shards" if scheduler else "samples") as callback:
            if scheduler:
                shards, cells = shards_of(data, labels), bool(labels.channels)
                statistics = statistics_on_cluster(shards, scheduler, transformers, cells=cells, callback=callback)
            else:
                statistics = statistics_in_passes(source, transformers, memory=bytes_allowed, callback=callback)
    write_statistics(out, statistics, steps)
    channels = dict(zip(statistics.conditions, statistics.n_channels, strict=True))
    names = [type(step).__name__ for _, step in steps]
    size = f"{int(statistics.n_samples):,} of {statistics.n_speakers:,} speakers, {statistics.n_features} dimensions"
    result = {
        "statistics": str(out), "samples": int(statistics.n_samples),
        "speakers": statistics.n_speakers, "dimensions": statistics.n_features,
        "channels": channels, "front end": names,
    }  # fmt: skip
    if as_json:
        print_json(result)
        return
    print_facts(
        f"Statistics written to {out}",
        [
            ("samples", size),
            ("channels", ", ".join(f"{number:,} of {name}" for name, number in channels.items()) or "none"),
            ("front end", ", ".join(names) or "none"),
            ("next", f"jointplda train {out} --no-auto --out model.safetensors"),
        ],
    )  # fmt: skip
