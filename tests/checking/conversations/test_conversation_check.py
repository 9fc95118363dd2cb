"""Conversations: bounds and intervals contain the enumerated truth, and limits hold."""

import os
import random
from collections.abc import Mapping
from fractions import Fraction

import pytest
from helpers import oracle
from helpers.conversations import ChatTable, chat_table, enumerate_conversations
from helpers.interval_watch import IntervalWatch
from helpers.marks import long
from helpers.questions import check_anytime, check_conversation
from helpers.random_tables import Balance, Spoilt
from scipy.stats import binom

from llmchecker.checking.anytime.explored_tree import ExploredTree
from llmchecker.checking.budget import Budget
from llmchecker.errors import ConfigError, InterruptedCheck, InvalidQuery, UnusableText
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.processes.conversation import Conversation, ScriptedTurn
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.length import Length
from llmchecker.properties.quantifiers.pattern import Pattern

QUANTIFIERS = {"balance": Balance("a", "b"), "spoilt": Spoilt("c", "a")}
"""One without a range, and one with a final score."""
USER_TEXTS = ("ab", "c{1}a", "b{1}")
SEEDS = int(os.environ.get("COVERAGE_SEEDS", "60"))

BALANCE = ("atom", "balance", ">", 0)
SPOILT = ("atom", "spoilt", "=", 0)
SECOND = ("atom", "turn", "=", 2)
ENDED = ("label", "end")
FORMULAS = [
    ("G", None, ("!", SPOILT)),
    ("F", None, BALANCE),
    ("X", SPOILT),
    ("G", None, ("=>", SECOND, BALANCE)),
    ("U", None, ("!", SPOILT), ("&", BALANCE, ENDED)),
    ("F", None, ("&", ENDED, ("X", ("!", ENDED)))),
    ("G", 0, ("atom", "balance", "<=", 1)),
    ("F", None, ("G", None, ("|", SPOILT, BALANCE))),
    ("W", ENDED, SPOILT),
    ("R", BALANCE, ("!", SPOILT)),
    ("F", None, ("compare", ("+", "turn", "balance"), ">", 2)),
    ("&", ("F", None, SPOILT), ("!", ("G", None, ENDED))),
    ("F", (1, 2), BALANCE),
    ("U", (1, None), ("!", SPOILT), ("&", BALANCE, ENDED)),
    ("M", None, BALANCE, ("!", SPOILT)),
    ("<=>", ("G", (1, 1), SPOILT), ("F", None, ("G", None, ENDED))),
    ("G", None, ("=>", ("compare", ("mod", "turn", 2), "=", 1), BALANCE)),
    ("F", None, ("compare", ("min", "balance", ("/", "turn", 2)), ">", ("/", 1, 2))),
]


def conversation(turn_count: int = 2) -> Conversation:
    later = [text.replace("{1}", "{answer 1}") for text in USER_TEXTS[1:turn_count]]
    return Conversation(
        Chat((("user", USER_TEXTS[0]),)), tuple(ScriptedTurn.parse(text) for text in later)
    )


def ask(query: str, length: int, quantifiers: Mapping = QUANTIFIERS) -> Property:
    parsed = parse(query)
    named = {name: q for name, q in quantifiers.items() if name in parsed.variables}
    return Property(parsed, named, length)


def find_truth(model, formula: tuple, turn_count: int, length: int) -> Fraction:
    tree = enumerate_conversations(model, USER_TEXTS[:turn_count], length, QUANTIFIERS)
    # the first state is before the first answer
    return tree.probability_of(("X", formula))


def check(model, query: str, turn_count: int, length: int, **limits):
    budget = Budget(**{"passes": 10_000, **limits})
    return check_conversation(model, conversation(turn_count), ask(query, length), budget)


