"""Generated queries of every kind, held against an evaluator that shares nothing with the package.

The evaluator lists paths, in exact fractions: a probability of 0.7 is 7/10 there.
"""

from fractions import Fraction

import pytest
from helpers import oracle
from helpers.random_queries import NAMES, Case, random_case

from llmchecker.checking import bounds
from llmchecker.checking.bounded_value import check_chain
from llmchecker.checking.markov import dtmc
from llmchecker.errors import ImpossibleCondition
from llmchecker.properties.logic.parser import parse
from llmchecker.trees.text_tree import StateKind, TextTree

RANGES = dict.fromkeys(NAMES, (-2, 2))
ROUNDING = Fraction(1, 10**12)
PART = 250


def exact_tree(tree: TextTree, scores: dict) -> oracle.Tree:
    """The tree with the fractions that its decimals stand for."""
    columns = {"step": tree.step.tolist()} | {n: c.tolist() for n, c in scores.items()}
    probabilities = tree.probability.tolist()
    return oracle.Tree(tree.parent.tolist(), probabilities, tree.kind.tolist(), columns, read=str)


def truth(tree: oracle.Tree, case: Case) -> Fraction | bool | None:
    """What the evaluator says; None for a condition that never holds."""
    match case.kind:
        case "path":
            return tree.probability_of(case.question)
        case "state":
            return tree.holds(case.question, (0,))
        case "conditional":
            return tree.conditional(*case.question)
    return tree.expectation(*case.question)


def is_close(tree: oracle.Tree, formula: object) -> bool:
    """Whether somewhere a probability is within rounding of a threshold in the formula."""
    if not isinstance(formula, tuple):
        return False
    if formula[0] == "P" and formula[2] not in (0, 1):
        _, _, bound, path = formula
        states = range(len(tree.kind))
        if any(abs(tree.probability_of(path, s) - bound) <= ROUNDING for s in states):
            return True
    return any(is_close(tree, part) for part in formula)


def check(seed: int) -> None:
    """Hold the value on the cut tree, and the bounds for the whole one, against the evaluator."""
    case = random_case(seed)
    query = parse(case.query)
    cut = exact_tree(case.cut, case.cut_scores)
    expected = truth(cut, case)
    chain = dtmc.build_dtmc(case.cut, case.cut_scores)
    if expected is None and not is_close(cut, case.question):
        assert check_chain(chain, query).bounded is None
    elif expected is not None:
        value = check_chain(chain, query).bounded
        if value is None:
            assert is_close(cut, case.question)
        elif isinstance(expected, bool):
            assert value is expected
        else:
            assert abs(Fraction(value) - expected) <= ROUNDING * max(1, abs(expected))
            assert case.kind == "expected" or 0 <= value <= 1
            # what is certain or impossible is so exactly
            assert (value in (0, 1)) == (expected in (0, 1)) or case.kind == "expected"
    expected = truth(exact_tree(case.whole, case.whole_scores), case)
    try:
        interval, _ = bounds.compute_bounds(case.cut, case.cut_scores, query, RANGES)
    except ImpossibleCondition:
        assert expected is None
        return
    assert interval.lower <= interval.upper
    # no tolerance: bounds are rounded outwards
    assert expected is None or interval.lower <= expected <= interval.upper
    if StateKind.REST not in case.cut.kind and expected is not None:
        value = check_chain(chain, query).bounded
        assert value is None or interval.lower <= value <= interval.upper
        if value is not None and not is_close(cut, case.question):
            assert interval.upper - interval.lower <= 1e-12


def check_all(seeds: range) -> None:
    """Check the cases of these seeds, naming the query of one that fails."""
    for seed in seeds:
        try:
            check(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {random_case(seed).query}: {error!r}") from error


@pytest.mark.few(1)
@pytest.mark.parametrize("first", range(0, 1000, PART))
def test_generated_queries_have_the_true_value_and_bounds(first):
    """A thousand queries of all kinds have the exact value, and bounds that hold."""
    check_all(range(first, first + PART))


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 12_000, PART))
def test_many_generated_queries_have_the_true_value_and_bounds(first):
    """Eleven thousand more queries of all kinds have the exact value, and bounds that hold."""
    check_all(range(first, first + PART))
