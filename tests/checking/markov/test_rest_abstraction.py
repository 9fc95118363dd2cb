"""Bounds for the whole model: never wrong, and no wider than what is unknown."""

from fractions import Fraction

import numpy as np
import pytest
from helpers import oracle
from helpers.marks import examples
from helpers.trees import by_hand, full, scores, text_trees
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.checking import bounds, storm
from llmchecker.checking.bounded_value import check_chain
from llmchecker.checking.markov import rest_abstraction
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.errors import ImpossibleCondition, InvalidTree
from llmchecker.models.table_model import TableModel
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.valuations import enumerate_valuations
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import StateKind, TextTree, Truncation
from llmchecker.utils.interval import Interval

NAMES = ("gender", "polarity")
ANY = dict.fromkeys(NAMES, (None, None))
SMALL = dict.fromkeys(NAMES, (-2, 2))


def atoms_of(text: str):
    return parse(f"P=? [ F {text} ]").atoms


def interval(tree: TextTree, columns, text: str, ranges=ANY) -> Interval:
    query = parse(text)
    return bounds.bound_by_storm(ScoredTree(tree, columns, ranges), query)[0]


def truths(text: str, step: int, ranges) -> set[tuple[bool, ...]]:
    return set(map(tuple, enumerate_valuations(atoms_of(text), step, ranges).tolist()))


def test_opposite_atoms_are_never_both_true():
    """gender > 0 and gender < 0 can be true, false; false, true; or both false, and no more."""
    possible = truths("gender > 0 & gender < 0", 1, ANY)
    assert possible == {(True, False), (False, True), (False, False)}


def test_no_continuation_scores_outside_the_declared_range():
    """With similarity from 0 to 100, similarity >= 0 is certain and similarity > 100 impossible."""
    possible = truths("similarity >= 0 & similarity > 100", 1, {"similarity": (0, 100)})
    assert possible == {(True, False)}


def test_half_open_ranges_are_obeyed():
    """With scores from 0 on, count < 0 is impossible, and count > 7 is possible."""
    possible = truths("count < 0 & count > 7", 1, {"count": (0, None)})
    assert possible == {(False, False), (False, True)}


def test_atoms_over_several_quantifiers_are_tried_together():
    """gender > polarity and polarity > gender are never both true on small ranges."""
    possible = truths("gender > polarity & polarity > gender", 1, SMALL)
    assert possible == {(True, False), (False, True), (False, False)}


def test_what_cannot_be_tried_counts_as_possible():
    """A square of an unbounded quantifier may count as negative: wider, never wrong."""
    possible = truths("gender * gender < 0", 1, ANY)
    assert possible == {(True,), (False,)}


@given(
    coefficients=st.lists(
        st.tuples(
            st.integers(-3, 3),
            st.integers(-7, 7),
            st.sampled_from(["<", "<=", "=", "!=", ">", ">="]),
        ),
        min_size=1,
        max_size=4,
    ),
    step=st.integers(1, 5),
)
def test_linear_atoms_take_just_the_values_that_scores_give_them(coefficients, step):
    """For linear atoms over one unbounded quantifier the valuations are those of -60 to 60."""
    text = " & ".join(f"{a} * gender + {b} {c} step" for a, b, c in coefficients)
    atoms = atoms_of(text)
    columns = {"gender": np.arange(-60, 61), "step": np.full(121, step)}
    expected = set(zip(*(atom.evaluate(columns).tolist() for atom in atoms), strict=True))
    assert truths(text, step, ANY) == expected


DRAWN = [(0, 0.5, StateKind.TEXT), (0, 0.25, StateKind.TEXT), (0, 0.25, StateKind.REST)]
DRAWN += [(1, 0.5, StateKind.TEXT), (1, 0.5, StateKind.REST), (2, 1.0, StateKind.END)]
GENDER = {"gender": np.array([0, 1, 0, 0, 0, 0, -1])}


