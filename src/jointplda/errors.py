"""Everything jointplda raises or warns of.

JointPLDAError
├── InputError (also ValueError)        samples, labels or settings that cannot be used
├── FileError (also ValueError)         a file that is damaged, foreign, or cannot hold what it should
└── TooLargeError (also MemoryError)    a crossing of labels that does not fit in memory

DataWarning (UserWarning)               the fit goes on, but the data do not support all that was asked
"""


class JointPLDAError(Exception):
    """Base of every error of this package."""


class InputError(JointPLDAError, ValueError):
    """Samples, labels or settings that cannot be used; says what was expected, what came, what to try."""


class FileError(JointPLDAError, ValueError):
    """A file that is damaged, foreign, or cannot hold what it should."""


class TooLargeError(JointPLDAError, MemoryError):
    """The exact solution would need more memory than is allowed."""


class DataWarning(UserWarning):
    """The data do not support all that was asked of them."""
