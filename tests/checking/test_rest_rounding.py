"""The rounding of `rest`: no verdict contradicts the decimals that a model's probabilities are.

Here probabilities are whole numbers of ten-thousandths, so that each probability of a path is a
decimal, which can be a threshold.
"""

import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from helpers import oracle
from helpers.marks import examples
from helpers.trees import by_hand
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.checking.bounded_value import check_chain
from llmchecker.checking.bounds import bound_by_storm, compute_bounds
from llmchecker.checking.check import check_query
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.checking.tree_sums import TreeSums
from llmchecker.models.table_model import TableModel
from llmchecker.properties.logic.monitor import find_path_formulas
from llmchecker.properties.logic.parser import parse
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import StateKind, TextTree, Truncation
from llmchecker.utils.interval import Interval

PARTS = 10_000
RANGES = {"gender": (-1, 1)}
DIGITS = 40
TINY, VISIBLE = Fraction(1, 10**30), Fraction(1, 10**9)
COMPARISONS = [">=", ">", "<=", "<"]
NOT_POSITIVE = ("X", ("!", ("atom", "gender", ">", 0)))
IN_REST = ("X", ("label", "rest"))


def grow(seed: int) -> tuple[TextTree, dict[str, np.ndarray]]:
    """Return a tree of a model with five tokens, the last of which ends a text, and its scores."""
    chance = random.Random(seed)
    length, k = chance.choice((1, 2)), chance.choice((1, 2, 3))
    alpha = chance.choice((0.9, 0.99, 0.9999, 1.0))

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        drawn = random.Random(repr((seed, tokens)))
        small = [drawn.randint(1, 9) for _ in range(drawn.choice((1, 2, 3)))]
        large = drawn.sample(range(1, PARTS - sum(small)), 4 - len(small))
        cuts = [0, *sorted(large), PARTS - sum(small)]
        parts = [*np.diff(cuts).tolist(), *small]
        drawn.shuffle(parts)
        return [part / PARTS for part in parts]

    model = TableModel([*"abcd", "."], distribution, frozenset([4]))
    tree = build_tree(model, "a", Truncation(alpha, k, length))
    scores = np.array([chance.randint(-1, 1) for _ in range(len(tree))])
    return tree, {"gender": scores}


def read_exactly(tree: TextTree, gender: np.ndarray) -> oracle.Tree:
    """Return the tree with fractions, followed by the states of all continuations in a `rest`.

    Labels are variables too, since the oracle has no score in a state that it knows as `rest`.
    """
    steps = tree.truncation.length + 1
    grid = [(s, g, e) for s in range(steps) for g in (-1, 0, 1) for e in (0, 1)]
    step, score, ended = (list(column) for column in zip(*grid, strict=True))
    kind = tree.kind.tolist()
    return oracle.Tree(
        tree.parent.tolist() + [-1] * len(grid),
        [Fraction(round(p * PARTS), PARTS) for p in tree.probability.tolist()],
        kind + [StateKind.TEXT] * len(grid),
        {
            "step": tree.step.tolist() + step,
            "gender": gender.tolist() + score,
            "cut": [0] * len(kind) + [1] * len(grid),
            "ended": [int(each == StateKind.END) for each in kind] + ended,
        },
        read=Fraction,
    )


def continue_rest(exact: oracle.Tree, states: int, step: int) -> Iterator[tuple[int, ...]]:
    """Yield every continuation in a `rest` that is reached at a step."""
    last = max(exact.variables["step"])
    for state in range(states, len(exact.kind)):
        if exact.variables["step"][state] == step:
            if exact.variables["ended"][state] or step == last:
                yield (state,)
            else:
                for later in continue_rest(exact, states, step + 1):
                    yield (state, *later)


def find_extremes(exact: oracle.Tree, states: int, path: tuple) -> tuple[Fraction, Fraction]:
    """Return the least and the greatest probability, whatever follows in each `rest`."""
    path = replace_labels(path)
    least = greatest = Fraction(0)
    for visited, probability in exact.paths(0):
        if exact.kind[visited[-1]] == StateKind.REST:
            step = exact.variables["step"][visited[-1]]
            truths = {
                exact.holds(path, (*visited[:-1], *later))
                for later in continue_rest(exact, states, step)
            }
        else:
            truths = {exact.holds(path, visited)}
        least += probability * all(truths)
        greatest += probability * any(truths)
    return least, greatest


