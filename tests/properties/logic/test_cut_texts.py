"""A text that the horizon cuts counts against a requirement that it could still violate."""

import itertools
import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers import oracle

import llmchecker as lc
from llmchecker.errors import InvalidQuery
from llmchecker.properties.logic import continuation
from llmchecker.properties.logic.continuation import ask_about_whole_texts
from llmchecker.properties.logic.cut_texts import TooManyBeginnings
from llmchecker.properties.logic.parser import parse

LENGTH = 2
MORE = 3
"""Number of further tokens of the longest continuations."""
ENDED = ("F", None, ("label", "end"))
NEVER_ENDED = ("G", None, ("!", ("label", "end")))
FORMS = 50


@dataclass
class Texts:
    """Texts as arrays of states, the last of which repeats; one row a text.

    Attributes:
        x, step, has_ended: (texts, states).
    """

    x: np.ndarray
    step: np.ndarray
    has_ended: np.ndarray

    def decide(self, formula: tuple) -> np.ndarray:
        """Decide a formula in each state of each text, by the definition of each operator."""
        match formula:
            case ("label", "end"):
                return self.has_ended
            case ("atom", name, comparison, number):
                column = getattr(self, name)
                return {
                    "=": column == number,
                    "<=": column <= number,
                    ">": column > number,
                }[comparison]
            case ("!", f):
                return ~self.decide(f)
            case ("&", f, g):
                return self.decide(f) & self.decide(g)
            case ("|", f, g):
                return self.decide(f) | self.decide(g)
            case ("=>", f, g):
                return ~self.decide(f) | self.decide(g)
            case ("X", f):
                return self._later(self.decide(f), 1)
            case ("F", n, f):
                return self._until(n, np.ones_like(self.has_ended), self.decide(f))
            case ("G", n, f):
                return ~self.decide(("F", n, ("!", f)))
            case ("U", n, f, g):
                return self._until(n, self.decide(f), self.decide(g))
            case ("W", f, g):
                return self.decide(("U", None, f, g)) | self.decide(("G", None, f))
            case ("R", f, g):
                return ~self.decide(("U", None, ("!", f), ("!", g)))
        raise ValueError(formula)

    def _later(self, truth: np.ndarray, count: int) -> np.ndarray:
        last = truth.shape[1] - 1
        return truth[:, np.minimum(np.arange(last + 1) + count, last)]

    def _until(self, bound: int | None, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        holds, lasts = np.zeros_like(right), np.ones_like(right)
        states = right.shape[1] if bound is None else bound
        for count in range(states + 1):
            holds |= lasts & self._later(right, count)
            lasts &= self._later(left, count)
        return holds


def _list_texts() -> tuple[Texts, Texts, np.ndarray]:
    """All beginnings, all of their continuations, and the number of each one's beginning."""
    size = LENGTH + 1 + MORE
    beginnings, texts, numbers = [], [], []
    for number, start in enumerate(itertools.product((0, 1), repeat=LENGTH + 1)):
        beginnings.append((start, False))
        for count in range(1, MORE + 1):
            for rest in itertools.product((0, 1), repeat=count):
                texts += [(start + rest, has_ended) for has_ended in (False, True)]
                numbers += [number, number]

    def stack(rows: list) -> Texts:
        places = [[min(place, len(x) - 1) for place in range(size)] for x, _ in rows]
        return Texts(
            np.array([[x[at] for at in row] for (x, _), row in zip(rows, places, strict=True)]),
            np.array(places),
            np.array(
                [
                    [has_ended and at == len(x) - 1 for at in row]
                    for (x, has_ended), row in zip(rows, places, strict=True)
                ]
            ),
        )

    return stack(beginnings), stack(texts), np.array(numbers)


BEGINNINGS, CONTINUATIONS, NUMBERS = _list_texts()


def random_formula(chance: random.Random, depth: int) -> tuple:
    """A random path formula over x, the step and the end, half of whose atoms are the end."""
    if depth == 0 or chance.random() < 0.15:
        x, end = ("atom", "x", "=", 1), ("label", "end")
        step: tuple = ("atom", "step", chance.choice(("=", "<=", ">")), chance.randint(0, 4))
        return chance.choice((x, x, end, end, step))
    one, other = (random_formula(chance, depth - 1) for _ in range(2))
    bound = chance.choice((None, None, 0, 1, 2, 3))
    match chance.choice("XFFGGUWR!!&|>>"):
        case ("X" | "!") as operator:
            return operator, one
        case ("F" | "G") as operator:
            return operator, bound, one
        case "U":
            return "U", bound, one, other
        case operator:
            return "=>" if operator == ">" else operator, one, other


def find_missed_direction(formula: tuple) -> str | None:
    """Return the limit with a cut text that could become worse than it counts; None if none."""
    after = CONTINUATIONS.decide(formula)[:, 0]
    for comparison, worse in ((">=", False), ("<", True)):
        is_worse = BEGINNINGS.decide(counted(formula, comparison))[:, 0] == worse
        if ((after == worse) & ~is_worse[NUMBERS]).any():
            return comparison
    return None


def rewrite(formula: tuple) -> tuple:
    """An equal formula without =>, | and F: by disjunctions, De Morgan's laws and duals."""
    match formula:
        case ("=>", f, g):
            return rewrite(("|", ("!", f), g))
        case ("|", f, g):
            return "!", ("&", rewrite(("!", f)), rewrite(("!", g)))
        case ("F", n, f):
            return "!", ("G", n, rewrite(("!", f)))
        case ("!", ("!", f)):
            return rewrite(f)
    return tuple(rewrite(each) if isinstance(each, tuple) else each for each in formula)


def counted(formula: tuple, comparison: str) -> tuple:
    """The formula that is asked instead, as a formula of the oracle."""
    text = oracle.written(formula)
    asked = ask_about_whole_texts(parse(f"P{comparison}0.5 [ {text} ]"), LENGTH).text
    if asked == f"P{comparison}0.5 [ {text} ]":
        return formula
    limited = {
        f'P{comparison}0.5 [ ({text}) & (F "end") ]': ("&", formula, ENDED),
        f'P{comparison}0.5 [ ({text}) | (G !"end") ]': ("|", formula, NEVER_ENDED),
    }
    return limited[asked]


def find_wrong_direction(formula: tuple) -> str | None:
    """Return the limit that is missing, or needless, against a worse truth; None if none is."""
    before = BEGINNINGS.decide(formula)[NUMBERS, 0]
    after = CONTINUATIONS.decide(formula)[:, 0]
    for comparison, worse in ((">=", False), ("<", True)):
        can_become_worse = bool(((before != worse) & (after == worse)).any())
        if can_become_worse != (counted(formula, comparison) != formula):
            return comparison
    return None


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(8))
def test_no_cut_text_counts_for_a_requirement_that_it_could_violate(seed):
    """Over all continuations of all beginnings: of P>= no cut text counts for a formula that a
    continuation violates, of P< none against a formula that one satisfies, and a formula that no
    continuation changes stays as it is."""
    chance = random.Random(seed)
    for _ in range(FORMS):
        formula = random_formula(chance, chance.randint(1, 3))
        assert find_wrong_direction(formula) is None, oracle.written(formula)


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(8))
def test_rules_for_large_formulas_miss_no_direction(seed, monkeypatch):
    """Where the texts are too many to explore, rules count no cut text that could be worse."""

    def fail(path, length):
        raise TooManyBeginnings

    monkeypatch.setattr(continuation, "find_changed_truths", fail)
    chance = random.Random(200 + seed)
    for _ in range(FORMS):
        formula = random_formula(chance, chance.randint(1, 3))
        assert find_missed_direction(formula) is None, oracle.written(formula)


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(8))
def test_equal_formulas_count_cut_texts_alike(seed):
    """A formula and its rewriting by De Morgan's laws and duals get the same limit, or none."""
    chance = random.Random(100 + seed)
    for _ in range(FORMS):
        formula = random_formula(chance, chance.randint(1, 3))
        for comparison in (">=", "<"):
            limits = [
                counted(each, comparison)[0] if counted(each, comparison) != each else None
                for each in (formula, rewrite(formula))
            ]
            assert limits[0] == limits[1], oracle.written(formula)


