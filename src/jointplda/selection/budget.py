"""What a search may spend: how many columns U starts with, and which candidates are left out.

Work is estimated from labels, dimension and ranks alone (``model.plan``), and counted in seconds of a processor that
does 2e10 operations a second. So the same samples and the same budget give the same search on every machine.
"""

import math
from dataclasses import dataclass, field, replace

from jointplda.errors import Advice, TooLargeError, warn
from jointplda.model.fit import plan_fit
from jointplda.model.plan import FLOPS, Plan
from jointplda.model.settings import ModelSettings
from jointplda.model.statistics import Statistics

SECONDS = 40.0
ITERATIONS = 14  # of EM, of a candidate whose fit starts where that of another ended
FITS, MOST_FITS, FITS_IF_CONFOUNDED = 17, 22, 9  # of a fold, in a usual search and in a long one
CANDIDATES, PAIR_WORK = 25, 1.6e4  # of a usual search, and operations that score a pair and sort it
FIRST_SHARE = 0.5  # of the budget, before more columns of U are tried
LITTLE_MORE = 1.5


@dataclass
class Budget:
    """Work of a search over ``folds`` folds of samples with these ``statistics``, of which it may spend ``seconds``.

    Attributes
    ----------
    spent : float
        Seconds that the candidates tried so far are estimated to take.
    left_out : list of ModelSettings
        Candidates that were too costly to try.
    needed : float
        Seconds that would have been enough for all of them.
    front_end : str
        Name of the front end of the candidates that are asked about.
    fitted : set of (str, ModelSettings)
        Front ends and settings that EM was run for.
    known : dict
        Seconds of an iteration, by the same settings.
    """

    statistics: Statistics
    folds: int
    seconds: float = SECONDS
    spent: float = 0.0
    left_out: list[ModelSettings] = field(default_factory=list)
    needed: float = 0.0
    front_end: str = ""
    fitted: set[tuple[str, ModelSettings]] = field(default_factory=set)
    known: dict[ModelSettings, float] = field(default_factory=dict)

    def candidate(self, settings: ModelSettings, iterations: int = ITERATIONS) -> float:
        """Seconds of the fits of a candidate to all folds; infinite where they do not fit into memory.

        A candidate whose fits were made for another, since they differ only in what follows EM, takes none.
        """
        if (self.front_end, settings.of_em) in self.fitted:
            return 0.0
        same = settings.of_em
        if same not in self.known:
            try:
                self.known[same] = plan_fit(self.statistics, same).work / FLOPS
            except TooLargeError:
                self.known[same] = float("inf")
        return self.folds * min(iterations, settings.max_iter) * self.known[same]

    def search(self, settings: ModelSettings, *, confounded: bool) -> float:
        """Seconds of all fits of a search whose candidates cost as much as this one."""
        return (FITS_IF_CONFOUNDED if confounded else FITS) * self.candidate(settings)

    def planned(self, settings: ModelSettings, pairs: int) -> Plan:
        """The plan of the fits that a search starts with, for settings of all columns that the channels support.

        Its total counts the whole search, with the more columns that it may try, scores of so many ``pairs`` of each
        candidate, and the fit to all samples.
        """
        ranks, wanted = self.first_ranks(settings, confounded=False), settings.channel_rank
        settings = replace(settings, noise_prior=1.0, speaker_prior=1.0, channel_rank=ranks)
        plan = plan_fit(self.statistics, settings)
        iterations = FITS * self.folds * min(ITERATIONS, settings.max_iter) + settings.max_iter
        left = max(self.seconds - self.search(settings, confounded=False), 0.0)
        wider = FLOPS * left if ranks != wanted else 0.0
        return replace(plan, iterations=iterations, beside=CANDIDATES * pairs * PAIR_WORK + wider)

    def first_ranks(self, settings: ModelSettings, *, confounded: bool) -> tuple[int, ...]:
        """Ranks of U to start with: those of the settings, halved until a search is within its share of the budget.

        The rank of the condition with the most unknowns, levels times rank, is halved first; a rank of 1 stays. Columns
        that cost little more are kept, and the budget is raised to what a search takes then. One that is not confounded
        tries more columns afterwards.
        """
        ranks, given = list(settings.channel_rank), settings
        settings = replace(settings, noise_prior=1.0, speaker_prior=1.0)

        def cost() -> float:
            return self.search(replace(settings, channel_rank=tuple(ranks)), confounded=confounded)

        tried: list[tuple[tuple[int, ...], float]] = []
        unknowns = [len(labels) * rank for labels, rank in zip(self.statistics.labels[1:], ranks, strict=True)]
        allowed = self.seconds * (1.0 if confounded else FIRST_SHARE)
        while (seconds := cost()) > allowed and max(ranks, default=0) > 1:
            tried.append((tuple(ranks), seconds))
            k = max((k for k, rank in enumerate(ranks) if rank > 1), key=unknowns.__getitem__)
            ranks[k], unknowns[k] = ranks[k] // 2, unknowns[k] // 2
        for wider, more in reversed(tried):  # columns that cost next to nothing are kept
            if math.isfinite(more) and more <= LITTLE_MORE * seconds:
                ranks = list(wider)
        self.seconds = max(self.seconds, MOST_FITS / FITS * cost()) if math.isfinite(cost()) else self.seconds
        if confounded and tuple(ranks) != settings.channel_rank:
            following = next(wider for wider, _ in reversed(tried) if sum(wider) > sum(ranks))
            self.left_out.append(replace(given, channel_rank=following))  # no trial of such data could choose it
            self.needed = self.search(replace(settings, channel_rank=following), confounded=True)
        return tuple(ranks)

    def allows(self, settings: ModelSettings, iterations: int = ITERATIONS) -> bool:
        """Whether there is enough left for a candidate; else it is noted as left out."""
        needed = self.spent + self.candidate(settings, iterations)
        if needed > self.seconds:
            self.left_out.append(settings)
            self.needed = max(self.needed, needed)
        return needed <= self.seconds

    def spend(self, settings: ModelSettings) -> None:
        """Count the fits of a candidate."""
        self.spent += self.candidate(settings)
        self.fitted.add((self.front_end, settings.of_em))

    def warn(self, chosen: ModelSettings) -> None:
        """Say what was left out, beside the settings chosen."""
        words = []
        for settings in self.left_out:
            wider = [
                f"{other} columns of U instead of {rank} for the {len(labels):,} channels of {name!r}"
                for rank, other, labels, name in zip(
                    chosen.channel_rank, settings.channel_rank, self.statistics.labels[1:], self.statistics.conditions,
                    strict=True,
                )
                if rank and other > rank
            ]  # fmt: skip
            words += wider or [
                f"{name.replace('_', ' ')} {getattr(settings, name)}"
                for name in ("interaction", "noise_prior", "speaker_prior")
                if getattr(settings, name) != getattr(chosen, name)
            ]
        if words:
            what = "; ".join(dict.fromkeys(words))
            enough = f"{math.ceil(self.needed / 10.0) * 10:d}" if math.isfinite(self.needed) else "..."
            larger = Advice(f"JointPLDACV(budget={enough}) does.", f"train --budget {enough} does.")
            warn(f"The budget of the search ({self.seconds:.0f} s) does not suffice to try {what}.", remedy=larger)
