"""Results of tools and simulated users: answers and intervals contain the enumerated truth."""

import os
import random
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers import oracle
from helpers.conversations import (
    CALL,
    DECODING,
    TOOLS,
    Actor,
    Result,
    build_conversation,
    chat_table,
    enumerate_conversations,
)
from helpers.interval_watch import IntervalWatch
from helpers.marks import long
from helpers.questions import check_conversation
from helpers.random_tables import Balance, Spoilt
from scipy.stats import binom

from llmchecker.checking.anytime.explored_tree import ExploredTree
from llmchecker.checking.budget import Budget
from llmchecker.checking.question import Question
from llmchecker.checking.runs import answer_side_by_side
from llmchecker.errors import ConfigError, UnusableText
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.processes.conversation import (
    Conversation,
    ScriptedTurn,
    SimulatedUser,
)
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.pattern import Pattern

QUANTIFIERS = {"balance": Balance("a", "b"), "spoilt": Spoilt("b", "a")}
SEEDS = int(os.environ.get("COVERAGE_SEEDS", "60"))

BALANCE = ("atom", "balance", ">", 0)
SPOILT = ("atom", "spoilt", "=", 0)
SECOND = ("atom", "turn", "=", 2)
FORMULAS = [
    ("G", None, ("!", SPOILT)),
    ("F", None, ("&", SECOND, BALANCE)),
    ("X", SPOILT),
    ("G", None, ("=>", SECOND, BALANCE)),
    ("F", None, ("G", None, ("|", SPOILT, BALANCE))),
    ("X", ("X", ("X", BALANCE))),
    ("W", ("label", "end"), SPOILT),
    ("G", None, ("!", SECOND)),
    # a final score of the first answer, which may be the last one
    ("&", SPOILT, ("F", None, SECOND)),
    ("|", ("!", SPOILT), ("X", ("G", None, ("!", SPOILT)))),
]


def choose_turns(chance: random.Random, seed: int) -> tuple[list, int]:
    """Turns with a result or a simulated user, and the length of answers."""
    user = Actor(chat_table(1000 + seed, is_truncated=chance.random() < 0.5), "b", 1)
    kinds = [
        (["ab", Result("b{1}")], 2),
        (["ab", user], 2),
        (["ab", Result("a"), user], 1),
        (["ab", user, Result("b")], 1),
        (["ab", user, user], 1),
        (["ab", Result("a"), "b{1}"], 1),
    ]
    return kinds[seed % len(kinds)]


def check(model, turns: list, query: str, length: int, **limits):
    conversation, tables = build_conversation(turns)
    parsed = parse(query)
    named = {name: q for name, q in QUANTIFIERS.items() if name in parsed.variables}
    watch = limits.pop("watch", lambda progress: None)
    return check_conversation(
        model,
        conversation,
        Property(parsed, named, length),
        Budget(**{"passes": 10_000, **limits}),
        user_models=tables,
        watch=watch,
    )


def find_truth(model, turns: list, formula: tuple, length: int) -> Fraction:
    # the first state is before the first answer
    return enumerate_conversations(model, turns, length, QUANTIFIERS).probability_of(("X", formula))