@pytest.mark.parametrize(
    ("query", "lower", "upper"),
    [
        ("P=? [ F gender > 0 ]", 1 / 2, 3 / 4),
        ("P=? [ G gender >= 0 ]", 1 / 4, 3 / 4),
        ("P=? [ F step = 2 & gender < 0 ]", 1 / 4, 3 / 4),
        ("P=? [ F gender > 0 & gender < 0 ]", 0, 0),
        ("P=? [ F step = 2 ]", 3 / 4, 1),
        ("P=? [ F<=1 gender > 0 ]", 1 / 2, 3 / 4),
        ("P=? [ X (X step = 2) ]", 3 / 4, 1),
        ('P=? [ F "rest" ]', 1 / 2, 1 / 2),
        ('P=? [ F "end" ]', 1 / 4, 3 / 4),
    ],
)
def test_bounds_on_a_tree_small_enough_to_draw(query, lower, upper):
    """On a drawn tree with a rest of 1/4 at step 1 and one of 1/4 at step 2 the bounds are exact.

    A text in the first rest may end at once, so step 2 is sure only for the 3/4 beside it.
    """
    found = interval(by_hand(DRAWN), GENDER, query)
    assert (found.lower, found.upper) == pytest.approx((lower, upper), abs=1e-12)


@pytest.mark.parametrize(
    ("query", "lower", "upper"),
    [
        ("P>=0.4 [ F gender > 0 ]", True, True),
        ("P>=0.6 [ F gender > 0 ]", False, True),
        ("P>=0.8 [ F gender > 0 ]", False, False),
        ("P<=0.8 [ F gender > 0 ]", True, True),
        ("P<0.6 [ F gender > 0 ]", False, True),
        ("P<=0.4 [ F gender > 0 ]", False, False),
        ("P>=1 [ F gender > 0 ]", False, False),
        ("P>0 [ F gender > 0 ]", True, True),
        ("P<1 [ F gender > 0 ]", True, True),
        ("P<=0 [ F gender > 0 ]", False, False),
    ],
)
def test_thresholds_are_true_false_or_unknown(query, lower, upper):
    """With the probability between 1/2 and 3/4, a threshold is decided outside of that only."""
    assert interval(by_hand(DRAWN), GENDER, query) == Interval(lower, upper)


@st.composite
def whole_trees(draw):
    """A tree without `rest`, up to three steps deep; some texts end on the way."""
    length = draw(st.integers(1, 3))
    states, texts = [], [0]
    for _ in range(length):
        grown = []
        for parent in texts:
            for probability in draw(st.sampled_from([(1.0,), (0.5, 0.5), (0.5, 0.25, 0.25)])):
                kind = draw(st.sampled_from([StateKind.TEXT, StateKind.TEXT, StateKind.END]))
                states.append((parent, probability, kind))
                grown += [len(states)] if kind is StateKind.TEXT else []
        texts = grown
    return by_hand(states, length=length)


@st.composite
def whole_and_cut(draw):
    """A whole tree with its scores, and the same with some children merged into `rest`."""
    whole = draw(whole_trees())
    columns = draw(scores(whole, NAMES))
    states, origin, place = [], [0], {0: 0}
    queue = [0]
    for uid in queue:
        children = np.flatnonzero(whole.parent == uid).tolist()
        dropped = [c for c in children[1:] if draw(st.booleans())]
        for child in children:
            if child not in dropped:
                place[child] = len(states) + 1
                states.append((place[uid], whole.probability[child], StateKind(whole.kind[child])))
                origin.append(child)
                queue.append(child)
        if dropped:
            states.append((place[uid], whole.probability[dropped].sum(), StateKind.REST))
            origin.append(-1)
    cut = by_hand(states, length=whole.truncation.length)
    origin = np.array(origin)
    cut_columns = {
        name: np.where(origin < 0, 99, column[origin]) for name, column in columns.items()
    }
    return whole, columns, cut, cut_columns


def asks_of_rest(formula) -> bool:
    """Whether a formula names the label of the bounded process that the whole model lacks."""
    return formula == ("label", "rest") or any(
        asks_of_rest(part) for part in formula if isinstance(part, tuple)
    )


about_texts = oracle.formulas(NAMES).filter(lambda formula: not asks_of_rest(formula))


def truth(whole: TextTree, columns, formula) -> Fraction:
    return as_oracle(whole, columns).probability_of(formula)


@pytest.mark.long
@examples(400)
@given(trees=whole_and_cut(), formula=about_texts, ranges=st.sampled_from([ANY, SMALL]))
def test_the_truth_lies_within_the_bounds(trees, formula, ranges):
    """Whatever is cut off and whatever is asked, the whole model's value lies in the interval."""
    whole, columns, cut, cut_columns = trees
    found = interval(cut, cut_columns, f"P=? [ {oracle.written(formula)} ]", ranges)
    assert found.lower - 1e-9 <= truth(whole, columns, formula) <= found.upper + 1e-9


