"""From statistics and settings to a fitted model: checks, start, EM, and what to warn of."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from jointplda._parallel import one_thread
from jointplda.errors import InputError, warn
from jointplda.model.em import Callback, EMResult, logger, run_em
from jointplda.model.layout import Layout, lay_out
from jointplda.model.mstep import NoiseModel
from jointplda.model.parameters import Parameters
from jointplda.model.plan import Plan
from jointplda.model.start import (
    Covariances,
    make_prior,
    moment_covariances,
    start_at_random,
    start_from_moments,
    start_with_speaker,
)
from jointplda.model.statistics import Statistics

ONE_THREAD_WORK = 5e8
FAR = 30.0  # standard deviations


@dataclass(frozen=True)
class FitSettings:
    """How to fit; see the estimators for what each setting means."""

    diagonal: bool
    max_iter: int
    tol: float
    init: str
    n_init: int
    noise_prior: float
    speaker_prior: float
    noise_floor: float
    callback: Callback | None = None


@dataclass(frozen=True)
class FitResult:
    """A fit, the plan it followed, in how many directions the noise ended at its floor, and if it was cut short."""

    fit: EMResult
    plan: Plan
    at_floor: int
    interrupted: bool


def check_speakers(statistics: Statistics) -> None:
    """Speakers can only be told from noise by several of them, some with several samples."""
    if statistics.n_speakers < 2:
        raise InputError(
            f"Expected samples of at least two speakers, got one class of {statistics.n_samples:g} sample(s) "
            f"(n_samples = {statistics.n_samples:g}, y is the same label everywhere). "
            "Is y the speaker, one label per sample?"
        )
    if statistics.n_samples <= statistics.n_speakers:
        raise InputError(
            f"Expected speakers with several samples, got {statistics.n_speakers} speakers with one sample each: "
            "what is the speaker and what is noise cannot be told apart. Is y the speaker, or an id of the sample?"
        )


def supported_rank(statistics: Statistics, k: int) -> int:
    """The highest rank of a loading that the levels of factor k can support beside a mean."""
    alone = sum(part.count for part in statistics.parts.values() if k not in part.levels)
    return int(min(statistics.n_features, max(0, len(statistics.labels[k]) + alone - 1)))


@dataclass(frozen=True)
class Problem:
    """What fits of the same ranks to the same statistics share, whatever their other settings."""

    statistics: Statistics
    ranks: tuple[int, ...]
    covariances: Covariances
    crossing: Layout

    @classmethod
    def of(cls, statistics: Statistics, ranks: tuple[int, ...]) -> "Problem":
        """Moments and crossing of statistics; ``ranks`` (all at least 1) match its factors."""
        return cls(statistics, ranks, moment_covariances(statistics), lay_out(statistics, ranks))


def fit(problem: Problem, settings: FitSettings, rng: np.random.Generator, warm: Parameters | None = None) -> FitResult:
    """Fit a model of the family.

    Of several starts the one that ends highest is kept. The first is ``warm`` where given, else as
    ``settings.init`` says; the others are random.
    """
    statistics, ranks, crossing, covariances = problem.statistics, problem.ranks, problem.crossing, problem.covariances
    noise = NoiseModel(settings.diagonal, settings.noise_floor * statistics.scales)
    prior = make_prior(statistics, covariances, settings.noise_prior, settings.speaker_prior)
    logger.info("%s", crossing.plan)
    best: EMResult | None = None
    interrupted = False
    with _threads(crossing.plan.work), _clear_failures():
        for attempt in range(settings.n_init):
            if attempt == 0 and warm is not None:
                start = _resumed(warm, statistics, noise)
            elif attempt == 0 and settings.init != "random":
                start = start_from_moments(statistics, covariances, ranks, noise, prior)
                if settings.init == "speaker":
                    start = start_with_speaker(statistics, start, noise, prior)
            else:
                start = start_at_random(statistics, ranks, noise, rng)
            one = run_em(
                crossing,
                start,
                prior=prior,
                noise=noise,
                max_iter=settings.max_iter,
                tol=settings.tol,
                callback=settings.callback,
            )
            best = one if best is None or one.last > best.last else best
            interrupted = one.interrupted
            if interrupted:
                break
    assert best is not None
    return FitResult(best, crossing.plan, noise.at_floor(best.parameters.noise), interrupted)


def _resumed(warm: Parameters, statistics: Statistics, noise: NoiseModel) -> Parameters:
    """Parameters to go on from, made to fit other data and settings: EM climbs only from what is allowed."""
    far = np.abs(warm.mean - statistics.mean) > FAR * np.sqrt(statistics.scales)
    mean = statistics.mean if far.any() else warm.mean
    return Parameters(mean, warm.loadings, noise.nearest(warm.noise))


def warn_of_labels(statistics: Statistics) -> None:
    """Say which labels always go together: what belongs to which of them cannot be told apart."""
    names = ("speaker", *statistics.conditions)
    for k, name in enumerate(names):
        for j in range(k + 1, len(names)):
            pairs = [part.links[k, j] for part in statistics.parts.values() if (k, j) in part.links]
            if not pairs:
                continue
            rows = np.concatenate([links.rows for links in pairs])
            columns = np.concatenate([links.columns for links in pairs])
            linked = np.unique(np.stack([rows, columns]), axis=1).shape[1]
            if linked == len(np.unique(rows)) == len(np.unique(columns)):
                warn(
                    f"The labels of {name!r} and {names[j]!r} always go together, so their variances cannot be told "
                    f"apart: each gets a share. Is {names[j]!r} the right column?"
                )


def warn_of_floor(result: FitResult, statistics: Statistics, share: float) -> None:
    """Say where the data leave no noise to estimate."""
    constant = np.flatnonzero(statistics.constant).tolist()
    named = f"Column(s) {constant[:5]}{'...' if len(constant) > 5 else ''} are constant." if constant else ""
    if result.at_floor:
        warn(
            f"The noise covariance stands at its floor (noise_floor={share:g}) in {result.at_floor} of "
            f"{statistics.n_features} directions: there the {statistics.n_samples:g} samples of "
            f"{statistics.n_speakers} speakers hardly vary within speakers and channels. {named} "
            "Reduce the dimension (PCA), or set noise_prior > 0."
        )
    elif constant:
        warn(f"{named} They tell nothing; leave them out.")


@contextmanager
def _clear_failures() -> Iterator[None]:
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise InputError(
            f"The covariances became singular ({error}). Raise noise_floor, set noise_prior > 0, or reduce the "
            "dimension (PCA)."
        ) from None


@contextmanager
def _threads(work: float) -> Iterator[None]:
    """Many small products run faster on one thread than on several."""
    if work > ONE_THREAD_WORK:
        yield
    else:
        with one_thread():
            yield
