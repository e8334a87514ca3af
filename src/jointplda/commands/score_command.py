"""``jointplda score``: from a model and embeddings to log-likelihood ratios."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jointplda.commands import options

if TYPE_CHECKING:
    from jointplda.commands.options import Talk
    from jointplda.embedding_table import EmbeddingTable
    from jointplda.trial_list import Trials

TESTS_AT_ONCE = 4096
KINDS = ("kaldi", "wespeaker", "nist", "bosaris", "npy")


@click.command("score", short_help="Score trials with a model.")
@click.argument("model", type=options.IN_FILE)
@click.option("--enroll", type=options.IN_FILE, required=True, help="Embeddings of the enrollment side.")
@click.option("--test", type=options.IN_FILE, help="Embeddings of the test side; default: those of --enroll.")
@click.option("--trials", type=options.IN_FILE, help="Trial list: which to score against which.")
@click.option("--all", "all_pairs", is_flag=True, help="Score every enrollment sample (or model) against every test.")
@click.option("--models", type=options.IN_FILE, help="Models of several samples: spk2utt, or lines 'model sample'.")
@click.option("--labels", type=options.IN_FILE, help="Labels by id, for --channel.")
@click.option(
    "--channel", "channels", multiple=True, metavar="COL|FILE",
    help="Known channels of both sides, one per condition of the model. Without it they are averaged over.",
)  # fmt: skip
@click.option(
    "--same-channel", type=click.FloatRange(0, 1), default=0.5, show_default=True,
    help="Probability that both sides share their channel, where it is not known.",
)  # fmt: skip
@click.option("--raw", is_flag=True, help="Leave out the calibration that the model carries.")
@click.option(
    "--calibration", type=options.IN_FILE,
    help="Calibration file to apply to these scores (see jointplda calibrate); give --raw too if it was fitted to raw "
    "scores.",
)  # fmt: skip
@click.option("--out", type=options.OUT_FILE, required=True, help="Score file to write.")
@click.option("--format", "kind", type=click.Choice(KINDS), help="Format of --out; default: by its suffix, else Kaldi.")
@options.allow_missing
@options.force
@options.common
def command(quiet: bool, verbose: bool, **given: Any) -> None:
    """Score trials with MODEL and write natural-log likelihood ratios.

    Ids in the trial list are samples of --enroll and --test, or names from --models. With --all, a sample is never
    scored against itself, nor against a model enrolled with it, unless a full matrix (.npy) is written.
    """
    if bool(given["trials"]) == given["all_pairs"]:
        raise click.UsageError("give either --trials or --all.")
    options.check_new(given["out"], given["force"])
    if _writes_matrix(given):
        options.check_new_beside(given["out"], (".rows", ".columns"), given["force"])
    with options.talking(quiet, verbose) as talk:
        _score(given, talk)


def _writes_matrix(given: dict[str, Any]) -> bool:
    """Whether --out is a full matrix, which has a place for every pair."""
    return bool(given["kind"] == "npy" or (given["kind"] is None and given["out"].suffix == ".npy"))


def _score(given: dict[str, Any], talk: Talk) -> None:
    from jointplda.calibration import load_calibration
    from jointplda.commands import data_input
    from jointplda.estimators.pipeline import Pipeline
    from jointplda.formats import read_enrollment, write_scores
    from jointplda.trial_list import ScoreTable

    pipe = Pipeline.load(given["model"])
    calibration = None if given["calibration"] is None else load_calibration(given["calibration"])
    if calibration is not None and pipe[-1].calibration_ is not None and not given["raw"]:
        talk.say("the calibration that the model carries is applied first, then --calibration; --raw leaves it out.")
    enroll = data_input.load(given["enroll"], given["labels"])
    test = enroll if given["test"] in (None, given["enroll"]) else data_input.load(given["test"], given["labels"])
    _check_dimensions(pipe, enroll, given["enroll"])
    _check_dimensions(pipe, test, given["test"] or given["enroll"])
    _tell_of_channels(pipe, (enroll,) if test is enroll else (enroll, test), given, talk)
    models = None if given["models"] is None else read_enrollment(given["models"])
    trials = _trials(given, enroll, test, models, talk)
    scorer = _with_models if models is not None else _pairs
    values = scorer(pipe, enroll, test, models, trials, given, talk)
    values = values if calibration is None else calibration.apply(values)
    write_scores(ScoreTable(trials, values), given["out"], given["kind"])
    talk.say(f"{len(trials):,} scores written to {given['out']}")


def _check_dimensions(pipe: Any, table: EmbeddingTable, path: Path) -> None:
    wanted = int(pipe.n_features_in_) if len(pipe.steps) > 1 else len(pipe[-1].mean_)
    if table.X.shape[1] != wanted:
        raise click.ClickException(
            f"{path}: has {table.X.shape[1]} dimensions, but the model was trained on {wanted}. "
            "Use embeddings of the same extractor."
        )


def _trials(given: dict[str, Any], enroll: EmbeddingTable, test: EmbeddingTable, models: Any, talk: Talk) -> Trials:
    """The trials to score; their names are exactly the ids (or models) that are there."""
    import numpy as np

    from jointplda._identifiers import positions
    from jointplda.formats import match_ids, read_trials
    from jointplda.trial_list import Trials

    names = enroll.ids if models is None else _usable_models(models, enroll, given, talk)
    if given["all_pairs"]:
        wanted = np.ones((len(names), len(test.ids)), dtype=np.bool_)
        if not _writes_matrix(given):
            own = [[str(name)] if models is None else models[str(name)] for name in names]
            rows = np.repeat(np.arange(len(names)), [len(each) for each in own])
            at = positions([sample for each in own for sample in each], test.ids)
            wanted[rows[at >= 0], at[at >= 0]] = False
        first, second = (index.astype(np.int64) for index in np.nonzero(wanted))
        return Trials(names, test.ids, first, second)
    trials = read_trials(given["trials"])
    where, missing = str(given["trials"]), given["allow_missing"]
    what = "enrollment ids" if models is None else "models"
    among = "the embeddings" if models is None else f"{given['models']}"
    left = match_ids(trials.models, names, what, where, missing, among)
    right = match_ids(trials.samples, test.ids, "test ids", where, missing)
    first, second = left[trials.enroll], right[trials.test]
    kept = np.flatnonzero((first >= 0) & (second >= 0))
    if len(kept) < len(trials):
        talk.say(f"{len(trials) - len(kept):,} of {len(trials):,} trials are left out: their ids have no embeddings.")
    if not len(kept):
        raise click.ClickException(f"{given['trials']}: no trial is left to score.")
    target = None if trials.target is None else trials.target[kept]
    columns = {name: values[kept] for name, values in trials.columns.items()}
    return Trials(names, test.ids, first[kept], second[kept], target, columns)


def _usable_models(models: Any, enroll: EmbeddingTable, given: dict[str, Any], talk: Talk) -> Any:
    """Names of the models that have a sample with an embedding."""
    import numpy as np

    from jointplda._identifiers import listed

    there = set(enroll.ids.tolist())
    empty = [name for name, samples in models.items() if not there & set(samples)]
    if empty and not given["allow_missing"]:
        raise click.ClickException(
            f"{given['models']}: no sample of these models has an embedding: {listed(empty)}. Use --allow-missing to "
            "leave them out."
        )
    if empty:
        talk.say(f"{len(empty):,} models without any sample are left out.")
    return np.array([name for name in models if name not in set(empty)], dtype=np.str_)


def _channels(table: EmbeddingTable, given: dict[str, Any]) -> Any:
    from jointplda.commands import data_input
    from jointplda.labels import ConditionColumns

    if not given["channels"]:
        return None
    names = data_input.condition_names(given["channels"], table)
    return ConditionColumns(
        names, tuple(data_input.column(table, channel, "--channel") for channel in given["channels"])
    )


def _tell_of_channels(pipe: Any, tables: tuple[EmbeddingTable, ...], given: dict[str, Any], talk: Talk) -> None:
    """Say how many samples have no label, and if none of the labels was seen in training."""
    seen = pipe[-1].seen_
    known = [] if seen is None else [{str(label) for label in labels} for labels in seen.channels]
    for k, given_name in enumerate(given["channels"]):
        labels = [label for table in tables for label in _channels(table, given).values[k].tolist()]
        missing = labels.count("")
        if missing:
            talk.say(f"{missing:,} of {len(labels):,} samples have no {given_name}: it is averaged over.")
        new = set(labels) - {""}
        if k < len(known) and new and not new & known[k]:
            talk.say(
                f"none of the {len(new)} values of {given_name} was seen in training, which has "
                f"{', '.join(sorted(known[k])[:5])}{', ...' if len(known[k]) > 5 else ''}: is it the right column?"
            )


def _pairs(
    pipe: Any, enroll: EmbeddingTable, test: EmbeddingTable, models: Any, trials: Trials, given: dict[str, Any],
    talk: Talk,
) -> Any:  # fmt: skip
    """Sample against sample."""
    import numpy as np

    known: dict[str, Any] = {}
    if given["channels"]:
        known = {"enroll_channels": _channels(enroll, given), "test_channels": _channels(test, given)}
    pairs = np.stack((trials.enroll, trials.test), axis=1)
    scores = pipe.score_trials(enroll.X, test.X, pairs, calibrated=not given["raw"], **_prior(pipe, given), **known)
    return np.asarray(scores, dtype=np.float64)


def _with_models(
    pipe: Any, enroll: EmbeddingTable, test: EmbeddingTable, models: Any, trials: Trials, given: dict[str, Any],
    talk: Talk,
) -> Any:  # fmt: skip
    """Models of several samples against samples, some tests at a time."""
    import numpy as np

    from jointplda.commands.progress_display import bar
    from jointplda.formats import match_ids

    wanted = [str(name) for name in trials.models[np.unique(trials.enroll)]]
    samples = [sample for name in wanted for sample in models[name]]
    owners = [name for name in wanted for _ in models[name]]
    rows = match_ids(samples, enroll.ids, "enrollment samples", str(given["models"]), given["allow_missing"])
    there = rows >= 0
    owners = [name for name, ok in zip(owners, there, strict=True) if ok]
    part = enroll.take(rows[there])
    enrollment = pipe.enroll(part.X, owners, _channels(part, given))
    place = {name: index for index, name in enumerate(enrollment.models)}
    row_of = np.array([place.get(str(name), -1) for name in trials.models])
    settings: dict[str, Any] = {} if given["channels"] else _prior(pipe, given)
    values = np.empty(len(trials))
    order = np.argsort(trials.test, kind="stable")
    used = np.unique(trials.test)
    with bar(talk, "scoring") as progress:
        for start in range(0, len(used), TESTS_AT_ONCE):
            chosen = used[start : start + TESTS_AT_ONCE]
            block = test.take(chosen)
            known = {"test_channels": _channels(block, given)} if given["channels"] else {}
            matrix = pipe.score_enrollment(enrollment, block.X, calibrated=not given["raw"], **settings, **known)
            low, high = np.searchsorted(trials.test[order], [chosen[0], chosen[-1] + 1])
            members = order[low:high]
            values[members] = matrix[row_of[trials.enroll[members]], np.searchsorted(chosen, trials.test[members])]
            progress(min(start + TESTS_AT_ONCE, len(used)), len(used))
    return values


def _prior(pipe: Any, given: dict[str, Any]) -> dict[str, float]:
    return {"same_channel": given["same_channel"]} if pipe[-1].channel_ranks_ else {}
