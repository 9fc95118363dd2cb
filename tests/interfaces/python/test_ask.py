"""`ask`: a query on a caller's model is answered with and without certainty."""

import re
from dataclasses import replace
from fractions import Fraction
from xml.etree import ElementTree

import pytest

import llmchecker as lc
from llmchecker.checking.witnesses import Witness
from llmchecker.errors import (
    ConfigError,
    ImpossibleCondition,
    InvalidQuery,
    NoTruthValue,
)

WORDS = ["once", " he", " she", " it"]
TRUTH = 1 - 0.75**3
"""The chance of at least one he among three words."""


@pytest.fixture(scope="module")
def model():
    return lc.TableModel(WORDS, lambda tokens: [0, 0.25, 0.25, 0.5])


def he(start: str, continuation: str) -> int:
    return continuation.count(" he")


def she(start: str, continuation: str) -> int:
    return continuation.count(" she")


def test_few_passes_leave_an_interval_within_the_bounds(model):
    """With too few passes to look everywhere the truth lies in the bounds and the interval."""
    answer = lc.ask("P=? [ F he > 0 ]", model, "once", length=3, passes=5, he=he)
    assert answer.lower <= answer.low <= answer.estimate <= answer.high <= answer.upper
    assert answer.low <= TRUTH <= answer.high
    assert answer.lower < answer.upper
    assert answer.samples > 0
    assert answer.passes <= 5
    again = lc.ask("P=? [ F he > 0 ]", model, "once", length=3, passes=5, he=he)
    assert (again.low, again.high, again.passes) == (answer.low, answer.high, answer.passes)


def test_enough_passes_give_the_probability(model):
    """Where everything is decided the bounds and the estimate are the probability."""
    answer = lc.ask("P=? [ F he > 0 ]", model, "once", length=3, passes=1000, he=he)
    assert (answer.lower, answer.upper) == pytest.approx((TRUTH, TRUTH))
    assert (answer.low, answer.estimate, answer.high) == pytest.approx((TRUTH,) * 3)
    assert isinstance(lc.find_tree(answer), lc.Tree)
    assert "bounded" not in str(answer)
    assert "certain" in str(answer)


def test_what_rounding_leaves_undecided_is_not_sampled(model):
    """Once every text is listed the work ends, and the answer states its rounding error."""
    answer = lc.ask("P=? [ F he > 0 ]", model, "once", length=3, passes=1000, he=he)
    # the texts without an end: the start, three words after it, and nine words after these
    assert answer.passes <= 1 + 3 + 9
    assert answer.samples == 0
    assert 0 < answer.upper - answer.lower < 1e-13
    assert re.search(r"up to a rounding error of \de-14", str(answer))


@pytest.mark.parametrize("limits", [{"width": 1e-9}, {}], ids=["samples", "with refinements"])
def test_passes_limit_the_number_of_samples(limits):
    """A pass pays for at most 16 samples, even if all of them continue the same text."""
    tokens = ["once", *map(str, range(5000))]
    model = lc.TableModel(tokens, lambda text: [0, *[1 / 5000] * 5000])
    answer = lc.ask(
        "P=? [ F even > 0 ]",
        model,
        "once",
        length=1,
        passes=30,
        even=lambda start, text: int(text.endswith(tuple("02468"))),
        **limits,
    )
    assert answer.samples <= 16 * 30
    assert answer.lower <= 0.5 <= answer.upper
    assert answer.low <= 0.5 <= answer.high


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("query", ["P=? [ F rare > 0 ]", "P=? [ F (rare > 0 | often > 0) ]"])
def test_a_nearly_decided_query_has_an_interval(query, seed):
    """Samples of a tiny undecided mass, which multiply a wealth beyond any float, give an interval
    that covers the probability."""
    tiny = Fraction(1, 10**5)
    row = [tiny, 1 - 3 * tiny - Fraction(1, 500), tiny + Fraction(1, 500), tiny]
    model = lc.TableModel(["a", "b", "c", "d"], lambda text: list(map(float, row)))
    answer = lc.ask(
        query,
        model,
        "a",
        length=2,
        passes=100,
        seed=seed,
        rare=lambda start, text: text.count("d"),
        often=lambda start, text: text.count("c"),
    )
    hit = row[3] + (row[2] if "often" in query else 0)
    truth = 1 - (1 - hit) ** 2
    assert answer.lower <= truth <= answer.upper
    assert answer.low <= truth <= answer.high