@pytest.mark.parametrize("seed", [*range(24), *long(*range(24, 120))])
def test_exact_answers_are_those_of_all_conversations(seed):
    """With enough passes both bounds are the fraction of an enumeration, up to rounding."""
    chance = random.Random(seed)
    turns, length = choose_turns(chance, seed)
    formula = FORMULAS[(seed + seed // 6) % len(FORMULAS)]
    model = chat_table(seed, calls=True)
    answer = check(model, turns, f"P=? [ {oracle.written(formula)} ]", length)
    truth = find_truth(model, turns, formula, length)
    assert Fraction(answer.lower) <= truth <= Fraction(answer.upper)
    assert answer.upper - answer.lower < 1e-11
    assert answer.samples == 0


@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_after_any_number_of_passes(seed):
    """Whenever the work stops, both bounds are around the truth, and the budget is kept."""
    turns, length = choose_turns(random.Random(seed), seed)
    formula, model = FORMULAS[seed], chat_table(seed, calls=True)
    truth = find_truth(model, turns, formula, length)
    for passes in (2, 17):
        query = f"P=? [ {oracle.written(formula)} ]"
        answer = check(model, turns, query, length, passes=passes, certain=passes == 17)
        assert Fraction(answer.lower) <= truth <= Fraction(answer.upper)
        assert answer.passes <= passes


@pytest.mark.parametrize("seed", [*range(6), *long(*range(6, 120))])
def test_transducers_decide_conversations_as_an_enumeration_does(seed, monkeypatch):
    """Calls, results and simulated messages leave the bounds of transducers around the truth."""
    patterns = {"balance": Pattern("a", match="count"), "spoilt": Pattern("^b|a.*b")}
    monkeypatch.setattr(sys.modules[__name__], "QUANTIFIERS", patterns)
    turns, length = choose_turns(random.Random(seed), seed)
    formula = FORMULAS[(seed + seed // 6) % len(FORMULAS)]
    model = chat_table(seed, calls=True)
    truth = find_truth(model, turns, formula, length)
    for passes in (3, 20, 10_000):
        query = f"P=? [ {oracle.written(formula)} ]"
        answer = check(model, turns, query, length, passes=passes, certain=passes == 3)
        assert Fraction(answer.lower) <= truth <= Fraction(answer.upper)
    assert answer.upper - answer.lower < 1e-11


@pytest.mark.parametrize("seed", range(3))
def test_conversations_that_end_early_have_whole_answers(seed):
    """The share of conversations without a cut answer is that of an enumeration, also where an
    answer without a call ends the conversation."""
    model, turns = chat_table(seed, calls=True), ["ab", Result("b{1}")]
    answer = check(model, turns, "P=? [ F (turn = 2 & balance > 9) ]", 2)
    truth = find_truth(model, turns, ("G", None, ("label", "end")), 2)
    ended = answer.endings.ended
    assert Fraction(ended.lower) <= truth <= Fraction(ended.upper)
    assert ended.upper - ended.lower < 1e-8


@pytest.mark.parametrize("passes", [3, 5, 7, 11])
@pytest.mark.parametrize("seed", range(6))
def test_a_message_that_its_length_cuts_is_no_cut_answer(seed, passes):
    """Whenever the work stops, the bounds of conversations without a cut answer hold the share."""
    model = chat_table(seed)
    turns = ["ab", Actor(chat_table(1000 + seed), "b", 1 + seed % 2)]
    answer = check(model, turns, "P=? [ F (turn = 2 & balance > 9) ]", 2, passes=passes)
    truth = find_truth(model, turns, ("G", None, ("label", "end")), 2)
    ended = answer.endings.ended
    assert Fraction(ended.lower) <= truth <= Fraction(ended.upper)


def test_conversations_side_by_side_have_the_answers_of_each_alone():
    """Tools, simulated users and scripted turns share batches, and bounds stay those of each."""
    model, questions, alone = chat_table(7, calls=True), [], []
    for seed in range(8):
        turns, length = choose_turns(random.Random(seed), seed)
        conversation, tables = build_conversation(turns)
        parsed = parse(f"P=? [ {oracle.written(FORMULAS[seed])} ]")
        named = {name: q for name, q in QUANTIFIERS.items() if name in parsed.variables}
        asked = Property(parsed, named, length)
        # half of them are exact
        limits = Budget(passes=10_000 if seed % 2 else 12, certain=seed % 4 == 0)
        later = [
            replace(turn, model=tables[turn]) if isinstance(turn, SimulatedUser) else turn
            for turn in conversation.later_turns
        ]
        with_models = replace(conversation, later_turns=tuple(later))
        questions.append(Question(model, conversation.chat, asked, limits, with_models))
        alone.append(check_conversation(model, conversation, asked, limits, user_models=tables))

    found = dict(answer_side_by_side(model, questions))
    for index, expected in enumerate(alone):
        answer = found[index]
        assert answer.lower == pytest.approx(expected.lower, abs=1e-9)
        assert answer.upper == pytest.approx(expected.upper, abs=1e-9)
        assert (answer.passes, answer.samples) == (expected.passes, expected.samples)


@pytest.mark.parametrize("seed", range(3))
def test_a_final_score_decides_nothing_about_the_end(seed):
    """A beginning with a final score may still become a call, or end the conversation."""
    model, turns = chat_table(seed, calls=True), ["ab", Result("b{1}")]
    for formula in FORMULAS[-2:]:
        answer = check(model, turns, f"P=? [ {oracle.written(formula)} ]", 2)
        truth = find_truth(model, turns, formula, 2)
        assert Fraction(answer.lower) <= truth <= Fraction(answer.upper)


@pytest.mark.parametrize("turns", [["ab", Result("b{1}")], ["ab", Actor(chat_table(9), "b", 1)]])
def test_explored_answers_have_the_probabilities_of_an_enumeration(turns):
    """The tree of all answers has early ends as leaves, and sums over simulated messages."""
    model = chat_table(5, calls=True)
    answer = check(model, turns, "P=? [ F balance > 0 ]", 2, certain=True)
    found = answer.evidence.conversation.explore_all()
    for turn, balance in ((1, 0), (2, 0), (2, -2)):
        leaves = (found.tree.kind == 2) & (found.tree.step == turn)
        has_balance = np.array(found.scores["balance"], dtype=object) == balance
        share = found.tree.path_probability[leaves & has_balance].sum()
        last = ("&", ("atom", "turn", "=", turn), ("atom", "balance", "=", balance))
        truth = float(find_truth(model, turns, ("F", None, ("G", None, last)), 2))
        assert share == pytest.approx(truth, rel=1e-12)


class Run:
    """Runs of one query with a seed each, on a conversation with a simulated user."""

    def __init__(self, formula: tuple) -> None:
        self.query = f"P=? [ {oracle.written(formula)} ]"
        for seed in range(100):
            self.model = chat_table(seed)
            self.turns = ["ab", Actor(chat_table(500 + seed), "b", 2)]
            self.truth = float(find_truth(self.model, self.turns, formula, 2))
            if 0.1 <= self.truth <= 0.9:
                return
        raise AssertionError("no table suits the formula")

    def misses(self, seed: int, passes: int, confidence: float) -> bool:
        """Whether the interval ever misses the truth before the passes end."""
        watch = IntervalWatch(self.truth)
        limits = {"passes": passes, "confidence": confidence, "seed": seed}
        check(self.model, self.turns, self.query, 2, watch=watch, **limits)
        assert watch.found
        return watch.has_missed


@pytest.mark.parametrize(
    ("formula", "listed"),
    [(FORMULAS[0], 2), pytest.param(FORMULAS[1], 512, marks=pytest.mark.long)],
)
def test_intervals_cover_the_truth_at_all_times(formula, listed, monkeypatch):
    """Misses at any time are not significantly more frequent than the confidence allows."""
    monkeypatch.setitem(ExploredTree.__init__.__kwdefaults__, "listed_tokens", listed)
    run = Run(formula)
    confidence, seeds = 0.8, min(SEEDS, 10) if listed == 2 else SEEDS
    misses = sum(run.misses(seed, 60, confidence) for seed in range(seeds))
    assert binom.sf(misses - 1, seeds, 1 - confidence) > 1e-4


def test_a_simulated_user_reads_exchanged_roles():
    """It reads its own system prompt, the answers as messages, and neither calls nor results."""
    user = SimulatedUser(DECODING, "Be curious.", 5)
    chat = Chat((("system", "secret"), ("user", "hi")), TOOLS)
    conversation = Conversation(
        chat, (ScriptedTurn.parse("21", "f"), user, ScriptedTurn.parse("{answer 2}?"), user)
    )
    answers = [CALL, "It is 21.", "Yes.", "So."]
    assert conversation.build_chat(answers[:2], [], user).messages == (
        ("system", "Be curious."),
        ("assistant", "hi"),
        ("user", "It is 21."),
    )
    assert conversation.build_chat(answers, ["And then?"], user).messages[3:] == (
        ("assistant", "And then?"),
        ("user", "Yes."),
        ("assistant", "It is 21.?"),
        ("user", "So."),
    )
    assert conversation.build_chat(answers[:2], ["And then?"]).as_json == [
        {"role": "system", "content": "secret"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": CALL},
        {"role": "tool", "name": "f", "content": "21"},
        {"role": "assistant", "content": "It is 21."},
        {"role": "user", "content": "And then?"},
    ]


@pytest.mark.parametrize(
    ("answer", "is_last"),
    [
        (CALL, False),
        (f"Let me see. {CALL}", False),
        ('{"name": "f", "parameters": {"x": 1}}', False),
        (CALL + CALL, True),
        (CALL.replace('"f"', '"g"'), True),
        ("<tool_call>f()</tool_call>", True),
        ("It is warm.", True),
    ],
)
def test_an_answer_without_a_single_call_of_the_tool_ends_the_conversation(answer, is_last):
    """A result follows one call by the name of its tool, whatever the arguments are."""
    conversation, _ = build_conversation(["a", Result("b")])
    assert conversation.is_last([answer]) is is_last


def test_an_unknown_tool_is_rejected():
    """A result names a tool of the chat."""
    with pytest.raises(ConfigError, match=r"turns\[1\]: the tool 'g' is unknown; use f"):
        Conversation(Chat((("user", "a"),), TOOLS), (ScriptedTurn.parse("b", "g"),))


def test_a_template_that_drops_results_is_rejected():
    """A result that the model does not read is no turn."""
    model = chat_table(0, calls=True)
    model.drops_results = True
    with pytest.raises(UnusableText, match=r"turns\[1\]: .* drops the result of the tool"):
        check(model, ["a", Result("b")], "P=? [ F balance > 0 ]", 2)
