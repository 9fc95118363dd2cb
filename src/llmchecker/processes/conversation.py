"""Conversations: a chat, and turns after the model's answers.

Conversation(
    chat=Chat((("user", "Name a city."),)),
    later_turns=(
        ScriptedTurn.parse("Is {answer 1} in France?"),
        SimulatedUser("smollm2", "You are a tourist. Ask a question.", 20),
    ),
)

The model answers the chat, the first turn follows, the model answers again, and so on. A turn is a
text of the user, the result of a tool, or a message that another model writes.

The result of a tool follows an answer whose only call is one of this tool. Any other answer ends
the conversation, since no program would return the result.

Later messages see the answers after their thoughts. Thoughts go to the chat template apart from
the answers, so that it drops or keeps them.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llmchecker.errors import ConfigError
from llmchecker.models.decoding.answer_reader import WHOLE_OUTPUT, AnswerReader
from llmchecker.models.decoding.chat_template import Chat

_REFERENCE = re.compile(r"\{answer ([0-9]+)\}")


@dataclass(frozen=True)
class ScriptedTurn:
    """A message in which earlier answers of the model may be inserted.

    Attributes:
        parts: texts, and numbers of answers from 1 on.
        tool: the tool whose result the message is; empty for a message of the user.
    """

    parts: tuple[str | int, ...]
    tool: str = ""

    @classmethod
    def parse(cls, text: str, tool: str = "") -> "ScriptedTurn":
        """Parse a text such as `Is {answer 1} in France?`; other braces are text."""
        pieces = _REFERENCE.split(text)
        # texts and numbers alternate
        parts = [int(piece) if index % 2 else piece for index, piece in enumerate(pieces)]
        return cls(tuple(part for part in parts if part != ""), tool)

    @property
    def references(self) -> tuple[int, ...]:
        """The numbers of the inserted answers."""
        return tuple(part for part in self.parts if isinstance(part, int))

    def insert(self, answers: Sequence[str]) -> str:
        """Return the message after these answers, which are data: their braces are text."""
        return "".join(answers[part - 1] if isinstance(part, int) else part for part in self.parts)

    def __str__(self) -> str:
        text = "".join(
            f"{{answer {part}}}" if isinstance(part, int) else part for part in self.parts
        )
        return f"{self.tool}: {text}" if self.tool else text


@dataclass(frozen=True)
class SimulatedUser:
    """A model that writes the message of a turn.

    It reads the conversation with exchanged roles: the answers are messages to it, and the messages
    of the user are its own. It reads no system prompt but its own, no call of a tool and no result.

    Attributes:
        name: the model and its decoding in words.
        system: its system prompt.
        length: the largest number of tokens of a message.
        model: what the caller opens as the model.
    """

    name: str
    system: str
    length: int
    model: Any = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"simulated user ({self.name})"


Turn = ScriptedTurn | SimulatedUser


@dataclass(frozen=True)
class Conversation:
    """A chat and the turns after each of the model's answers but the last.

    Attributes:
        chat: the messages before the first answer.
        later_turns: the turn after the first answer, the second one, and so on.
        reader: the parts of the answers, whose stops have ended them.

    Raises:
        ConfigError: a turn refers to an answer that does not precede it, or is the result of a tool
            that the chat does not have.
    """

    chat: Chat
    later_turns: tuple[Turn, ...] = ()
    reader: AnswerReader = WHOLE_OUTPUT

    def __post_init__(self) -> None:
        tools = [tool.name for tool in self.chat.tools]
        for index, turn in enumerate(self.later_turns, start=1):
            if isinstance(turn, SimulatedUser):
                continue
            for number in turn.references:
                if not 1 <= number <= index:
                    raise ConfigError(
                        f"turns[{index}]: {{answer {number}}} does not precede this turn; "
                        f"use 1 to {index}"
                    )
            if turn.tool and turn.tool not in tools:
                known = f"use {', '.join(tools)}" if tools else "describe it in `tools`"
                raise ConfigError(f"turns[{index}]: the tool {turn.tool!r} is unknown; {known}")

    @property
    def turn_count(self) -> int:
        """The largest number of answers."""
        return 1 + len(self.later_turns)

    @property
    def early_ends(self) -> frozenset[int]:
        """The numbers of the answers before the last turn that may end the conversation."""
        turns = enumerate(self.later_turns, start=1)
        return frozenset(n for n, turn in turns if isinstance(turn, ScriptedTurn) and turn.tool)

    @property
    def user_texts(self) -> list[str]:
        """The message of the user before each answer, as text."""
        return [self.chat.messages[-1][1], *self.turn_texts]

    @property
    def turn_texts(self) -> list[str]:
        """The later turns as text."""
        return [str(turn) for turn in self.later_turns]

    @property
    def simulated_users(self) -> tuple[SimulatedUser, ...]:
        """The simulated user of each turn that has one."""
        return tuple(turn for turn in self.later_turns if isinstance(turn, SimulatedUser))

    @property
    def known_turns(self) -> int:
        """The number of answers before the message of a simulated user."""
        is_written = [isinstance(turn, SimulatedUser) for turn in self.later_turns]
        return 1 + [*is_written, True].index(True)

    def is_last(self, answers: Sequence[str]) -> bool:
        """Return whether the last of these answers ends the conversation."""
        if len(answers) == self.turn_count:
            return True
        turn = self.later_turns[len(answers) - 1]
        if isinstance(turn, SimulatedUser) or not turn.tool:
            return False
        call = self.chat.answer_format.find_single_call(answers[-1])
        return call is None or call.name != turn.tool

    def find_simulated_user(self, answers: Sequence[str]) -> SimulatedUser | None:
        """Return the simulated user of the turn after these answers; None for another turn."""
        turn = self.later_turns[len(answers) - 1] if answers else None
        return turn if isinstance(turn, SimulatedUser) else None

    def build_chat(
        self,
        answers: Sequence[str],
        simulated: Sequence[str] = (),
        user: SimulatedUser | None = None,
    ) -> Chat:
        """Return the messages before the next answer, or before the next simulated message.

        Args:
            answers: all that the model wrote in each turn so far, none of which ends the
                conversation.
            simulated: the messages of the simulated users so far.
            user: the simulated user that reads the messages; None for the model.
        """
        messages = (*self.chat.messages, *self._iter_messages(answers, simulated))
        if user is None:
            return self._add_thoughts(replace(self.chat, messages=messages), answers)
        exchanged: list[tuple[str, str]] = [("system", user.system)]
        for role, text in messages:
            if role == "tool":
                # a user sees neither the call nor the result
                exchanged.pop()
            elif role != "system":
                exchanged.append(("assistant" if role == "user" else "user", text))
        return Chat(tuple(exchanged))

    def format_lines(
        self,
        answers: Sequence[str],
        simulated: Sequence[str] = (),
        contents: Sequence[str] | None = None,
    ) -> list[str]:
        """Format the first answers and the turns between them, a line for each message.

        Each text is a JSON string, so that its line breaks do not begin a line.

        Args:
            answers: all that the model wrote in each turn.
            simulated: the messages of the simulated users.
            contents: what messages see of the answers; None for what `reader` reads of them.
        """
        seen = answers if contents is None else contents
        # the last answer ends the lines
        messages = list(self._iter_messages(seen, simulated))[: 2 * len(answers) - 1]
        messages[::2] = [("assistant", answer) for answer in answers]
        return format_messages(messages).split("\n")

    def _add_thoughts(self, chat: Chat, answers: Sequence[str]) -> Chat:
        """Return the chat with the thoughts of the answers, which the messages leave out."""
        if self.reader.marks is None:
            return chat
        thought = replace(self.reader.marks, is_open=False)
        first = len(self.chat.messages)
        thoughts = [self._read_thought(answer) for answer in answers]
        return replace(
            chat,
            answer_format=replace(chat.answer_format, thought=thought),
            thoughts=tuple(
                (first + 2 * index, text) for index, text in enumerate(thoughts) if text
            ),
        )

    def _read_thought(self, answer: str) -> str:
        """Return the thought of an answer, as the message of an API contains it."""
        thought = self.reader.read(answer, is_whole=True).thought.strip()
        return self.chat.answer_format.clean_thought(thought)

    def _read_content(self, answer: str, *, calls_tool: bool = False) -> str:
        """Return what later messages see of an answer.

        Args:
            answer: all that the model wrote.
            calls_tool: whether the answer has a call, which is then a part of the content.
        """
        content = self.reader.read(answer, is_whole=True).answer
        # gpt-oss calls in a channel before the final one
        return answer if calls_tool and not content else content

    def _iter_messages(
        self, answers: Sequence[str], simulated: Sequence[str]
    ) -> Iterator[tuple[str, str]]:
        """Yield the role and text of each answer, and of each turn after one that is known."""
        texts = iter(simulated)
        contents = [self._read_content(answer) for answer in answers]
        for index, answer in enumerate(answers):
            turn = self.later_turns[index] if index < len(self.later_turns) else None
            calls_tool = isinstance(turn, ScriptedTurn) and bool(turn.tool)
            yield "assistant", self._read_content(answer, calls_tool=calls_tool)
            if turn is None:
                return
            if isinstance(turn, ScriptedTurn):
                yield "tool" if turn.tool else "user", turn.insert(contents)
            elif (text := next(texts, None)) is not None:
                yield "user", text


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
