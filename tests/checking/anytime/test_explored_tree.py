"""An explored tree: its sums hold the truth, within Storm's bounds of the built tree."""

import numpy as np
import pytest
from helpers import oracle
from helpers.anytime_checks import plant, refine, serve
from helpers.marks import examples
from helpers.random_tables import (
    QUANTIFIERS,
    READ_QUANTIFIERS,
    READ_WITH_FINAL_SCORES,
    START,
    WITH_FINAL_SCORES,
    table_model,
    whole_tree,
)
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.checking import bounds
from llmchecker.checking.anytime import explored_tree
from llmchecker.checking.anytime.answer_process import AnswerProcess
from llmchecker.checking.anytime.anytime_check import AnytimeCheck
from llmchecker.checking.anytime.estimand import Estimand
from llmchecker.checking.anytime.explored_tree import ExploredTree
from llmchecker.checking.anytime.path_sampler import split_tree
from llmchecker.checking.anytime.prompt_reader import answer_step
from llmchecker.checking.anytime.tree_export import build_scored_tree
from llmchecker.checking.budget import Budget
from llmchecker.checking.decided_mass import UNDECIDED
from llmchecker.errors import ConfigError, ImpossibleCondition
from llmchecker.models.table_model import TableModel
from llmchecker.models.transformers.load import load_model
from llmchecker.properties.logic.monitor import is_linear_time
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.registry import create_quantifier
from llmchecker.properties.scores import score_tree
from llmchecker.trees.text_tree import StateKind

LENGTH = 3
GENDER = {"type": "gender"}
NAMES = tuple(QUANTIFIERS)


def query_of(formula):
    return parse(f"P=? [ {oracle.written(formula)} ]")


about_texts = oracle.formulas(NAMES, nested=False).filter(
    lambda formula: is_linear_time(query_of(formula).root.path)
)


def find_truth(model, formula, quantifiers) -> float:
    """The probability of a path formula by enumerating all texts."""
    whole = whole_tree(model, LENGTH)
    columns = {name: score_tree(each, whole) for name, each in quantifiers.items()}
    columns |= {"step": whole.step}
    exact = oracle.Tree(whole.parent, whole.probability, whole.kind, columns)
    return float(exact.probability_of(formula))


def find_ends(tree: ExploredTree) -> tuple[float, float]:
    """Return the certain bounds of a probability."""
    satisfied, violated = tree.decided.tolist()
    return satisfied, 1 - violated


@examples(80)
@given(
    seed=st.integers(0, 2**32),
    formula=about_texts,
    passes=st.integers(1, 30),
    certain=st.booleans(),
    listed_tokens=st.sampled_from([1, 2, 5]),
    quantifiers=st.sampled_from(
        [QUANTIFIERS, WITH_FINAL_SCORES, READ_QUANTIFIERS, READ_WITH_FINAL_SCORES]
    ),
)
def test_sums_narrow_and_hold_the_truth_within_the_bounds_of_storm(
    seed, formula, passes, certain, listed_tokens, quantifiers
):
    """The bounds only narrow, contain the truth, and are within Storm's bounds of the built tree
    where tokens are read, and equal if every token has a row; its scores are those of its texts."""
    model, asked = table_model(seed), Property(query_of(formula), quantifiers, LENGTH)
    tree, server = plant(asked, model, listed_tokens)
    seen = []
    check = AnytimeCheck(
        tree, asked, Budget(passes=passes, certain=certain), lambda now: seen.append(now)
    )
    serve(check.run(), server)
    assert tree.passes <= passes
    truth = find_truth(model, formula, quantifiers)
    lower, upper = [now.lower for now in seen], [now.upper for now in seen]
    assert lower == pytest.approx(sorted(lower), abs=1e-12)
    assert upper == pytest.approx(sorted(upper, reverse=True), abs=1e-12)
    low, high = find_ends(tree)
    assert low - 1e-12 <= truth <= high + 1e-12
    assert high - low == pytest.approx(split_tree(tree).total, abs=1e-12)
    is_open = (tree.truth == UNDECIDED).any(axis=0) & tree.is_listed
    left = np.where(is_open, tree.mass * tree.undecided_rest, 0.0)
    assert tree.undecided_mass == pytest.approx(left, abs=1e-15)
    scored, _ = build_scored_tree(tree)
    built, scores = scored.tree, scored.scores
    for name, quantifier in quantifiers.items():
        is_text = built.kind != StateKind.REST
        assert np.array_equal(scores[name][is_text], score_tree(quantifier, built)[is_text])
    interval, _ = bounds.bound_by_storm(scored, asked.query)
    sums = bounds.bound_by_sums(scored, asked.query)
    ends = interval.lower, interval.upper
    assert (sums.lower, sums.upper) == pytest.approx(ends, abs=1e-12)
    # the characters of a listed opaque text decide nothing before it is visited
    is_read = quantifiers in (READ_QUANTIFIERS, READ_WITH_FINAL_SCORES)
    if is_read and listed_tokens == 5:
        assert (low, high) == pytest.approx((interval.lower, interval.upper), abs=1e-12)
    elif is_read:
        assert interval.lower <= low + 1e-12
        assert high <= interval.upper + 1e-12


