"""Everything jointplda raises or warns of.

JointPLDAError
├── InputError (also ValueError)        samples, labels or settings that cannot be used
│   └── InputTypeError (also TypeError)     samples of a kind that cannot be used
├── FileError (also ValueError)         a file that is damaged, foreign, or cannot hold what it should
├── TooLargeError (also MemoryError)    a crossing of labels that does not fit in memory
└── ClusterError (also RuntimeError)    other processes or machines that could not do their part

DataWarning (UserWarning)               the fit goes on, but the data do not support all that was asked
└── MildWarning                         the same, of no consequence where settings are chosen automatically

Errors and warnings carry what they speak of as data: the parameter at fault, and a setting that would help. In Python
their text names both as arguments; the command line names them as its options.
"""

import os
import sys
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True)
class Remedy:
    """A setting that would let the work go on.

    Attributes
    ----------
    parameter : str
        The name of the setting, such as "allow_missing".
    value : object
        The value that helps.
    effect : str
        What this value does, in words that can follow it: "leaves them out".
    """

    parameter: str
    value: object
    effect: str

    def __str__(self) -> str:
        return f"{self.parameter}={self.value!r} {self.effect}."


@dataclass(frozen=True)
class Advice:
    """What to try, where that differs between Python and the command line.

    Attributes
    ----------
    python : str
        Sentences for users of the library.
    command_line : str
        Sentences for users of the command line, which may name options; empty if there is nothing to say there.
    """

    python: str
    command_line: str

    def __str__(self) -> str:
        return self.python


class Explained(Exception):
    """An error or warning whose text comes in parts.

    Attributes
    ----------
    problem : str
        What was expected, what came and what to try wherever it came from, without the name of the parameter.
    parameter : str or None
        The argument at fault.
    remedy : Remedy, Advice or None
    """

    def __init__(
        self, problem: str = "", *, parameter: str | None = None, remedy: Remedy | Advice | None = None
    ) -> None:
        self.problem, self.parameter, self.remedy = problem, parameter, remedy
        text = problem if parameter is None else f"{parameter}: {problem}"
        super().__init__(text if remedy is None else f"{text} {remedy}")


class JointPLDAError(Explained):
    """Base of every error of this package."""


class InputError(JointPLDAError, ValueError):
    """Samples, labels or settings that cannot be used."""


class InputTypeError(InputError, TypeError):
    """Samples of a kind that cannot be used, such as sparse ones or words."""


class FileError(JointPLDAError, ValueError):
    """A file that is damaged, foreign, or cannot hold what it should."""


class TooLargeError(JointPLDAError, MemoryError):
    """The exact solution would need more memory than is allowed."""


class ClusterError(JointPLDAError, RuntimeError):
    """Other processes or machines could not do their part of the work."""


class DataWarning(Explained, UserWarning):
    """The data do not support all that was asked of them."""


class MildWarning(DataWarning):
    """Something is left out of a plain fit, which does no harm where settings are chosen automatically."""


def warn(
    problem: str,
    category: type[Warning] = DataWarning,
    *,
    parameter: str | None = None,
    remedy: Remedy | Advice | None = None,
) -> None:
    """Warn at the line of the user's own code that led here, past the frames of this package and of scikit-learn."""
    level, frame = 2, sys._getframe(1)
    folders = _library_folders()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(folders):
        frame, level = frame.f_back, level + 1
    message: Warning | str = problem
    if issubclass(category, DataWarning):
        message = category(problem, parameter=parameter, remedy=remedy)
    warnings.warn(message, category, stacklevel=level)


def _library_folders() -> tuple[str, ...]:
    """Folders whose code is never the user's own: this package, scikit-learn, joblib."""
    specs = [find_spec(name) for name in ("sklearn", "joblib")]
    files = [__file__, *(spec.origin for spec in specs if spec is not None and spec.origin is not None)]
    return tuple(f"{Path(file).parent}{os.sep}" for file in files)
