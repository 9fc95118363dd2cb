"""Evidence: the texts that decide a query, and how a table shows them."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers import oracle, random_tables
from helpers.questions import check_anytime
from helpers.trees import by_hand, full, kept, scores, text_trees
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from llmchecker.checking.answer import Answer, Costs, select_trivial_interval
from llmchecker.checking.bounded_value import check_chain
from llmchecker.checking.budget import Budget
from llmchecker.checking.formatting import name_formula
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.checking.witnesses import (
    COUNTEREXAMPLE,
    WITNESS,
    Witness,
    find_path_texts,
    find_witnesses,
    has_witnesses,
)
from llmchecker.config.plan import Check, TableRow, TreeSpec
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.reporting import tables
from llmchecker.reporting.tables import AnsweredRow
from llmchecker.trees.text_tree import StateKind, TextTree, Truncation
from llmchecker.utils.printable_text import escape_unprintable

# w ─┬─ 1/2  wb (gender 1) ─┬─ 3/4 wf (gender 1)
#    │                      └─ 1/4 rest
#    ├─ 1/4  wc (gender 0) ─┬─ 1/2 wch (gender 1)
#    │                      └─ 1/2 wci (gender -1)
#    ├─ 1/8  wd (gender -1), ended
#    └─ 1/8  rest
TREE = by_hand(
    [
        (0, 0.5, StateKind.TEXT),
        (0, 0.25, StateKind.TEXT),
        (0, 0.125, StateKind.END),
        (0, 0.125, StateKind.REST),
        (1, 0.75, StateKind.TEXT),
        (1, 0.25, StateKind.REST),
        (2, 0.5, StateKind.TEXT),
        (2, 0.5, StateKind.TEXT),
    ]
)
GENDER = {"gender": np.array([0, 1, 0, -1, 9, 1, 9, 1, -1])}


def asked(query: str, most: int | None = None) -> list[tuple[str | None, float]]:
    """The evidence on the drawn tree: text, with an ellipsis for `rest`, and probability."""
    found = find_witnesses(ScoredTree(TREE, GENDER), parse(query), most)
    return [(w.text + "…" * w.rest, w.probability) for w in found]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("P=? [ F gender > 0 ]", [("wb", 0.5), ("wch", 0.125)]),
        ("P=? [ F<=1 gender > 0 ]", [("wb", 0.5)]),
        ("P=? [ F gender < 0 ]", [("wd", 0.125), ("wci", 0.125)]),
        ("P=? [ F gender = 0 ]", [("w", 1.0)]),
        ("P=? [ F step = 2 & gender > 0 ]", [("wbf", 0.375), ("wch", 0.125)]),
        ('P=? [ F "rest" ]', [("w…", 0.125), ("wb…", 0.125)]),
        ("P=? [ step < 1 U gender < 0 ]", [("wd", 0.125)]),
        ("P=? [ gender = 0 U<=2 gender > 0 ]", [("wb", 0.5), ("wch", 0.125)]),
        ("P=? [ F gender > 5 ]", []),
        ("P=? [ X gender > 0 ]", [("wb", 0.5)]),
        ("P=? [ gender = 0 ]", [("w", 1.0)]),
        ("P=? [ F (G gender > 0) ]", [("wbf", 0.375), ("wch", 0.125)]),
        ("P=? [ (F gender > 0) & (X gender = 0) ]", [("wch", 0.125)]),
        # every text has a first token, and a text that has not ended has a second one
        ("P=? [ F step = 1 ]", [("w", 1.0)]),
        ('P=? [ F ("end" | step = 2) ]', [("wb", 0.5), ("wc", 0.25), ("wd", 0.125)]),
    ],
)
def test_witnesses_are_the_earliest_satisfying_texts(query, expected):
    """To P=? of F and U the witnesses are each path's first deciding state, likeliest first."""
    assert asked(query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("P=? [ G gender <= 0 & step >= 0 ]", [("wb", 0.5), ("w…", 0.125), ("wch", 0.125)]),
        ("P=? [ G !(gender > 0) ]", [("wb", 0.5), ("wch", 0.125)]),
        ("P=? [ G<=1 !(gender > 0) ]", [("wb", 0.5)]),
    ],
)
def test_counterexamples_are_the_earliest_violating_texts(query, expected):
    """To P=? of G the counterexamples are the first states in which it fails, `rest` included."""
    assert asked(query) == expected


