"""Answers with the log probabilities of their tokens, against enumeration with fractions."""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from helpers.conversations import (
    Actor,
    Result,
    build_conversation,
    chat_table,
    enumerate_conversations,
)
from helpers.listing_sampler import ListingSampler, Path, enumerate_paths
from helpers.marks import long
from helpers.questions import check_anytime, check_conversation
from helpers.random_tables import START, Balance, Spoilt, table_model
from scipy.stats import binom

from llmchecker.checking.answer import Answer
from llmchecker.checking.anytime.answer_monitor import AnswerMonitor
from llmchecker.checking.anytime.listed_mass import ListedMass
from llmchecker.checking.budget import Budget
from llmchecker.checking.formatting import build_figures
from llmchecker.models.decoding.answer_reader import AnswerReader
from llmchecker.models.table_model import TableModel
from llmchecker.models.text_answer import Finish, ListedToken, TextAnswer
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.pattern import Pattern

LENGTH = 4
GENDER, SPOILT = Balance("a", "b"), Spoilt("b", "c")
_HAS_B = ("atom", "b", "=", 1)
TURN_QUERIES = [
    ("P=? [ G b = 0 ]", ("G", None, ("!", _HAS_B))),
    ("P=? [ F b = 1 ]", ("F", None, _HAS_B)),
    ("P=? [ X b = 1 ]", ("X", _HAS_B)),
]
"""Queries about turns, and their formulas from the first answer on."""
QUERIES: dict[str, Callable[[Path], int]] = {
    "P=? [ F (G gender > 0) ]": lambda path: gender(path[0][-1]) > 0,
    "P=? [ F gender > 2 ]": lambda path: any(gender(text) > 2 for text in path[0]),
    "P=? [ G gender >= 1 ]": lambda path: all(gender(text) >= 1 for text in path[0]),
    'P=? [ F "end" ]': lambda path: path[1],
    "P=? [ (F gender > 2) | (G gender >= 1) ]": lambda path: (
        any(gender(text) > 2 for text in path[0]) or all(gender(text) >= 1 for text in path[0])
    ),
    f'R{{"spoilt"}}=? [ I={LENGTH} ]': lambda path: SPOILT(START, path[0][-1]),
    "P>=0.4 [ F (G gender > 0) ]": lambda path: gender(path[0][-1]) > 0,
}


def gender(text: str) -> int:
    return GENDER(START, text)


def check(model, query: str, answers: int = 120, confidence: float = 0.8, **limits) -> Answer:
    asked = Property(parse(query), {"gender": GENDER, "spoilt": SPOILT}, LENGTH)
    budget = Budget(passes=1, answers=answers, confidence=confidence, **limits)
    return check_anytime(model, START, asked, budget)


def find_truth(table: TableModel, query: str) -> Fraction:
    return sum(
        (mass * QUERIES[query](path) for path, mass in enumerate_paths(table, LENGTH)), Fraction()
    )


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seeds", [4, *long(14)])
def test_listed_probabilities_bound_the_answer_and_the_interval_covers_it(query, seeds):
    """Certain bounds hold in every round of every seed, and few intervals ever miss the truth."""
    misses, certain_widths = 0, 0.0
    for seed in range(seeds):
        table = table_model(seed)
        truth = find_truth(table, query)
        model = ListingSampler(table, seed, lists_end=seed % 3 > 0, lists_sampled=seed % 2 > 0)
        answer = check(model, query)
        unused = [note for note in answer.notes if "not used" in note]
        # at a confidence of 0.8 samples often contradict numbers that are right
        reasons = [
            "contradict",
            *(["only a part of the answers has them"] if seed % 3 == 0 else []),
        ]
        assert all(any(reason in note for reason in reasons) for note in unused)
        for each in answer.history:
            assert Fraction(each.certain.lower) <= truth <= Fraction(each.certain.upper)
        misses += not all(each.low <= truth <= each.high for each in answer.history)
        bounds = answer.probability if query.startswith("P>") else answer.certain
        assert Fraction(bounds.lower) <= truth <= Fraction(bounds.upper)
        assert answer.measurement.sampled.width <= bounds.width + 1e-12
        certain_widths += bounds.width
    assert binom.sf(misses - 1, seeds, 0.2) > 1e-4
    # a threshold is often decided before the numbers are used
    if not query.startswith("P>"):
        assert certain_widths < seeds * (2 if query.startswith("R") else 1) * 0.75