@pytest.mark.parametrize("tail", [1e-3, 1e-5, 3e-6, 1e-6, 1e-9])
def test_a_small_rest_is_within_the_certain_bounds(tail):
    """The tokens that one pass has not selected may have all of their exact probability."""
    row = [0.9, 0.05, 0.05 - tail, tail]
    answer = lc.ask(
        "P=? [ X rare > 0 ]",
        lc.TableModel(["a", "b", "c", "d"], lambda text: row),
        "a",
        length=1,
        passes=1,
        certain=True,
        rare=lambda start, text: text.count("d"),
    )
    assert answer.lower <= tail <= answer.upper <= tail + 1e-14


@pytest.mark.parametrize("tail", [1e-3, 1e-5, 3e-6])
@pytest.mark.parametrize("passes", [1, 3, 30])
def test_a_threshold_equal_to_the_probability_of_a_rest_has_no_wrong_proof(tail, passes):
    """Where rounding leaves open on which side of the threshold a rest is, nothing is certain."""
    row = [0.9, 0.05, 0.05 - tail, tail]
    model = lc.TableModel(["a", "b", "c", "d"], lambda text: row)
    for comparison, truth in ((">=", True), ("<=", True), (">", False), ("<", False)):
        answer = lc.ask(
            f"P{comparison}{tail!r} [ X rare > 0 ]",
            model,
            "a",
            length=1,
            passes=passes,
            rare=lambda start, text: text.count("d"),
        )
        assert answer.holds in (truth, None)


@pytest.mark.few(4)
@pytest.mark.parametrize("threshold", ["1e-300", "1e-160", "1e-12", "0.999999999999"])
@pytest.mark.parametrize("tail", [1e-300, 1e-160, 1e-12])
def test_an_extreme_threshold_is_answered(threshold, tail):
    """Distances from the threshold whose squares are no floats end no check."""
    row = [0.5, 0.5, 2 * tail, tail]
    answer = lc.ask(
        f"P<{threshold} [ F rare > 0 ]",
        lc.TableModel(["a", "b", "c", "d"], lambda text: row),
        "a",
        length=8,
        passes=200,
        rare=lambda start, text: text.count("d"),
    )
    truth = 1 - (1 - Fraction(tail)) ** 8
    assert answer.holds in (truth < Fraction(threshold), None)


TRUTH_AFTER_SHE = 1 - (1 - Fraction(1, 20)) ** 7
"""The chance of at least one he among seven words."""

RARE = "P=? [ F she > 0 || F he > 2 ]"
"""Among four words at least three he: four texts of 1/256 with she, of thirteen in all."""


@pytest.mark.parametrize("passes", [1, 4, 30, 400, 5000])
def test_a_condition_that_the_tree_has_not_met_is_answered(model, passes):
    """Bounds and interval hold the ratio, whether or not the condition has mass in the tree."""
    for certain in (True, False):
        answer = lc.ask(
            RARE, model, "once", length=4, passes=passes, certain=certain, he=he, she=she
        )
        assert answer.lower <= Fraction(4, 13) <= answer.upper
        assert "certain" in str(answer)
        if answer.low is not None:
            assert not certain
            assert answer.lower <= answer.low <= Fraction(4, 13) <= answer.high <= answer.upper
            assert answer.estimate is None or answer.low <= answer.estimate <= answer.high


@pytest.mark.parametrize("rarity", [1e-6, 1e-20, 1e-200, 5e-324])
def test_a_condition_as_rare_as_floats_can_be_is_answered(rarity):
    """The interval holds the ratio however rare its condition is, and narrows unless the squares of
    the values underflow."""

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        if len(tokens) == 1:
            return [1 - rarity, 0, rarity, 0]
        return [1, 0, 0, 0] if tokens[1] == 0 else [0, 0.05, 0.5, 0.45]

    answer = lc.ask(
        "P=? [ F he > 0 || F she > 0 ]",
        lc.TableModel(["once", " he", " she", " it"], distribution),
        "once",
        length=8,
        passes=200,
        he=he,
        she=lambda start, text: int(text.startswith(" she")),
    )
    assert answer.lower <= answer.low <= TRUTH_AFTER_SHE <= answer.high <= answer.upper
    assert rarity < 1e-150 or answer.high - answer.low < 0.5