@examples(150)
@given(
    trees=whole_and_cut(),
    formula=about_texts,
    comparison=st.sampled_from([">=", ">", "<=", "<"]),
    percent=st.integers(0, 100),
)
def test_a_decided_threshold_is_never_wrong(trees, formula, comparison, percent):
    """A threshold that is called true or false is so in the whole model."""
    whole, columns, cut, cut_columns = trees
    query = f"P{comparison}{percent / 100} [ {oracle.written(formula)} ]"
    found = interval(cut, cut_columns, query)
    value, bound = truth(whole, columns, formula), Fraction(percent, 100)
    holds = {">=": value >= bound, ">": value > bound, "<=": value <= bound, "<": value < bound}
    assert found.lower <= holds[comparison] <= found.upper


@examples(100)
@given(tree=whole_trees(), data=st.data())
def test_nothing_unknown_leaves_a_point(tree, data):
    """Where there is no rest the interval is the value itself."""
    columns = data.draw(scores(tree, NAMES))
    formula = data.draw(oracle.formulas(NAMES, nested=False))
    found = interval(tree, columns, f"P=? [ {oracle.written(formula)} ]")
    value = float(truth(tree, columns, formula))
    assert (found.lower, found.upper) == pytest.approx((value, value), abs=1e-12)


@examples(100)
@given(tree=text_trees(), data=st.data(), bound=st.integers(-2, 2))
def test_the_value_of_reaching_an_atom_is_the_lower_bound(tree, data, bound):
    """For F over an unnegated atom the bounded process gives the lower bound itself."""
    columns = data.draw(scores(tree, NAMES))
    query = parse(f"P=? [ F gender > {bound} ]")
    value = check_chain(ScoredTree(tree, columns), query).bounded
    found = interval(tree, columns, query.text)
    assert found.lower == pytest.approx(value, abs=1e-12)


@pytest.mark.long
@examples(300)
@given(trees=whole_and_cut(), data=st.data(), ranges=st.sampled_from([ANY, SMALL]))
def test_what_always_holds_changes_no_bound(trees, data, ranges):
    """X true makes a query count steps and changes no truth: the bounds are those without it."""
    _, _, cut, cut_columns = trees
    formula = data.draw(oracle.formulas(NAMES, nested=False))
    asked = oracle.written(formula)
    plain = interval(cut, cut_columns, f"P=? [ {asked} ]", ranges)
    careful = interval(cut, cut_columns, f"P=? [ ({asked}) & (X true) ]", ranges)
    assert (plain.lower, plain.upper) == pytest.approx((careful.lower, careful.upper), abs=1e-12)


def test_both_extremes_use_one_model(monkeypatch):
    """Storm builds one model of a path formula for its least and its greatest probability."""
    built = []
    build_model = storm.build_model
    monkeypatch.setattr(
        storm, "build_model", lambda *arguments: built.append(build_model(*arguments)) or built[-1]
    )
    found = interval(by_hand(DRAWN), GENDER, "P=? [ F gender > 0 ]")
    assert len(built) == 1
    assert found.lower < found.upper


def test_alike_leaves_are_one_state():
    """Of 911 states, with one atom there remain 91 texts that go on, leaves of each truth value and
    the rest MDP; every state but those in which it chooses has one choice."""
    tree = full(9, 3)
    columns = {"gender": np.arange(len(tree)) % 3}
    process = rest_abstraction.abstract_rest(
        ScoredTree(tree, columns, ANY), parse("P=? [ F gender > 0 ]")
    )
    # the rest MDP: at each of the steps 0 to 3 both truth values, going on or ended, and the choice
    assert len(process) == 91 + 2 + 4 * 4 + 4
    assert process.transitions.choice_counts.tolist() == [1] * (91 + 2 + 4 * 4) + [4] * 4


def test_a_score_outside_the_declared_range_is_refused():
    """Bounds are refused, not wrong, where a text scores what its quantifier says it cannot."""
    with pytest.raises(InvalidTree, match="exceed the declared range"):
        interval(by_hand(DRAWN), GENDER, "P=? [ F gender > 0 ]", {"gender": (-1, 0)})