@pytest.mark.parametrize(
    ("query", "kind", "expected"),
    [
        # met: a mass of at least p (more than p) satisfies it
        ("P>=0.5 [ F gender > 0 ]", WITNESS, ["wb"]),
        ("P>0.5 [ F gender > 0 ]", WITNESS, ["wb", "wch"]),
        ("P>=0 [ F gender > 5 ]", None, []),
        # violated: more than 1 - p (at least 1 - p) never satisfies it
        ("P>=0.8 [ F gender > 0 ]", COUNTEREXAMPLE, ["wd", "w…"]),
        ("P>=0.875 [ F gender > 0 ]", COUNTEREXAMPLE, ["wd", "w…"]),
        ("P>0.875 [ F gender > 0 ]", COUNTEREXAMPLE, ["wd"]),
        ("P>=1 [ F gender > 0 ]", COUNTEREXAMPLE, ["wd"]),
        ("P>=0.8 [ G !(gender > 0) ]", COUNTEREXAMPLE, ["wb"]),
        ("P>=0.5 [ G !(gender > 0) ]", COUNTEREXAMPLE, ["wb", "wch"]),
        # P<=p violated by more than p, met by at least 1 - p
        ("P<=0.4 [ F gender > 0 ]", WITNESS, ["wb"]),
        ("P<=0.5 [ F gender > 0 ]", WITNESS, ["wb", "wch"]),
        ("P<0.5 [ F gender > 0 ]", WITNESS, ["wb"]),
        ("P<=0.75 [ F gender > 0 ]", COUNTEREXAMPLE, ["wd", "w…"]),
        # E and A
        ("E [ F gender < 0 ]", WITNESS, ["wd"]),
        ("A [ G gender <= 0 ]", COUNTEREXAMPLE, ["wb"]),
        ("A [ F gender = 0 ]", WITNESS, ["w"]),
    ],
)
def test_a_threshold_takes_the_smallest_sufficient_set(query, kind, expected):
    """A threshold is shown by as few of the likeliest texts as have the mass that decides it."""
    found = find_witnesses(ScoredTree(TREE, GENDER), parse(query), None)
    assert [w.text + "…" * w.rest for w in found] == expected
    assert {w.kind for w in found} == ({kind} if expected else set())


@pytest.mark.parametrize(
    "query",
    [
        "P=? [ F P>=0.5 [ X gender > 0 ] ]",
        "P=? [ F E [ X gender > 0 ] ]",
        "P=? [ F gender > 0 || G gender >= 0 ]",
        'R{"gender"}=? [ I=1 ]',
        "P>=0.5 [ X gender > 0 ] & P>=0.5 [ X gender < 0 ]",
    ],
)
def test_other_queries_have_no_evidence(query):
    """To a query that single texts do not decide, there is no evidence."""
    assert not has_witnesses(parse(query))
    assert asked(query) == []


def test_no_more_texts_than_wanted():
    """The most probable texts are kept where there are more than wanted."""
    assert asked("P=? [ F gender > 0 ]", most=1) == [("wb", 0.5)]
    assert asked("P=? [ F gender > 0 ]", most=0) == []


def test_equally_probable_texts_stand_by_uid():
    """Among texts of one probability the lower uid comes first."""
    tree = full(3, 3)
    chain = ScoredTree(tree, {"gender": (tree.step == 3).astype(np.int64)})
    uids = [w.uid for w in find_witnesses(chain, parse("P=? [ F gender = 1 ]"), None)]
    assert uids == np.flatnonzero((tree.step == 3) & (tree.kind != StateKind.REST)).tolist()


def test_an_unreachable_text_is_no_evidence():
    """A text of probability 0 decides nothing, so that without another one A holds."""
    tree = by_hand([(0, 1.0, StateKind.TEXT), (0, 0.0, StateKind.TEXT)])
    chain = ScoredTree(tree, {"gender": np.array([0, 1, 0])})
    found = find_witnesses(chain, parse("A [ F gender > 0 ]"))
    reason = {"ending": "cut", "scores": {"gender": 1}}
    assert found == (Witness(1, "wb", 1.0, WITNESS, rest=False, kept=1, **reason),)


