"""The words by which columns, arrays and labels are recognised."""

import re
from collections.abc import Sequence
from pathlib import Path

from jointplda.trial_list import NONTARGET, TARGET

ID_NAMES = (
    "id", "ids", "utt", "utterance", "uttid", "utteranceid", "segmentid", "segment", "sample", "sampleid", "name",
    "names", "file", "filename", "path",
)  # fmt: skip
MODEL_NAMES = (
    "modelid", "model", "modelname", "enrol", "enroll", "enrolid", "enrollid", "enrolment", "enrollment",
    "enrolmentid", "enrollmentid", "speaker", "spk",
)  # fmt: skip
SAMPLE_NAMES = ("segmentid", "segment", "segmentname", "test", "testid", "testsegment", "sample", "sampleid", *ID_NAMES)
TARGET_NAMES = ("targettype", "targetness", "target", "label", "key", "istarget")
SCORE_NAMES = ("llr", "score", "scores", "loglikelihoodratio")
ONLY_IN_HEADERS = ("modelid", "segmentid", "targettype", "targetness", "llr", "enrolid", "enrollid", "testid")

LABEL_WORDS = {
    **dict.fromkeys(("target", "tgt", "tar", "1", "true"), TARGET),
    **dict.fromkeys(("nontarget", "non-target", "imp", "impostor", "non", "0", "false"), NONTARGET),
}
"""What a label says, by its word in lower case."""


def folded(name: str) -> str:
    """A column name without case, spaces, underscores and hyphens."""
    return re.sub(r"[\s_\-]", "", name).lower()


def find_column(header: Sequence[str], names: Sequence[str]) -> int | None:
    """Index of the column that has the first of these names that the header holds; None if it holds none of them."""
    cells = [folded(cell) for cell in header]
    return next((cells.index(name) for name in names if name in cells), None)


def is_pair_header(cells: Sequence[str]) -> bool:
    """Whether a first line names both sides of the trials, or has a word that only headers have."""
    both = find_column(cells, MODEL_NAMES) is not None and find_column(cells, SAMPLE_NAMES) is not None
    return both or find_column(cells, ONLY_IN_HEADERS) is not None


def bare_name(path: Path) -> str:
    """The name of a text file without the endings that say how it is written."""
    return re.sub(r"(\.(gz|txt|tsv|csv))+$", "", path.name, flags=re.IGNORECASE)


def kaldi_column(name: str | Path) -> str | None:
    """What follows ``utt2`` in the name of a file; None for names without it."""
    match = re.search(r"(?:^|\.)utt2([\w-]+)$", bare_name(Path(name)))
    return match.group(1) if match else None