@pytest.mark.parametrize("seed", [*range(36), *long(*range(36, 144))])
def test_exact_answers_are_those_of_all_conversations(seed):
    """With enough passes both bounds are the fraction of an enumeration, up to rounding."""
    chance = random.Random(seed)
    formula = FORMULAS[seed % len(FORMULAS)]
    turn_count, length = chance.choice([(1, 3), (2, 2), (2, 2), (2, 1), (3, 1)])
    # the query names the second turn
    turn_count = max(turn_count, 2 if SECOND in formula[-1] else 1)
    model = chat_table(seed)
    answer = check(model, f"P=? [ {oracle.written(formula)} ]", turn_count, length)
    truth = find_truth(model, formula, turn_count, length)
    assert Fraction(answer.lower) <= truth <= Fraction(answer.upper)
    assert answer.upper - answer.lower < 1e-11
    assert answer.samples == 0


READ_AHEAD = [
    {"balance": Pattern("a", match="count"), "spoilt": Pattern("c.*b")},
    {"balance": Pattern("^b"), "spoilt": Pattern("a?b", match="possible")},
    {"balance": Length("characters"), "spoilt": Pattern("ab?", match="whole")},
]
"""Quantifiers whose transducers decide before a text is looked at."""


@pytest.mark.parametrize("seed", [*range(12), *long(*range(12, 90))])
def test_transducers_decide_conversations_as_an_enumeration_does(seed):
    """With transducers bounds are around the enumerated truth after any passes, at last exact."""
    chance, quantifiers = random.Random(seed), READ_AHEAD[seed % len(READ_AHEAD)]
    formula = FORMULAS[seed % len(FORMULAS)]
    model, (turn_count, length) = chat_table(seed), chance.choice([(2, 3), (2, 2), (3, 1)])
    tree = enumerate_conversations(model, USER_TEXTS[:turn_count], length, quantifiers)
    truth = tree.probability_of(("X", formula))
    asked = ask(f"P=? [ {oracle.written(formula)} ]", length, quantifiers)
    for passes in (2, chance.randrange(5, 40), 10_000):
        limits = Budget(passes=passes, certain=chance.random() < 0.5, seed=seed)
        answer = check_conversation(model, conversation(turn_count), asked, limits)
        assert Fraction(answer.lower) <= truth <= Fraction(answer.upper)
        assert answer.passes <= passes
    assert answer.upper - answer.lower < 1e-11


@pytest.mark.parametrize("seed", range(4))
def test_a_conversation_of_one_turn_is_an_answer(seed):
    """Bounds and endings of one turn are those of the same query on the answer's tokens, digit for
    digit, and the interval of the samples is about as wide."""
    model, chat = chat_table(seed), conversation(1).chat
    asked = ask('P=? [ F ("end" & balance > 0) ]', 4)
    limits = Budget(passes=30, seed=seed)
    alone = check_anytime(model, chat, asked, limits)
    turn = check_conversation(model, conversation(1), asked, limits)
    assert (turn.certain, turn.endings) == (alone.certain, alone.endings)
    assert turn.sampled is not None
    assert alone.sampled is not None
    assert abs(turn.sampled.interval.width - alone.sampled.interval.width) < 0.2


@pytest.mark.few(10)
@pytest.mark.parametrize("seed", range(20))
def test_bounds_hold_after_any_number_of_passes(seed):
    """Whenever the work stops, both bounds are around the truth, and the budget is kept."""
    formula = FORMULAS[seed % len(FORMULAS)]
    model, truth = chat_table(seed), find_truth(chat_table(seed), formula, 2, 3)
    for passes in (1, 5, 17, 40):
        query = f"P=? [ {oracle.written(formula)} ]"
        answer = check(model, query, 2, 3, passes=passes, certain=passes % 2 == 0)
        assert Fraction(answer.lower) <= truth <= Fraction(answer.upper)
        assert answer.passes <= passes


class Run:
    """Runs of one query with a seed each."""

    def __init__(self, formula: tuple, is_truncated: bool = False) -> None:
        self.query = f"P=? [ {oracle.written(formula)} ]"
        self.length = 3
        for seed in range(100):
            self.model = chat_table(seed, is_truncated=is_truncated)
            self.truth = float(find_truth(self.model, formula, 2, self.length))
            if 0.1 <= self.truth <= 0.9:
                return
        raise AssertionError("no table suits the formula")

    def misses(self, seed: int, passes: int, confidence: float) -> bool:
        """Whether the interval ever misses the truth before the passes end."""
        watch = IntervalWatch(self.truth)
        check_conversation(
            self.model,
            conversation(2),
            ask(self.query, self.length),
            Budget(passes=passes, confidence=confidence, seed=seed),
            watch=watch,
        )
        return watch.has_missed


