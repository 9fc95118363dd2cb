"""Generated queries of every kind, held against an evaluator that shares nothing with the package.

The evaluator lists paths, in exact fractions: a probability of 0.7 is 7/10 there.
"""

from collections.abc import Callable
from fractions import Fraction

import pytest
from helpers import oracle
from helpers.prism_forms import random_prism_case
from helpers.random_queries import NAMES, Case, random_case

from llmchecker.checking.bounded_value import check_chain
from llmchecker.checking.bounds import bound_by_storm, compute_bounds
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.checking.tree_sums import TreeSums
from llmchecker.errors import ImpossibleCondition
from llmchecker.properties.logic.monitor import find_path_formulas
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.trees.text_tree import StateKind, TextTree

RANGES = dict.fromkeys(NAMES, (-2, 2))
ROUNDING = Fraction(1, 10**12)
PART = 125


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
        case "long run":
            return tree.long_run(case.question)
        case "sum":
            return tree.cumulated(*case.question)
    return tree.expectation(*case.question)


def is_close(tree: oracle.Tree, formula: object) -> bool:
    """Whether somewhere a probability is within rounding of a threshold in the formula."""
    if not isinstance(formula, tuple):
        return False
    if formula[0] in ("P", "S") and formula[2] not in (0, 1):
        name, _, bound, path = formula
        compute = tree.probability_of if name == "P" else tree.long_run
        if any(abs(compute(path, s) - bound) <= ROUNDING for s in range(len(tree.kind))):
            return True
    return any(is_close(tree, part) for part in formula)


def check(case: Case) -> None:
    """Hold values on the cut tree, and bounds for the whole one, against the evaluator."""
    query = parse(case.query)
    check_values(case, query)
    check_bounds(case, query, compute_bounds)
    if find_path_formulas(query):
        check_bounds(case, query, bound_by_storm)


def compute_values(case: Case, query: Query) -> list[float | bool | None]:
    """The value on the cut tree by Storm, and by sums if single texts decide the query."""
    chain = ScoredTree(case.cut, case.cut_scores)
    found = [check_chain(chain, query).bounded]
    if find_path_formulas(query):
        sums = TreeSums(ScoredTree(case.cut, case.cut_scores, RANGES), is_whole_model=False)
        found.append(check_chain(chain, query, sums=sums).bounded)
    return found


def check_values(case: Case, query: Query) -> None:
    cut = exact_tree(case.cut, case.cut_scores)
    expected = truth(cut, case)
    is_open = is_close(cut, case.question)
    for value in compute_values(case, query):
        if expected is None:
            assert value is None or is_open
        elif value is None:
            assert is_open
        elif isinstance(expected, bool):
            assert value is expected
        else:
            assert abs(Fraction(value) - expected) <= ROUNDING * max(1, abs(expected))
            is_score = case.kind in ("expected", "sum", "last")
            assert is_score or 0 <= value <= 1
            # what is certain or impossible is so exactly
            assert (value in (0, 1)) == (expected in (0, 1)) or is_score


def check_bounds(case: Case, query: Query, bound: Callable) -> None:
    expected = truth(exact_tree(case.whole, case.whole_scores), case)
    try:
        interval, _ = bound(ScoredTree(case.cut, case.cut_scores, RANGES), query)
    except ImpossibleCondition:
        assert expected is None
        return
    assert interval.lower <= interval.upper
    # no tolerance: bounds are rounded outwards
    assert expected is None or interval.lower <= expected <= interval.upper
    if StateKind.REST not in case.cut.kind and expected is not None:
        is_open = is_close(exact_tree(case.cut, case.cut_scores), case.question)
        for value in compute_values(case, query):
            assert value is None or interval.lower <= value <= interval.upper
            if value is not None and not is_open:
                assert interval.upper - interval.lower <= 1e-12


def check_all(seeds: range, find_case: Callable[[int], Case] = random_case) -> None:
    """Check the cases of these seeds, naming the query of one that fails."""
    for seed in seeds:
        case = find_case(seed)
        try:
            check(case)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {case.query}: {error!r}") from error


@pytest.mark.few(1)
@pytest.mark.parametrize("first", range(0, 1000, PART))
def test_generated_queries_have_the_true_value_and_bounds(first):
    """A thousand queries of all kinds have the exact value and right bounds by each evaluator."""
    check_all(range(first, first + PART))


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 2_000, PART))
def test_many_generated_queries_have_the_true_value_and_bounds(first):
    """A thousand more queries of all kinds have the exact value, and bounds that hold.

    An error in one query of 660 is found by these two thousand with a probability of 95 %.
    """
    check_all(range(first, first + PART))


@pytest.mark.few(1)
@pytest.mark.parametrize("first", range(0, 1000, PART))
def test_generated_queries_with_all_forms_have_the_true_value_and_bounds(first):
    """A thousand queries in the forms of PRISM have the exact value and right bounds."""
    check_all(range(first, first + PART), random_prism_case)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 2_000, PART))
def test_many_generated_queries_with_all_forms_have_the_true_value_and_bounds(first):
    """A thousand more queries in the forms of PRISM have the exact value, and right bounds."""
    check_all(range(first, first + PART), random_prism_case)