def test_rounding_does_not_hide_the_last_counterexample():
    """P>=1 is refuted by a text whose probability vanishes beside the others'."""
    tree = by_hand([(0, 1.0, StateKind.TEXT), (0, 1e-30, StateKind.TEXT)])
    chain = ScoredTree(tree, {"gender": np.array([0, 1, 0])})
    (found,) = find_witnesses(chain, parse("P>=1 [ F gender > 0 ]"))
    assert (found.uid, found.kind, found.probability) == (2, COUNTEREXAMPLE, 1e-30)


def test_the_generated_part_is_known():
    """A text's first `kept` characters are those that it shares with the start string."""
    tree = by_hand([(0, 0.5, StateKind.TEXT), (0, 0.5, StateKind.REST)], start="Do not")
    tree = TextTree(**{**vars_of(tree), "text": np.array(["Do not", "Don't", None], object)})
    chain = ScoredTree(tree, {"gender": np.array([0, 1, 9])})
    found = find_witnesses(chain, parse('P=? [ F (gender > 0 | "rest") ]'))
    assert [(w.text, w.kept, w.rest) for w in found] == [("Don't", 2, False), ("Do not", 6, True)]


def vars_of(tree: TextTree) -> dict:
    """The columns of a tree by name."""
    return {name: getattr(tree, name) for name in TextTree.__dataclass_fields__}


ATOMS = st.tuples(
    st.just("atom"),
    st.sampled_from(["step", "gender"]),
    st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
    st.integers(-2, 3),
)
STATES = st.recursive(
    ATOMS | st.sampled_from([("true",), ("false",), ("label", "rest"), ("label", "end")]),
    lambda inner: st.one_of(
        st.tuples(st.just("!"), inner),
        st.tuples(st.sampled_from(["&", "|", "=>"]), inner, inner),
    ),
    max_leaves=3,
)
BOUNDS = st.none() | st.integers(0, 4)
PATHS = st.one_of(
    st.tuples(st.sampled_from(["F", "G"]), BOUNDS, STATES),
    st.tuples(st.just("U"), BOUNDS, STATES, STATES),
)


@st.composite
def questions(draw):
    """A tree with scores, the same for the oracle, and a path formula that single states decide."""
    tree = draw(text_trees())
    values = draw(scores(tree, ["gender"]))
    plain = oracle.Tree(
        tree.parent, tree.probability, tree.kind, {"step": tree.step, "gender": values["gender"]}
    )
    return tree, ScoredTree(tree, values), plain, draw(PATHS)


def mass(found) -> Fraction:
    return sum((Fraction(w.probability) for w in found), Fraction(0))


@given(questions())
def test_the_texts_make_up_the_whole_value(question):
    """All witnesses of F or U have the query's probability, all counterexamples of G the rest."""
    _, chain, plain, path = question
    found = find_witnesses(chain, parse(f"P=? [ {oracle.written(path)} ]"), max_witnesses=None)
    value = plain.probability_of(path)
    assert mass(found) == (1 - value if path[0] == "G" else value)
    assert [w.probability for w in found] == sorted((w.probability for w in found), reverse=True)


@given(questions())
def test_every_path_has_one_deciding_text_and_no_earlier_one(question):
    """The texts lie on just the paths they speak for, and one step before nothing is decided."""
    tree, chain, plain, path = question
    found = find_witnesses(chain, parse(f"P=? [ {oracle.written(path)} ]"), max_witnesses=None)
    uids = {w.uid for w in found}
    for states, _ in plain.paths(0):
        assert len(uids.intersection(states)) == (plain.holds(path, states) != (path[0] == "G"))
    for w in found:
        assert w.probability == float(probability_to(tree, w.uid))
        for before in before_it(tree, w.uid):
            # as if the path stayed there for ever, which no later text could then decide
            assert plain.holds(path, path_to(tree, before)) == (path[0] == "G")


def before_it(tree, uid):
    """The states above a state, next above first."""
    while (uid := tree.parent[uid]) >= 0:
        yield uid


def path_to(tree, uid):
    """The states from the root to a state."""
    return (*map(int, reversed(list(before_it(tree, uid)))), uid)


def probability_to(tree, uid):
    """The exact probability of the path to a state."""
    product = Fraction(1)
    for state in path_to(tree, uid):
        product *= Fraction(float(tree.probability[state]))
    return product


