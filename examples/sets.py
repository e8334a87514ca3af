"""What the recipes share: reading a file, making trials, measuring, and printing plain tables."""

import argparse
import sys
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from jointplda import PLDA, JointPLDA, JointPLDACV
from jointplda._typing import AnyArray
from jointplda.evaluation.protocol import Experiment, LabelledSamples, trials_of
from jointplda.labels import ConditionColumns
from jointplda.metrics import CROSS_SAME, eer, measure, type_pairs
from jointplda.selection.design import Design
from splits import split_by_speaker

NEEDED = ("embeddings", "speaker", "channel")
WIDTH = 100
EER, HARD, CLLR, MIN_CLLR = "EER %", "cross/same %", "Cllr", "minCllr"
LEGEND = (
    "EER: pooled, all pairs of samples. cross/same: EER of targets across channels against non-targets within one, "
    "where a system fails that takes the channel for the speaker. Cllr, minCllr: bits, of the scores as they are and "
    "after the best calibration; knowing nothing costs 1."
)


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """A parser with what every recipe asks for."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("file", type=Path, help=".npz with embeddings (n, d), speaker (n,), channel (n,)")
    parser.add_argument("--seed", type=int, default=0, help="of the split into training and test speakers")
    return parser


def load(path: Path) -> LabelledSamples:
    """Embeddings with two labels as samples with one condition."""
    if not path.is_file():
        sys.exit(f"{path}: no such file")
    with np.load(path, allow_pickle=False) as stored:
        missing = [name for name in NEEDED if name not in stored]
        if missing:
            sys.exit(f"{path}: no array {', '.join(missing)}; needed are {', '.join(NEEDED)}")
        X, speakers, channels = stored["embeddings"], stored["speaker"].astype(str), stored["channel"].astype(str)
        ids = stored["ids"] if "ids" in stored else np.arange(len(speakers))
    return LabelledSamples(ids.astype(str), X, speakers, ConditionColumns(("channel",), (channels,)))


def trials(
    samples: LabelledSamples, seed: int, channels: int | None, speakers: int | None = None, each: int = 2
) -> Experiment:
    """Training speakers in so many channels, and all pairs of test samples, ``each`` of a test speaker in a channel."""
    kept = channels or len(
        np.unique(samples.channels.values[0])
    )  # a number, so that any leads to the same test samples
    split = split_by_speaker(samples, seed, channels_per_speaker=kept, speakers=speakers, test_per_cell=each)
    return trials_of(*split)


def size(given: Experiment) -> str:
    """What is trained on and what is tested, in words."""
    train, targets = given.train, np.count_nonzero(given.target)
    return (
        f"{len(train.X):,} training samples of {len(np.unique(train.speakers))} speakers in "
        f"{len(np.unique(train.channels.values[0]))} channels; {targets:,} target and {len(given.target) - targets:,} "
        "non-target trials of other speakers"
    )


def figures(scores: AnyArray, given: Experiment, *, is_llr: bool = True) -> dict[str, float]:
    """The measures of one system's scores, by the names they have in tables."""
    found = measure(scores, given.target, (), is_llr=is_llr)
    hard = type_pairs(given.target, given.sides.same_channel == 1)[CROSS_SAME]
    crossed = eer(scores[hard], given.target[hard])
    return {EER: 100 * found.eer, HARD: 100 * crossed, CLLR: found.cllr, MIN_CLLR: found.min_cllr}


def same_shrinkage(chosen: JointPLDACV, given: Experiment) -> dict[str, AnyArray]:
    """Scores of PLDA and of Joint PLDA with the front end and the priors that automatic settings chose."""
    before, train, test = chosen.best_estimator_[:-1], given.train, given.test
    settings = {name: chosen.best_params_[name] for name in ("noise_prior", "speaker_prior")}
    settings |= {"max_iter": chosen.max_iter, "tol": chosen.tol}
    X, Z = before.transform(train.X), before.transform(test.X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # stopped early on purpose, as the automatic model is
        plain = PLDA(**settings).fit(X, train.speakers)
        joint = JointPLDA(**settings).fit(X, train.speakers, channels=train.channels)
    return {name: model.score_trials(Z, Z, given.pairs) for name, model in (("PLDA", plain), ("Joint PLDA", joint))}


def avoided(plain: Mapping[str, float], joint: Mapping[str, float]) -> dict[str, float]:
    """By how many percent the figures of Joint PLDA are below those of PLDA; negative where they are above."""
    names = {EER: EER, HARD: HARD, MIN_CLLR: f"{MIN_CLLR} %"}
    return {to: 100 * (1 - joint[name] / plain[name]) if plain[name] else float("nan") for name, to in names.items()}


def print_text(text: str) -> None:
    """A paragraph, wrapped."""
    print(textwrap.fill(text, WIDTH, break_on_hyphens=False))


def print_table(rows: Sequence[Mapping[str, object]]) -> None:
    """Rows with the same keys as columns: words to the left, numbers to the right, none as a dash."""
    columns = []
    for name in rows[0]:
        digits = 1 if "%" in name else 3
        cells = [f"{row[name]:.{digits}f}" if isinstance(row[name], float) else str(row[name]) for row in rows]
        cells = ["-" if cell == "nan" else cell for cell in cells]
        width = max(map(len, (name, *cells)))
        side = "<" if isinstance(rows[0][name], str) else ">"
        columns.append([f"{cell:{side}{width}}" for cell in (name, "-" * width, *cells)])
    for line in zip(*columns, strict=True):
        print("  " + "  ".join(line).rstrip())
    print()


def print_design(design: Design) -> None:
    """How speakers and channels are crossed, and what the test of channels found."""
    for crossed, test, share in zip(design.crossed, design.tests, design.shares(), strict=True):
        heard = f"{crossed} training speakers were heard in two or more channels"
        if test is None:
            print_text(f"{heard}: enough to learn from, no test is needed.")
            continue
        verdict = f"they do, and {100 * share:.0f} % of it is put down to the channel"
        print_text(
            f"{heard}. Do the {test.speakers} others differ between their {test.channels} channels by more than "
            f"speakers do anyway? F = {test.ratio:.2f} (chance: 1), p = {test.p_value:.3f} by permutation: "
            f"{verdict if share else 'it cannot be told; the channel is left out, which makes the model a PLDA'}."
        )


def print_chosen(model: JointPLDACV) -> None:
    """The settings that were chosen, and the calibration."""
    chosen = {name: v if isinstance(v, str) else np.round(v, 2).tolist() for name, v in model.best_params_.items()}
    settings = [f"{name} {value}" for name, value in chosen.items()]
    print_text(f"Chosen: {', '.join(settings)}.")
    if model.calibration_ is not None:
        print(f"Calibration: llr = {model.calibration_.scale:.3g} score {model.calibration_.offset:+.3g}")


@contextmanager
def readable_warnings(*, show: bool = True) -> Iterator[None]:
    """Print what the library warns of inside, every message once, as a paragraph."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    if not show:
        return
    for message in dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, UserWarning)):
        print(textwrap.fill(f"Warning: {message}", WIDTH, subsequent_indent="  ", break_on_hyphens=False))
