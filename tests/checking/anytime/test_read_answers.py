"""Checks of answers with stops and thoughts, against enumeration with fractions."""

import os
from functools import cache

import pytest
from helpers import oracle
from helpers.anytime_checks import TableServer, refine, serve
from helpers.random_tables import Balance, ReadBalance
from helpers.read_texts import enumerate_texts, read_beginning, token_table
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from llmchecker.checking.anytime import round_plan
from llmchecker.checking.anytime.answer_process import AnswerProcess
from llmchecker.checking.anytime.anytime_check import AnytimeCheck
from llmchecker.checking.anytime.estimand import Estimand
from llmchecker.checking.anytime.explored_tree import ExploredTree
from llmchecker.checking.budget import Budget
from llmchecker.checking.endings import describe_endings, measure_endings
from llmchecker.errors import ConfigError
from llmchecker.models.decoding.answer_format import ThoughtMarks
from llmchecker.models.decoding.answer_reader import AnswerReader, apply_reader
from llmchecker.models.table_model import TableModel
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.scores import score_tree
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.shards import Shard, merge_shards
from llmchecker.trees.text_tree import TextTree, Truncation
from llmchecker.utils.interval import Interval

START, LENGTH, ROUNDING = "a", 3, 1e-9
RUNS = int(os.environ.get("COVERAGE_SEEDS", "30"))
VOCABULARY = ["a", " b", "ab", "<", "<<a", ">"]
READERS = {
    "stop": AnswerReader(("ab",)),
    "stops": AnswerReader(("ba<", "bb", ">")),
    "included": AnswerReader(("aab", "b<"), include_stop=True),
    "thought": AnswerReader(marks=ThoughtMarks("<<", ">")),
    "open": AnswerReader(marks=ThoughtMarks("<<", ">", is_open=True)),
    "both": AnswerReader(("ab", "><"), marks=ThoughtMarks("<a", ">")),
    "both included": AnswerReader(("bb", "a>a"), True, ThoughtMarks("<<", "a>")),
    "limited": AnswerReader(max_tokens=2),
    "limited stop": AnswerReader(("ab",), max_tokens=LENGTH),
    "limited both": AnswerReader(("ab", "><"), marks=ThoughtMarks("<a", ">"), max_tokens=2),
}


class PartBalance(ReadBalance):
    """A balance of letters in a part."""

    def __init__(self, more: str, less: str, of: str) -> None:
        super().__init__(more, less)
        self.of = of


class OpaquePartBalance(Balance):
    """The same without a transducer."""

    def __init__(self, more: str, less: str, of: str) -> None:
        super().__init__(more, less)
        self.of = of


LETTERS = {"answer": ("a", "b"), "thought": ("a", "b"), "output": (">", "<")}


def build_quantifiers(kind: str) -> dict:
    """One quantifier for each part, by the part's name: with transducers, without, or both."""
    opaque = {"read": (), "opaque": tuple(LETTERS), "mixed": ("thought",)}[kind]
    return {
        part: (OpaquePartBalance if part in opaque else PartBalance)(*letters, part)
        for part, letters in LETTERS.items()
    }


@cache
def read_once(name: str, raw: str):
    """`read_beginning` of a reader by its name, computed once."""
    return read_beginning(READERS[name], raw, "<>ab ")


@cache
def find_tree(name: str, seed: int) -> oracle.Tree:
    """The enumerated tree of a reader on a random table."""
    scores = {
        part: (part, lambda text, more=more, less=less: text.count(more) - text.count(less))
        for part, (more, less) in LETTERS.items()
    }
    return enumerate_texts(
        token_table(VOCABULARY, seed),
        START,
        LENGTH,
        READERS[name],
        scores,
        with_shared=lambda raw: read_once(name, raw),
    )


def plant(asked: Property, model: TableModel, listed: int = 3) -> tuple[ExploredTree, TableServer]:
    """Return the tree of a check that has only its root, and a server for it."""
    process = AnswerProcess(model, START, asked.length)
    tree = ExploredTree(
        process, Estimand.from_query(asked), asked.quantifiers, listed_tokens=listed, min_share=0.0
    )
    return tree, TableServer(model, process.first.prompt)


