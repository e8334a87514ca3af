"""``jointplda score``: from a model and embeddings to log-likelihood ratios."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import command_messages
from jointplda.file_kinds import KINDS, kind_of

if TYPE_CHECKING:
    from jointplda._typing import Array
    from jointplda.commands.messages import Messages
    from jointplda.commands.trial_input import Models
    from jointplda.embedding_table import EmbeddingTable
    from jointplda.estimators.pipeline import Pipeline
    from jointplda.labels import ConditionColumns
    from jointplda.trial_list import Trials

TESTS_AT_ONCE = 4096


@dataclass(frozen=True)
class ScoreRequest:
    """Options of ``jointplda score``."""

    model: Path
    enroll: Path
    test: Path | None
    trials: Path | None
    all_pairs: bool
    models: Path | None
    labels: Path | None
    channels: tuple[str, ...]
    same_channel: float | None
    raw: bool
    calibration: Path | None
    out: Path
    kind: str | None
    allow_missing: bool
    force: bool

    @property
    def writes_matrix(self) -> bool:
        """Whether --out is a full matrix, which has a place for every pair."""
        return (self.kind or kind_of("scores", self.out)) == "npy"


@dataclass(frozen=True)
class ScoreInput:
    """Embeddings of both sides, and the trials."""

    enroll: EmbeddingTable
    test: EmbeddingTable
    trials: Trials


@cloup.command(
    "score", short_help="Score trials with a model.",
    epilog="With --all, a sample is not scored against itself nor against a model it enrolls, unless a full matrix "
    "(.npy) is written.",
)  # fmt: skip
@cloup.argument("model", type=options.IN_FILE)
@cloup.option_group(
    "Trials",
    cloup.option("--enroll", type=options.IN_FILE, required=True, help="Embeddings of the enrollment side."),
    cloup.option("--test", type=options.IN_FILE, show_default="those of --enroll", help="Embeddings of the test side."),
    cloup.option("--trials", type=options.IN_FILE, help="Trial list: which sample or model to score against which."),
    cloup.option("--all", "all_pairs", is_flag=True, help="Score all pairs of the two sides instead of a list."),
    cloup.option("--models", type=options.IN_FILE,
                 help="Samples of each enrolled model: spk2utt, or lines 'model sample'."),
    options.allow_missing,
)  # fmt: skip
@cloup.option_group(
    "Result",
    cloup.option("--out", type=options.OUT_FILE, required=True, help="Score file to write."),
    cloup.option("--format", "kind", type=click.Choice(KINDS["scores"]),
                 show_default="by the suffix of --out, else kaldi", help="Format of --out."),
    options.force,
)  # fmt: skip
@cloup.option_group(
    "Channels, where they are known",
    cloup.option("--channel", "channels", multiple=True, metavar="COL|FILE",
                 help="Channels of both sides: a label column or a file, one per condition of the model. Without it "
                 "scores average over the channels."),
    cloup.option("--labels", type=options.IN_FILE, help="Labels by id, for --channel."),
)  # fmt: skip
@cloup.option_group(
    "Advanced",
    options.probability("--same-channel", "Prior probability that both sides share their channel, where it is not "
                        "known.", "0.5"),
    cloup.option("--raw", is_flag=True, help="Do not apply the calibration that is stored in the model."),
    cloup.option("--calibration", type=options.IN_FILE,
                 help="Calibration file to apply (see jointplda calibrate); add --raw if it was fitted to raw scores."),
)  # fmt: skip
@options.common
def command(quiet: bool, verbose: bool, **values: Any) -> None:
    """Score trials with MODEL and write natural-log likelihood ratios.

    \b
    Example:
      jointplda score model.safetensors --enroll test.npz \\
          --trials trials.txt --out scores.txt

    Ids in the trial list are samples of --enroll and --test, or models of --models.
    """  # noqa: D301
    request = ScoreRequest(**values)
    if (request.trials is not None) == request.all_pairs:
        raise click.UsageError("use either --trials or --all.")
    options.check_new(request.out, request.force)
    if request.writes_matrix:
        options.check_new_beside(request.out, (".rows", ".columns"), request.force)
    with command_messages(quiet, verbose) as messages:
        _score(request, messages)


def _score(request: ScoreRequest, messages: Messages) -> None:
    from jointplda.calibration import load_calibration
    from jointplda.commands.data_input import read_table
    from jointplda.commands.model_facts import scoring_model
    from jointplda.commands.trial_input import trials_to_score
    from jointplda.estimators.pipeline import Pipeline
    from jointplda.formats import read_enrollment, write_scores
    from jointplda.trial_list import ScoreTable

    pipe = Pipeline.load(request.model)
    calibration = None if request.calibration is None else load_calibration(request.calibration)
    if calibration is not None and scoring_model(pipe).calibration_ is not None and not request.raw:
        messages.info("the calibration stored in the model is applied before --calibration; --raw leaves it out.")
    enroll = read_table(request.enroll, request.labels)
    shared = request.test in (None, request.enroll)
    test = enroll if shared else read_table(request.test or request.enroll, request.labels)
    _check_dimensions(pipe, enroll, request.enroll)
    _check_dimensions(pipe, test, request.test or request.enroll)
    _say_unknown_channels(pipe, (enroll,) if shared else (enroll, test), request, messages)
    models = None if request.models is None else read_enrollment(request.models)
    trials = trials_to_score(request, enroll, test, models, messages)
    inputs = ScoreInput(enroll, test, trials)
    if models is None:
        values = _score_pairs(pipe, inputs, request)
    else:
        values = _score_models(pipe, inputs, models, request, messages)
    values = values if calibration is None else calibration.apply(values)
    write_scores(ScoreTable(trials, values), request.out, request.kind)
    messages.info(f"{len(trials):,} scores written to {request.out}")


def _check_dimensions(pipe: Pipeline, table: EmbeddingTable, path: Path) -> None:
    from jointplda.commands.model_facts import input_dimension

    expected = input_dimension(pipe)
    if table.X.shape[1] != expected:
        raise click.ClickException(
            f"{path}: has {table.X.shape[1]} dimensions, but the model was trained on {expected}. "
            "Use embeddings of the same extractor."
        )


def _channels(table: EmbeddingTable, request: ScoreRequest) -> ConditionColumns | None:
    from jointplda.commands.data_input import column, condition_names
    from jointplda.labels import ConditionColumns

    if not request.channels:
        return None
    names = condition_names(request.channels, table)
    return ConditionColumns(names, tuple(column(table, channel, "--channel") for channel in request.channels))


def _say_unknown_channels(
    pipe: Pipeline, tables: tuple[EmbeddingTable, ...], request: ScoreRequest, messages: Messages
) -> None:
    """Say how many samples have no channel, and whether training had none of the channels."""
    from jointplda.commands.model_facts import scoring_model, training_channels

    known = training_channels(scoring_model(pipe))
    columns = [channels for table in tables if (channels := _channels(table, request)) is not None]
    for k, name in enumerate(columns[0].names if columns else ()):
        labels = [str(label) for channels in columns for label in channels.values[k]]
        missing = labels.count("")
        if missing:
            messages.info(f"{missing:,} of {len(labels):,} samples have no {name}: their scores average over it.")
        new, trained = set(labels) - {""}, known.get(name, [*known.values()][k] if k < len(known) else [])
        if trained and new and not new & set(trained):
            messages.info(
                f"none of the {len(new)} channels of {name} was in training, which had "
                f"{', '.join(sorted(trained)[:5])}{', ...' if len(trained) > 5 else ''}: is it the right column?"
            )


def _score_pairs(pipe: Pipeline, inputs: ScoreInput, request: ScoreRequest) -> Array:
    """Scores of samples against samples."""
    import numpy as np

    channels: dict[str, Any] = {}
    if request.channels:
        sides = _channels(inputs.enroll, request), _channels(inputs.test, request)
        channels = dict(zip(("enroll_channels", "test_channels"), sides, strict=True))
    pairs = np.stack((inputs.trials.enroll, inputs.trials.test), axis=1)
    settings = _same_channel(pipe, request)
    scores = pipe.score_trials(
        inputs.enroll.X, inputs.test.X, pairs, calibrated=not request.raw, **settings, **channels
    )
    return np.asarray(scores, dtype=np.float64)


def _score_models(
    pipe: Pipeline, inputs: ScoreInput, models: Models, request: ScoreRequest, messages: Messages
) -> Array:
    """Scores of models of several samples against samples, ``TESTS_AT_ONCE`` test samples at a time."""
    import numpy as np

    from jointplda.commands.progress_display import bar
    from jointplda.formats import match_ids
    from jointplda.progress import Progress

    trials, test = inputs.trials, inputs.test
    wanted = [str(name) for name in trials.models[np.unique(trials.enroll)]]
    samples = [sample for name in wanted for sample in models[name]]
    owners = np.array([name for name in wanted for _ in models[name]], dtype=np.str_)
    rows = match_ids(samples, inputs.enroll.ids, "enrollment samples", str(request.models), request.allow_missing)
    enrolled = inputs.enroll.take(rows[rows >= 0])
    enrollment = pipe.enroll(enrolled.X, owners[rows >= 0].tolist(), _channels(enrolled, request))
    place = {name: index for index, name in enumerate(enrollment.models)}
    row_of = np.array([place.get(str(name), -1) for name in trials.models])
    values = np.empty(len(trials))
    order = np.argsort(trials.test, kind="stable")
    used = np.unique(trials.test)
    with bar(messages, "scoring") as callback:
        for start in range(0, len(used), TESTS_AT_ONCE):
            chosen = used[start : start + TESTS_AT_ONCE]
            block = test.take(chosen)
            settings: dict[str, Any] = _same_channel(pipe, request)
            if request.channels:
                settings = {"test_channels": _channels(block, request)}
            matrix = pipe.score_enrollment(enrollment, block.X, calibrated=not request.raw, **settings)
            low, high = np.searchsorted(trials.test[order], [chosen[0], chosen[-1] + 1])
            members = order[low:high]
            values[members] = matrix[row_of[trials.enroll[members]], np.searchsorted(chosen, trials.test[members])]
            callback(Progress("scores", min(start + TESTS_AT_ONCE, len(used)), len(used)))
    return values


def _same_channel(pipe: Pipeline, request: ScoreRequest) -> dict[str, Any]:
    """The prior of a shared channel, where it was given and the model has channels."""
    from jointplda.commands.model_facts import scoring_model

    if request.same_channel is None or not scoring_model(pipe).channel_ranks_:
        return {}
    return {"same_channel": request.same_channel}
