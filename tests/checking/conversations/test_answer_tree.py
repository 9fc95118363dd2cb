"""Trees of answers: probabilities are those of all conversations, and the rest is counted."""

import json

import numpy as np
import pytest
from helpers.conversations import chat_table, enumerate_conversations
from helpers.questions import check_conversation
from helpers.random_tables import Balance

from llmchecker.checking.budget import Budget
from llmchecker.checking.conversations.answer_tree import AnswerTree
from llmchecker.errors import CheckFailed
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.processes.conversation import Conversation, ScriptedTurn
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property

BALANCE = Balance("a", "b")
CONVERSATION = Conversation(Chat((("user", "ab"),)), (ScriptedTurn.parse("c{answer 1}a"),))
USER_TEXTS = ("ab", "c{1}a")


def explore(seed: int, query: str, length: int = 2, passes: int = 10_000):
    asked = Property(parse(query), {"balance": BALANCE}, length)
    model = chat_table(seed, is_truncated=True)
    answer = check_conversation(model, CONVERSATION, asked, Budget(passes=passes, certain=True))
    return answer, answer.evidence.conversation


@pytest.mark.parametrize("seed", range(6))
def test_explored_conversations_have_the_probabilities_of_an_enumeration(seed):
    """Each conversation to its last answer is there once, with its probability and scores."""
    _, explored = explore(seed, "P=? [ F balance > 0 ]")
    found = explored.explore_all()
    truth = enumerate_conversations(
        chat_table(seed, is_truncated=True), USER_TEXTS, 2, {"balance": BALANCE}
    )
    leaves = np.flatnonzero(found.tree.kind == 2)
    assert set(found.tree.step[leaves]) == {2}
    assert not found.is_rest.any()

    sums: dict = {}
    for state in leaves.tolist():
        path = [found.parent[state], state]
        key = tuple((int(found.scores["balance"][uid]), found.has_ended[uid]) for uid in path)
        sums[key] = sums.get(key, 0.0) + found.tree.path_probability[state]
    expected: dict = {}
    for path, chance in truth.paths(0):
        key = tuple((truth.variables["balance"][uid], truth.kind[uid] == 2) for uid in path[1:])
        expected[key] = expected.get(key, 0.0) + float(chance)
    assert sums == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_the_most_probable_answers_are_kept_and_the_others_counted(count):
    """A smaller tree has the most probable answers, and the sum and number of the others."""
    _, explored = explore(3, "P=? [ F balance > 0 ]")
    whole, part = explored.build_tree(), explored.build_tree(count)
    assert np.count_nonzero(~part.is_rest) == count + 1
    shown = sorted(whole.tree.path_probability[1:][~whole.is_rest[1:]], reverse=True)[:count]
    assert sorted(part.tree.path_probability[1:][~part.is_rest[1:]], reverse=True) == shown
    first = np.flatnonzero(whole.parent == 0)
    rest = [uid for uid in np.flatnonzero(part.is_rest) if part.parent[uid] == 0]
    hidden = len(first) - np.count_nonzero((part.parent == 0) & ~part.is_rest)
    assert [part.merged[uid] for uid in rest] == ([hidden] if hidden else [])
    # the tree checks that the probabilities after each answer sum to 1
    assert len(part.tree) == len(part)


def test_unexplored_answers_are_a_rest_of_their_probability():
    """After few passes the open truths have the probability between both bounds."""
    answer, explored = explore(3, "P=? [ F balance > 0 ]", length=3, passes=4)
    found = explored.build_tree()
    masses = dict.fromkeys((True, False, None), 0.0)
    leaf = ~found.tree.internal
    for uid in np.flatnonzero(leaf):
        masses[found.truths[uid]] += found.tree.path_probability[uid]
    assert answer.lower < answer.upper
    assert masses[True] == pytest.approx(answer.lower)
    assert masses[False] == pytest.approx(1 - answer.upper)
    assert any(found.is_open)
    assert all(found.is_rest[uid] for uid in np.flatnonzero(leaf) if found.truths[uid] is None)


def test_too_many_conversations_are_refused():
    """A limit of passes ends the exploration with the probability that is left."""
    _, explored = explore(3, "P=? [ F balance > 0 ]", length=3, passes=4)
    with pytest.raises(CheckFailed, match=r"conversation: 5 passes leave a probability of"):
        explored.explore_all(max_passes=5)


def test_a_tree_of_answers_is_the_same_after_json():
    """Writing and reading JSON changes nothing."""
    _, explored = explore(3, "P>=0.5 [ F balance > 0 ]")
    found = explored.build_tree(4)
    read = AnswerTree.from_json(json.loads(json.dumps(found.as_json())))
    assert read.as_json() == found.as_json()
    assert read.tree.digest == found.tree.digest