@pytest.mark.parametrize(
    ("formula", "listed"),
    [
        (FORMULAS[0], 512),
        *(
            pytest.param(f, n, marks=pytest.mark.long)
            for f, n in [(FORMULAS[1], 512), (FORMULAS[4], 2)]
        ),
    ],
)
def test_intervals_cover_the_truth_at_all_times(formula, listed, monkeypatch):
    """Misses at any time are not significantly more frequent than the confidence allows."""
    monkeypatch.setitem(ExploredTree.__init__.__kwdefaults__, "listed_tokens", listed)
    run = Run(formula)
    confidence, seeds = 0.8, min(SEEDS, 20) if listed == 512 and formula is FORMULAS[0] else SEEDS
    misses = sum(run.misses(seed, 60, confidence) for seed in range(seeds))
    assert binom.sf(misses - 1, seeds, 1 - confidence) > 1e-4


def test_samples_of_unlisted_tokens_estimate_the_truth(monkeypatch):
    """Where visits list two tokens, samples still follow all of them."""
    monkeypatch.setitem(ExploredTree.__init__.__kwdefaults__, "listed_tokens", 2)
    model = chat_table(3)
    truth = float(find_truth(model, FORMULAS[1], 2, 3))
    answer = check(model, "P=? [ F balance > 0 ]", 2, 3, passes=60, confidence=0.9999)
    assert answer.low <= truth <= answer.high
    assert answer.high - answer.low < 0.5
    assert answer.samples > 15


def test_final_scores_decide_within_an_answer():
    """A beginning with a final score decides without its continuations, and so takes fewer passes.

    Without a declared final score every answer is read to its end.
    """
    plain = type("Plain", (Spoilt,), {"final": frozenset()})("c", "a")
    query = "P=? [ G !(spoilt = 0) ]"
    model, budget = chat_table(1), Budget(passes=5000)
    early, late = (
        check_conversation(model, conversation(), ask(query, 3, {"spoilt": each}), budget)
        for each in (QUANTIFIERS["spoilt"], plain)
    )
    assert early.lower == pytest.approx(late.lower, abs=1e-12)
    assert early.passes < late.passes


def test_a_violated_requirement_shows_its_conversations():
    """The witnesses are violating conversations from their start, the most probable one first."""
    model = chat_table(2, is_truncated=True)
    answer = check(model, "P>=0.999 [ G !(spoilt = 0) ]", 2, 2)
    assert answer.holds is False
    first, *others = answer.witnesses
    lines = first.text.split("\n")
    assert lines[0].startswith('assistant: "')
    assert "c" in lines[-1]
    if len(lines) == 3:
        said = lines[0].removeprefix("assistant: ").strip('"')
        assert lines[1] == f'user: "c{said}a"'
    assert all(first.probability >= other.probability for other in others)


def test_thresholds_end_the_work_early():
    """A threshold far from the truth takes fewer passes than the exact answer."""
    model = chat_table(5)
    exact = check(model, "P=? [ F balance > 0 ]", 2, 3)
    wide = check(model, f"P<={(1 + exact.lower) / 2:.4f} [ F balance > 0 ]", 2, 3)
    assert wide.holds is True
    assert wide.passes < exact.passes


def test_equal_seeds_give_equal_answers():
    """The seed alone determines an answer without a limit of seconds."""
    one, same, other = (
        check(chat_table(4), "P=? [ F balance > 0 ]", 2, 4, passes=80, seed=seed)
        for seed in (1, 1, 2)
    )
    assert (one.low, one.high, one.lower) == (same.low, same.high, same.lower)
    assert one.low != other.low