def replace_labels(formula: object) -> object:
    """Replace labels by atoms over variables."""
    match formula:
        case ("label", name):
            return ("atom", {"rest": "cut", "end": "ended"}[name], "=", 1)
        case tuple():
            return tuple(map(replace_labels, formula))
    return formula


def compare(number: Fraction, comparison: str, threshold: Fraction) -> bool:
    return {
        ">=": number >= threshold,
        ">": number > threshold,
        "<=": number <= threshold,
        "<": number < threshold,
    }[comparison]


def write(threshold: Fraction) -> str:
    """Write a threshold with all of its decimals."""
    whole, decimals = divmod(int(threshold * 10**DIGITS), 10**DIGITS)
    assert Fraction(whole) + Fraction(decimals, 10**DIGITS) == threshold
    return f"{whole}.{decimals:0{DIGITS}d}"


def is_decidable(figure: Fraction, threshold: Fraction) -> bool:
    """Return whether a verdict must not be unknown: by the graph, or at a distance."""
    return figure in (0, 1) or threshold in (0, 1) or abs(figure - threshold) >= VISIBLE


@examples(150)
@given(
    seed=st.integers(0, 10**6),
    path=st.sampled_from([IN_REST, NOT_POSITIVE, ("!", IN_REST)])
    | oracle.formulas(["gender"], most=1, nested=False),
    comparison=st.sampled_from(COMPARISONS),
    offset=st.sampled_from([-VISIBLE, -TINY, Fraction(0), TINY, VISIBLE]),
    figure=st.sampled_from(["value", "lower", "upper"]),
)
def test_no_threshold_next_to_the_truth_is_decided_wrongly(seed, path, comparison, offset, figure):
    """On, above or below the exact figure a verdict is right or unknown; 1e-9 away it is right."""
    tree, scores = grow(seed)
    exact = read_exactly(tree, scores["gender"])
    value = exact.probability_of(path)
    least, greatest = find_extremes(exact, len(tree), path)
    threshold = {"value": value, "lower": least, "upper": greatest}[figure] + offset
    if not 0 <= threshold <= 1:
        return
    text = f"P{comparison}{write(threshold)} [ {oracle.written(path)} ]"
    holds = compare(value, comparison, threshold)
    chain = ScoredTree(tree, scores)
    values = [
        check_chain(chain, parse(query)).bounded
        for query in (text, f"P=? [ F (step = 0 & {text}) ]")
    ]
    is_summed = bool(find_path_formulas(parse(text)))
    if is_summed:
        sums = TreeSums(ScoredTree(tree, scores, RANGES), is_whole_model=False)
        values.append(check_chain(chain, parse(text), sums=sums).bounded)
    for found in values:
        assert found == holds or (found is None and not is_decidable(value, threshold))
    is_lower_limit = comparison in (">=", ">")
    surely, possibly = (least, greatest) if is_lower_limit else (greatest, least)
    number = parse(f"P=? [ {oracle.written(path)} ]")
    for bound in (compute_bounds, bound_by_storm) if is_summed else (compute_bounds,):
        interval, _ = bound(ScoredTree(tree, scores, RANGES), parse(text))
        if interval.lower or is_decidable(surely, threshold):
            assert interval.lower == compare(surely, comparison, threshold)
        if not interval.upper or is_decidable(possibly, threshold):
            assert interval.upper == compare(possibly, comparison, threshold)
        interval, _ = bound(ScoredTree(tree, scores, RANGES), number)
        assert interval.lower <= least <= greatest <= interval.upper
        assert interval.width <= float(greatest - least) + 1e-12


def differ(*selected: float) -> TextTree:
    """Return a root with children of these probabilities, and with what they leave as `rest`."""
    rest = 1 - np.cumsum(selected)[-1].item()
    states = [(0, each, StateKind.TEXT) for each in selected]
    return by_hand([*states, (0, rest, StateKind.REST)])


def score(tree: TextTree, *gender: int) -> dict[str, np.ndarray]:
    """Return scores of the children, with a filler in `rest`."""
    return {"gender": np.array([0, *gender, 99])}


