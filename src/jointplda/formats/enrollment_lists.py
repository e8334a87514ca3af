"""Enrollment lists: the samples from which each model is made."""

from collections.abc import Mapping, Sequence

from jointplda._identifiers import no_duplicates
from jointplda._validation import check_choice
from jointplda.errors import FileError, InputError
from jointplda.file_kinds import FILE_KINDS, kind_of
from jointplda.formats.header_words import is_pair_header
from jointplda.formats.pair_output import write_lines
from jointplda.formats.pair_rows import pair_columns
from jointplda.formats.sheets import read_sheet, write_sheet
from jointplda.formats.text import PathLikeStr, check_texts, decoded, existing, word_lists


def read_enrollment(path: PathLikeStr) -> dict[str, list[str]]:
    """Read the samples of each model.

    The file is Kaldi's ``spk2utt`` (``model sample sample ...``), a list of lines ``model sample``, one for each
    sample, or a NIST table with a header (``modelid``, ``segmentid``).

    Returns
    -------
    samples : dict of str to list of str
        By model, in the order of the file.

    Raises
    ------
    FileError
        If a line cannot be read, or a sample is listed twice for one model.
    """
    target = existing(path)
    sheet = read_sheet(target, is_pair_header)
    enrollment: dict[str, list[str]] = {}
    seen: set[tuple[str, str]] = set()
    hint = " A list with commas needs a header such as modelid,segmentid."
    rows = word_lists(target, "model sample [sample ...]", hint)
    if sheet.has_header:
        columns = pair_columns(sheet)
        cells = ((number, [decoded(fields[at], target, number) for at in columns]) for number, fields in sheet.rows)
        rows = ((number, model, [sample]) for number, (model, sample) in cells)
    for number, model, samples in rows:
        if not model or not all(samples):
            raise FileError(f"{target}, line {number}: expected a model and a sample, one of them is empty.")
        for sample in samples:
            if (model, sample) in seen:
                raise FileError(f"{target}, line {number}: the sample {sample!r} is listed twice for {model!r}.")
            seen.add((model, sample))
        enrollment.setdefault(model, []).extend(samples)
    if not enrollment:
        raise FileError(f"{target}: nothing follows the header.")
    return enrollment


def write_enrollment(enrollment: Mapping[str, Sequence[str]], path: PathLikeStr, kind: str | None = None) -> None:
    """Write the samples of each model, whole or not at all; what would not read back the same is refused.

    Parameters
    ----------
    enrollment : mapping of str to sequence of str
    path : path
        Gzipped if the name ends in ``.gz``.
    kind : {"kaldi", "nist"}, optional
        ``spk2utt``, or a table with a header and a row for each sample, which keeps names with spaces inside. By
        default nist for names that end in ``.tsv``, kaldi for others.
    """
    kind = check_choice("kind", kind or kind_of("enrollment", path), tuple(FILE_KINDS["enrollment"]))
    if not enrollment:
        raise InputError(f"{path}: there are no models to write.")
    for model, samples in enrollment.items():
        if not len(samples):
            raise InputError(f"{path}: the model {model!r} has no samples.")
        no_duplicates(list(samples), f"the samples of {model!r}", str(path))
    names = (name for model, samples in enrollment.items() for name in (model, *samples))
    if kind == "kaldi":
        write_lines(names, path, (f"{model} {' '.join(samples)}" for model, samples in enrollment.items()))
        return
    check_texts(names, path)
    rows = ([model, sample, "a"] for model, samples in enrollment.items() for sample in samples)
    write_sheet(path, ["modelid", "segmentid", "side"], rows)
