"""Parts of a conversation: answers, and messages of simulated users."""

from collections.abc import Callable
from functools import cached_property

from llmchecker.checking.conversations.answer_tree import GivenAnswer
from llmchecker.processes.process import Part, Stage

Texts = tuple[str, ...]
"""Texts of answers or of messages, in the order of the turns."""


class TurnPart(Part):
    """An answer, or the message of a simulated user, after the answers before it.

    Attributes:
        given: the answers before it.
        message: the message of a simulated user after these answers; None without one.

    Args:
        stage: the stage.
        given, message: as above.
        messages: the messages before it, as quantifiers read them.
        encode: returns the tokens of the messages before it.
        is_thought_cut: as in `Part`.
    """

    def __init__(
        self,
        stage: Stage,
        given: tuple[GivenAnswer, ...],
        message: str | None,
        messages: str,
        encode: Callable[[], tuple[int, ...]],
        *,
        is_thought_cut: bool,
    ) -> None:
        self.stage, self.given, self.message, self.messages = stage, given, message, messages
        self.cut_count = sum(answer.has_ended is False for answer in given)
        self.is_thought_cut = is_thought_cut
        self._encode = encode

    @cached_property
    def prompt(self) -> tuple[int, ...]:
        return self._encode()

    @property
    def answers(self) -> Texts:
        """The texts of the answers before it, thoughts and marks included."""
        return tuple(answer.text for answer in self.given)