FINAL_RANGE = {"gender": (0, 2, 0)}
"""A range with a final score, as that of a JSON text."""


def linear_formulas():
    """Path formulas that single texts decide, without "rest"."""
    states = STATES.filter(lambda formula: "rest" not in str(formula))
    single = st.one_of(
        st.tuples(st.sampled_from(["F", "G"]), BOUNDS, states),
        st.tuples(st.just("U"), BOUNDS, states, states),
        st.tuples(st.just("X"), states),
        st.tuples(st.just("F"), st.none(), st.tuples(st.just("G"), st.none(), states)),
        st.tuples(st.just("G"), st.none(), st.tuples(st.just("F"), st.none(), states)),
    )
    return single | st.tuples(st.sampled_from("&|"), single, single)


def continuations(tree, values, path):
    """Yield (kinds, scores) of every continuation that the range allows, as lists with the path.

    A text without its last token has another token. It may end after each, and keeps a final score.
    """
    kinds, scores_ = [int(tree.kind[uid]) for uid in path], [int(values[uid]) for uid in path]
    if kinds[-1] == StateKind.END or len(path) > tree.truncation.length:
        yield kinds, scores_
        return
    for more in range(1, tree.truncation.length + 2 - len(path)):
        following = itertools.product(range(3), repeat=more)
        for tail in following:
            found = [*scores_, *tail]
            if any(before == 0 != after for before, after in itertools.pairwise(found)):
                continue
            yield [*kinds, *[0] * (more - 1), int(StateKind.END)], found
            if len(path) + more > tree.truncation.length:
                yield [*kinds, *[0] * more], found


def enumerated_truth(tree, values, path, formula) -> bool | None:
    """The truth of a formula in all continuations of a text; None if they differ."""
    truths = set()
    for kinds, column in continuations(tree, values, path):
        states = range(len(kinds))
        variables = {"step": list(states), "gender": column}
        single = oracle.Tree([uid - 1 for uid in states], [1.0] * len(kinds), kinds, variables)
        truths.add(single.holds(formula, tuple(states)))
    return truths.pop() if len(truths) == 1 else None


@given(text_trees(), st.data())
def test_decided_texts_are_those_whose_continuations_agree(tree, data):
    """Each side has the first texts whose enumerated continuations agree, at inner nodes too."""
    column = np.array(data.draw(scores(tree, ["gender"]))["gender"])
    values = kept(tree, np.abs(column), 0)
    formula = data.draw(linear_formulas())
    expected, undecided = {WITNESS: [], COUNTEREXAMPLE: []}, [0]
    while undecided:
        uid = undecided.pop()
        truth = enumerated_truth(tree, values, path_to(tree, uid), formula)
        if truth is None:
            children = np.flatnonzero(tree.parent == uid)
            undecided += children[tree.kind[children] != StateKind.REST].tolist()
        else:
            expected[WITNESS if truth else COUNTEREXAMPLE].append(uid)
    chain, path = ScoredTree(tree, {"gender": values}, FINAL_RANGE), parse_path(formula)
    for kind, uids in expected.items():
        found = find_path_texts(chain, path, kind, None)
        assert sorted(text.uid for text in found) == sorted(uids)
        assert mass(found) == sum(probability_to(tree, uid) for uid in uids)
        assert not any(text.rest for text in found)
        assert [text.probability for text in found] == sorted(
            (text.probability for text in found), reverse=True
        )


def parse_path(formula):
    """The path formula of an oracle's formula."""
    return parse(f"P=? [ {oracle.written(formula)} ]").root.path


@given(text_trees(), st.data())
def test_final_scores_decide_the_bounded_process_earlier(tree, data):
    """With final scores the texts of the bounded process make up its value, at least as early."""
    column = np.array(data.draw(scores(tree, ["gender"]))["gender"])
    values = kept(tree, np.abs(column), 0)
    formula = data.draw(linear_formulas())
    plain = oracle.Tree(
        tree.parent, tree.probability, tree.kind, {"step": tree.step, "gender": values}
    )
    value = plain.probability_of(formula)
    query = parse(f"P=? [ {oracle.written(formula)} ]")
    late, early = (
        find_witnesses(ScoredTree(tree, {"gender": values}, ranges), query, None)
        for ranges in ({}, FINAL_RANGE)
    )
    kind = late[0].kind if late else WITNESS
    assert mass(early) == mass(late) == (value if kind == WITNESS else 1 - value) or not late
    above = {uid for text in late for uid in path_to(tree, text.uid)}
    assert {text.uid for text in early} <= above