@pytest.mark.few(8)
@pytest.mark.parametrize("kind", ["read", "opaque", "mixed"])
@pytest.mark.parametrize("name", READERS)
def test_certain_bounds_contain_the_enumerated_truth(name: str, kind: str) -> None:
    """Bounds of random formulas over all parts contain the truth after every visit, to the end."""

    @settings(max_examples=12, deadline=None)
    @given(oracle.formulas(list(LETTERS), nested=False), st.integers(0, 3))
    def holds(path: tuple, seed: int) -> None:
        # thoughts of answers without any are refused
        if '"rest"' in oracle.written(path) or (
            not READERS[name] and "thought" in oracle.written(path)
        ):
            return
        truth = find_tree(name, seed).probability_of(path)
        quantifiers = build_quantifiers(kind)
        query = parse(f"P=? [ {oracle.written(path)} ]")
        asked = Property(
            query, {q: quantifiers[q] for q in sorted(query.variables - {"step"})}, LENGTH
        )
        tree, server = plant(asked, apply_reader(token_table(VOCABULARY, seed), READERS[name]))
        while True:
            (masses,) = tree.find_masses()
            bounds = masses.interval
            assert bounds.lower - ROUNDING <= truth <= bounds.upper + ROUNDING
            if not refine(tree, server, 8):
                break
        assert bounds.width < ROUNDING
        tree.check_law()

    holds()


@pytest.mark.parametrize("part", LETTERS)
@pytest.mark.parametrize("name", READERS)
def test_trees_have_the_ends_and_scores_of_readers(name: str, part: str, tmp_path) -> None:
    """A tree of alpha and k, in memory, in a file and merged from shards, has the enumerated ends
    and the scores of each part."""
    model = apply_reader(token_table(VOCABULARY, 1), READERS[name])
    if part == "thought" and READERS[name].marks is None:
        return
    truncation = Truncation(1.0, len(VOCABULARY) + 1, LENGTH)
    shards = [build_tree(model, START, truncation, shard=Shard(i, 2)) for i in range(2)]
    merge_shards(shards).write(tmp_path / "tree.parquet")
    tree = TextTree.read(tmp_path / "tree.parquet")
    assert tree.digest == build_tree(model, START, truncation).digest
    scores = score_tree(PartBalance(*LETTERS[part], part), tree)
    columns = {"step": tree.step, "answer": scores}
    found, exact = (
        oracle.Tree(tree.parent, tree.probability, tree.kind, columns),
        find_tree(name, 1),
    )
    assert len(found.kind) == len(exact.kind)
    for step in range(1, LENGTH + 1):
        for score in range(-3, 4):

            def eventually(variable: str, is_end: bool, at: int = step, value: int = score):
                here = ("&", ("atom", "step", "=", at), ("atom", variable, "=", value))
                return ("F", None, ("&", ("label", "end"), here) if is_end else here)

            for is_end in (False, True):
                probability = exact.probability_of(eventually(part, is_end))
                assert found.probability_of(eventually("answer", is_end)) == probability
    if READERS[name].marks is None:
        return
    thought = measure_endings(tree).thought
    cut = find_cut_share(model, READERS[name])
    assert thought.lower - ROUNDING <= cut <= thought.upper + ROUNDING
    assert thought.width < 1e-6


def test_thoughts_of_answers_without_marks_are_refused() -> None:
    """A quantifier of thoughts is refused for a model and for a tree without marks."""
    plain = token_table(VOCABULARY, 1)
    asked = Property(parse("P=? [ F t > 0 ]"), {"t": PartBalance("a", "b", "thought")}, LENGTH)
    with pytest.raises(ConfigError, match="quantifier 't': of: the answers have no known thoughts"):
        AnswerProcess(plain, START, LENGTH).create_tree(asked)
    with pytest.raises(ConfigError, match="no known thoughts"):
        score_tree(asked.quantifiers["t"], build_tree(plain, START, Truncation(1.0, 2, 1)), "t")


