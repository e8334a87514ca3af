"""What a fold fits: a front end and the settings of the model behind it."""

from dataclasses import dataclass
from typing import Any

from jointplda.model.settings import ModelSettings


@dataclass(frozen=True)
class Recipe:
    """How embeddings become a fitted model.

    Attributes
    ----------
    settings : ModelSettings
        Of the model.
    front_end : tuple of transformers
        Unfitted steps that come before the model.
    """

    settings: ModelSettings
    front_end: tuple[Any, ...] = ()
