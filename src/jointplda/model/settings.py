"""The settings of a model, each declared once: its default, its range, its help, and who chooses it.

The arguments of the estimators, their checks, the candidates of the search, the options of the commands, what a file
stores and what ``info`` prints come from this record.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from jointplda._validation import check_choice, check_number
from jointplda.errors import InputError

MOST_KAPPA = 1e3
MOST_PRIOR = 1e9
FORMS = ("proportional", "full", "split")


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
    per_condition : bool
        Whether there may be one for each nuisance condition.
    """

    help: str
    least: float = 0.0
    most: float = np.inf
    whole: bool = False
    choices: tuple[str, ...] = ()
    rank: bool = False
    searched: bool = False
    per_condition: bool = False


def _rule(text: str, **rule: Any) -> dict[str, SettingRule]:
    return {"rule": SettingRule(text, **rule)}


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Settings of a fit; ``JointPLDA`` explains each of them at length.

    After ``resolve`` ranks are numbers, and settings per condition are tuples with one value for each condition.

    Attributes
    ----------
    speaker_rank : int, optional
    channel_rank : int or tuple of int, optional
    noise : {"full", "diagonal"}
    max_iter : int
    tol : float
    noise_prior, speaker_prior : float
    channel_share, channel_prior : float or tuple of float
    interaction : float or {"proportional", "full", "split"}
    interaction_rank : int, optional
    interaction_prior : (float, float)
    cell_share : float
    noise_floor : float
    """

    speaker_rank: int | None = field(default=None, metadata=_rule("Columns of V.", least=1, whole=True, rank=True))
    channel_rank: Any = field(
        default=None, metadata=_rule("Columns of U", whole=True, rank=True, searched=True, per_condition=True)
    )
    noise: str = field(default="full", metadata=_rule("Noise covariance.", choices=("full", "diagonal")))
    max_iter: int = field(default=100, metadata=_rule("EM iterations at most.", least=1, whole=True))
    tol: float = field(
        default=1e-6, metadata=_rule("Stop EM when an iteration gains less than this many nats per sample.")
    )
    noise_prior: float = field(
        default=0.0, metadata=_rule("Prior of the noise, in samples per sample.", most=MOST_PRIOR, searched=True)
    )
    speaker_prior: float = field(
        default=0.0, metadata=_rule("Prior of V, in speakers per speaker.", most=MOST_PRIOR, searched=True)
    )
    channel_share: Any = field(
        default=1.0,
        metadata=_rule(
            "Share of the variance between channels left to them", most=1.0, searched=True, per_condition=True
        ),
    )
    channel_prior: Any = field(
        default=0.0,
        metadata=_rule("Prior of U, in channels per channel", most=MOST_PRIOR, searched=True, per_condition=True),
    )
    interaction: Any = field(
        default=0.0,
        metadata=_rule(
            "Speaker-by-channel interaction: 0 (none), a number (kappa), proportional, full or split.",
            most=MOST_KAPPA,
            choices=FORMS,
            searched=True,
        ),
    )
    interaction_rank: int | None = field(
        default=None, metadata=_rule("Columns of G in the full form.", least=1, whole=True, rank=True)
    )
    interaction_prior: tuple[float, float] = field(
        default=(0.4, 10.0), metadata=_rule("Prior of kappa: its value, and its weight in cells.")
    )
    cell_share: float = field(
        default=1.0, metadata=_rule("Share of the interaction that scoring counts on.", most=1.0, searched=True)
    )
    noise_floor: float = field(
        default=1e-6, metadata=_rule("Least noise variance, as a share of the total variance.", most=1.0)
    )

    def __post_init__(self) -> None:
        for name, rule in RULES.items():
            value = getattr(self, name)
            if rule.per_condition and isinstance(value, list | np.ndarray):
                listed = value.tolist() if isinstance(value, np.ndarray) else value
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


def checked_settings(values: Mapping[str, Any]) -> ModelSettings:
    """Settings from arguments; raise if one is out of its range.

    Ranks and settings per condition are checked by ``resolve``, which knows the dimension and the conditions.
    """
    checked = dict(values)
    for name, value in values.items():
        rule = RULES[name]
        if rule.rank or rule.per_condition:
            continue
        if name == "interaction_prior":
            checked[name] = _checked_prior(value)
        elif rule.choices and (isinstance(value, str) or name != "interaction"):
            checked[name] = check_choice(name, value, rule.choices)
        else:
            number = check_number(name, value, rule.least, rule.most, whole=rule.whole)
            checked[name] = int(number) if rule.whole else number
    return ModelSettings(**checked)


def per_condition(name: str, setting: Any, conditions: int) -> tuple[float, ...]:
    """A number for each condition, from a setting that is one number for all of them or a list."""
    rule = RULES[name]
    values = np.asarray(setting, dtype=object)
    if values.ndim == 0:
        return (check_number(name, values.item(), rule.least, rule.most),) * conditions
    if values.ndim > 1 or len(values) != conditions:
        problem = f"expected one number, or a list with one for each condition (there are {conditions})"
        raise InputError(f"{problem}, got {setting!r:.60}.", parameter=name)
    return tuple(check_number(name, value, rule.least, rule.most) for value in values.tolist())


def _checked_prior(prior: Any) -> tuple[float, float]:
    try:
        value, weight = prior
    except (TypeError, ValueError):
        problem = f"expected a pair (value, weight), got {prior!r:.60}."
        raise InputError(problem, parameter="interaction_prior") from None
    value = check_number("interaction_prior", value, 0.0, MOST_KAPPA)
    return value, check_number("interaction_prior", weight, 0.0, MOST_PRIOR)