@pytest.mark.parametrize("query", ["P=? [ F (G gender = 2) ]", "P=? [ G (F gender > 1) ]"])
def test_a_final_score_violates_at_an_inner_text(query):
    """A text that can never score 2 violates `F (G gender = 2)`, and not its continuations."""
    chain = ScoredTree(TREE, {"gender": np.array([1, 0, 1, 2, 9, 0, 9, 2, 1])}, FINAL_RANGE)
    path = parse(query).root.path
    violating = find_path_texts(chain, path, COUNTEREXAMPLE, 10)
    assert [(text.text, text.probability) for text in violating] == [("wb", 0.5), ("wci", 0.125)]
    satisfying = find_path_texts(chain, path, WITNESS, 10)
    assert [(text.text, text.probability) for text in satisfying] == [("wd", 0.125), ("wch", 0.125)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        # D is 1/4, V 5/8, and 1/8 is undecided
        ("P>=0.2 [ F (G gender = 2) ]", ["wd", "wch"]),
        ("P>=0.5 [ F (G gender = 2) ]", ["wb", "wci"]),
        ("P<=0.2 [ F (G gender = 2) ]", ["wd", "wch"]),
        ("P<=0.5 [ F (G gender = 2) ]", ["wb"]),
        # undecided: the texts that speak against the threshold
        ("P>=0.3 [ F (G gender = 2) ]", ["wb", "wci"]),
        ("P<=0.3 [ F (G gender = 2) ]", ["wd", "wch"]),
        ("P>0 [ F (G gender = 2) ]", ["wd"]),
        ("P>=1 [ F (G gender = 2) ]", ["wb"]),
        ("P>=1 [ F step < 9 ]", ["w"]),
        ("P>=1 [ F (gender >= 0 & step < 9) ]", ["w"]),
        ("P>0 [ F gender > 5 ]", ["w"]),
        ("P>=1 [ (F gender = 0) | (X gender >= 0) ]", ["w"]),
    ],
)
def test_thresholds_of_the_whole_model(query, expected):
    """The texts show that the whole model meets a threshold or not; `rest` is none of them."""
    chain = ScoredTree(TREE, {"gender": np.array([1, 0, 1, 2, 9, 0, 9, 2, 1])}, FINAL_RANGE)
    found = find_witnesses(chain, parse(query), is_whole_model=True)
    assert [text.text for text in found] == expected
    assert not any(text.rest for text in found)


@pytest.mark.few(8)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("passes", [1, 3, 9, 100])
def test_the_texts_of_an_answer_make_up_its_decided_masses(seed, passes):
    """All satisfying texts of a refined tree have the mass D, all violating ones the mass V."""
    model = random_tables.table_model(seed)
    quantifiers = random_tables.WITH_FINAL_SCORES
    for path in ("F (G gender = 2)", "G gender > 0", "gender > 0 U polarity = 0", "F gender = 0"):
        asked = Property(parse(f"P=? [ {path} ]"), quantifiers, 4)
        budget = Budget(passes=passes, certain=True)
        result = check_anytime(model, random_tables.START, asked, budget)
        scored = result.evidence.scored
        last = result.history[-1]
        for kind, expected in ((WITNESS, last.lower), (COUNTEREXAMPLE, 1 - last.upper)):
            found = find_path_texts(scored, asked.paths[0], kind, None)
            assert float(mass(found)) == pytest.approx(expected, abs=1e-12)
            # no text continues another
            tokens = {path_to(scored.tree, text.uid) for text in found}
            assert not any(path[:n] in tokens for path in tokens for n in range(len(path)))
        shown = result.witnesses
        assert not any(text.rest for text in shown)
        decided = 1 - last.upper if path.startswith("G") else last.lower
        assert sum(text.probability for text in shown) <= decided + 1e-12


