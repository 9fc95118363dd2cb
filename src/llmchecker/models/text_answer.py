"""Answers of models that return texts alone, and the interface of such a model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol, runtime_checkable

from llmchecker.errors import ConfigError, LLMCheckerError, SourceUnavailable
from llmchecker.models.decoding.chat_template import Start


class Finish(StrEnum):
    """The reason why an answer ends."""

    ENDED = "ended"
    """The model ended it."""
    MAX_TOKENS = "max_tokens"
    """`max_tokens` of the deployment ended it."""
    TRUNCATED = "truncated"
    """It has the tokens of the horizon, and would go on."""
    FILTERED = "filtered"
    """A content filter withheld it, or a part of it."""
    CALLED = "called"
    """It calls a tool of the provider in place of an answer, and a call is no text."""
    MISSING = "missing"
    """The provider returned no answer, no text, or an answer without a known reason."""


@dataclass(frozen=True)
class TextStream:
    """A sequence of independent answers to one prompt.

    Attributes:
        prompt: the prompt.
        length: the largest number of tokens of an answer.
        seed: what distinguishes sequences of answers to equal prompts.
    """

    prompt: Start
    length: int
    seed: int


@dataclass(frozen=True)
class ListedToken:
    """A sampled token with the log probabilities that a provider lists at its place.

    Attributes:
        text: the token as the provider writes it.
        logprob: natural logarithm of its probability.
        listed: the texts of the most probable tokens, with their log probabilities.
    """

    text: str
    logprob: float
    listed: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class TextAnswer:
    """An answer.

    Attributes:
        text: the text; empty for an answer that has none, which is no sample.
        finish: the reason why it ends.
        is_repeated: whether an earlier answer was lost on its way, such as by a time limit. Long
            answers are lost more often, so that this one is no fair sample.
        choice_count: number of answers in the response, of which the first one counts.
        time: when it was received, as `2026-01-31T12:00:00Z`.
        model: the provider's name of the model that answered; None without one.
        prompt_tokens, answer_tokens: numbers of tokens; None if unknown.
        thought: the thought that the provider returned apart, which is no part of the text.
        tokens: the tokens with their log probabilities; empty without these. The token of the end
            is the last one if the provider lists it.
    """

    text: str
    finish: Finish
    is_repeated: bool = False
    choice_count: int = 1
    time: str = ""
    model: str | None = None
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    thought: str = ""
    tokens: tuple[ListedToken, ...] = ()

    @property
    def is_sample(self) -> bool:
        """Whether the answer is a sample of the model's texts that was received whole."""
        return (self.has_ended or self.finish is Finish.TRUNCATED) and not self.is_repeated

    @property
    def has_ended(self) -> bool:
        """Whether the answer is one that people get, and not its beginning."""
        return self.finish in (Finish.ENDED, Finish.MAX_TOKENS)


@runtime_checkable
class TextModel(Protocol):
    """A model that returns texts alone.

    Attributes:
        name: name of the model in messages.
    """

    name: str

    @property
    def description(self) -> str:
        """The provider's model and its address, for notes."""
        ...

    def check_prompt(self, prompt: Start) -> None:
        """Check that the model accepts the form of a prompt.

        Raises:
            ConfigError: it does not.
        """
        ...

    def iter_answers(
        self,
        next_request: Callable[[], tuple[TextStream, int] | None],
        must_stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[TextStream, TextAnswer | LLMCheckerError]]:
        """Yield answers in the order of their requests, of which several are sent at once.

        Args:
            next_request: returns the next answer to request, as its sequence and its number in it;
                None while no further answer is wanted.
            must_stop: called while an answer is awaited; no further answer is yielded when it
                returns true.
        """
        ...

    def find_spent_limit(self, stream: TextStream, number: int) -> str | None:
        """Return the limit of tokens or money that forbids an answer; None if none does."""
        ...


def format_time() -> str:
    """Format the current time for `TextAnswer.time`."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def answer_prompts(model: TextModel, streams: Sequence[TextStream]) -> list[TextAnswer]:
    """Return the first answer of each sequence, requested at most once.

    Raises:
        ConfigError: a limit of tokens or money forbids an answer.
        LLMCheckerError: the provider gives no answer.
    """
    waiting = iter(dict.fromkeys(streams))
    limits: list[str] = []

    def choose_request() -> tuple[TextStream, int] | None:
        stream = next(waiting, None)
        if stream is None or limits:
            return None
        # of answers under way the largest costs count
        if (limit := model.find_spent_limit(stream, 0)) is not None:
            limits.append(limit)
            return None
        return stream, 0

    answers: dict[TextStream, TextAnswer] = {}
    for stream, answer in model.iter_answers(choose_request):
        if isinstance(answer, LLMCheckerError):
            raise answer
        answers[stream] = answer
    if limits:
        raise ConfigError(f"{model.name}: {limits[0]}; raise the limit")
    if missing := len(set(streams) - answers.keys()):
        raise SourceUnavailable(f"{model.name}: {missing} answers are missing; run again")
    return [answers[stream] for stream in streams]