def test_a_condition_that_no_sample_meets_has_no_estimate(model):
    """Where neither the tree nor a sample satisfies the condition the estimate is unknown."""
    answer = lc.ask(RARE, model, "once", length=4, passes=6, he=he, she=she)
    assert (answer.estimate, answer.low, answer.high) == (None, 0, 1)
    assert "point estimate unknown" in str(answer)
    assert answer.bounded is None
    assert answer.notes == ()


@pytest.mark.parametrize("given", ["X step > 1", "F (he > 0 & he < 0)"])
def test_a_condition_that_cannot_hold_is_refused(model, given):
    """A condition that no text can satisfy is refused by name, by `ask` and `check` alike."""
    query = f"P=? [ F he > 0 || {given} ]"
    with pytest.raises(ImpossibleCondition, match="condition has probability 0"):
        lc.ask(query, model, "once", length=4, passes=6, he=he)
    tree = lc.grow(model, "once", alpha=0.5, k=1, length=4)
    with pytest.raises(ImpossibleCondition, match="condition has probability 0"):
        lc.check(query, tree, he=he)


def test_certain_answers_have_no_estimate(model):
    """All work goes into the bounds, and a threshold is decided by them."""
    answer = lc.ask("P>=0.2 [ F he > 0 ]", model, "once", length=3, passes=50, certain=True, he=he)
    assert (answer.lower, answer.upper) == (True, True)
    assert (answer.estimate, answer.low, answer.samples) == (None, None, None)


def test_an_answer_shows_itself_in_a_notebook(model):
    """The page of an answer has the rows and texts of its text; start strings are data."""
    answer = lc.ask("P=? [ F he > 0 ]", model, "once", length=3, passes=1000, he=he)
    page = ElementTree.fromstring(f"<div>{answer._repr_html_()}</div>")
    names = ["".join(cell.itertext()) for cell in page.iter("th")]
    assert names[:2] == ["query", "certain"]
    assert all(any(line.startswith(name) for line in str(answer).splitlines()) for name in names)
    cells = ["".join(cell.itertext()) for cell in page.iter("td")]
    assert cells.count('"once"') == 1
    assert '" he"' in cells
    hostile = replace(answer, witnesses=(Witness(1, "<b>", 0.5, "witness", rest=False, kept=3),))
    assert "<b>" not in hostile._repr_html_()


def test_progress_has_both_intervals(model):
    """Each round reports certain bounds and passes, and with samples the interval."""
    lines = []
    lc.ask("P=? [ F he > 0 ]", model, "once", length=3, passes=24, he=he, progress=lines.append)
    assert lines[0] == "certain [0, 1], 0 passes"
    assert re.fullmatch(r"certain \[.*\], estimate \[.*\], \d+ passes", lines[-1])


def test_a_watch_ends_the_work(model):
    """A function gets the intervals after each round, and a true return ends the work."""
    calls = []

    def watch(progress):
        calls.append(progress)
        return progress.passes >= 5

    answer = lc.ask(RARE, model, "once", length=4, passes=5000, he=he, she=she, watch=watch)
    assert [progress.passes for progress in calls] == sorted(p.passes for p in calls)
    assert answer.passes == calls[-1].passes
    assert answer.history[: len(calls)] == tuple(calls)


@pytest.mark.parametrize(
    ("threshold", "holds", "words"),
    [(">=0.5", True, "HOLDS, certain"), ("<0.5", False, "VIOLATED, certain")],
)
def test_a_decided_threshold_is_a_truth_value(model, threshold, holds, words):
    """`holds` and `bool` are the outcome, which text and page contain."""
    answer = lc.ask(f"P{threshold} [ F he > 0 ]", model, "once", length=3, passes=500, he=he)
    assert (answer.holds, bool(answer)) == (holds, holds)
    assert answer.decision.outcome in words
    row = next(line for line in str(answer).splitlines() if line.startswith("verdict "))
    assert answer.decision.outcome in row
    if answer.decision.confidence is None:
        assert row == f"verdict      {words} (proven for the whole model)"
        assert words in answer._repr_html_()


