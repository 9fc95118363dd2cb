"""Conversations: a chat, and scripted turns of a user after the model's answers.

Conversation(
    chat=Chat((("user", "Name a city."),)),
    later_turns=(ScriptedTurn.parse("Is {answer 1} in France?"),),
)

The model answers the chat, the first scripted turn follows, the model answers again, and so on.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llmchecker.errors import ConfigError
from llmchecker.models.decoding.chat_template import Chat

_REFERENCE = re.compile(r"\{answer ([0-9]+)\}")


@dataclass(frozen=True)
class ScriptedTurn:
    """A message of the user, in which earlier answers of the model may be inserted.

    Attributes:
        parts: texts, and numbers of answers from 1 on.
    """

    parts: tuple[str | int, ...]

    @classmethod
    def parse(cls, text: str) -> "ScriptedTurn":
        """Parse a text such as `Is {answer 1} in France?`; other braces are text."""
        pieces = _REFERENCE.split(text)
        # texts and numbers alternate
        parts = [int(piece) if index % 2 else piece for index, piece in enumerate(pieces)]
        return cls(tuple(part for part in parts if part != ""))

    @property
    def references(self) -> tuple[int, ...]:
        """The numbers of the inserted answers."""
        return tuple(part for part in self.parts if isinstance(part, int))

    def insert(self, answers: Sequence[str]) -> str:
        """Return the message after these answers, which are data: their braces are text."""
        return "".join(answers[part - 1] if isinstance(part, int) else part for part in self.parts)

    def __str__(self) -> str:
        return "".join(
            f"{{answer {part}}}" if isinstance(part, int) else part for part in self.parts
        )


@dataclass(frozen=True)
class Conversation:
    """A chat and the scripted turns after each of the model's answers but the last.

    Attributes:
        chat: the messages before the first answer.
        later_turns: the user's message after the first answer, the second one, and so on.

    Raises:
        ConfigError: a turn refers to an answer that does not precede it.
    """

    chat: Chat
    later_turns: tuple[ScriptedTurn, ...] = ()

    def __post_init__(self) -> None:
        for index, turn in enumerate(self.later_turns, start=1):
            for number in turn.references:
                if not 1 <= number <= index:
                    raise ConfigError(
                        f"turns[{index}]: {{answer {number}}} does not precede this turn; "
                        f"use 1 to {index}"
                    )

    @property
    def turn_count(self) -> int:
        """The number of answers."""
        return 1 + len(self.later_turns)

    @property
    def user_texts(self) -> list[str]:
        """The message of the user before each answer, as text."""
        return [self.chat.messages[-1][1], *self.turn_texts]

    @property
    def turn_texts(self) -> list[str]:
        """The later turns as text."""
        return [str(turn) for turn in self.later_turns]

    def build_chat(self, answers: Sequence[str]) -> Chat:
        """Return the messages before the next answer.

        Args:
            answers: the answers so far, fewer than `turn_count`.
        """
        messages = list(self.chat.messages)
        for index, answer in enumerate(answers):
            user = self.later_turns[index].insert(answers)
            messages += [("assistant", answer), ("user", user)]
        return Chat(tuple(messages))

    def format_lines(self, answers: Sequence[str]) -> list[str]:
        """Format the first answers and the turns between them, a line for each message.

        Each text is a JSON string, so that its line breaks do not begin a line.
        """
        messages = [("assistant", answers[0])]
        for index, answer in enumerate(answers[1:]):
            user = self.later_turns[index].insert(answers)
            messages += [("user", user), ("assistant", answer)]
        return [f"{role}: {json.dumps(text, ensure_ascii=False)}" for role, text in messages]


def format_messages(messages: Iterable[tuple[str, str]]) -> str:
    """Format the role and the text of messages, as the lines of `Conversation.format_lines`."""
    lines = (f"{role}: {json.dumps(text, ensure_ascii=False)}" for role, text in messages)
    return "\n".join(lines)


def parse_messages(text: str) -> tuple[tuple[str, str], ...]:
    """Parse the lines of `Conversation.format_lines`; return role and text of each message."""
    messages = []
    for line in filter(None, text.split("\n")):
        role, _, content = line.partition(": ")
        messages.append((role, json.loads(content)))
    return tuple(messages)
