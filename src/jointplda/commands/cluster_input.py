"""Files as shards that the workers of a cluster read."""

from collections.abc import Sequence
from pathlib import Path

import click

from jointplda.cluster import FileShard, file_shards
from jointplda.commands.options import LabelOptions
from jointplda.formats import open_embeddings

SHARD_BYTES = 2**28


def shards_of(paths: Sequence[Path], labels: LabelOptions) -> list[FileShard]:
    """The rows of files in shards of a quarter of a gigabyte; a file whose length only reading tells is one shard."""
    for option, names in (("--speaker", (labels.speaker,)), ("--channel", labels.channels)):
        for name in names:
            if Path(name).is_file():
                raise click.ClickException(
                    f"{option} {name}: workers know label columns alone; name a column of DATA or of --labels."
                )
    shards: list[FileShard] = []
    for path in paths:
        stream = open_embeddings(path, labels.labels)
        rows = max(1, SHARD_BYTES // (stream.n_features * stream.dtype.itemsize))
        shards += file_shards(
            [path],
            speaker=labels.speaker,
            channels=labels.channels,
            labels=labels.labels,
            rows=None if stream.n_samples is None else rows,
            allow_missing=labels.allow_missing,
        )
    return shards