def test_a_template_that_drops_answers_is_rejected():
    """A second turn that does not contain the first answer is no conversation."""
    model = chat_table(0)
    model.drops_answers = True
    with pytest.raises(UnusableText, match=r"turns\[1\]: the chat template of table drops"):
        check(model, "P=? [ F balance > 0 ]", 2, 2)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("P>=0.5 [ F step = 2 ]", "step counts tokens"),
        ("P>=0.5 [ F turn = 3 ]", "turn = 3 never holds; the conversation has 2 turns"),
        ("P>=0.5 [ F turn > 2 ]", "never holds"),
        ("P=? [ F (P>0.5 [ X balance > 0 ]) ]", "not about single conversations"),
        ('R{"balance"}=? [ I=1 ]', "a single P"),
        ('P>=0.5 [ F "rest" ]', "not about single conversations"),
        ("P>=0.5 [ F balanc > 0 ]", "did you mean 'balance'"),
    ],
)
def test_queries_that_are_not_about_turns_are_rejected(query, problem):
    """A query over tokens, over later turns or over several probabilities is named."""
    asked = Property(parse(query), QUANTIFIERS, 2)
    with pytest.raises(InvalidQuery, match=problem):
        check_conversation(chat_table(0), conversation(), asked, Budget(passes=5))


@pytest.mark.parametrize("text", ["{answer 2}", "so {answer 3}?", "{answer 0}"])
def test_a_turn_that_refers_to_a_later_answer_is_rejected(text):
    """The second turn can insert the first answer alone."""
    with pytest.raises(ConfigError, match=r"turns\[1\]: \{answer \d\} does not precede"):
        Conversation(Chat((("user", "a"),)), (ScriptedTurn.parse(text),))


def test_inserted_answers_are_data():
    """An answer that looks like a reference is inserted as it is, and other braces are text."""
    turn = ScriptedTurn.parse("{x} {answer 1}, {answer 2}!")
    assert turn.insert(["{answer 2}", "b"]) == "{x} {answer 2}, b!"
    assert str(turn) == "{x} {answer 1}, {answer 2}!"


def test_a_verdict_that_longer_answers_may_change_has_a_warning():
    """Where the length cuts answers, G that holds is warned of, and G that is violated is not."""
    model = chat_table(3)
    exact = check(model, "P=? [ G !(spoilt = 0) ]", 2, 2)
    holds, violated = (
        check(model, f"P>={exact.lower + change:.6f} [ G !(spoilt = 0) ]", 2, 2)
        for change in (-1e-4, 1e-4)
    )
    assert (holds.holds, violated.holds) == (True, False)
    assert holds.warning.startswith("After 2 tokens an answer goes on in up to 0.")
    assert holds.warning.endswith(" of the conversations: this is about beginnings.")
    assert violated.warning is None
    assert holds.about.startswith("in 2 turns of at most 2 tokens; in 0.")


@pytest.mark.parametrize("seed", range(6))
def test_the_share_of_cut_conversations_is_that_of_all(seed):
    """The bounds of conversations without a cut answer contain the enumerated share."""
    model = chat_table(seed)
    answer = check(model, "P=? [ F (turn = 2 & balance > 9) ]", 2, 2)
    truth = find_truth(model, ("G", None, ENDED), 2, 2)
    ended = answer.endings.ended
    assert Fraction(ended.lower) <= truth <= Fraction(ended.upper)
    assert ended.upper - ended.lower < 1e-8


class Rejecting(ChatTable):
    """A table whose template rejects an answer."""

    def encode(self, start):
        if any(message == ("assistant", "cc") for message in getattr(start, "messages", ())):
            raise UnusableText("the template rejects cc")
        return super().encode(start)


def test_an_answer_that_the_template_rejects_leaves_the_answer_so_far():
    """A prompt of a later turn that is never read is no error; where it is read, the error names
    the turn once, and has the answer so far."""
    table = chat_table(3)
    model = Rejecting(table.vocabulary, table.distribution, table.end_tokens)
    asked = ask("P=? [ F balance > 0 ]", 2)
    few = check_conversation(model, conversation(), asked, Budget(passes=3, certain=True))
    assert few.lower < few.upper
    with pytest.raises(InterruptedCheck, match=r"^turns\[1\]: the template rejects cc") as failure:
        check_conversation(model, conversation(), asked, Budget(passes=1000))
    assert failure.value.result.passes >= 3