@pytest.mark.parametrize(("known_turns", "lower"), [(2, 0.25), (1, 0.0)])
def test_answers_after_a_simulated_user_have_no_known_probability(known_turns, lower):
    """Two answers of 1/2 are 1/4 of the conversations, unless a model writes between them."""
    listed = (("a", math.log(0.5)), ("b", math.log(0.5)))
    answers = [
        TextAnswer(text, Finish.MAX_TOKENS, tokens=(ListedToken(text, math.log(0.5), listed),))
        for text in "ab"
    ]
    masses = ListedMass(lambda text: None, 1, 2, known_turns)
    assert masses.add(answers, 1.0) == 1.0
    assert masses.problem is None
    assert masses.certain.lower == pytest.approx(lower, rel=1e-3, abs=0)
    assert masses.certain.upper == 1


@pytest.mark.parametrize("seeds", [4, *long(16)])
@pytest.mark.parametrize("kind", ["scripted", "tool", "simulated"])
def test_listed_probabilities_bound_conversations(kind, seeds):
    """Certain bounds hold in every round of every seed, and few intervals ever miss the truth."""
    misses, certain_widths = 0, 0.0
    quantifiers = {"b": Pattern("b")}
    for seed in range(seeds):
        table = chat_table(seed, calls=kind == "tool")
        later = {"scripted": "c{1}a", "tool": Result("b{1}"), "simulated": Actor(table, "b", 1)}
        turns: list = ["ab", "{1}" if kind == "simulated" else "c", later[kind]]
        conversation, users = build_conversation(turns)
        query, formula = TURN_QUERIES[seed % len(TURN_QUERIES)]
        tree = enumerate_conversations(table, turns, 2, quantifiers)
        truth = tree.probability_of(("X", formula))
        writers = {user: ListingSampler(each, seed + 99) for user, each in users.items()}
        model = ListingSampler(table, seed, lists_end=seed % 5 > 0, lists_sampled=seed % 2 > 0)
        asked = Property(parse(query), quantifiers, 2)
        budget = Budget(passes=1, answers=360, confidence=0.8)
        answer = check_conversation(model, conversation, asked, budget, writers)
        for each in answer.history:
            assert Fraction(each.certain.lower) <= truth <= Fraction(each.certain.upper)
        assert Fraction(answer.certain.lower) <= truth <= Fraction(answer.certain.upper)
        misses += not all(each.low <= truth <= each.high for each in answer.history)
        certain_widths += answer.certain.width
    assert binom.sf(misses - 1, seeds, 0.2) > 1e-4
    assert certain_widths < 0.9 * seeds


@pytest.mark.long
def test_an_interval_by_listed_probabilities_is_narrower():
    """A known text needs no samples, so the same answers give half of the width on average."""
    widths = {True: 0.0, False: 0.0}
    for seed in range(3):
        for has_tokens in widths:
            model = ListingSampler(table_model(seed), seed, change=None if has_tokens else drop)
            sampled = check(model, "P=? [ F (G gender > 0) ]", 400, 0.95).sampled
            widths[has_tokens] += sampled.interval.width
    assert widths[True] < 0.6 * widths[False]


def drop(answer: TextAnswer, chance: random.Random) -> TextAnswer:
    """An answer without log probabilities."""
    del chance
    return replace(answer, tokens=())


def drop_few(answer: TextAnswer, chance: random.Random) -> TextAnswer:
    """An answer that often has no log probabilities."""
    return replace(answer, tokens=answer.tokens if chance.random() < 0.9 else ())


