"""Joint PLDA as a scikit-learn estimator."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from jointplda._typing import Array
from jointplda._validation import check_number
from jointplda.errors import InputError, MildWarning, warn
from jointplda.estimators.base import BasePLDA
from jointplda.estimators.estimator_checks import checked_interaction, checked_model
from jointplda.model.statistics import Statistics
from jointplda.progress import ProgressCallback

Ranks = int | Sequence[int] | None


class JointPLDA(BasePLDA):
    """Joint PLDA: m = mean + V y_speaker + U x_channel + e, where samples of a speaker share y, and of a channel x.

    It is fitted by exact EM to samples with labels of their speaker and of one or more nuisance conditions. U explains
    the differences between channels even if every training speaker was heard in one channel only, where ordinary PLDA
    would attribute them to the speakers.

    Parameters
    ----------
    speaker_rank : int, optional
        Ry, the number of columns of V. Default: as many as the speakers support.
    channel_rank : int or sequence of int, optional
        Rx, the number of columns of U: one number, or one per nuisance condition; 0 leaves a condition out. Default: as
        many as the channels support.
    noise : {"full", "diagonal"}
        Noise covariance: full or diagonal.
    max_iter : int
        Greatest number of EM iterations.
    tol : float
        Stop when an iteration gains less than this many nats per sample.
    noise_prior, speaker_prior : float
        Strengths of the priors that shrink D^-1 and V V' towards scaled identities. 1 is one prior sample per sample,
        and one prior speaker per speaker; 0 is maximum likelihood. A speaker prior needs V of full rank.
    channel_share : float or sequence of float
        Share of the variance between channels left to the channels (one number, or one per condition); the rest moves
        to the speaker. 1 is Joint PLDA; 0 is PLDA, without that condition. Values between them suit speakers heard in
        one channel each, where speakers and channels are confounded.
    channel_prior : float or sequence of float
        Strength of the prior that shrinks U U' towards a scaled identity after EM (one number, or one per condition): 1
        is one prior channel per channel of training. A few channels show few of the directions in which other channels
        will differ. U then has d columns.
    interaction : float or {"proportional", "full", "split"}
        What the samples of one speaker in one channel share beside y and x: G w with G G' = kappa D^-1. A number is
        kappa, and 0 the paper's model; "proportional" estimates kappa, "full" a G of any shape. "split" fits the
        paper's model, and divides V V' between speaker and interaction afterwards: for speakers heard in one channel
        each. With several conditions a cell is a speaker with one combination of channels.
    interaction_rank : int, optional
        Columns of G in the full form. Default: the dimension.
    interaction_prior : (float, float)
        (kappa_0, weight): prior of kappa where it is estimated, worth ``weight`` cells of two samples with kappa_0. It
        dominates if no speaker was heard in two channels. In the full form it is a prior of G G', towards a scaled
        identity (with ``interaction_rank`` below the dimension there is none). A noise prior makes it stronger, by as
        many prior cells per cell.
    cell_share : float
        How far scoring counts on the interaction: the share of G G' that two samples of one speaker in one channel are
        taken to have in common; the rest is noise.
    noise_floor : float
        The noise variance in any direction is at least this share of the total variance there.
    solver : {"auto", "exact", "sampled"}
        How the latents of many channels are solved for. "exact" inverts their joint precision, channels times columns
        of U wide; "sampled" takes their means from conjugate gradients, as exact, and sums over their covariance from
        random draws, the same in every iteration. "auto" samples where exact systems would take twice as long;
        ``plan_`` says which it was, and ``fitted_.trace.standard_error`` how far the log-likelihood may be off.
    warm_start : bool
        Whether the next fit starts from the present parameters. Ctrl-C ends a fit and keeps the model so far (twice
        within two seconds stops the program), so an interrupted fit can go on later.
    callback : callable, optional
        Called after every iteration with a ``jointplda.Progress`` whose detail is an ``Iteration``.

    Attributes
    ----------
    mean_, V_, U_, D_, G_, interaction_, channel_ranks_
        The parameters; each is explained where it is defined.
    log_likelihoods_, n_iter_, converged_, interrupted_, plan_, training_, fitted_
        The course of the fit, and the whole of its result.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = JointPLDA.from_parameters(np.zeros(4), rng.normal(size=(4, 2)), rng.normal(size=(4, 1)), np.eye(4))
    >>> speakers, languages = np.repeat(np.arange(50), 6), np.tile(["en", "fr", "de"], 100)
    >>> X = truth.sample(speakers, channels=languages, random_state=0)
    >>> model = JointPLDA(speaker_rank=2, channel_rank=1, tol=1e-4).fit(X, speakers, channels=languages)
    >>> model.V_.shape, model.U_.shape, model.converged_
    ((4, 2), (4, 1), True)
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"channels": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"channels": True}

    def __init__(
        self,
        *,
        speaker_rank: int | None = None,
        channel_rank: Ranks = None,
        noise: str = "full",
        max_iter: int = 100,
        tol: float = 1e-6,
        noise_prior: float = 0.0,
        speaker_prior: float = 0.0,
        channel_share: float | Sequence[float] = 1.0,
        channel_prior: float | Sequence[float] = 0.0,
        interaction: float | str = 0.0,
        interaction_rank: int | None = None,
        interaction_prior: tuple[float, float] = (0.4, 10.0),
        cell_share: float = 1.0,
        noise_floor: float = 1e-6,
        solver: str = "auto",
        warm_start: bool = False,
        callback: ProgressCallback | None = None,
    ) -> None:
        self.speaker_rank = speaker_rank
        self.channel_rank = channel_rank
        self.noise = noise
        self.max_iter = max_iter
        self.tol = tol
        self.noise_prior = noise_prior
        self.speaker_prior = speaker_prior
        self.channel_share = channel_share
        self.channel_prior = channel_prior
        self.interaction = interaction
        self.interaction_rank = interaction_rank
        self.interaction_prior = interaction_prior
        self.cell_share = cell_share
        self.noise_floor = noise_floor
        self.solver = solver
        self.warm_start = warm_start
        self.callback = callback

    def fit(self, X: Any, y: Any, channels: Any = None) -> Self:
        """Fit to labelled embeddings.

        Parameters
        ----------
        X : (n, d) array
            Embeddings.
        y : (n,) labels
            The speaker of each sample: any hashables.
        channels : (n,) labels, (n, k) array or DataFrame
            The channel of each sample, with one column per nuisance condition: a list of labels is one column, a list
            of lists (not of tuples, which are labels) has one row per sample. A missing label (None, NaN, "") is a
            channel of its own.
        """
        return self._fit_samples(X, y, channels)

    def _of_model(self, statistics: Statistics) -> Statistics:
        if not statistics.conditions and self.channel_rank is not None:
            problem = f"got {self.channel_rank}, but there are no channels. Give channels, or use PLDA."
            raise InputError(problem, parameter="channel_rank")
        if not statistics.conditions:
            warn("No channels were given: this is a fit of SPLDA (V and D). Give channels, or use PLDA.", MildWarning)
        return statistics

    @classmethod
    def from_parameters(
        cls,
        mean: Any,
        V: Any,
        U: Any,
        D: Any,
        channel_ranks: Sequence[int] | None = None,
        *,
        interaction: Any = 0.0,
        cell_share: float = 1.0,
    ) -> Self:
        """Make a fitted model from its parameters.

        Parameters
        ----------
        mean, V, U, D, channel_ranks
            As in ``PLDA.from_parameters``.
        interaction : float or (d, r)
            kappa of an interaction that is proportional to the noise, or its loading G.
        cell_share : float
            As in ``JointPLDA``.
        """
        share = check_number("cell_share", cell_share, 0.0, 1.0)
        fitted = checked_interaction(checked_model(mean, V, U, D, channel_ranks), interaction)
        cell = fitted.used.cell
        form = "full" if cell is not None and cell.kappa is None else fitted.used.kappa
        settings = replace(fitted.settings, interaction=form, cell_share=share)
        model = cls._of(replace(fitted, settings=settings))
        model.set_params(interaction=form, cell_share=share)
        return model

    @property
    def interaction_(self) -> float:
        """kappa: variance that a speaker and a channel share beside their own, relative to the noise (mean over D)."""
        return self.fitted_.used.kappa

    @property
    def G_(self) -> Array:
        """Loading of the interaction, (d, r); (d, 0) without one."""
        return self.fitted_.cell_loading

    def _set_channel_rank(self, ranks: tuple[int, ...]) -> None:
        self.set_params(channel_rank=list(ranks) if ranks else None)
