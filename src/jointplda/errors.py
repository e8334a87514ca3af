"""Everything jointplda raises or warns of.

JointPLDAError
├── InputError (also ValueError)        samples, labels or settings that cannot be used
│   └── InputTypeError (also TypeError)     samples of a kind that cannot be used
├── FileError (also ValueError)         a file that is damaged, foreign, or cannot hold what it should
└── TooLargeError (also MemoryError)    a crossing of labels that does not fit in memory

DataWarning (UserWarning)               the fit goes on, but the data do not support all that was asked
"""

import sys
import warnings
from pathlib import Path

_QUIET = (str(Path(__file__).parent), "sklearn", "joblib")


class JointPLDAError(Exception):
    """Base of every error of this package."""


class InputError(JointPLDAError, ValueError):
    """Samples, labels or settings that cannot be used; says what was expected, what came, what to try."""


class InputTypeError(InputError, TypeError):
    """Samples of a kind that cannot be used, such as sparse ones or words."""


class FileError(JointPLDAError, ValueError):
    """A file that is damaged, foreign, or cannot hold what it should."""


class TooLargeError(JointPLDAError, MemoryError):
    """The exact solution would need more memory than is allowed."""


class DataWarning(UserWarning):
    """The data do not support all that was asked of them."""


def warn(message: str, category: type[Warning] = DataWarning) -> None:
    """Warn at the line of the user's own code that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and any(part in frame.f_code.co_filename for part in _QUIET):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