def drop_end(answer: TextAnswer, chance: random.Random) -> TextAnswer:
    """An answer that often does not list its end."""
    has_end = len(answer.tokens) > len(answer.text)
    is_changed = has_end and chance.random() < 0.3
    return replace(answer, tokens=answer.tokens[:-1] if is_changed else answer.tokens)


def hide_thought(answer: TextAnswer, chance: random.Random) -> TextAnswer:
    """An answer after tokens that are not listed."""
    del chance
    return replace(answer, answer_tokens=len(answer.tokens) + 7)


def shift(answer: TextAnswer, error: float) -> TextAnswer:
    """An answer whose log probabilities are others, in the lists too."""

    def change(token: ListedToken) -> ListedToken:
        listed = tuple((text, number - error) for text, number in token.listed)
        return ListedToken(token.text, token.logprob - error, listed)

    return replace(answer, tokens=tuple(map(change, answer.tokens)))


def vary(answer: TextAnswer, chance: random.Random) -> TextAnswer:
    """An answer whose log probabilities are others each time."""
    return shift(answer, chance.choice([0.001, 0.01]))


def drop_others(answer: TextAnswer, chance: random.Random) -> TextAnswer:
    """An answer that lists only the sampled tokens."""
    del chance
    return replace(answer, tokens=tuple(replace(each, listed=()) for each in answer.tokens))


def inflate(answer: TextAnswer, chance: random.Random) -> TextAnswer:
    """An answer with too large probabilities."""
    del chance
    listed = tuple((text, max(number, -0.1)) for text, number in answer.tokens[0].listed)
    first = replace(answer.tokens[0], listed=listed)
    return replace(answer, tokens=(first, *answer.tokens[1:]))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"sharpness": 4.0}, "the sampled tokens do not follow them"),
        ({"sharpness": 0.3}, "the sampled tokens do not follow them"),
        ({"change": drop_few}, "only a part of the answers has them"),
        ({"change": drop_end}, "only a part of the answers lists the end token"),
        ({"change": hide_thought}, "tokens lists"),
        ({"change": vary}, "after equal tokens"),
        ({"change": inflate}, "have the sum"),
        ({"change": drop_others}, "the most probable tokens are not listed"),
    ],
)
def test_wrong_numbers_are_not_used(options, problem):
    """The answer names what is wrong, and is the one without log probabilities."""
    query = "P=? [ F (G gender > 0) ]"
    answer = check(ListingSampler(table_model(2), 5, **options), query, 600)
    (note,) = (note for note in answer.notes if "log probabilities" in note)
    assert "not used" in note
    assert problem in note
    assert (answer.lower, answer.upper) == (0, 1)
    assert not answer.has_bounds
    change = options.get("change", lambda answer, _: answer)
    plain = ListingSampler(
        table_model(2),
        5,
        **options | {"change": lambda answer, chance: drop(change(answer, chance), chance)},
    )
    assert check(plain, query, 600).sampled == answer.sampled


def test_a_certain_verdict_ends_the_answers():
    """A requirement that known texts decide needs few answers, and no confidence."""
    table = TableModel([*"abcd", "."], lambda tokens: [0, 0.97, 0, 0, 0.03], frozenset([4]))
    answer = check(ListingSampler(table, 1), "P>=0.8 [ F gender < 0 ]")
    assert answer.holds
    assert answer.decision.is_certain
    assert 32 <= answer.samples <= 36
    assert 0.8 < answer.probability.lower < Fraction(97, 100) ** 2


def test_the_number_of_a_text_that_was_removed_counts_for_nothing():
    """White space that a provider removes is no end token, so the answer's probability is open."""
    token = ListedToken("a", math.log(0.9), (("a", math.log(0.9)),))
    space = ListedToken("\n", math.log(0.5), (("\n", math.log(0.5)),))

    def strip(answer: TextAnswer, chance: random.Random) -> TextAnswer:
        del chance
        return replace(answer, text="a", tokens=(token, space))

    table = TableModel([*"abcd", "."], lambda tokens: [0.5, 0, 0, 0, 0.5], frozenset([4]))
    answer = check(ListingSampler(table, 1, change=strip), "P=? [ F (G gender > 0) ]")
    assert (answer.lower, answer.upper) == (0, 1)


