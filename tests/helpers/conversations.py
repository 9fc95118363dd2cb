"""Conversations of small tables: a table that answers chats, and all of its conversations.

The enumeration shares no code with the package but the table itself.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from helpers import oracle
from helpers.random_tables import PARTS
from helpers.read_texts import read_whole

from llmchecker.models.decoding.answer_reader import WHOLE_OUTPUT, AnswerReader
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.decoding.tools import parse_tools
from llmchecker.models.table_model import TableModel
from llmchecker.processes.conversation import (
    Conversation,
    ScriptedTurn,
    SimulatedUser,
)

LETTERS = "abc"
CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
"""The text of the last letter in tables that call a tool."""
END, USER, MODEL = len(LETTERS), len(LETTERS) + 1, len(LETTERS) + 2
TOOLS = parse_tools("tools", [{"name": "f"}])
DECODING = "a table"
"""The name of the model of every simulated user."""


class ChatTable(TableModel):
    """A table of letters that answers chats: each message is its mark and its letters."""

    drops_answers = drops_results = keeps_thoughts = False

    def encode(self, start):
        messages = start.messages if isinstance(start, Chat) else [("user", start)]
        if self.drops_results:
            messages = [each for each in messages if each[0] != "tool"]
        if self.drops_answers:
            messages = [each for each in messages if each[0] != "assistant"]
        thoughts = dict(start.thoughts) if self.keeps_thoughts else {}
        tokens = []
        for number, (role, content) in enumerate(messages):
            text = thoughts.get(number, "") + content
            tokens.append(MODEL if role == "assistant" else USER)
            # other letters than those of the table have a token too
            tokens += [LETTERS.index(c) if c in LETTERS else ord(c) % 3 for c in text]
        return (*tokens, MODEL)


def chat_table(
    seed: int,
    *,
    is_truncated: bool = False,
    calls: bool = False,
    pieces: Sequence[str] = LETTERS,
) -> ChatTable:
    """A table whose next letter depends on the whole chat, with probabilities of 64ths.

    The pieces are the texts of its letters. With `calls`, the last one is a call of a tool.
    """

    def distribution(tokens):
        chance = random.Random(repr((seed, tokens)))
        weights = [chance.random() ** chance.choice([1, 4, 16]) for _ in range(END + 1)]
        if is_truncated:
            least = sorted(weights)[-2]
            weights = [weight if weight >= least else 0.0 for weight in weights]
        total = sum(weights)
        cuts = [0, *(round(PARTS * sum(weights[: i + 1]) / total) for i in range(END + 1))]
        return [*((after - before) / PARTS for before, after in pairwise(cuts)), 0.0, 0.0]

    letters = [*pieces[:-1], CALL] if calls else pieces
    return ChatTable([*letters, ".", "<u>", "<m>"], distribution, frozenset([END]))


@dataclass(frozen=True)
class Result:
    """A turn with the result of the tool that `CALL` calls."""

    text: str


@dataclass(frozen=True)
class Actor:
    """A turn that a table writes as a user with a system prompt."""

    table: ChatTable
    system: str
    length: int


def build_conversation(turns: list) -> tuple[Conversation, dict]:
    """The conversation of turns of an enumeration, and the models of its users."""
    later: list = []
    tables = {}
    for turn in turns[1:]:
        if isinstance(turn, Actor):
            user = SimulatedUser(DECODING, turn.system, turn.length)
            tables[user] = turn.table
            later.append(user)
        else:
            text, tool = (turn.text, "f") if isinstance(turn, Result) else (turn, "")
            later.append(ScriptedTurn.parse(text.replace("{1}", "{answer 1}"), tool))
    return Conversation(Chat((("user", turns[0]),), TOOLS), tuple(later)), tables


def iter_answers(
    model: ChatTable,
    messages: Sequence[tuple[str, str]],
    length: int,
    thoughts: Sequence[tuple[int, str]] = (),
    reader: AnswerReader = WHOLE_OUTPUT,
) -> Iterator[tuple[str, bool, Fraction]]:
    """Yield each answer to messages, whether it ended, and its probability."""
    prompt = model.encode(Chat(tuple(messages), TOOLS, thoughts=tuple(thoughts)))
    waiting = [((), Fraction(1))]
    while waiting:
        tokens, mass = waiting.pop()
        for token, probability in enumerate(model.distribution((*prompt, *tokens))):
            if probability == 0:
                continue
            longer, share = (*tokens, token), mass * Fraction(probability)
            text = "".join(model.vocabulary[t] for t in longer if t != END)
            has_ended = token in model.end_tokens or read_whole(reader, text)[1]
            has_ended |= len(longer) == reader.max_tokens
            if has_ended or len(longer) == length:
                yield text, has_ended, share
            else:
                waiting.append((longer, share))


def enumerate_conversations(
    model: ChatTable,
    turns: Sequence[str | Result | Actor],
    length: int,
    quantifiers: Mapping,
    reader: AnswerReader = WHOLE_OUTPUT,
) -> oracle.Tree:
    """Return all conversations as a tree of answers, whose first state is before the first one.

    `{1}` in a text is the first answer. A conversation ends where no call precedes a result.
    Messages have no thoughts, which the table gets apart.
    """
    parents, chances, kinds = [-1], [1], [0]
    columns = {name: [0] for name in ("turn", *quantifiers)}
    waiting = [(0, [("user", turns[0])], [], [], Fraction(1))]
    while waiting:
        state, messages, thoughts, answers, share = waiting.pop()
        # a quantifier reads the visible messages as its start
        start = "".join(f"{role}: {message}\n" for role, message in messages)
        for raw, has_ended, chance in iter_answers(model, messages, length, thoughts, reader):
            parts = read_whole(reader, raw)[0]
            parents.append(state)
            chances.append(share * chance)
            kinds.append(2 if has_ended else 0)
            columns["turn"].append(len(answers) + 1)
            for name, quantifier in quantifiers.items():
                read = parts.get(getattr(quantifier, "of", "answer"), parts["answer"])
                columns[name].append(quantifier(start, read))
            said = [*answers, parts["answer"]]
            if len(said) == len(turns):
                continue
            longer = [*messages, ("assistant", parts["answer"])]
            own = [(len(messages), parts["thought"].strip())] if parts["thought"].strip() else []
            for role, message, part in _iter_messages(turns[len(said)], longer, said):
                following = [*longer, (role, message)], [*thoughts, *own], said
                waiting.append((len(parents) - 1, *following, part))
    return oracle.Tree(parents, chances, kinds, columns, read=lambda chance: chance)


def _iter_messages(
    turn: str | Result | Actor, messages: Sequence[tuple[str, str]], answers: Sequence[str]
) -> Iterator[tuple[str, str, Fraction]]:
    """Yield the role, text and probability of each message of a turn after these messages."""
    if isinstance(turn, str):
        yield "user", turn.replace("{1}", answers[0]), Fraction(1)
    elif isinstance(turn, Result):
        if answers[-1].count(CALL) == 1:
            yield "tool", turn.text.replace("{1}", answers[0]), Fraction(1)
    else:
        # the user has seen no call that a tool answered, and no result
        seen = [
            message
            for message, following in zip(messages, [*messages[1:], ("", "")], strict=True)
            if message[0] != "tool" and following[0] != "tool"
        ]
        exchanged = {"user": "assistant", "assistant": "user"}
        chat = [("system", turn.system), *((exchanged[role], text) for role, text in seen)]
        for text, _, chance in iter_answers(turn.table, chat, turn.length):
            yield "user", text, chance
