"""The settings of a model, each declared once: its default, its range, its help, and who chooses it.

The arguments of the estimators are held to this record by a test; their checks, the candidates of the search, the
options of the commands, and what a file says of the fit come from it.
"""

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any

MOST_KAPPA = 1e3
MOST_PRIOR = 1e9
AUTOMATIC = {"max_iter": 25, "tol": 1e-3}
"""Defaults of automatic settings where they differ: EM stops early, since its last small gains cost accuracy."""
SOLVERS = ("auto", "exact", "sampled")
INTERACTION_FORMS = ("proportional", "full", "split")


@dataclass(frozen=True)
class SettingRule:
    """What a setting may be, and who sets it.

    Attributes
    ----------
    help : str
        One sentence for the command line.
    least, most : float
        Range of a number.
    whole : bool
        Whether it is a whole number.
    choices : tuple of str
        Words that it may be.
    rank : bool
        Whether it is a number of columns, at most the dimension.
    searched : bool
        Whether automatic settings choose it.
    kept_if_given : bool
        Whether automatic settings keep it as the user gives it.
    per_condition : bool
        Whether there may be one for each nuisance condition.
    stage : {"problem", "em", "after"}
        Where a fit takes it first: in preparing what EM runs on, in EM, or after EM.
    """

    help: str
    least: float = 0.0
    most: float = math.inf
    whole: bool = False
    choices: tuple[str, ...] = ()
    rank: bool = False
    searched: bool = False
    kept_if_given: bool = False
    per_condition: bool = False
    stage: str = "problem"


def _setting(default: Any, text: str, **rule: Any) -> Any:
    """A setting with its default and its rule, whose help is ``text``."""
    return field(default=default, metadata={"rule": SettingRule(text, **rule)})


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Settings of a fit; ``JointPLDA`` explains each of them at length.

    After ``resolve`` ranks are numbers, and settings per condition are tuples with one value for each condition.
    """

    speaker_rank: int | None = _setting(None, "Columns of V.", least=1, whole=True, rank=True)
    channel_rank: Any = _setting(None, "Columns of U.", whole=True, rank=True, searched=True, per_condition=True)
    noise: str = _setting("full", "Noise covariance.", choices=("full", "diagonal"), kept_if_given=True)
    max_iter: int = _setting(100, "EM iterations at most.", least=1, whole=True, kept_if_given=True)
    tol: float = _setting(1e-6, "Stop EM when an iteration gains less, in nats per sample.", kept_if_given=True)
    noise_prior: float = _setting(
        0.0, "Strength of the prior that shrinks the noise covariance D^-1.", most=MOST_PRIOR, searched=True, stage="em"
    )
    speaker_prior: float = _setting(
        0.0, "Strength of the prior that shrinks V V'.", most=MOST_PRIOR, searched=True, stage="em"
    )
    channel_share: Any = _setting(
        1.0, "Share of the variance between channels that U keeps, while V takes the rest.",
        most=1.0, searched=True, per_condition=True, stage="after",
    )  # fmt: skip
    channel_prior: Any = _setting(
        0.0, "Strength of the prior that shrinks U U'.",
        most=MOST_PRIOR, searched=True, kept_if_given=True, per_condition=True, stage="after",
    )  # fmt: skip
    interaction: Any = _setting(
        0.0, "Speaker-by-channel interaction: 0 (none), a number (kappa), proportional, full or split.",
        most=MOST_KAPPA, choices=INTERACTION_FORMS, searched=True, kept_if_given=True,
    )  # fmt: skip
    interaction_rank: int | None = _setting(None, "Columns of G in the full form.", least=1, whole=True, rank=True)
    interaction_prior: tuple[float, float] = _setting(
        (0.4, 10.0), "Prior of kappa: its value, and its weight in cells."
    )
    cell_share: float = _setting(
        1.0, "Share of the interaction that scores take two samples of one speaker in one channel to have in common; "
        "the rest is noise.", most=1.0, searched=True, stage="after",
    )  # fmt: skip
    noise_floor: float = _setting(
        1e-6, "Least noise variance, as a share of the total variance.", most=1.0, kept_if_given=True
    )
    solver: str = _setting(
        "auto", "How the latents of many channels are solved for.", choices=SOLVERS, kept_if_given=True
    )

    def __post_init__(self) -> None:
        for name, rule in RULES.items():
            value = getattr(self, name)
            if rule.per_condition and (isinstance(value, list) or hasattr(value, "tolist")):
                listed = value if isinstance(value, list) else value.tolist()
                object.__setattr__(self, name, tuple(listed) if isinstance(listed, list) else listed)

    @property
    def searched(self) -> dict[str, Any]:
        """The settings that a search chooses, as arguments of ``JointPLDA``; those of channels only where there are."""
        chosen: dict[str, Any] = {"noise_prior": self.noise_prior, "speaker_prior": self.speaker_prior}
        if self.channel_rank:
            values = {name: getattr(self, name) for name, rule in RULES.items() if rule.searched}
            chosen |= {name: list(v) if isinstance(v, tuple) else v for name, v in values.items() if name not in chosen}
        return chosen

    @property
    def of_em(self) -> "ModelSettings":
        """These settings with defaults in place of those that EM does not depend on."""
        return self._up_to("problem", "em")

    @property
    def of_problem(self) -> "ModelSettings":
        """The same for what EM runs on, which takes from the noise prior only whether there is one."""
        return replace(self._up_to("problem"), noise_prior=float(self.noise_prior > 0))

    def _up_to(self, *stages: str) -> "ModelSettings":
        defaults: dict[str, Any] = {f.name: f.default for f in fields(self) if RULES[f.name].stage not in stages}
        return replace(self, **defaults)

    @property
    def conditions_used(self) -> tuple[int, ...]:
        """Positions of the conditions whose rank is above 0, of resolved settings."""
        return tuple(k for k, rank in enumerate(self.channel_rank) if rank)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Rank of the speaker and of every condition used, of resolved settings."""
        assert self.speaker_rank is not None
        return (self.speaker_rank, *(rank for rank in self.channel_rank if rank))

    def of_conditions_used(self, name: str) -> tuple[float, ...]:
        """A setting per condition, for the conditions used, of resolved settings."""
        return tuple(getattr(self, name)[k] for k in self.conditions_used)


RULES: dict[str, SettingRule] = {setting.name: setting.metadata["rule"] for setting in fields(ModelSettings)}
"""The rule of each setting by its name."""
