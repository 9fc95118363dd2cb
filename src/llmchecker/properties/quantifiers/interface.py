"""Protocol of quantifiers, and common checks of their settings."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

from llmchecker.errors import ConfigError, did_you_mean
from llmchecker.models.decoding.answer_format import AnswerFormat
from llmchecker.models.decoding.answer_reader import (
    ANSWER,
    OUTPUT,
    READ_PARTS,
    THOUGHT,
    AnswerReader,
)
from llmchecker.properties.logic.valuations import ScoreRange
from llmchecker.utils.printable_text import quote_value

TEXT_PARTS = ("continuation", "text", THOUGHT, OUTPUT)
"""Parts of a text that a quantifier may read.

These are the answer without and with the start string, the thoughts before it, and all that the
model wrote. Without thoughts the output is the answer.
"""

_MAX_LIMIT = 2**52
"""The largest size of a limit. The difference of two such limits is exact in float64."""


class Quantifier(Protocol):
    """Protocol of a total, deterministic function from texts to integers.

    An implementation is a frozen dataclass whose fields are its settings. A setting that is a file
    must be a Path, so that texts are scored again when the file changes. The constructor raises
    ConfigError for an unusable setting, with the name of the setting in the message.

    Attributes:
        minimum: minimum score; None for no limit.
        maximum: maximum score; None for no limit.
    """

    minimum: int | None
    maximum: int | None

    def __call__(self, start: str, continuation: str) -> int:
        """Score the text `start + continuation`; only `continuation` was generated."""
        ...


@runtime_checkable
class _HasFinalScores(Protocol):
    """Protocol of a quantifier with final scores, which a text never loses.

    Attributes:
        final: scores that every continuation of a text with the score has too.
    """

    final: Collection[int]


@runtime_checkable
class BatchQuantifier(Protocol):
    """Protocol of a quantifier that scores batches faster than single texts."""

    def score_batch(self, texts: Sequence[tuple[str, str]]) -> list[int]:
        """Return the scores of texts, each a start string and a continuation.

        The scores equal those of `__call__`.
        """
        ...


@runtime_checkable
class JudgesAnswers(Protocol):
    """Protocol of a quantifier that judges answers to chats, such as `Judge`.

    It reads no beginnings of texts where only their ends matter. Its scores need notes next to a
    verdict.
    """

    def build_notes(self, model: object, *, is_measured: bool = False) -> list[str]:
        """Build the notes on verdicts about a model: a `ModelConfig`, or a loaded model.

        Args:
            model: the model.
            is_measured: whether the errors of the judge are in the confidence.
        """
        ...


@runtime_checkable
class _ReadsCalls(Protocol):
    """Protocol of a quantifier that reads answers in the format of a model."""

    def read_as(self, answer_format: AnswerFormat) -> Quantifier:
        """Return the quantifier that reads answers in a format."""
        ...


def bind_quantifiers(
    quantifiers: Mapping[str, Quantifier], answer_format: AnswerFormat
) -> dict[str, Quantifier]:
    """Return quantifiers that read answers in the format of a model.

    Raises:
        UnusableText: one cannot, as with calls in an unknown format.
    """
    return {
        name: each.read_as(answer_format) if isinstance(each, _ReadsCalls) else each
        for name, each in quantifiers.items()
    }


def _collect_range(quantifier: Quantifier) -> ScoreRange:
    """Return the range of a quantifier with its final scores."""
    low, high = (
        # no limit in its place makes bounds wider, and never wrong
        None if limit is None or abs(limit) > _MAX_LIMIT else limit
        for limit in (quantifier.minimum, quantifier.maximum)
    )
    # `final` is optional: most quantifiers have no final scores
    final_scores = sorted(quantifier.final) if isinstance(quantifier, _HasFinalScores) else ()
    return (low, high, *final_scores)


def collect_ranges(quantifiers: Mapping[str, Quantifier]) -> dict[str, ScoreRange]:
    """Return the range of each quantifier by its name."""
    return {name: _collect_range(quantifier) for name, quantifier in quantifiers.items()}


def select_part(start: str, continuation: str, part: str) -> str:
    """Return the part of a text that a quantifier reads.

    Args:
        start: the start string.
        continuation: the generated text.
        part: one of `TEXT_PARTS`.
    """
    return start + continuation if part == "text" else continuation


def find_part(quantifier: object) -> str:
    """Return the part of `READ_PARTS` from which a quantifier's continuation is."""
    part = getattr(quantifier, "of", ANSWER)
    return part if isinstance(part, str) and part in READ_PARTS else ANSWER


def check_parts(quantifiers: Mapping[str, Quantifier], reader: AnswerReader) -> None:
    """Check that answers have the parts that quantifiers read.

    Raises:
        ConfigError: a quantifier reads thoughts, and no marks of thoughts are known.
    """
    for name, quantifier in quantifiers.items():
        if reader.marks is None and find_part(quantifier) == THOUGHT:
            raise ConfigError(
                f"quantifier {name!r}: of: the answers have no known thoughts; write the marks as "
                "`thought` of the model"
            )


def check_one_of(key: str, value: object, choices: tuple[str, ...]) -> None:
    """Check that a setting has one of its allowed values.

    Raises:
        ConfigError: the value is not allowed.
    """
    if not isinstance(value, str) or value not in choices:
        hint = did_you_mean(str(value), choices) or ";"
        raise ConfigError(
            f"{key}: {quote_value(value)} is unknown{hint} use one of {', '.join(choices)}"
        )
