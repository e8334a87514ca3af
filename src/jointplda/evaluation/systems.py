"""Systems to compare on the same training data and the same trials."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointplda._typing import Array
from jointplda.errors import InputError
from jointplda.estimators.joint import JointPLDA
from jointplda.estimators.pipeline import Pipeline, automatic_pipeline, make_pipeline
from jointplda.estimators.plain import PLDA
from jointplda.labels import ConditionColumns
from jointplda.model.em import Iteration
from jointplda.preprocessing import LDA, PCA, Center, LengthNorm

Labels = NDArray[Any]

_AT_ONCE = 2048


@dataclass(frozen=True)
class TrainingSet:
    """Labelled embeddings to train on.

    Parameters
    ----------
    X : ndarray, shape (n, d)
    speakers : ndarray, shape (n,)
    channels : ndarray of str, shape (n, conditions)
        Empty text where a label is missing.
    conditions : sequence of str
        Names of the conditions.
    """

    X: NDArray[Any]
    speakers: Labels
    channels: Labels
    conditions: Sequence[str]


@dataclass(frozen=True)
class TestSet:
    """Embeddings to score, with the trials among them.

    Parameters
    ----------
    enroll, test : ndarray, shape (n, d) and (m, d)
        May be one and the same.
    pairs : ndarray of int, shape (trials, 2)
        Rows of ``enroll`` and of ``test``.
    enroll_channels, test_channels : ndarray of str, shape (n, conditions) and (m, conditions), or None
        Only the systems that remove channel means look at these; Joint PLDA averages over the channels.
    """

    __test__ = False

    enroll: NDArray[Any]
    test: NDArray[Any]
    pairs: NDArray[np.int64]
    enroll_channels: Labels | None = None
    test_channels: Labels | None = None


@dataclass(frozen=True)
class Recipe:
    """Settings that all systems share, so that they differ in the model alone.

    Parameters
    ----------
    pca, lda : int or None
        Dimensions kept; None keeps all that the training data support. ``lda`` is for LDA + PLDA.
    speaker_rank, channel_rank : int or None
        Ranks of V and U.
    noise_prior, speaker_prior : float
        Shrinkage, the same for every model.
    max_iter : int
    tol : float
    same_channel : float
        P(same channel) that Joint PLDA averages with.
    """

    pca: int | None = 60
    lda: int | None = None
    speaker_rank: int | None = None
    channel_rank: int | None = None
    noise_prior: float = 0.0
    speaker_prior: float = 0.0
    max_iter: int = 100
    tol: float = 1e-5
    same_channel: float = 0.5


@dataclass(frozen=True)
class Scored:
    """One system's scores of the trials.

    Parameters
    ----------
    name, description : str
    scores : ndarray, shape (trials,)
    is_llr : bool
    model : Pipeline or None
        What was trained.
    """

    name: str
    description: str
    scores: Array
    is_llr: bool = True
    model: Pipeline | None = field(default=None, repr=False)


Callback = Callable[[str, Iteration | None], object]


def run_systems(
    train: TrainingSet,
    test: TestSet,
    recipe: Recipe | None = None,
    *,
    systems: Sequence[str] | None = None,
    callback: Callback | None = None,
) -> Iterator[Scored]:
    """Train and score each system in turn.

    Parameters
    ----------
    train : TrainingSet
    test : TestSet
    recipe : Recipe, optional
    systems : sequence of str, optional
        Names from ``SYSTEMS``; default: all that the data allow.
    callback : callable, optional
        Called with a system's name and None as it begins, then with each EM iteration.

    Yields
    ------
    Scored
    """
    recipe = recipe or Recipe()
    channels_known = test.enroll_channels is not None and test.test_channels is not None
    chosen = list(SYSTEMS) if systems is None else list(systems)
    for name in chosen:
        if name not in SYSTEMS:
            raise InputError(f"no system {name!r}; there are {', '.join(map(repr, SYSTEMS))}.")
        if name.endswith(WITHOUT_MEANS) and not channels_known:
            if systems is None:
                continue
            raise InputError(f"{name!r} needs the channels of the test samples, which were not given.")
        if callback is not None:
            callback(name, None)
        report = None if callback is None else _reporter(callback, name)
        yield SYSTEMS[name](name, train, test, recipe, report)


def _reporter(callback: Callback, name: str) -> Callable[[Iteration], object]:
    return lambda iteration: callback(name, iteration)


class ChannelMeans:
    """Subtract the training mean of each sample's channel, condition after condition.

    A channel that training has not seen, or that is not known, is taken to be at the overall mean.
    """

    def __init__(self, X: NDArray[Any], channels: Labels) -> None:
        rest = np.asarray(X, dtype=np.float64) - X.mean(axis=0)
        self.mean = X.mean(axis=0)
        self.shifts: list[dict[str, NDArray[Any]]] = []
        for column in channels.T:
            means = {str(level): rest[column == level].mean(axis=0) for level in np.unique(column) if level != ""}
            self.shifts.append(means)
            rest -= self._shift(column, means)

    def remove(self, X: NDArray[Any], channels: Labels) -> Array:
        """Samples (n, d) without their channels' means."""
        rest: Array = np.asarray(X, dtype=np.float64) - self.mean
        for column, means in zip(channels.T, self.shifts, strict=True):
            rest -= self._shift(column, means)
        return rest

    def _shift(self, column: Labels, means: dict[str, NDArray[Any]]) -> Array:
        levels, index = np.unique(column, return_inverse=True)
        zero = np.zeros_like(self.mean, dtype=np.float64)
        shifts: Array = np.array([means.get(str(level), zero) for level in levels])
        return shifts[index]