@examples(80)
@given(
    seed=st.integers(0, 2**32),
    formula=about_texts,
    condition=about_texts,
    form=st.sampled_from(["P>={p} [ {f} ]", "P<{p} [ {f} ]", "A [ {f} ]", "P=? [ {f} || {g} ]"]),
    percent=st.sampled_from([0, 10, 49, 75, 100]),
    passes=st.integers(1, 30),
)
def test_answers_of_explored_and_of_built_trees_are_those_of_storm(
    seed, formula, condition, form, percent, passes
):
    """Thresholds, A and conditionals have the same bounds by the sums of an explored tree, by those
    of the built tree, and by Storm, where every token has a row."""
    texts = {"f": oracle.written(formula), "g": oracle.written(condition), "p": percent / 100}
    asked = Property(parse(form.format(**texts)), READ_QUANTIFIERS, LENGTH)
    tree, server = plant(asked, table_model(seed), listed_tokens=5)
    check = AnytimeCheck(tree, asked, Budget(passes=passes))
    serve(check.run(), server)
    scored, _ = build_scored_tree(tree)
    try:
        interval, _ = bounds.bound_by_storm(scored, asked.query)
    except ImpossibleCondition:
        with pytest.raises(ImpossibleCondition):
            check.bound_answer()
        return
    sums = bounds.bound_by_sums(scored, asked.query)
    ends = pytest.approx((interval.lower, interval.upper), abs=1e-12)
    assert (sums.lower, sums.upper) == ends
    found = check.bound_answer()
    assert (found.lower, found.upper) == ends


@examples(40)
@given(
    seed=st.integers(0, 2**32),
    formula=about_texts,
    quantifiers=st.sampled_from([QUANTIFIERS, READ_QUANTIFIERS]),
)
def test_a_tree_without_rest_decides_the_truth(seed, formula, quantifiers):
    """After a refinement without a limit both bounds are the enumerated probability."""
    model, asked = table_model(seed), Property(query_of(formula), quantifiers, LENGTH)
    tree, server = plant(asked, model)
    while refine(tree, server):
        pass
    truth = find_truth(model, formula, quantifiers)
    assert find_ends(tree) == pytest.approx((truth, truth), abs=1e-12)
    assert split_tree(tree).total == 0


def test_decided_texts_have_no_children():
    """For F gender > 1 no text has children if the formula holds in it."""
    asked = Property(parse("P=? [ F gender > 1 ]"), READ_QUANTIFIERS, LENGTH)
    tree, server = plant(asked, table_model(1), listed_tokens=5)
    while refine(tree, server):
        pass
    deciding = np.flatnonzero((tree.scores[0] > 1) & ~tree.has_ended)
    assert len(deciding)
    assert not np.isin(tree.parent, deciding).any()


def test_visits_list_every_token_once():
    """All visits of a text list distinct tokens, whose probabilities and `rest` sum to 1."""
    model = table_model(4)
    asked = Property(parse("P=? [ F step = 3 & gender > 0 ]"), READ_QUANTIFIERS, LENGTH)
    tree, server = plant(asked, model)
    root = np.array([0])
    for number in range(1, 4):
        request = tree.build_request(root)
        tree.add_step(root, request, server.answer(request))
        children = np.flatnonzero(tree.parent == 0)
        tokens = tree.token[children].tolist()
        assert len(set(tokens)) == len(tokens) <= 2 * number
        assert sorted(tokens) == sorted(tree.find_known(0).tolist())
        assert tree.probability[children].sum() + tree.rest[0] == pytest.approx(1)
    assert tree.rest[0] == 0
    assert sorted(tokens) == [token for token, p in enumerate(server.distribution(())) if p > 0]


def test_only_probable_texts_of_a_batch_list_more_tokens(monkeypatch):
    """Next to a probable text of its batch, an improbable one lists no more tokens than alone."""
    for name, value in (("_LISTED_TOKENS", 1), ("_HEAVY_LISTED_TOKENS", 4), ("_HEAVY_MASS", 0.5)):
        monkeypatch.setattr(explored_tree, name, value)
    asked = Property(parse("P=? [ F gender > 2 ]"), READ_QUANTIFIERS, 4)
    model = TableModel(["a", "x", "y", "z", "w"], lambda tokens: [0.6, 0.2, 0.1, 0.05, 0.05])
    tree, server = plant(asked, model, listed_tokens=1)
    for rows, listed in (([0], [4]), ([1, 2], [4, 1])):
        texts = np.array(rows)
        request = tree.build_request(texts)
        children = tree.add_step(texts, request, server.answer(request))
        assert children.counts.tolist() == listed