def test_unknown_and_numbers_are_no_truth_values(model):
    """`bool` of an unknown outcome or of a number is refused by name; `holds` is None."""
    unknown = lc.ask("P>=0.58 [ F he > 0 ]", model, "once", length=9, passes=1, he=he)
    number = lc.ask("P=? [ F he > 0 ]", model, "once", length=3, passes=5, he=he)
    assert unknown.holds is number.holds is None
    assert "verdict      UNKNOWN" in str(unknown)
    with pytest.raises(NoTruthValue, match="the outcome is UNKNOWN"):
        bool(unknown)
    with pytest.raises(NoTruthValue, match="the answer is a number"):
        bool(number)


def test_a_plot_has_both_intervals_and_the_threshold(model):
    """The plot has an area for certain bounds and one for the interval, and a line."""
    answer = lc.ask("P>=0.58 [ F he > 0 ]", model, "once", length=3, passes=16, he=he)
    axes = answer.plot()
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["certain", "confidence 0.99", "threshold"]
    assert list(axes.lines[0].get_ydata()) == [0.58, 0.58]
    number = lc.ask("P=? [ F he > 0 ]", model, "once", length=3, passes=6, certain=True, he=he)
    assert number.plot(axes=axes) is axes
    number = number.plot()
    assert [text.get_text() for text in number.get_legend().get_texts()] == ["certain"]


def test_a_path_is_no_model():
    """A directory must be loaded first."""
    with pytest.raises(ConfigError, match="is not a language model"):
        lc.ask("P=? [ F he > 0 ]", "resources/models/one", "once", he=he)


@pytest.mark.parametrize("number", [17, 53, 90])
def test_many_coupled_atoms_are_answered_alike(model, number):
    """However many atoms couple two quantifiers, `check` and `ask` have bounds that hold."""
    coupled = " & ".join(f"he + {i} * she > {i}" for i in range(1, number + 1))
    query = f"P=? [ F ({coupled}) ]"
    # of two words, one is he and the other she, or both are she
    truth = Fraction(3, 16)
    tree = lc.grow(model, "once", alpha=0.7, k=2, length=2)
    answers = [
        lc.check(query, tree, he=he, she=she),
        lc.ask(query, model, "once", length=2, passes=3, he=he, she=she),
        lc.ask(query, model, "once", length=2, passes=100, certain=True, he=he, she=she),
    ]
    for found in answers:
        assert found.lower <= truth <= found.upper
        assert found.lower < found.upper


def test_too_many_coupled_atoms_are_refused_alike(model):
    """A query nested too deep to read is refused by the same name in `check` and `ask`."""
    coupled = " & ".join(f"he + {i} * she > {i}" for i in range(1, 301))
    with pytest.raises(InvalidQuery, match="more than 100 nested levels"):
        lc.ask(f"P=? [ F ({coupled}) ]", model, "once", length=2, passes=3, he=he, she=she)
    tree = lc.grow(model, "once", alpha=0.7, k=2, length=2)
    with pytest.raises(InvalidQuery, match="more than 100 nested levels"):
        lc.check(f"P=? [ F ({coupled}) ]", tree, he=he, she=she)


@pytest.mark.parametrize("minimum", [-(2**52), -(2**60), -(10**400)])
def test_a_wide_range_is_no_wrong_proof(minimum, model):
    """Limits so large that float64 loses the score next to them bound nothing wrongly."""

    def score(start: str, continuation: str) -> int:
        return 1

    score.minimum, score.maximum = minimum, 1
    answer = lc.ask('R{"one"}=? [ I=1 ]', model, "once", length=1, passes=9, one=score)
    assert answer.lower <= 1 <= answer.upper