Report = Callable[[Iteration], object] | None


def _cosine(name: str, train: TrainingSet, test: TestSet, recipe: Recipe, report: Report) -> Scored:
    center = Center().fit(train.X)
    sides = [LengthNorm().fit_transform(center.transform(X)) for X in (test.enroll, test.test)]
    scores = np.empty(len(test.pairs))
    for start in range(0, len(scores), _AT_ONCE):
        rows = test.pairs[start : start + _AT_ONCE]
        scores[start : start + _AT_ONCE] = np.einsum("ij,ij->i", sides[0][rows[:, 0]], sides[1][rows[:, 1]])
    return Scored(name, "cosine of centred embeddings; not a log-likelihood ratio", scores, is_llr=False)


def _lda_plda(name: str, train: TrainingSet, test: TestSet, recipe: Recipe, report: Report) -> Scored:
    pca = _dimensions(recipe.pca, train)
    kept = min(pca, len(np.unique(train.speakers)) - 1, recipe.lda or pca)
    model = PLDA(**{**_settings(recipe, report), "speaker_rank": None})
    pipe = make_pipeline(Center(), PCA(pca), LDA(kept), LengthNorm(), model)
    pipe.fit(train.X, train.speakers)
    return _scored(name, f"LDA to {kept} dimensions, length norm, PLDA", pipe, test)


def _splda(name: str, train: TrainingSet, test: TestSet, recipe: Recipe, report: Report) -> Scored:
    pca = _dimensions(recipe.pca, train)
    model = PLDA(**_settings(recipe, report))
    pipe = make_pipeline(Center(), LengthNorm(), PCA(pca), model).fit(train.X, train.speakers)
    return _scored(name, f"PCA to {pca} dimensions, V of rank {model_rank(pipe)}, full noise", pipe, test)


def _joint(name: str, train: TrainingSet, test: TestSet, recipe: Recipe, report: Report) -> Scored:
    pca = _dimensions(recipe.pca, train)
    model = JointPLDA(channel_rank=recipe.channel_rank, **_settings(recipe, report))
    pipe = make_pipeline(Center(), LengthNorm(), PCA(pca), model)
    pipe.fit(train.X, train.speakers, channels=_named(train))
    ranks = ", ".join(
        f"U of rank {rank} for {condition}"
        for condition, rank in zip(train.conditions, pipe[-1].channel_ranks_, strict=True)
    )
    text = f"PCA to {pca} dimensions, V of rank {model_rank(pipe)}, {ranks}"
    return _scored(name, text, pipe, test, same_channel=recipe.same_channel)


