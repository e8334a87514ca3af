"""Checks of settings, whose errors name the parameter, what was expected and what came."""

import numbers
from typing import Any

import numpy as np

from jointplda.errors import InputError


def check_number(name: str, value: Any, least: float, most: float = np.inf, *, whole: bool = False) -> float:
    """Return the value as a float; raise unless it is a finite number from ``least`` to ``most``."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    kind = numbers.Integral if whole else numbers.Real
    if isinstance(value, bool) or not isinstance(value, kind) or not least <= float(value) <= most or value == np.inf:
        what = "a whole number" if whole else "a number"
        range_text = f"at least {least:g}" if most == np.inf else f"from {least:g} to {most:g}"
        hint = " (the dimension of the embeddings)" if name.endswith("_rank") and most != np.inf else ""
        raise InputError(f"expected {what} {range_text}{hint}, got {value!r:.60}.", parameter=name)
    return float(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return the value; raise unless it is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        listed = " or ".join([", ".join(f'"{c}"' for c in choices[:-1]), f'"{choices[-1]}"'])
        raise InputError(f"expected {listed}, got {value!r:.60}.", parameter=name)
    return value
