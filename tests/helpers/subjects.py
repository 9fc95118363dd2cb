"""Questions of every access and kind of text, whose truth an enumeration finds, and faults."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from helpers.conversations import (
    TOOLS,
    Actor,
    ChatTable,
    Result,
    chat_table,
    enumerate_conversations,
)
from helpers.fake_provider import FakeProvider, sample_table
from helpers.fake_server import Status
from helpers.served_tables import ServedTable
from helpers.text_sampler import TextSampler

from llmchecker.checking.answer import Answer
from llmchecker.checking.budget import Budget
from llmchecker.checking.question import Question
from llmchecker.checking.runs import answer_question
from llmchecker.errors import SourceUnavailable
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.processes.conversation import (
    Conversation,
    ScriptedTurn,
    SimulatedUser,
)
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.pattern import Pattern

LENGTHS = {"answer": 7, "conversation": 3, "tool": 3, "simulated user": 3}
"""The largest number of tokens of an answer, so that each kind of text takes some passes."""
LISTED = 3
"""Number of tokens that a server lists of six."""
USER = SimulatedUser("a table", "b", 1)
QUANTIFIERS = {"b": Pattern("b")}
EVENTUALLY = ("F", None, ("atom", "b", "=", 1))
TURNS = {
    "answer": ["ab"],
    "conversation": ["ab", "b{1}"],
    "tool": ["ab", Result("b")],
    "simulated user": ["ab", Actor(chat_table(1004), "b", 1)],
}
ACCESSES = ("logits", "top_logprobs", "texts")


class Failing(Exception):
    """An error of a network."""


@dataclass
class Fault:
    """A model that fails after so many evaluations.

    Attributes:
        left: number of evaluations before it fails; negative for a model that never does.
    """

    left: int = -1

    def count(self, error: Exception) -> None:
        if self.left == 0:
            raise error
        self.left -= 1


def _fail(table: ChatTable, fault: Fault, name: str) -> ChatTable:
    """The table, which fails after some distributions."""
    distribution = table.distribution

    def compute(tokens):
        fault.count(Failing("the device is gone"))
        return distribution(tokens)

    return ChatTable(table.vocabulary, compute, table.end_tokens, name)


class FailingSampler(TextSampler):
    """A text model whose provider fails after some texts."""

    def __init__(self, table: ChatTable, seed: int, fault: Fault) -> None:
        def write(stream, chance):
            fault.count(SourceUnavailable("the provider is gone"))
            return sample_table(table, table.encode(stream.prompt), stream.length)(chance)

        super().__init__(write, seed)


class ChatProvider(FakeProvider):
    """A provider whose models answer chats as the tables of a subject do.

    Args:
        tables: the tables by the name of their model.
        fault: counts the answers.
    """

    def __init__(self, tables: Mapping[str, ChatTable], fault: Fault) -> None:
        super().__init__("openai-chat", lambda drawn: ("", True))
        self.tables, self.left, self.serves = tables, fault, list(tables)

    def posted(self, path, question):
        with self.lock:
            self.left.count(Status(400, {"error": {"message": "is gone"}}))
            self.questions.append((path, question))
            drawn = random.Random(self.random.random())
        table = self.tables[question["model"]]
        messages = [(each["role"], each["content"]) for each in question["messages"]]
        length = question.get("max_completion_tokens") or question["max_tokens"]
        write = sample_table(table, table.encode(Chat(tuple(messages))), length)
        return self._reply(path, *write(drawn))


@dataclass(frozen=True)
class Subject:
    """A question whose truth an enumeration finds.

    Attributes:
        access: what the model returns: one of `ACCESSES`.
        kind: what is asked about: a key of `TURNS`.
    """

    access: str
    kind: str

    @property
    def length(self) -> int:
        """The largest number of tokens of an answer."""
        return LENGTHS[self.kind]

    @property
    def truth(self) -> float:
        """The probability that an answer, or one of a conversation, contains a b."""
        table = chat_table(3, calls=self.kind == "tool")
        tree = enumerate_conversations(table, TURNS[self.kind], self.length, QUANTIFIERS)
        return float(tree.probability_of(EVENTUALLY))

    def open_model(self, fault: Fault) -> Any:
        """The answering model, which fails after some evaluations."""
        return self._wrap(chat_table(3, calls=self.kind == "tool"), 1, fault)

    def open_user(self, fault: Fault) -> Any:
        """The model of the simulated user."""
        actor = TURNS["simulated user"][1]
        return self._wrap(actor.table, 2, fault, name="the user's table")

    def open_provider(self, fault: Fault) -> ChatProvider:
        """A provider of both models."""
        user = TURNS["simulated user"][1].table
        return ChatProvider({"m": chat_table(3), "u": user}, fault)

    def ask(
        self,
        query: str = "P=? [ F b = 1 ]",
        *,
        fault: Fault | None = None,
        user_fault: Fault | None = None,
        **options,
    ):
        """Answer the query; options are limits of the budget, or of the run."""
        run = {name: options.pop(name) for name in ("watch", "is_cancelled") if name in options}
        fault = Fault() if fault is None else fault
        if self.access == "texts":
            options = {"passes": 1, "answers": 300} | options
        elif not options.keys() & {"passes", "seconds"}:
            options["passes"] = 60
        turns = TURNS[self.kind]
        chat = Chat((("user", turns[0]),), TOOLS if self.kind == "tool" else ())
        conversation = None
        if self.kind != "answer":
            conversation = Conversation(chat, tuple(map(_build_turn, turns[1:])))
        if self.kind == "simulated user":
            user_model = self.open_user(user_fault or Fault())
            run["open_user"] = {USER: user_model}.__getitem__
        question = Question(
            model=self.open_model(fault),
            prompt=chat,
            conversation=conversation,
            asked=Property(parse(query), QUANTIFIERS, self.length),
            budget=Budget(**options),
        )
        return answer_question(question, **run)

    def _wrap(self, table: ChatTable, seed: int, fault: Fault, name: str = "table") -> Any:
        if self.access == "texts":
            return FailingSampler(table, seed, fault)
        failing = _fail(table, fault, name)
        return failing if self.access == "logits" else ServedTable(failing, LISTED)

    def check_answer(self, answer: Answer) -> None:
        """Check that an answer is right, and has the shape of every answer."""
        truth, margin = self.truth, 1e-9
        assert answer.lower - margin <= truth <= answer.upper + margin
        if answer.samples:
            assert answer.low - margin <= truth <= answer.high + margin
        cost = answer.costs.answers if self.access == "texts" else answer.passes
        assert cost is not None
        assert (answer.turns is None) == (self.kind == "answer")
        assert isinstance(answer.history, tuple)


def _build_turn(turn) -> ScriptedTurn | SimulatedUser:
    if isinstance(turn, Actor):
        return USER
    text, tool = (turn.text, "f") if isinstance(turn, Result) else (turn, "")
    return ScriptedTurn.parse(text.replace("{1}", "{answer 1}"), tool)
