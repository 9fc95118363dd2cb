"""Simulated users and results of tools where models return texts alone: samples of both models."""

import pytest
from helpers.conversations import (
    CALL,
    TOOLS,
    Actor,
    ChatTable,
    Result,
    chat_table,
    enumerate_conversations,
)
from helpers.fake_provider import sample_table
from helpers.questions import check_conversation
from helpers.text_sampler import TextSampler
from scipy.stats import binom

from llmchecker.checking.budget import Budget
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.processes.conversation import (
    Conversation,
    ScriptedTurn,
    SimulatedUser,
)
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.pattern import Pattern

LENGTH = 2
QUANTIFIERS = {"b": Pattern("b")}
TRUE = ("atom", "b", "=", 1)


def sample_texts(table: ChatTable, seed: int, **options) -> TextSampler:
    """A text model that samples from a table."""

    def write(stream, chance):
        return sample_table(table, table.encode(stream.prompt), stream.length)(chance)

    return TextSampler(write, seed, **options)


USER = SimulatedUser("a table", "b", 1)
CONVERSATION = Conversation(Chat((("user", "ab"),)), (USER, ScriptedTurn.parse("{answer 1}"), USER))


def check(model, user, query: str, conversation=CONVERSATION, **limits):
    asked = Property(parse(query), QUANTIFIERS, LENGTH)
    budget = Budget(passes=1, **limits)
    users = {} if user is None else {USER: user}
    return check_conversation(model, conversation, asked, budget, users)


def test_both_models_read_the_conversation_so_far():
    """The user reads exchanged roles, and `answers` limits the texts of both models together."""
    model, user = sample_texts(chat_table(3), 1), sample_texts(chat_table(4), 2)
    answer = check(model, user, "P=? [ F (turn = 4 & b = 1) ]", answers=90)
    assert len(model.chats) + len(user.chats) == answer.costs.answers <= 90
    assert answer.samples <= 90 // 6
    for chat in user.chats:
        assert chat.messages[:2] == (("system", "b"), ("assistant", "ab"))
        assert chat.messages[-1][0] == "user"
    for chat in model.chats:
        roles = [role for role, _ in chat.messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    longest = max(model.chats, key=lambda chat: len(chat.messages))
    assert longest.messages[4] == ("user", longest.messages[1][1])


@pytest.mark.few(1)
@pytest.mark.parametrize("limits", [{}, {"most": 25}, {"withheld": 0.05}], ids=str)
def test_intervals_cover_the_truth(limits):
    """Misses are not significantly more frequent than the confidence allows, whatever fails."""
    table, writer = chat_table(7), chat_table(8)
    turns = ["ab", Actor(writer, "b", 1)]
    tree = enumerate_conversations(table, turns, LENGTH, QUANTIFIERS)
    truth = float(tree.probability_of(("X", ("X", TRUE))))
    assert 0.1 < truth < 0.9
    conversation, misses, seeds = Conversation(CONVERSATION.chat, (USER,)), 0, 16
    for seed in range(seeds):
        model, user = sample_texts(table, seed), sample_texts(writer, 99 + seed, **limits)
        answer = check(
            model, user, "P=? [ X b = 1 ]", conversation, answers=60 + seed, confidence=0.8
        )
        assert answer.samples > 0
        misses += not answer.low <= truth <= answer.high
    assert binom.sf(misses - 1, seeds, 0.2) > 1e-4


def test_a_withheld_message_leaves_a_conversation_open():
    """A message that a filter withheld is no message, and the conversation counts as either."""
    model, user = sample_texts(chat_table(3), 1), sample_texts(chat_table(4), 2, withheld=1.0)
    answer = check(model, user, "P=? [ X b = 1 ]", answers=60)
    assert (answer.low, answer.high) == (0.0, 1.0)
    assert any("withheld by a content filter" in note for note in answer.notes)


def test_a_conversation_without_a_call_ends_early():
    """A conversation that ends before the result of a tool is decided by its last answer."""
    table, turns = chat_table(3, calls=True), ["ab", Result("b")]
    tree = enumerate_conversations(table, turns, LENGTH, QUANTIFIERS)
    truth = float(tree.probability_of(("X", ("F", None, ("atom", "turn", "=", 2)))))
    conversation = Conversation(Chat((("user", "ab"),), TOOLS), (ScriptedTurn.parse("b", "f"),))
    model = sample_texts(table, 1)
    answer = check(model, None, "P=? [ F turn = 2 ]", conversation, answers=400)
    assert answer.low <= truth <= answer.high
    assert answer.high - answer.low < 0.5
    late = [chat for chat in model.chats if len(chat.messages) > 1]
    assert all(chat.messages[1][1].count(CALL) == 1 for chat in late)