@pytest.mark.parametrize("query", ['P>=0.1 [ F "rest" ]', 'A [ G !"rest" ]', 'P=? [ X "rest" ]'])
def test_a_model_has_no_rest(query, model):
    """Which tokens are selected is a property of a tree, and no pass of a check may prove it."""
    with pytest.raises(InvalidQuery, match='"rest" is about the tokens that alpha and k do not'):
        lc.ask(query, model, "once", length=2, passes=1)
    assert lc.check(query, lc.grow(model, "once", alpha=0.5, k=1, length=2)).certain.width < 1e-9


@pytest.mark.parametrize("limits", [("0", 1), (0, 2.5), (3, 1)])
def test_a_range_of_something_else_than_integers_is_refused(limits, model):
    """A declared range that is none is named, whatever the query is."""

    def score(start: str, continuation: str) -> int:
        return 1

    score.minimum, score.maximum = limits
    with pytest.raises(ConfigError, match=r"minimum|maximum"):
        lc.ask("P=? [ F one > 0 ]", model, "once", length=1, passes=9, one=score)


def test_check_answers_on_a_model_as_ask_does(model):
    """`check` with a model in place of a tree gives the answer of `ask`."""
    options = {"length": 3, "passes": 20, "he": he}
    checked = lc.check("P=? [ F he > 0 ]", model, "once", **options)
    asked = lc.ask("P=? [ F he > 0 ]", model, "once", **options)
    assert isinstance(checked, lc.Answer)
    assert (checked.certain, checked.sampled) == (asked.certain, asked.sampled)


def test_a_tree_has_its_own_start_string(model):
    """A start string next to a tree is refused, since the tree's texts follow another."""
    tree = lc.grow(model, "once", alpha=0.5, k=2, length=2)
    with pytest.raises(ConfigError, match="start: 'other'; a tree has its own start string"):
        lc.check("P=? [ F he > 0 ]", tree, "other", he=he)


def test_the_representation_is_a_line_of_figures(model):
    """The representation has query, verdict and bounded figure, and is one line."""
    tree = lc.grow(model, "once", alpha=1, k=9, length=2)
    answer = lc.check("P>=0.001 [ F he > 0 ]", tree, he=he)
    assert repr(answer) == (
        "<Answer P>=0.001 [ F he > 0 ]: verdict HOLDS, certain, "
        "horizon within 2 tokens; 0.00 of the answers had ended, verdict (bounded) true>"
    )


def test_quantifiers_may_have_the_names_of_options(model):
    """A quantifier that is named like an option is passed by `quantifiers`."""
    tree = lc.grow(model, "once", alpha=1, k=4, length=3)
    for name in ("answers", "length", "seed"):
        query = f"P=? [ F {name} > 0 ]"
        on_model = lc.ask(query, model, "once", length=3, passes=100, quantifiers={name: he})
        assert on_model.lower == pytest.approx(1 - 0.75**3)
        assert lc.check(query, tree, quantifiers={name: he}).bounded == pytest.approx(1 - 0.75**3)
        with pytest.raises(ConfigError, match=rf"{name}: this is an option; .*{{'{name}': …}}"):
            lc.ask(query, model, "once", **{"passes": 100, name: he})
    with pytest.raises(ConfigError, match="he: given as a keyword and in quantifiers"):
        lc.ask("P=? [ F he > 0 ]", model, "once", passes=9, he=he, quantifiers={"he": he})


def test_an_assertion_of_suites_is_a_query(model):
    """An assertion has the answer of the query that it stands for, with and without a threshold."""
    query = "P{} [ F yes = 1 ]"
    for form, threshold in (({}, "=?"), ({"at_least": 0.5}, ">=0.5"), ({"at_most": 0.5}, "<=0.5")):
        options = {"length": 3, "passes": 100}
        found = lc.ask({"contains": " he"} | form, model, "once", **options)
        expected = lc.ask(query.format(threshold), model, "once", yes=lc.Pattern(" he"), **options)
        assert (found.certain, found.holds) == (expected.certain, expected.holds)
    tree = lc.grow(model, "once", alpha=1, k=4, length=3)
    assert lc.check({"not_contains": " he"}, tree).bounded == pytest.approx(0.75**3)
