"""Exceptions that the package raises on purpose.

    LLMCheckerError
    ├── ConfigError              a configuration that cannot run
    │   ├── InvalidBound         alpha outside [0, 1], k or L below 1
    │   ├── UnknownName          an undefined model, start string, quantifier or column
    │   └── InvalidQuery         a query that does not parse or that Storm cannot check
    ├── SourceError              a model, a data set or programs that cannot be fetched
    │   ├── ChecksumMismatch     a file that differs from its checksum, or changed during a run
    │   ├── SourceUnavailable    a failure of the network, the hub or the registry
    │   │   ├── CommitMissing    a commit that the hub's repository lacks
    │   │   ├── NoResponse       a server that does not respond to any attempt
    │   │   └── RequestRefused   a request that a server read and rejected
    │   ├── UnusableModel        fetched files from which no model can be loaded safely
    │   ├── UnusableDataset      a fetched file that cannot be read as a table
    │   └── UnusablePrograms     an archive from which no programs can be extracted safely
    ├── InvalidDistribution      model output that is not a probability distribution
    ├── UnusableText             a text that is too long for a model or cannot be encoded
    ├── InvalidTree              columns that do not form a text tree
    ├── InvalidTable             inconsistent published figures
    ├── DamagedFile              a file of this package that changed after it was written
    ├── InvalidEstimate          samples that allow no estimate
    ├── TooManyStates            a transducer with more states than a table holds
    ├── CheckFailed              Storm failed, or two computations of one answer disagree
    │   ├── ImpossibleCondition  a conditional whose condition no text can satisfy
    │   └── InterruptedCheck     a model that failed in the middle of a check
    │       └── CancelledCheck   a check whose answer is not needed any more
    ├── NoTruthValue             an answer that is neither true nor false
    ├── MissingTool              a required program that is not installed
    ├── MachineLimit             missing disk space, memory, permission or device
    └── ProgramError             a C program that cannot be processed
        ├── UnreadableProgram    a file that cannot be read or is not C
        └── UnsupportedProgram   C that the front end does not cover

Every message names the wrong value, its place, and the fix.
"""

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any


class LLMCheckerError(Exception):
    """Base class of all errors of this package.

    The message is complete without a traceback.
    """


class ConfigError(LLMCheckerError):
    """A configuration that cannot run."""


class InvalidBound(ConfigError, ValueError):
    """An alpha outside [0, 1], or a k or L below 1."""


class UnknownName(ConfigError):
    """An undefined name of a model, start string, quantifier or column."""


class InvalidQuery(ConfigError):
    """A query that does not parse, has unknown names, or that Storm cannot check."""


class SourceError(LLMCheckerError):
    """A model, a data set or programs that cannot be fetched."""


class ChecksumMismatch(SourceError):
    """A file that differs from its checksum, or that changed during a run."""


class SourceUnavailable(SourceError):
    """A failure of the network, the hub or the registry."""


class CommitMissing(SourceUnavailable):
    """A commit that the hub's repository lacks."""


class NoResponse(SourceUnavailable):
    """A server that does not respond to any attempt."""


class RefusedPart(Enum):
    """A part of a request that a server rejects."""

    PATH = auto()
    """The path, which the server does not have."""
    LIMIT_NAME = auto()
    """The name of the limit of tokens."""
    SEED = auto()
    TEMPERATURE = auto()
    TOP_P = auto()
    LOG_PROBABILITIES = auto()
    """The number of log probabilities."""
    CONTENT = auto()
    """The prompt or its answer, which a content filter withholds."""


class RequestRefused(SourceUnavailable):
    """A request that a server read and rejected; retries do not help.

    Attributes:
        parts: the parts of the request that the server's response names.
    """

    def __init__(self, problem: str, parts: frozenset[RefusedPart] = frozenset()) -> None:
        # an exception is pickled by its `args`, so these must be all arguments
        super().__init__(problem, parts)
        self.problem, self.parts = problem, parts

    def __str__(self) -> str:
        return self.problem


class UnusableModel(SourceError):
    """Fetched files from which no model can be loaded safely."""


class UnusableDataset(SourceError):
    """A fetched file that cannot be read as a table."""


class UnusablePrograms(SourceError):
    """An archive from which no programs can be extracted safely."""


class InvalidDistribution(LLMCheckerError, ValueError):
    """Model output that is not a distribution: not finite, or its sum is not 1."""


class UnusableText(LLMCheckerError, ValueError):
    """A text that is too long for a model or that its tokenizer cannot encode."""


class InvalidTree(LLMCheckerError, ValueError):
    """Columns that do not form a text tree."""


class InvalidTable(LLMCheckerError, ValueError):
    """Inconsistent published figures."""


class DamagedFile(LLMCheckerError):
    """A file of this package that changed after it was written.

    Attributes:
        problem: str, the path and the damage.
        path: path of the file; None if unknown.
        fix: str, the advice that ends the message outside a job.
    """

    def __init__(
        self, problem: str, path: str | os.PathLike[str] | None = None, fix: str = ""
    ) -> None:
        # an exception is pickled by its `args`, so these must be all arguments
        super().__init__(problem, path, fix)
        self.problem, self.path, self.fix = problem, path, fix

    def __str__(self) -> str:
        return f"{self.problem}{self.fix}"


class InvalidEstimate(LLMCheckerError):
    """Samples that allow no estimate."""


class TooManyStates(LLMCheckerError):
    """A transducer with more states or transitions than a table holds."""


class CheckFailed(LLMCheckerError):
    """Storm failed, or two computations of one answer disagree."""


class ImpossibleCondition(CheckFailed):
    """A conditional whose condition has probability 0 for every text of the model."""