@pytest.mark.parametrize("path", ['X "rest"', 'F<=1 "rest"', "X !(gender > 0)", "X gender = 0"])
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_a_threshold_equal_to_rest_is_unknown(path, comparison):
    """1 - 0.6 - 0.3 - 0.0999 is 0.0001 in decimals and more in float64; no texts are a proof."""
    tree = differ(0.6, 0.3, 0.0999)
    assert tree.probability[-1] > 0.0001
    query = parse(f"P{comparison}0.0001 [ {path} ]")
    answer = check_query(ScoredTree(tree, score(tree, 1, 1, 1), RANGES), query)
    is_value = path != "X gender = 0"
    assert answer.bounded is (None if is_value else compare(Fraction(0), comparison, Fraction(1)))
    assert answer.certain == Interval(False, True)
    assert not is_value or answer.witnesses == ()


def test_a_small_rest_is_unknown_if_it_is_a_difference():
    """A server's rest of 1e-7 is 1 minus a sum; a sum of small probabilities has its digits."""
    query = parse('P<=0.0000001 [ X "rest" ]')
    tree = differ(0.6, 0.3, 0.0999999)
    assert tree.probability[-1] != 1e-7
    assert compute_bounds(ScoredTree(tree, score(tree, 1, 1, 1), RANGES), query)[0] == Interval(
        False, True
    )
    # 1e-20 is no whole number of 2**-53
    tree = by_hand([(0, 1.0, StateKind.TEXT), (0, 1e-20, StateKind.REST)])
    scores = {"gender": np.array([0, 1, 99])}
    for threshold, holds in (("1.1e-20", True), ("0.9e-20", False)):
        query = parse(f'P<={threshold} [ X "rest" ]')
        assert compute_bounds(ScoredTree(tree, scores, RANGES), query)[0] == Interval(holds, holds)
        assert check_chain(ScoredTree(tree, scores), query).bounded is holds


def test_a_small_probability_stays_decided_if_rest_adds_nothing():
    """A text of 1e-20 has its digits next to a rest of 0.1, and the value has no more than it."""
    tree = differ(0.9, 1e-20)
    scores = score(tree, 0, 1)
    for threshold, holds in (("0.9e-20", True), ("1.1e-20", False)):
        query = parse(f"P>={threshold} [ F gender = 1 ]")
        assert check_chain(ScoredTree(tree, scores), query).bounded is holds
        assert compute_bounds(ScoredTree(tree, scores, RANGES), query)[0] == Interval(holds, True)


def test_a_small_probability_stays_decided_if_the_graph_decides_its_rest():
    """Below a text of 1e-20 every token has a score of at least -1, those in `rest` too."""
    rest = 1 - 0.9
    root = [(0, 0.9, StateKind.END), (0, 1e-20, StateKind.TEXT), (0, rest, StateKind.REST)]
    tree = by_hand([*root, (2, 0.9, StateKind.TEXT), (2, rest, StateKind.REST)])
    scores = {"gender": np.array([0, 0, 1, 99, 0, 99])}
    for threshold, holds in (("0.9e-20", True), ("1.1e-20", False)):
        query = parse(f"P>={threshold} [ F (gender = 1 & (X gender >= -1)) ]")
        assert compute_bounds(ScoredTree(tree, scores, RANGES), query)[0] == Interval(holds, True)


def test_a_condition_within_rounding_of_zero_has_no_value():
    """A rest of 2**-53 may be all rounding, so that no digit of a quotient by it is right."""
    tree = by_hand(
        [
            (0, 0.5, StateKind.TEXT),
            (0, 0.5, StateKind.TEXT),
            (1, 1 - 2**-53, StateKind.END),
            (1, 2**-53, StateKind.REST),
            (2, 1 - 2**-53, StateKind.END),
            (2, 2**-53, StateKind.REST),
        ]
    )
    scores = {"gender": np.array([0, 1, -1, 1, 99, -1, 99])}
    query = parse('P=? [ F gender = 1 || F "rest" ]')
    answer = check_chain(ScoredTree(tree, scores), query)
    assert answer.bounded is None
    assert "too small" in answer.notes[0]
    interval, _ = compute_bounds(ScoredTree(tree, scores, RANGES), query)
    assert interval == Interval(0.0, 1.0)