def test_a_provider_that_ignores_the_request_is_named():
    """An answer without the log probabilities that were requested says so."""
    answer = check(ListingSampler(table_model(0), 0, change=drop), "P=? [ F (G gender > 0) ]")
    assert "the provider lists no log probabilities, which `top_logprobs` requests" in answer.notes


@pytest.mark.few(1)
@pytest.mark.parametrize("lists_sampled", [False, True])
def test_right_numbers_pass_the_test_of_samples(lists_sampled):
    """Samples of the listed numbers are no finding, where a list has the sampled token too."""
    table = TableModel([*"abcd", "."], lambda tokens: [0.3, 0.25, 0.2, 0.15, 0.1], frozenset([4]))
    model = ListingSampler(table, 3, lists_sampled=lists_sampled)
    answer = check(model, "P=? [ F (G gender > 0) ]", 2_000, 0.95)
    assert any("found no difference" in note for note in answer.notes)


def test_ends_of_one_kind_are_one_sequence_each():
    """Two tokens that end an answer exclude each other, and count apart."""
    numbers = {"a": 0.6, "</s>": 0.3, "STOP": 0.1}
    listed = tuple((text, math.log(number)) for text, number in numbers.items())

    def write(answer: TextAnswer, chance: random.Random) -> TextAnswer:
        tokens, text = [], ""
        while len(tokens) < LENGTH:
            (piece,) = chance.choices(list(numbers), list(numbers.values()))
            tokens.append(ListedToken(piece, math.log(numbers[piece]), listed))
            if piece != "a":
                return replace(answer, text=text, finish=Finish.ENDED, tokens=tuple(tokens))
            text += piece
        return replace(answer, text=text, finish=Finish.TRUNCATED, tokens=tuple(tokens))

    answer = check(ListingSampler(table_model(0), 4, change=write), "P=? [ G gender < 3 ]", 400)
    truth = 1 - Fraction(36, 100)
    assert answer.lower <= truth <= answer.upper
    assert answer.upper - answer.lower < 0.01
    assert answer.has_bounds
    assert "certain" in build_figures(answer)


def test_tokens_of_equal_texts_are_not_used():
    """Two tokens of one text are not told apart, so the numbers of both count for nothing."""

    def write(answer: TextAnswer, chance: random.Random) -> TextAnswer:
        number = math.log(chance.choice([0.7, 0.3]))
        tokens = (ListedToken("a", number, (("b", math.log(1e-9)),)),) * LENGTH
        return replace(answer, text="aaaa", finish=Finish.TRUNCATED, tokens=tokens)

    answer = check(ListingSampler(table_model(0), 4, change=write), "P=? [ F gender > 2 ]")
    assert (answer.lower, answer.upper) == (0, 1)
    assert any("after equal tokens" in note for note in answer.notes)
    equal = (("a", math.log(0.5)), ("a", math.log(0.5)))

    def repeat(answer: TextAnswer, chance: random.Random) -> TextAnswer:
        del chance
        tokens = (ListedToken("a", math.log(0.5), equal),) * LENGTH
        return replace(answer, text="aaaa", finish=Finish.TRUNCATED, tokens=tokens)

    answer = check(ListingSampler(table_model(0), 4, change=repeat), "P=? [ F gender > 2 ]")
    assert (answer.lower, answer.upper) == (0, 1)


def test_a_stop_leaves_beginnings_undecided():
    """A provider may remove characters that begin a stop, so no beginning decides an answer."""
    asked = Property(parse("P=? [ F gender > 1 ]"), {"gender": GENDER}, LENGTH)
    assert AnswerMonitor(asked, START, AnswerReader()).decide("aaa") is True
    assert AnswerMonitor(asked, START, AnswerReader(stop=("ab",))).decide("aaa") is None
