"""The states of a conversation's tree, and the next tokens after them."""

from dataclasses import dataclass, field

import numpy as np

from llmchecker.checking.conversations.answer_tree import GivenAnswer
from llmchecker.checking.conversations.conversation import SimulatedUser

Texts = tuple[str, ...]
"""Texts of answers or of messages, in the order of the turns."""
RowKey = tuple[SimulatedUser | None, tuple[int, ...], tuple[int, ...]]
"""A writer, a prompt and the tokens after it."""


@dataclass(frozen=True)
class Row:
    """The next tokens of a visited state.

    Attributes:
        tokens: (n,) int64, the most probable tokens, most probable first.
        probabilities: (n,) float64, all above 0.
        rest: the probability of all other tokens; exactly 0 if they have none.
    """

    tokens: np.ndarray
    probabilities: np.ndarray
    rest: float


@dataclass(eq=False)
class State:
    """The beginning of an answer or of a simulated message, after the messages before it.

    Attributes:
        parent: the state without the last token; None for the first state.
        user: the simulated user that writes a message; None if the model writes an answer.
        prompt: the tokens before the answer or the message.
        tokens: the tokens of the beginning.
        given: the answers before it with their scores; also this one, or its beginning, if it
            decides.
        message: the message of a simulated user after these answers; None without one.
        obligation: the obligation of the formula before this answer.
        mass: the probability of the path.
        depth: the number of states before it.
        is_listed: whether the state and all before it were listed, so that its mass counts.
        is_complete: whether it ends the conversation.
        truth: the truth of the formula; None if it is undecided.
        row: the next tokens; None before a visit.
        weights: (n + 1,) float64, how much of the probability of each next token is undecided, and
            the rest.
        children: the states after listed tokens, by their index in the row.
    """

    parent: "State | None"
    user: SimulatedUser | None
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    given: tuple[GivenAnswer, ...]
    message: str | None
    obligation: int
    mass: float
    depth: int = 0
    is_listed: bool = True
    is_complete: bool = False
    truth: bool | None = None
    row: Row | None = None
    weights: np.ndarray | None = None
    children: "dict[int, State]" = field(default_factory=dict)

    @property
    def turn(self) -> int:
        """The number of the answer, or of the answer after the message."""
        return 1 + len(self.given)

    @property
    def answers(self) -> Texts:
        """The texts of the answers."""
        return tuple(answer.text for answer in self.given)

    @property
    def simulated(self) -> Texts:
        """The messages of simulated users."""
        messages = (*(answer.message for answer in self.given), self.message)
        return tuple(message for message in messages if message is not None)

    @property
    def cut_count(self) -> int:
        """The number of answers that the horizon cut."""
        return sum(answer.has_ended is False for answer in self.given)

    @property
    def row_key(self) -> RowKey:
        """What determines the next tokens: the writer, the prompt and the tokens."""
        return self.user, self.prompt, self.tokens

    @property
    def undecided_share(self) -> float:
        """The undecided part of its probability."""
        if self.truth is not None:
            return 0.0
        return 1.0 if self.weights is None else float(self.weights.sum())


Step = tuple[State, int, int, float]
"""A state, the index of a next token (-1 if it is not listed), the token and its probability."""
