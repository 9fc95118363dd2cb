"""Answers about graded texts: intervals cover an enumeration, and only needed texts are graded."""

import os
import random
from itertools import pairwise

import pytest
from helpers.conversations import LETTERS, ChatTable
from helpers.interval_watch import IntervalWatch
from helpers.judging import ScriptedJudge, judged_text
from helpers.marks import long
from helpers.random_tables import Spoilt
from scipy.stats import binom

import llmchecker as lc
from llmchecker.properties.logic.continuation import reads_last_state
from llmchecker.properties.logic.parser import parse

WORDS = ["once", " he", " she", "", "."]
"""One token adds no text, and the last one ends a text."""
END = len(WORDS) - 1
LENGTH = 4
SEEDS = int(os.environ.get("COVERAGE_SEEDS", "12"))
GRADED = "P=? [ F (G polite = 1) ]"


def distribution(seed: int, tokens) -> list[float]:
    """Of each next token, by all tokens before it."""
    chance = random.Random(repr((seed, *tokens)))
    cuts = sorted([0, 64, *(chance.randrange(65) for _ in range(END - 1))])
    return [0.0, *((after - before) / 64 for before, after in pairwise(cuts))]


def grade(text: str) -> bool:
    return random.Random(text).random() < 0.5


def ask(query: str, table: int = 0, **options) -> lc.Answer:
    model = lc.TableModel(WORDS, lambda tokens: distribution(table, tokens), frozenset({END}))
    judge = ScriptedJudge(lambda text: {"Yes" if grade(text) else "No": 0.9})
    polite = lc.Judge(model=judge, question="Is it polite?", of="continuation")
    return lc.ask(query, model, "once", length=LENGTH, polite=polite, **options)


def find_truth(seed: int, tokens: tuple[int, ...] = (0,)) -> float:
    """The probability of a polite text, by all texts."""
    if len(tokens) > LENGTH or tokens[-1] == END:
        return float(grade("".join(WORDS[token] for token in tokens[1:] if token != END)))
    return sum(
        chance and chance * find_truth(seed, (*tokens, token))
        for token, chance in enumerate(distribution(seed, tokens))
    )


@pytest.mark.parametrize("seed", [*range(5), *long(*range(5, 40))])
def test_an_exact_answer_is_that_of_all_texts(seed):
    """With enough passes both bounds are the probability of an enumeration."""
    answer, truth = ask(GRADED, seed, passes=1000), find_truth(seed)
    assert (answer.lower, answer.upper) == pytest.approx((truth, truth))


@pytest.mark.parametrize("query", [GRADED, *long("P=? [ F polite = 1 ]")])
def test_intervals_of_graded_texts_cover_the_truth_at_all_times(query):
    """Misses at any time are not significantly more frequent than the confidence allows."""
    table = 1 if query == GRADED else 2
    truth, confidence, misses = ask(query, table, passes=1000).estimate, 0.8, 0
    assert 0.1 < truth < 0.9
    for seed in range(SEEDS):
        watch = IntervalWatch(truth)
        ask(query, table, passes=24, confidence=confidence, seed=seed, watch=watch)
        assert watch.found
        misses += watch.has_missed
    assert binom.sf(misses - 1, SEEDS, 1 - confidence) > 1e-4


def test_beginnings_are_not_graded_where_only_whole_texts_matter():
    """A judge without an answer to beginnings decides a query about whole texts."""

    def answer(text: str):
        # a text before the horizon without an end is a beginning
        is_whole = text.count(" ") == LENGTH
        return {"Yes": 0.9} if is_whole else {"nothing": 0.9}

    judge = ScriptedJudge(answer)
    polite = lc.Judge(model=judge, question="Is it polite?", of="continuation")
    model = lc.TableModel(["once", " he", " she"], lambda tokens: [0, 0.5, 0.5])
    found = lc.ask(GRADED, model, "once", length=LENGTH, passes=1000, polite=polite)
    assert found.lower == pytest.approx(1)
    assert {judged_text(chat).count(" ") for chat in judge.chats} == {LENGTH}
    # with a beginning that matters, the text without a grade is named
    with pytest.raises(lc.errors.ConfigError, match=r"its answer to '[a-z ]*' is one of yes, no"):
        lc.ask("P=? [ F polite = 1 ]", model, "once", length=LENGTH, passes=9, polite=polite)


def test_only_whole_answers_of_a_conversation_are_graded():
    """Next to a quantifier that decides within an answer, the judge still reads whole answers."""
    judge = ScriptedJudge(lambda text: {"Yes" if "b" in text else "No": 0.9})
    polite = lc.Judge(model=judge, question="Is it polite?", of="continuation")
    endless = ChatTable([*LETTERS, ".", "<u>", "<m>"], lambda tokens: [0.5, 0.25, 0.25, 0, 0, 0])
    lc.ask(
        "P=? [ G (spoilt = 0 | polite = 1) ]",
        endless,
        user="ab",
        turns=["c{answer 1}a"],
        length=2,
        passes=1000,
        spoilt=Spoilt("c", "a"),
        polite=polite,
    )
    texts = {judged_text(chat) for chat in judge.chats}
    assert {len(text) for text in texts} == {2}


@pytest.mark.parametrize(
    ("path", "is_last"),
    [
        ("F (G x = 1)", True),
        ("G (F x = 1)", True),
        ('(F (G x = 1)) & (F "end")', True),
        ('!(F (G (x = 1 & "end"))) | (G y = 0)', True),
        ("F step = 3", True),
        ("F x = 1", False),
        ("G x = 1", False),
        ("F (G<=3 x = 1)", False),
        ("F (G (X x = 1))", False),
        ("x = 1", False),
        ("(F (G x = 1)) & (F x = 0)", False),
    ],
)
def test_formulas_about_the_last_state_are_recognized(path, is_last):
    """Only eventually always, always eventually, and their combinations skip earlier states."""
    assert reads_last_state(parse(f"P=? [ {path} ]").root.path, "x") is is_last
