"""A continuation changes a truth only as the effects of the formula state."""

import itertools
import random

import pytest
from helpers import oracle

from llmchecker.errors import InvalidQuery
from llmchecker.properties.logic.continuation import (
    ask_about_whole_texts,
    find_continuation_effects,
)
from llmchecker.properties.logic.parser import parse

LENGTH = 3


def holds(path: str, states: tuple[int, ...]) -> bool:
    """Whether a path formula holds on the values of x, the last of which repeats for ever."""
    is_negated, body = path.startswith("!"), path
    if is_negated:
        body = path.removeprefix("!(").removesuffix(")")
    truths = [value == 1 for value in states]
    found = {
        "F x = 1": any(truths),
        "G x = 1": all(truths),
        "X x = 1": truths[min(1, len(truths) - 1)],
        "F<=2 x = 1": any(truths[:3]),
        "G<=9 x = 1": all(truths[:10]),
        "F (G x = 1)": truths[-1],
        "G (F x = 1)": truths[-1],
        "(x = 0) U (x = 1)": any(truths),
        "(x = 1) W (x = 2)": all(truths),
    }[body]
    return found != is_negated


@pytest.mark.parametrize(
    "path",
    [
        *("F x = 1", "G x = 1", "X x = 1", "F<=2 x = 1", "G<=9 x = 1", "F (G x = 1)"),
        *("G (F x = 1)", "(x = 0) U (x = 1)", "(x = 1) W (x = 2)", "!(F x = 1)", "!(G x = 1)"),
    ],
)
def test_effects_are_those_of_all_continuations(path):
    """Over all values of short texts, a truth falls or rises exactly as stated."""
    root = parse(f"P=? [ {path} ]").root
    falls = rises = False
    for states in itertools.product((0, 1), repeat=LENGTH + 1):
        for more in itertools.product((0, 1), repeat=2):
            before, after = holds(path, states), holds(path, states + more)
            falls, rises = falls or (before and not after), rises or (after and not before)
    effects = find_continuation_effects(root.path, LENGTH)
    assert (effects.can_fall, effects.can_rise) == (falls, rises)


def random_path(chance: random.Random, depth: int) -> tuple:
    """A random path formula of the oracle over x."""
    if depth == 0:
        return ("atom", "x", "=", 1)
    one, other = (random_path(chance, depth - 1) for _ in range(2))
    bound = chance.choice((None, 0, 1, 2, LENGTH, LENGTH + 1))
    match chance.choice("XFGUWR!&|>"):
        case ("X" | "!") as operator:
            return operator, one
        case ("F" | "G") as operator:
            return operator, bound, one
        case "U":
            return "U", bound, one, other
        case operator:
            return "=>" if operator == ">" else operator, one, other


@pytest.mark.parametrize("seed", range(40))
def test_no_truth_changes_beyond_its_effects(seed):
    """Next steps and bounds that a text reaches beyond its last state have both effects."""
    formula = random_path(random.Random(seed), 2 + seed % 2)
    effects = find_continuation_effects(
        parse(f"P=? [ {oracle.written(formula)} ]").root.path, LENGTH
    )
    for states in itertools.product((0, 1), repeat=LENGTH + 3):
        n = len(states)
        text = oracle.Tree(range(-1, n - 1), [1] * n, [0] * n, {"x": states})
        before, after = (text.holds(formula, tuple(range(size))) for size in (LENGTH + 1, n))
        assert effects.can_fall or after >= before
        assert effects.can_rise or after <= before


@pytest.mark.parametrize(
    ("path", "falls", "rises"),
    [
        ('F "end"', False, False),
        ("G step <= 2", False, False),
        ('(G x = 0) & (F "end")', False, True),
        ('(F x = 1) | (G !"end")', True, False),
        ("(F x = 1) & (G y = 1)", True, True),
        ("(F x = 1) => (F y = 1)", True, True),
        ("F (P>=0.5 [ F x = 1 ])", True, True),
        # the operator inside sees texts that have not ended
        ('(F (P>=0.5 [ F x = 1 ])) & (F "end")', True, True),
    ],
)
def test_ends_and_nested_operators_have_their_effects(path, falls, rises):
    """Formulas about the horizon do not change, and a nested threshold may change either way."""
    effects = find_continuation_effects(parse(f"P=? [ {path} ]").root.path, LENGTH)
    assert (effects.can_fall, effects.can_rise) == (falls, rises)


@pytest.mark.parametrize(
    ("query", "whole"),
    [
        ("P>=0.9 [ G x = 0 ]", 'P>=0.9 [ (G x = 0) & (F "end") ]'),
        ("P<=0.1 [ G (F<=2 x = 1) ]", 'P<=0.1 [ (G (F<=2 x = 1)) | (G !"end") ]'),
        ("P<=0.1 [ F x = 1 ]", 'P<=0.1 [ (F x = 1) | (G !"end") ]'),
        ("(P>0.9 [ G x = 0 ])", 'P>0.9 [ (G x = 0) & (F "end") ]'),
        ("S>0.9 [ x = 0 ]", 'P>0.9 [ (F (G x = 0)) & (F "end") ]'),
        ("filter(forall, x = 0)", 'A [ (G x = 0) & (F "end") ]'),
        ("P=? [ G x = 0 ]", 'P=? [ (G x = 0) & (F "end") ]'),
        ("A [ G x = 0 ]", 'A [ (G x = 0) & (F "end") ]'),
        ("E [ G x = 0 ]", 'E [ (G x = 0) & (F "end") ]'),
        # the horizon cannot flatter these
        ("P>=0.9 [ F x = 1 ]", None),
        ("P<=0.1 [ G x = 0 ]", None),
        ("P=? [ F x = 1 ]", None),
        ("E [ F x = 1 ]", None),
        ("P>=0.9 [ G<=2 x = 0 ]", None),
        ("P=? [ F<=2 x = 1 || F<=1 x = 0 ]", None),
        ('R{"x"}=? [ I=2 ]', None),
    ],
)
def test_whole_texts_count_a_cut_text_as_the_worse_case(query, whole):
    """A formula that a cut text could satisfy in vain requires its end; any other one stays."""
    asked = ask_about_whole_texts(parse(query), LENGTH)
    assert asked == parse(whole or query)


@pytest.mark.parametrize(
    "query",
    [
        "P=? [ F x = 1 || G x = 0 ]",
        "(P>=0.9 [ G x = 0 ]) & (P<=0.1 [ F x = 1 ])",
        "!(P>=0.9 [ G x = 0 ])",
        "P>=0.9 [ F (P>=0.5 [ G x = 0 ]) ]",
        "P>=0.9 [ G (E [ F x = 1 ]) ]",
    ],
)
def test_whole_texts_are_refused_where_other_texts_are_seen(query):
    """With several probabilities, the end of one text does not repair the truth of another."""
    with pytest.raises(InvalidQuery, match="length end: whole answers need one P, E or A"):
        ask_about_whole_texts(parse(query), LENGTH)
