"""Checks of settings against their rules, which name the setting, what was expected and what came."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jointplda._validation import check_choice, check_number
from jointplda.errors import InputError
from jointplda.model.settings import MOST_KAPPA, MOST_PRIOR, RULES, ModelSettings


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


def all_per_condition(settings: ModelSettings, conditions: int) -> dict[str, Any]:
    """Every setting that has a number for each condition, except ranks, by its name."""
    names = [name for name, rule in RULES.items() if rule.per_condition and not rule.rank]
    return {name: per_condition(name, getattr(settings, name), conditions) for name in names}


def _checked_prior(prior: Any) -> tuple[float, float]:
    try:
        value, weight = prior
    except (TypeError, ValueError):
        problem = f"expected a pair (value, weight), got {prior!r:.60}."
        raise InputError(problem, parameter="interaction_prior") from None
    value = check_number("interaction_prior", value, 0.0, MOST_KAPPA)
    return value, check_number("interaction_prior", weight, 0.0, MOST_PRIOR)