class InterruptedCheck(CheckFailed):
    """A model that failed in the middle of a check, after it had evaluated texts.

    The cause of this error is the error of the model.

    Attributes:
        result: the answer so far, which is as right as that of a shorter check.
    """

    def __init__(self, problem: str, result: Any) -> None:
        # an exception is pickled by its `args`, so these must be all arguments
        super().__init__(problem, result)
        self.problem, self.result = problem, result

    def __str__(self) -> str:
        return self.problem


class CancelledCheck(InterruptedCheck):
    """A check whose answer is not needed any more.

    Attributes:
        result: the answer so far. When the check was cancelled may depend on it.
    """

    def __init__(self, result: Any) -> None:
        super().__init__("the answer is not needed any more", result)
        self.args = (result,)


class NoTruthValue(LLMCheckerError, ValueError):
    """An answer that is neither true nor false: a number, or unknown."""


class MissingTool(LLMCheckerError):
    """A required program that is not installed."""


class MachineLimit(LLMCheckerError):
    """Missing disk space, memory, permission or device."""


class ProgramError(LLMCheckerError):
    """A C program that cannot be processed."""


class UnreadableProgram(ProgramError):
    """A file that cannot be read or is not C."""


class UnsupportedProgram(ProgramError):
    """C that the front end does not cover."""


def add_place(place: str, message: str) -> str:
    """Return a message after its place: `it is empty` in `user` is `user: it is empty`.

    An index at the beginning of the message extends the place: `[1].user: it is empty` in
    `messages` is `messages[1].user: it is empty`.
    """
    separator = "" if re.match(r"\[\d+\][.:]", message) else ": "
    return f"{place}{separator}{message}"


@contextmanager
def prefix_errors(place: str) -> Iterator[None]:
    """Add a place to the messages of this package's errors in the block, as `add_place`."""
    try:
        yield
    except LLMCheckerError as error:
        raise _replace_message(error, lambda message: add_place(place, message)) from error


@contextmanager
def name_arguments(prefix: str) -> Iterator[None]:
    """Make the key at the beginning of messages in the block an argument: `top_k` is `--top-k`.

    Args:
        prefix: the beginning of the names of the arguments, such as `--` or `versus_`.
    """

    def rename(message: str) -> str:
        key, colon, problem = message.partition(":")
        return f"{prefix}{key.replace('_', '-') if prefix.startswith('-') else key}{colon}{problem}"

    try:
        yield
    except LLMCheckerError as error:
        raise _replace_message(error, rename) from error


def _replace_message(error: LLMCheckerError, replace: Callable[[str], str]) -> LLMCheckerError:
    """Return an error of the same class, such as `UnknownName`, with the same fields."""
    problem, *fields = error.args
    return type(error)(replace(str(problem)), *fields)


_SYNONYMS = {
    **dict.fromkeys(("regex", "regexp"), ("matches", "pattern")),
    **dict.fromkeys(("refusal", "is_refusal"), ("refuses",)),
    **dict.fromkeys(("is_json", "json_schema", "schema"), ("json",)),
    **dict.fromkeys(("guided_json", "response_format", "structured_outputs"), ("json_schema",)),
    "guided_regex": ("regex",),
    "min_tokens": ("min_new_tokens",),
    **dict.fromkeys(("eos_token_id", "stop_token_ids"), ("end_tokens",)),
    "guided_grammar": ("grammar",),
    "guided_choice": ("choice",),
    **dict.fromkeys(
        ("max_tokens", "max_new_tokens", "num_predict", "max_completion_tokens"),
        ("max_tokens", "length"),
    ),
    **dict.fromkeys(("startswith", "prefix"), ("starts_with",)),
    **dict.fromkeys(("endswith", "suffix"), ("ends_with",)),
    **dict.fromkeys(("llm_rubric", "g_eval"), ("judge",)),
    "sentiment": ("polarity",),
    "word_count": ("max_words", "words"),
}
"""Names in other programs, each with its names here."""
_ABSENT_FEATURES = {
    **dict.fromkeys(
        ("stop", "stop_sequences", "stop_strings"),
        "stops are a setting of a model; write `stop` next to `decoding`",
    ),
    "n": "each answer is a sample of its own; limit their number by `answers`",
    "seed": "the seed of a run is that of `answer` or of the suite, and each answer has its own",
}
"""Reasons why features of other programs are absent, by their names there."""
_NEGATION = "not_"


def explain_absence(name: str) -> str | None:
    """Return why a key or option of other programs is not one here; None for other names."""
    return _ABSENT_FEATURES.get(_strip(name))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known name that is meant or the closest, or "" without one.

    The hint is the end of a message about an unknown name. Keys and options are compared without
    dashes, which would make all options similar.
    """
    # `stop` resembles `top_p`, but is something else
    if explain_absence(name) is not None:
        return ""
    # of equal names, the first one
    plain_names = {_strip(each): each for each in reversed(list(known))}
    plain_name = _strip(name)
    negation = _NEGATION if plain_name.startswith(_NEGATION) else ""
    synonyms = _SYNONYMS.get(plain_name.removeprefix(_NEGATION), ())
    match = next((negation + each for each in synonyms if negation + each in plain_names), None)
    if match is None:
        similar = difflib.get_close_matches(plain_name, plain_names, n=1)
        match = similar[0] if similar else None
    return "" if match is None else f", did you mean {plain_names[match]!r}?"


def _strip(name: str) -> str:
    """Return a key, or an option without its value, as a key."""
    option = name.partition("=")[0] if name.startswith("-") else name
    return option.lstrip("-").replace("-", "_").lower()
