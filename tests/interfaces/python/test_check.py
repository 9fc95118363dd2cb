"""Verdicts on trees that a caller holds, by quantifiers that a caller holds."""

from fractions import Fraction
from xml.etree import ElementTree

import pytest
from helpers.trees import by_hand

import llmchecker as lc
from llmchecker.errors import ConfigError, InvalidQuery
from llmchecker.trees.text_tree import StateKind

TEXT, REST, END = StateKind.TEXT, StateKind.REST, StateKind.END
DRAWN = [(0, 0.5, TEXT), (0, 0.25, END), (0, 0.25, REST), (1, 0.75, TEXT), (1, 0.25, REST)]


def letters(start: str, continuation: str) -> int:
    """How many letters were added."""
    return len(continuation)


def test_a_plain_function_is_a_quantifier():
    """Value and bounds are those of the tree on paper, for a function of one's own."""
    tree = by_hand(DRAWN)
    verdict = lc.check("P=? [ F letters >= 2 ]", tree, letters=letters)
    two = Fraction(1, 2) * Fraction(3, 4)
    hidden = Fraction(1, 4) + Fraction(1, 2) * Fraction(1, 4)
    assert verdict.bounded == float(two)
    assert verdict.lower == pytest.approx(float(two), abs=1e-12)
    assert verdict.upper == pytest.approx(float(two + hidden), abs=1e-12)
    assert [witness.text for witness in verdict.witnesses] == ["wbe"]


def test_scores_are_integers_and_missing_for_rest():
    """A score a state, by uid, and none where there is no text."""
    scored = lc.score(by_hand(DRAWN), letters)
    assert scored.isna().tolist() == [False, False, False, True, False, True]
    assert scored.dropna().tolist() == [0, 1, 1, 2]
    assert (scored.index.name, str(scored.dtype)) == ("uid", "Int64")


def test_quantifiers_without_settings_need_not_be_given():
    """gender, polarity and readability are known by name; one that is given takes its place."""
    tree = by_hand(DRAWN)
    for name in ("gender", "polarity", "readability"):
        assert lc.check(f"P=? [ F {name} > 100000000 ]", tree).bounded == 0
    assert lc.check("P=? [ F gender = 1 ]", tree, gender=letters).bounded == 0.75


def test_a_query_may_be_parsed_beforehand():
    """A query and its text have the same answer."""
    tree = by_hand(DRAWN)
    text = "P=? [ F step = 2 ]"
    verdicts = [lc.check(query, tree) for query in (text, lc.parse(text))]
    assert verdicts[0].bounded == verdicts[1].bounded == 0.5


@pytest.mark.parametrize(
    ("error", "query", "given", "said"),
    [
        (InvalidQuery, "P=? [ F lettrs > 0 ]", {"letters": letters}, "did you mean 'letters'"),
        (InvalidQuery, "P=? [ F step = 9 ]", {}, "never holds"),
        (ConfigError, "P=? [ F similarity > 0 ]", {}, "similarity=llmchecker.Similarity"),
        (ConfigError, "P=? [ F gender > 0 ]", {"gender": lc.Gender}, "create an instance: Gender"),
        (ConfigError, "P=? [ F gender > 0 ]", {"gender": 3}, "gender: 3 is not"),
        (ConfigError, "P=? [ F step = 1 ]", {"step": letters}, "'step': not letters, digits"),
        (ConfigError, "P=? [ F half > 0 ]", {"half": lambda *_: 0.5}, "half': .* not an integer"),
    ],
)
def test_a_mistake_is_explained(error, query, given, said):
    """What cannot be answered is refused, by name and with what would be right."""
    with pytest.raises(error, match=said):
        lc.check(query, by_hand(DRAWN), **given)


def test_what_is_no_tree_is_refused():
    """Arguments in the wrong order are named as that."""
    with pytest.raises(ConfigError, match=r"check\(query, tree\)"):
        lc.check(by_hand(DRAWN), "P=? [ F step = 1 ]")


def test_a_verdict_shows_itself():
    """Printed and in a notebook, a verdict has its figures and its texts; these are data."""
    tree = by_hand(DRAWN, start="<b>")
    verdict = lc.check("P=? [ F letters > 0 ]", tree, letters=letters)
    said = str(verdict).splitlines()
    assert said[0] == "query                  P=? [ F letters > 0 ]"
    assert said[1] == "certain                [0.749999, 1] (proven for the whole model)"
    assert "probability (bounded)  0.75" in said
    assert said[-2].split(maxsplit=1) == ["0.5", '"b"']
    assert str(verdict).count("<b>") == 1
    page = ElementTree.fromstring(f"<div>{verdict._repr_html_()}</div>")
    assert page.find("b") is None
    cells = ["".join(cell.itertext()) for cell in page.iter("td")]
    assert cells[0] == "P=? [ F letters > 0 ]"
    assert cells.count('"<b>"') == 1
    assert '"b"' in cells