def test_a_score_that_was_to_be_final_and_changes_is_refused():
    """A text that scores 1 below one that scores 0 contradicts that 0 is final."""
    tree = by_hand([(0, 1.0, StateKind.TEXT), (1, 1.0, StateKind.TEXT)])
    with pytest.raises(InvalidTree, match="declares final; correct its final scores 0"):
        interval(
            tree, {"gender": np.array([0, 0, 1])}, "P=? [ F gender = 1 ]", {"gender": (0, 1, 0)}
        )


def as_oracle(whole: TextTree, columns) -> oracle.Tree:
    return oracle.Tree(whole.parent, whole.probability, whole.kind, {"step": whole.step, **columns})


@pytest.mark.long
@examples(150)
@given(
    trees=whole_and_cut(),
    formula=oracle.state_formulas(NAMES).filter(lambda formula: not asks_of_rest(formula)),
    ranges=st.sampled_from([ANY, SMALL]),
)
def test_a_decided_combination_is_never_wrong(trees, formula, ranges):
    """What is called true or false of a combination of P, E and A is so in the whole model."""
    whole, columns, cut, cut_columns = trees
    found = interval(cut, cut_columns, oracle.written(formula), ranges)
    assert found.lower <= as_oracle(whole, columns).holds(formula, (0,)) <= found.upper


@examples(150)
@given(trees=whole_and_cut(), formula=about_texts, condition=about_texts)
def test_the_true_conditional_probability_lies_within_the_bounds(trees, formula, condition):
    """The whole model's conditional probability lies in the interval, wherever it has one."""
    whole, columns, cut, cut_columns = trees
    query = f"P=? [ {oracle.written(formula)} || {oracle.written(condition)} ]"
    exact = as_oracle(whole, columns).conditional(formula, condition)
    try:
        found = interval(cut, cut_columns, query)
    except ImpossibleCondition:
        assert exact is None
        return
    assert 0 <= found.lower <= found.upper <= 1
    assert exact is None or found.lower - 1e-9 <= exact <= found.upper + 1e-9


@examples(150)
@given(
    trees=whole_and_cut(),
    step=st.integers(0, 4),
    limits=st.sampled_from([(-2, 2), (None, 3), (-4, None)]),
)
def test_the_true_expected_score_lies_within_the_bounds(trees, step, limits):
    """The whole model's expected score lies in the interval, which is open without a limit."""
    whole, columns, cut, cut_columns = trees
    ranges = dict.fromkeys(NAMES, limits)
    found = interval(cut, cut_columns, f'R{{"gender"}}=? [ I={step} ]', ranges)
    exact = as_oracle(whole, columns).expectation("gender", step)
    assert found.lower is None or found.lower - 1e-9 <= exact
    assert found.upper is None or exact <= found.upper + 1e-9


def random_model(seed: int) -> TableModel:
    """A model over "a", "b" and an end, whose distributions differ from text to text.

    Probabilities are 16ths, so that in float64 too they sum to exactly 1.
    """

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        random = np.random.default_rng([seed, *tokens])
        cuts = sorted(random.choice(np.arange(1, 16), size=2, replace=False).tolist())
        return (np.diff([0, *cuts, 16]) / 16).tolist()

    return TableModel(["a", "b", "."], distribution, frozenset({2}))


def letters(tree: TextTree) -> dict[str, np.ndarray]:
    """Two scores of each text: how many more a than b, and twice whether it closes with b."""
    texts = ["" if text is None else text for text in tree.text]
    return {
        "gender": np.array([text.count("a") - text.count("b") for text in texts]),
        "polarity": np.array([2 * text.endswith("b") for text in texts]),
    }


@pytest.mark.long
@examples(200)
@given(
    seed=st.integers(0, 10**6),
    alpha=st.sampled_from([0.3, 0.6, 0.8]),
    k=st.integers(1, 2),
    formula=about_texts,
)
def test_the_truth_about_a_random_model_lies_within_the_bounds(seed, alpha, k, formula):
    """The value on the tree of all texts lies within the bounds on a bounded one; without rest
    the interval is that value."""
    query = f"P=? [ {oracle.written(formula)} ]"
    whole = build_tree(random_model(seed), "a", Truncation(1.0, 3, 3))
    bounded = build_tree(random_model(seed), "a", Truncation(alpha, k, 3))
    true = float(truth(whole, letters(whole), formula))
    found = interval(bounded, letters(bounded), query)
    assert found.lower - 1e-9 <= true <= found.upper + 1e-9
    point = interval(whole, letters(whole), query)
    assert (point.lower, point.upper) == pytest.approx((true, true), abs=1e-9)
