"""Every error that the package raises on purpose.

    LLMCheckerError
    ├── ConfigError              a configuration that cannot run
    │   ├── InvalidBound         alpha outside [0, 1], k or L below 1
    │   ├── UnknownName          a model, start string, quantifier or column that is not defined
    │   └── InvalidQuery         a query that does not parse or that Storm cannot check
    ├── SourceError              a model, a data set or programs that cannot be fetched
    │   ├── ChecksumMismatch     what was fetched is not what the config names
    │   ├── SourceUnavailable    the network, the hub or the registry did not deliver
    │   │   ├── CommitMissing    the hub has the repository, but not the commit
    │   │   └── RequestRefused   a server read a question and will not answer it
    │   ├── UnusableModel        fetched files from which no model can be loaded safely
    │   ├── UnusableDataset      a fetched file that cannot be read as a table
    │   └── UnusablePrograms     an archive from which no programs can be taken safely
    ├── InvalidDistribution      a model's answer that is no probability distribution
    ├── UnusableText             a text that a model cannot read: too long, or not read as text
    ├── InvalidTree              columns that do not form a text tree
    ├── InvalidTable             published figures that contradict what they stand for
    ├── DamagedFile              a file of this package that has changed since it was written
    ├── InvalidEstimate          samples or a confidence from which nothing can be estimated
    ├── CheckFailed              Storm gave no answer, or two routes to the same answer disagree
    ├── MissingTool              a program that must be installed is not
    ├── MachineLimit             what the machine has no room, memory, right or device for
    └── ProgramError             a C program that cannot be treated
        ├── UnreadableProgram    a file that cannot be read or is not C
        └── UnsupportedProgram   C that the front end does not cover

Every message tells the person who reads it which value is wrong, where it came from, and what would
be right.
"""

import difflib
from collections.abc import Iterable


class LLMCheckerError(Exception):
    """Base of all errors of this package; the message can be understood without a traceback."""


class ConfigError(LLMCheckerError):
    """A configuration that cannot run."""


class InvalidBound(ConfigError, ValueError):
    """An alpha outside [0, 1], or a k or L below 1."""


class UnknownName(ConfigError):
    """A name that refers to nothing: model, start string, quantifier, column."""


class InvalidQuery(ConfigError):
    """A query that does not parse, names no known variable, or that Storm cannot check."""


class SourceError(LLMCheckerError):
    """A model, a data set or programs that cannot be fetched."""


class ChecksumMismatch(SourceError):
    """What was fetched is not what the config names."""


class SourceUnavailable(SourceError):
    """The network, the hub or the registry did not deliver."""


class CommitMissing(SourceUnavailable):
    """The hub has the repository, but not the commit."""


class RequestRefused(SourceUnavailable):
    """A server read a question and will not answer it, however often it is asked."""


class UnusableModel(SourceError):
    """Fetched files from which no model can be loaded safely."""


class UnusableDataset(SourceError):
    """A fetched file that cannot be read as a table."""


class UnusablePrograms(SourceError):
    """An archive from which no programs can be taken safely."""


class InvalidDistribution(LLMCheckerError, ValueError):
    """A model's answer that is no probability distribution: not finite, or not adding up to 1."""


class UnusableText(LLMCheckerError, ValueError):
    """A text that a model cannot read: it is too long, or a part of it is not read as text."""


class InvalidTree(LLMCheckerError, ValueError):
    """Columns that do not form a text tree."""


class InvalidTable(LLMCheckerError, ValueError):
    """Published figures that contradict what they stand for."""


class DamagedFile(LLMCheckerError):
    """A file of this package that has changed since it was written."""


class InvalidEstimate(LLMCheckerError):
    """Samples or a confidence from which nothing can be estimated."""


class CheckFailed(LLMCheckerError):
    """Storm gave no answer, or two routes to the same answer disagree."""


class MissingTool(LLMCheckerError):
    """A program that must be installed is not."""


class MachineLimit(LLMCheckerError):
    """What the machine has no room, memory, right or device for."""


class ProgramError(LLMCheckerError):
    """A C program that cannot be treated."""


class UnreadableProgram(ProgramError):
    """A file that cannot be read or is not C."""


class UnsupportedProgram(ProgramError):
    """C that the front end does not cover."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the closest known name, or nothing if none is."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f", did you mean {close[0]!r}?" if close else ""