def test_unlisted_texts_have_no_mass():
    """A text of unknown probability changes neither the sums nor the built tree."""
    asked = Property(parse("P=? [ F gender > 1 ]"), READ_QUANTIFIERS, LENGTH)
    model = table_model(1)
    model.listed_tokens = 2
    tree, server = plant(asked, model)
    refine(tree, server)
    before = find_ends(tree), build_scored_tree(tree)[0].tree.digest
    rows = tree.add_unlisted(np.array([0, 0, 0]), np.array([2, 3, 2]))
    assert rows[0] == rows[2] != rows[1]
    assert np.array_equal(rows, tree.add_unlisted(np.array([0, 0, 0]), np.array([2, 3, 2])))
    assert (tree.mass[rows] == 0).all()
    assert tree.token[rows].tolist() == [2, 3, 2]
    assert (find_ends(tree), build_scored_tree(tree)[0].tree.digest) == before


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
@pytest.mark.parametrize("is_opaque", [False, True])
def test_scores_are_those_of_the_texts_of_all_tokens(architecture, is_opaque, random_model):
    """On real tokenizers every score is the plain call's on what the model makes of all tokens,
    whatever bytes they stand for, and the tree has texts within a character."""
    model = load_model(random_model(architecture))
    quantifiers = {name: create_quantifier(name, GENDER) for name in ("gender", "letters")}
    if is_opaque:
        quantifiers = {name: quantifier.__call__ for name, quantifier in quantifiers.items()}
        quantifiers = {name: _Opaque(call) for name, call in quantifiers.items()}
    asked = Property(parse("P=? [ F (gender > 0 & letters > -2) ]"), quantifiers, LENGTH)
    process = AnswerProcess(model, "he said", LENGTH)
    tree = ExploredTree(
        process, Estimand.from_query(asked), quantifiers, listed_tokens=200, min_share=0.0
    )
    prefix = model.open_prefix(process.first.prompt)
    check = AnytimeCheck(tree, asked, Budget(passes=12))
    serve(check.run(), PrefixServer(prefix))
    rows = np.flatnonzero(tree.is_scored)
    is_read = model.token_pieces is not None and not is_opaque
    assert len(rows) > (300 if is_read else 10)
    # bytes of characters are opaque
    assert not is_read or not tree.is_scored.all()
    scored, _ = build_scored_tree(tree)
    built, scores = scored.tree, scored.scores
    is_text = built.kind != StateKind.REST
    for name, quantifier in quantifiers.items():
        assert np.array_equal(scores[name][is_text], score_tree(quantifier, built)[is_text])
    tree.check_law(len(tree))


class _Opaque:
    """A quantifier without an incremental form."""

    minimum = maximum = None

    def __init__(self, call) -> None:
        self._call = call

    def __call__(self, start: str, continuation: str) -> int:
        return self._call(start, continuation)


class PrefixServer:
    """Answers to requests by the prefix of a model."""

    def __init__(self, prefix) -> None:
        self._prefix = prefix

    def answer(self, request):
        return answer_step(self._prefix, request, np.arange(len(request.continuations)))


class _WrongCount:
    """A quantifier whose incremental form counts every piece twice."""

    minimum = maximum = None

    def __call__(self, start: str, continuation: str) -> int:
        return continuation.count("a")

    def build_transducer(self) -> "_WrongCount":
        return self

    def start(self, start: str) -> tuple:
        return 0, 0

    def effect(self, piece: str) -> int:
        return 2 * piece.count("a")

    def advance(self, state: int, effect: int) -> tuple:
        return state, effect

    def score(self, state: int) -> int:
        return 0


def test_a_transducer_that_breaks_its_law_is_refused():
    """Scores that differ from the plain call's end the check, by the name and the text."""
    asked = Property(parse("P=? [ F gender > 1 ]"), {"gender": _WrongCount()}, LENGTH)
    tree, server = plant(asked, table_model(1))
    while refine(tree, server):
        pass
    with pytest.raises(ConfigError, match=r"'gender': its transducer gives 2 for .*its call 1"):
        tree.check_law()


class _WrongLetter(_WrongCount):
    """A quantifier whose incremental form also counts a letter that no text has."""

    def effect(self, piece: str) -> int:
        return piece.count("a") + piece.count("z")


def test_a_transducer_that_breaks_its_law_on_improbable_tokens_is_refused():
    """The scores after a token that no sample draws are compared with the plain call too."""
    asked = Property(parse("P=? [ F gender > 9 ]"), {"gender": _WrongLetter()}, LENGTH)
    model = TableModel(["a", "b", "z"], lambda text: [0.5, 0.5, 0])
    process = AnswerProcess(model, "a", asked.length)
    tree = ExploredTree(process, Estimand.from_query(asked), asked.quantifiers)
    with pytest.raises(ConfigError, match=r"'gender': its transducer gives 1 for 'az', its call 0"):
        tree.check_law()


def test_the_tree_begins_with_the_start_string():
    """A new tree has one undecided text without passes."""
    asked = Property(parse("P=? [ F gender > 1 ]"), QUANTIFIERS, LENGTH)
    tree, _ = plant(asked, table_model(1))
    assert (len(tree), tree.passes) == (1, 0)
    assert build_scored_tree(tree)[0].tree.text[0] == START
    assert find_ends(tree) == (0.0, 1.0)
    assert tree.undecided_mass.tolist() == [1.0]