def ask(path: str, comparison: str, bound: Any, chances: list[Fraction]) -> bool | None:
    """Whether whole answers of a model of a, x and the end meet a threshold."""
    model = lc.TableModel(["a", "x", "."], lambda tokens: list(map(float, chances)), frozenset([2]))
    query = f"P{comparison}{float(bound)} [ {path} ]"
    return lc.ask(
        query, model, "a", length=f"end:{LENGTH}", passes=400, x=lc.Pattern("x"), certain=True
    ).holds


ANSWERS_THAT_END_CONTAIN_X = (
    '(F "end") => (F x = 1)',
    '(G !"end") | (F x = 1)',
    '!((F "end") & (G x = 0))',
    'G ("end" => x = 1)',
    '!(F ("end" & x = 0))',
)


@pytest.mark.parametrize("path", ANSWERS_THAT_END_CONTAIN_X)
@pytest.mark.parametrize(
    "chances",
    [
        (Fraction(9, 10), Fraction(0), Fraction(1, 10)),
        (Fraction(1, 8), Fraction(5, 8), Fraction(1, 4)),
        (Fraction(1, 8), Fraction(1, 8), Fraction(3, 4)),
        (Fraction(1, 8), Fraction(7, 8), Fraction(0)),
    ],
)
def test_answers_that_end_contain_x_in_every_form(path, chances):
    """All forms of the requirement have one verdict: an answer counts for it that has ended and
    contains x, of all answers of at most two tokens."""
    _, x, end = chances
    # x and the end; the start string has no x
    satisfied = x * end
    for bound in (Fraction(1, 16), Fraction(1, 2), Fraction(3, 4)):
        assert ask(path, ">=", bound, list(chances)) == (satisfied >= bound)


def test_a_nested_probability_of_an_end_is_refused():
    """A nested P of an end may change with the horizon, so that whole answers refuse it."""
    for path in ('G (P<=0.5 [ F "end" ])', 'F ("end" & P>=0.5 [ F step > 1 ])'):
        with pytest.raises(InvalidQuery, match="length end"):
            ask_about_whole_texts(parse(f"P>=0.9 [ {path} ]"), LENGTH)
