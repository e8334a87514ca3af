"""Systems to compare on the same training data and the same trials.

"PLDA" is one model everywhere: simplified PLDA (SPLDA), x = mean + V y + noise with a full noise covariance.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from jointplda._typing import AnyArray, Array, IntArray
from jointplda.errors import InputError
from jointplda.estimators.automatic import JointPLDACV
from jointplda.estimators.joint import JointPLDA
from jointplda.estimators.pipeline import Pipeline, make_pipeline
from jointplda.estimators.plain import PLDA
from jointplda.evaluation.protocol import LabelledSamples
from jointplda.model.settings import RULES, ModelSettings
from jointplda.preprocessing import LDA, PCA, Center, LengthNorm
from jointplda.progress import Progress, ProgressCallback

_AT_ONCE = 2048


@dataclass(frozen=True, kw_only=True)
class ComparedSettings(ModelSettings):
    """Settings that all systems share, so that they differ in the model alone.

    PLDA takes those that it has; Joint PLDA takes all of them, those of the channels too.

    Parameters
    ----------
    pca, lda : int or None
        Dimensions kept; None keeps all that the training data support. ``lda`` is for LDA + PLDA.
    same_channel : float
        Probability that both sides of a trial share their channel, with which Joint PLDA averages.
    """

    pca: int | None = 60
    lda: int | None = None
    tol: float = 1e-5
    same_channel: float = 0.5


@dataclass(frozen=True)
class Scored:
    """One system's scores of the trials.

    Parameters
    ----------
    name, description : str
        The name in tables, and one line that says what was trained.
    scores : ndarray, shape (trials,)
    is_llr : bool
        Whether the scores are log-likelihood ratios.
    model : Pipeline or None
        The fitted pipeline.
    """

    name: str
    description: str
    scores: Array
    is_llr: bool = True
    model: Pipeline | None = field(default=None, repr=False)


@dataclass(frozen=True)
class _Task:
    """What a system gets: data, trials, settings, and a callback for the iterations of EM."""

    name: str
    train: LabelledSamples
    test: LabelledSamples
    pairs: IntArray
    settings: ComparedSettings
    callback: ProgressCallback | None

    @property
    def dimensions(self) -> int:
        """Dimensions that PCA keeps: those of the settings, as far as the data have them."""
        own: int = self.train.X.shape[1]
        return min(self.settings.pca or own, own, len(self.train.X) - 1)

    def model(self, kind: type[PLDA | JointPLDA], **own: Any) -> PLDA | JointPLDA:
        """A model with these settings; a speaker prior needs V of full rank, which is then the default."""
        settings = {name: getattr(self.settings, name) for name in kind().get_params() if name in RULES}
        settings |= {"channel_rank": 0} if kind is PLDA else {}
        settings |= {"speaker_rank": None} if self.settings.speaker_prior > 0 else {}
        callback, name = self.callback, self.name
        report = None if callback is None else lambda step: callback(replace(step, stage=name))
        return kind(**{**settings, "callback": report, **own})


def without_channel_means(train: LabelledSamples, test: LabelledSamples) -> tuple[LabelledSamples, LabelledSamples]:
    """The classical remedy for known channels: subtract from ``train`` and ``test`` the means of the training samples.

    The overall mean first, then the means of the channels of each condition, one condition after the other. A channel
    that does not occur in training, or that is not known, is taken to lie at the overall mean.
    """
    rest, tested = (np.asarray(each.X, dtype=np.float64) - train.X.mean(axis=0) for each in (train, test))
    for known, new in zip(train.channels.values, test.channels.values, strict=True):
        means = {level: rest[known == level].mean(axis=0) for level in set(known.tolist()) - {""}}
        for samples, column in ((rest, known), (tested, new)):
            samples -= [means.get(level, np.zeros(rest.shape[1])) for level in column.tolist()]
    return replace(train, X=rest), replace(test, X=tested)


def run_systems(
    train: LabelledSamples,
    test: LabelledSamples,
    pairs: AnyArray,
    settings: ComparedSettings | None = None,
    *,
    systems: Sequence[str] | None = None,
    callback: ProgressCallback | None = None,
) -> Iterator[Scored]:
    """Train and score the systems of these names from ``SYSTEMS`` in turn, by default all that the data allow.

    ``pairs`` (trials, 2) are the two rows of ``test`` that each trial compares. Only the systems that remove channel
    means look at the channels of ``test``; Joint PLDA averages over the channels of trials. ``callback`` is called with
    a ``Progress`` whose stage is the system's name: as the system begins (0 done), and after each EM iteration, with
    that ``Iteration`` as detail.
    """
    settings = settings or ComparedSettings()
    for name in list(SYSTEMS) if systems is None else list(systems):
        if name not in SYSTEMS:
            raise InputError(f"expected {', '.join(map(repr, SYSTEMS))}, got {name!r}.", parameter="systems")
        if name.endswith(WITHOUT_MEANS) and not test.channels.values:
            if systems is None:
                continue
            raise InputError(f"{name!r} needs the channels of the test samples.", parameter="systems")
        if callback is not None:
            callback(Progress(name, 0, settings.max_iter))
        yield SYSTEMS[name](_Task(name, train, test, pairs, settings, callback))


def _cosine(task: _Task) -> Scored:
    unit = LengthNorm().fit_transform(Center().fit(task.train.X).transform(task.test.X))
    scores = np.empty(len(task.pairs))
    for start in range(0, len(scores), _AT_ONCE):
        rows = task.pairs[start : start + _AT_ONCE]
        scores[start : start + _AT_ONCE] = np.einsum("ij,ij->i", unit[rows[:, 0]], unit[rows[:, 1]])
    return Scored(task.name, "Cosine of centred embeddings; not a log-likelihood ratio", scores, is_llr=False)


def _lda_plda(task: _Task) -> Scored:
    kept = min(task.dimensions, len(np.unique(task.train.speakers)) - 1, task.settings.lda or task.dimensions)
    words = f"Centred, PCA to {task.dimensions} dimensions, LDA to {kept}, length-normalised"
    model = task.model(PLDA, speaker_rank=None)
    return _fitted(task, words, make_pipeline(Center(), PCA(task.dimensions), LDA(kept), LengthNorm(), model))


def _of_kind(kind: type[PLDA | JointPLDA], task: _Task) -> Scored:
    words = f"Centred, length-normalised, PCA to {task.dimensions} dimensions"
    return _fitted(task, words, make_pipeline(Center(), LengthNorm(), PCA(task.dimensions), task.model(kind)))


def _fitted(task: _Task, words: str, pipe: Pipeline) -> Scored:
    """The scores of a pipeline that ends in a model; ``words`` say what precedes it."""
    model, train, settings = pipe[-1], task.train, task.settings
    joint = isinstance(model, JointPLDA)
    pipe.fit(train.X, train.speakers, **({"channels": train.channels} if joint else {}))
    name, rest = "simplified PLDA", "full noise covariance"
    if joint:
        ranks = zip(train.channels.names, model.channel_ranks_, strict=True)
        name, rest = "Joint PLDA", ", ".join(f"U of rank {rank} for {condition}" for condition, rank in ranks)
    priors = "by maximum likelihood"
    if settings.noise_prior or settings.speaker_prior:
        priors = f"noise_prior {settings.noise_prior:g}, speaker_prior {settings.speaker_prior:g}"
    return _scored(task, f"{words}; {name} with V of rank {model.V_.shape[1]}, {rest}, {priors}", pipe, joint=joint)


def _automatic(task: _Task, *, joint: bool) -> Scored:
    """Automatic settings with the channel labels, or (not ``joint``) without them, which shows what they are worth."""
    pipe = make_pipeline(JointPLDACV())
    pipe.fit(task.train.X, task.train.speakers, **({"channels": task.train.channels} if joint else {}))
    model = pipe[-1]
    chosen = model.best_params_
    ranks = "".join(
        f", U of rank {rank} with channel_prior {prior:g} for {condition}" if rank else f", no U for {condition}"
        for condition, rank, prior in zip(
            task.train.channels.names if joint else (), chosen.get("channel_rank", ()), chosen.get("channel_prior", ()),
            strict=True,
        )
    )  # fmt: skip
    fitted, calibrated = model.best_estimator_[-1].fitted_, model.calibration_ is not None
    text = (
        f"Front end: {model.selection_.chosen.front_end}; {'Joint PLDA' if joint else 'PLDA'} of {len(fitted.mean)} "
        f"dimensions, V of rank {fitted.factors[0].rank}{ranks}, noise_prior {chosen['noise_prior']:g}, speaker_prior "
        f"{chosen['speaker_prior']:g}, chosen on training speakers; {'calibrated' if calibrated else 'not calibrated'}"
    )
    return _scored(task, text, pipe, joint=joint)


def _scored(task: _Task, description: str, pipe: Pipeline, *, joint: bool) -> Scored:
    averaged: dict[str, Any] = {"same_channel": task.settings.same_channel} if joint else {}
    scores = pipe.score_trials(task.test.X, task.test.X, task.pairs, **averaged)
    return Scored(task.name, description, np.asarray(scores, dtype=np.float64), model=pipe)


def _without_means(system: Callable[[_Task], Scored], task: _Task) -> Scored:
    """The system's scores after the means of the known channels are subtracted from all samples."""
    train, test = without_channel_means(task.train, task.test)
    result = system(replace(task, train=train, test=test))
    return replace(result, description=f"{result.description}; means of the known channels removed", model=None)


WITHOUT_MEANS = "channel means removed"
PLAIN = "PLDA"
JOINT = "Joint PLDA"
AUTOMATIC_PLAIN = "PLDA, automatic"
AUTOMATIC = "Joint PLDA, automatic"
SYSTEMS: dict[str, Callable[[_Task], Scored]] = {
    "cosine": _cosine,
    f"cosine, {WITHOUT_MEANS}": partial(_without_means, _cosine),
    "LDA + PLDA": _lda_plda,
    f"LDA + PLDA, {WITHOUT_MEANS}": partial(_without_means, _lda_plda),
    PLAIN: partial(_of_kind, PLDA),
    f"{PLAIN}, {WITHOUT_MEANS}": partial(_without_means, partial(_of_kind, PLDA)),
    JOINT: partial(_of_kind, JointPLDA),
    AUTOMATIC_PLAIN: partial(_automatic, joint=False),
    AUTOMATIC: partial(_automatic, joint=True),
}
"""Systems by name, in the order they are shown."""