def _automatic(name: str, train: TrainingSet, test: TestSet, recipe: Recipe, report: Report) -> Scored:
    pipe = automatic_pipeline()
    pipe.fit(train.X, train.speakers, channels=_named(train))
    model = pipe[-1]
    ranks = ", ".join(
        f"channel_prior {prior:g} and U of rank {rank} for {condition}" if rank else f"{condition} left out"
        for condition, rank, prior in zip(
            train.conditions, *(model.settings_.get(f"channel_{name}", ()) for name in ("rank", "prior")), strict=True
        )
    )
    chosen = f"noise_prior {model.settings_['noise_prior']:g}, speaker_prior {model.settings_['speaker_prior']:g}"
    text = f"Settings chosen on training speakers: {model.n_features_in_} dimensions, {chosen}, {ranks}; calibrated"
    return _scored(name, text, pipe, test, same_channel=recipe.same_channel)


def _without_means(
    system: Callable[[str, TrainingSet, TestSet, Recipe, Report], Scored],
) -> Callable[[str, TrainingSet, TestSet, Recipe, Report], Scored]:
    """The same system after channel means are removed from all samples, by their known channels."""

    def run(name: str, train: TrainingSet, test: TestSet, recipe: Recipe, report: Report) -> Scored:
        means = ChannelMeans(train.X, train.channels)
        bare = TrainingSet(means.remove(train.X, train.channels), train.speakers, train.channels, train.conditions)
        enroll = means.remove(test.enroll, np.asarray(test.enroll_channels))
        other = enroll if test.test is test.enroll else means.remove(test.test, np.asarray(test.test_channels))
        result = system(name, bare, TestSet(enroll, other, test.pairs), recipe, report)
        text = f"{result.description}; means of the known channels removed"
        return Scored(name, text, result.scores, result.is_llr, None)

    return run


WITHOUT_MEANS = "channel means removed"
JOINT = "Joint PLDA"
AUTOMATIC = "Joint PLDA, automatic"
SYSTEMS: dict[str, Callable[[str, TrainingSet, TestSet, Recipe, Report], Scored]] = {
    "cosine": _cosine,
    f"cosine, {WITHOUT_MEANS}": _without_means(_cosine),
    "LDA + PLDA": _lda_plda,
    f"LDA + PLDA, {WITHOUT_MEANS}": _without_means(_lda_plda),
    "PLDA": _splda,
    f"PLDA, {WITHOUT_MEANS}": _without_means(_splda),
    JOINT: _joint,
    AUTOMATIC: _automatic,
}
"""Systems by name, in the order they are shown. "PLDA" is SPLDA: V of the given rank and full noise."""


def all_pairs(n: int) -> NDArray[np.int64]:
    """Every pair (i, j) of n samples once, i < j, never a sample with itself."""
    return np.stack(np.triu_indices(n, 1), axis=1).astype(np.int64)


def model_rank(pipe: Pipeline) -> int:
    """Columns of V of a fitted pipeline's model."""
    rank: int = pipe[-1].V_.shape[1]
    return rank


def _scored(name: str, description: str, pipe: Pipeline, test: TestSet, **settings: Any) -> Scored:
    scores = np.asarray(pipe.score_trials(test.enroll, test.test, test.pairs, **settings), dtype=np.float64)
    return Scored(name, description, scores, True, pipe)


def _named(train: TrainingSet) -> ConditionColumns:
    return ConditionColumns(tuple(train.conditions), tuple(train.channels.T))


def _dimensions(wanted: int | None, train: TrainingSet) -> int:
    """Dimensions that PCA keeps: as many as asked and as the data have."""
    own: int = train.X.shape[1]
    return min(wanted or own, own, len(train.X) - 1)


def _settings(recipe: Recipe, report: Report) -> dict[str, Any]:
    """Settings of a model; a speaker prior needs V of full rank, which is then the default."""
    return {
        "speaker_rank": None if recipe.speaker_prior > 0 else recipe.speaker_rank,
        "noise_prior": recipe.noise_prior,
        "speaker_prior": recipe.speaker_prior,
        "max_iter": recipe.max_iter,
        "tol": recipe.tol,
        "callback": report,
    }