@given(questions(), st.sampled_from([">=", ">", "<=", "<"]), st.integers(0, 64))
def test_the_set_is_sufficient_and_smallest(question, comparison, parts):
    """The texts' mass alone decides the threshold as Storm does; without the last it does not."""
    _, chain, plain, path = question
    threshold = Fraction(parts, 64)
    query = parse(f"P{comparison}{float(threshold):f} [ {oracle.written(path)} ]")
    found = find_witnesses(chain, query, max_witnesses=None)
    met = plain.holds(("P", comparison, threshold, path), (0,))
    assert met == decides(found, comparison, threshold)
    if found:
        assert decides(found[:-1], comparison, threshold) is None
        expected = WITNESS if met == (comparison in (">", ">=")) else COUNTEREXAMPLE
        assert {w.kind for w in found} == {expected}


def decides(found, comparison, threshold):
    """What texts say for certain: the probability is at least their mass, or at most 1 less it."""
    low, high = Fraction(0), Fraction(1)
    if found and found[0].kind == WITNESS:
        low = mass(found)
    elif found:
        high = 1 - mass(found)
    truths = {
        ">=": (low >= threshold, high < threshold),
        ">": (low > threshold, high <= threshold),
        "<=": (high <= threshold, low > threshold),
        "<": (high < threshold, low >= threshold),
    }
    holds, fails = truths[comparison]
    return True if holds else False if fails else None


def answer(found: Answer) -> AnsweredRow:
    """A verdict as the answer to a row of Table II."""
    tree = TreeSpec("m", "player", Truncation(0.5, 3, 2))
    return TableRow("Player|1", "Gender", Check(tree, found.query), "Model", "w"), found


def verdict(query: str, value: float | bool, found=()) -> Answer:
    asked = parse(query)
    plain = Answer(
        query=asked,
        horizon=2,
        certain=select_trivial_interval(asked),
        bounded=value,
        costs=Costs(9, 14, 8, 12, 0.0, 0.0),
    )
    return replace(plain, witnesses=tuple(found))


def test_a_verdict_keeps_its_witnesses(tmp_path):
    """A verdict reads back with its witnesses."""
    query = parse("P=? [ F gender > 0 ]")
    chain = ScoredTree(TREE, GENDER)
    found = find_witnesses(chain, query)
    kept = replace(check_chain(chain, query), witnesses=found)
    kept.write(tmp_path / "verdict.json")
    assert Answer.read(tmp_path / "verdict.json") == kept
    assert kept.witnesses == found


def test_markdown_shows_every_query_and_its_texts():
    """For each row: whose query it is, what it says, and the texts, the generated part as code."""
    asked = [
        "P=? [ F gender > 0 ]",
        "P>=0.75 [ G gender <= 0 | step > 1 ]",
        "P=? [ F E [ X step = 1 ] ]",
    ]
    verdicts = [
        verdict(asked[0], 0.625, [Witness(1, "w he", 0.5, WITNESS, False, 1)]),
        verdict(asked[1], False, [Witness(4, "w", 0.375, COUNTEREXAMPLE, True, 1)]),
        verdict(asked[2], 1.0),
    ]
    text = tables.format_witnesses(map(answer, verdicts))
    assert text.split("\n") == [
        "# The texts that decide each query",
        "",
        *tables._LEGEND.split("\n"),
        "",
        "## `Player|1` · Gender · Model · alpha=0.5, k=3, L=2",
        "",
        "`P=? [ F gender > 0 ]`: certain [0, 1], probability (bounded) 0.625. "
        "Texts that satisfy it, together 0.5 of 0.625:",
        "",
        "After: `w`",
        "",
        "| probability | continuation |",
        "|------------:|:-----|",
        "| 0.5 | ` he` |",
        "",
        "## `Player|1` · Gender · Model · alpha=0.5, k=3, L=2",
        "",
        "`P>=0.75 [ G gender <= 0 | step > 1 ]`: UNKNOWN, verdict (bounded) false. "
        "Texts that violate it, together 0.375 against a bound of 0.25:",
        "",
        "After: `w`",
        "",
        "| probability | continuation |",
        "|------------:|:-----|",
        "| 0.375 | … |",
        "",
        "## `Player|1` · Gender · Model · alpha=0.5, k=3, L=2",
        "",
        "`P=? [ F E [ X step = 1 ] ]`: certain [0, 1], probability (bounded) 1. "
        "No single text decides a query of this form.",
        "",
    ]