@pytest.mark.few(2)
@pytest.mark.parametrize("listed", [3, 99])
@pytest.mark.parametrize("name", ["stops", "both"])
def test_intervals_cover_the_truth(name: str, listed: int, monkeypatch) -> None:
    """Of the runs of many seeds, no more miss the truth than the confidence of 0.8 allows."""
    monkeypatch.setattr(round_plan, "_MIN_ROUND", 8)
    monkeypatch.setattr(round_plan, "_FIRST_SAMPLES", 0)
    monkeypatch.setattr(round_plan, "_MIN_REFINEMENT", 1)
    path = ("F", None, ("&", ("label", "end"), ("atom", "answer", ">", 0)))
    seed = next(
        seed for seed in range(99) if 0.1 < find_tree(name, seed).probability_of(path) < 0.9
    )
    truth, misses = find_tree(name, seed).probability_of(path), 0
    quantifiers = {"answer": build_quantifiers("read")["answer"]}
    asked = Property(parse(f"P=? [ {oracle.written(path)} ]"), quantifiers, LENGTH)
    model = apply_reader(token_table(VOCABULARY, seed), READERS[name])
    for run in range(RUNS):
        tree, server = plant(asked, model, listed)
        check = AnytimeCheck(tree, asked, Budget(confidence=0.8, seed=run, passes=24))
        serve(check.run(), server)
        progress = check.compute_progress()
        assert progress.lower - ROUNDING <= truth <= progress.upper + ROUNDING
        ends = check.samples.ends
        misses += ends is not None and not ends[0] - ROUNDING <= truth <= ends[1] + ROUNDING
    assert binom.sf(misses - 1, RUNS, 0.2) > 1e-3


@pytest.mark.parametrize("name", ["limited", "limited stop", "limited both"])
def test_the_share_that_max_tokens_ends_is_bounded(name: str) -> None:
    """After every visit the bounds contain the enumerated share of answers that `max_tokens` ends,
    and every answer ends."""
    exact = find_tree(name, 2)
    share = float(sum(mass for path, mass in exact.paths(0) if exact.kind[path[-1]] == 3))
    model = apply_reader(token_table(VOCABULARY, 2), READERS[name])
    query = parse('P=? [ F ("end" & answer > 0) ]')
    asked = Property(query, {"answer": build_quantifiers("read")["answer"]}, LENGTH)
    tree, server = plant(asked, model)
    while refine(tree, server, 8):
        endings = tree.measure_endings()
        assert endings.limited.lower - ROUNDING <= share <= endings.limited.upper + ROUNDING
        assert (endings.ended, endings.cut) == (Interval(1.0, 1.0), 0)
    whole = measure_endings(build_tree(model, START, Truncation(1.0, len(VOCABULARY) + 1, LENGTH)))
    assert abs(whole.limited.lower - share) < 1e-8
    assert whole.limited.width < 1e-8
    assert describe_endings(LENGTH, whole).startswith(
        "within 3 tokens; 1.00 of the answers had ended, 0."
    )


@pytest.mark.parametrize("name", ["thought", "open", "both", "limited both"])
def test_the_share_of_cut_thoughts_is_bounded(name: str) -> None:
    """After every visit the bounds contain the enumerated share of thoughts that are cut."""
    model = apply_reader(token_table(VOCABULARY, 2), READERS[name])
    cut = find_cut_share(model, READERS[name])
    last = READERS[name].limit_length(LENGTH)
    query = parse(f"P=? [ F (step = {last} & answer > 0) ]")
    asked = Property(query, {"answer": build_quantifiers("read")["answer"]}, LENGTH)
    tree, server = plant(asked, model)
    while refine(tree, server, 8):
        bounds = tree.measure_endings().thought
        assert bounds.lower - ROUNDING <= cut <= bounds.upper + ROUNDING
    assert "answers after thoughts, " in describe_endings(LENGTH, tree.measure_endings())


def find_cut_share(model: TableModel, reader: AnswerReader) -> float:
    """The enumerated share of texts that the horizon cuts within a thought."""
    texts, cut = [((), "", 1.0)], 0.0
    for step in range(1, LENGTH + 1):
        following = []
        for tokens, raw, mass in texts:
            for token, weight in enumerate(model.distribution((0, *tokens))):
                if token in model.end_tokens or weight == 0:
                    continue
                text = raw + model.vocabulary[token]
                reading = reader.read(text, is_whole=True)
                if not reading.has_stopped:
                    following.append(((*tokens, token), text, mass * weight))
                    is_last = step == reader.limit_length(LENGTH)
                    cut += mass * weight * (is_last and reading.is_thinking)
        texts = [] if step == reader.max_tokens else following
    return cut