def test_markdown_says_that_nothing_decides():
    """A query that no text decides has no table."""
    query = "P=? [ F gender > 0 ]"
    text = tables.format_witnesses([answer(verdict(query, 0.0))])
    assert text.endswith("(bounded) 0. No text decides it.\n")
    assert "| text |" not in text


@given(st.text(), st.text(), st.booleans())
def test_no_text_breaks_its_cell(start, generated, rest):
    """Whatever a text holds, it is one cell on one line, all of it shown and nothing obeyed."""
    query = "P=? [ F gender > 0 ]"
    found = [Witness(1, start + generated, 0.5, WITNESS, rest, len(start))]
    page = tables.format_witnesses([answer(verdict(query, 0.5, found))])
    assert page.split("\n")[-1] == ""
    # the line before the table, and its two cells
    *_, opening, _, _, probability, cell = read_markdown(page)
    assert opening.rstrip() == f"After: {escape_unprintable(start)}".rstrip()
    assert probability == "0.5"
    assert cell.strip() == f"{escape_unprintable(generated)}{' …' * rest}".strip()


def read_markdown(page: str) -> list[str]:
    """Return the text of each block and cell, in which there is code but no other markup."""
    tokens = MarkdownIt("commonmark").enable("table").parse(page)
    blocks = [token.children or [] for token in tokens if token.type == "inline"]
    for child in blocks[-1] + blocks[-5]:
        is_text = child.type in {"text", "text_special", "code_inline"}
        assert is_text or child.content in {"<code>", "</code>"}
    return [
        "".join(child.content for child in block if child.type != "html_inline") for block in blocks
    ]


def test_markup_in_a_text_is_shown():
    """Pipes, markup, HTML and line breaks of a text are shown letter for letter."""
    query = "P=? [ F gender > 0 ]"
    found = [Witness(1, "a`b|c<b>\n*d*", 0.5, WITNESS, False, 4)]
    page = tables.format_witnesses([answer(verdict(query, 0.5, found))])
    assert "After: ``a`b|``\n" in page
    assert "| `c<b>\\n*d*` |" in page


@pytest.mark.parametrize(
    ("query", "satisfying", "violating"),
    [
        ("P=? [ F gender > 0 ]", [("wb", 0.5), ("wch", 0.125)], [("wd", 0.125), ("wci", 0.125)]),
        (
            "P=? [ G gender > -1 ]",
            [("wbf", 0.375), ("wch", 0.125)],
            [("wd", 0.125), ("wci", 0.125)],
        ),
        (
            "P=? [ F (G gender > 0) ]",
            [("wbf", 0.375), ("wch", 0.125)],
            [("wd", 0.125), ("wci", 0.125)],
        ),
        (
            "P=? [ G (F gender < 0) ]",
            [("wd", 0.125), ("wci", 0.125)],
            [("wbf", 0.375), ("wch", 0.125)],
        ),
        ("P=? [ X gender > 0 ]", [("wb", 0.5)], [("wc", 0.25), ("wd", 0.125)]),
        ('P=? [ F "rest" ]', [], []),
        ("P=? [ F P>=0.5 [ X gender > 0 ] ]", [], []),
    ],
)
def test_texts_of_both_kinds_are_found(query, satisfying, violating):
    """Texts that satisfy or violate a formula come most probable first, and no `rest` is a text."""
    chain, path = ScoredTree(TREE, GENDER), parse(query).root.path
    for kind, expected in ((WITNESS, satisfying), (COUNTEREXAMPLE, violating)):
        found = find_path_texts(chain, path, kind, 10)
        assert [(text.text, text.probability) for text in found] == expected
        assert [text.kind for text in found] == [kind] * len(expected)
        assert len(find_path_texts(chain, path, kind, 1)) == min(1, len(expected))


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("P<=0.1 [ F  leaks > 0 ]", "F leaks > 0"),
        ("P>=0.1 [ F leaks > 0 ]", "it"),
        ("P=? [ F leaks > 0 ]", "it"),
    ],
)
def test_texts_against_an_upper_limit_name_the_formula(query, name):
    """A text that satisfies the formula of P<=p speaks against the requirement, so both differ."""
    assert name_formula(parse(query)) == name
