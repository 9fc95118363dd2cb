"""The acceptor of conditions, against the parser of C expressions."""

import re

import pytest
from helpers.invariant_programs import is_condition
from hypothesis import example, given
from hypothesis import strategies as st

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.expressions import parse_condition
from loop_invariants.ir.expressions import (
    COMPARISONS,
    CONNECTIVES,
    Binary,
    Constant,
    Element,
    Identifier,
    Type,
    Unary,
    format_c,
    variables,
)
from loop_invariants.proposals.condition_grammar import _MAX_DIGITS, Grammar

SCOPE = ("a", "n", "n1", "sum")
TYPES = {"a": Type(length=Constant(4)), "n": Type(), "n1": Type(), "sum": Type()}
GRAMMAR = Grammar(SCOPE, TYPES)

VALUES = st.deferred(
    lambda: st.one_of(
        st.integers(0, 120).map(Constant),
        st.sampled_from(["n", "n1", "sum"]).map(lambda name: Identifier(name, Type())),
        VALUES.map(lambda index: Element("a", index, TYPES["a"])),
        VALUES.map(lambda operand: Unary("-", Binary("+", operand, Constant(1)))),
        st.builds(Binary, st.sampled_from(["+", "-", "*"]), VALUES, VALUES),
    )
)
CONDITIONS = st.deferred(
    lambda: st.one_of(
        st.builds(Binary, st.sampled_from(COMPARISONS), VALUES, VALUES),
        st.builds(Binary, st.sampled_from(CONNECTIVES), CONDITIONS, CONDITIONS),
        CONDITIONS.map(lambda operand: Unary("!", operand)),
    )
).filter(variables)
SOUP = st.lists(
    st.sampled_from("a[ n sum n1 ( ) ] [ 0 1 12 + - * < <= > >= == != && || ! & = x a 01".split())
    | st.sampled_from([" ", "", "a[0]", "n < 1", "n"]),
    max_size=9,
)


def accepted(condition: str) -> bool:
    """Whether the acceptor takes a text with its closing parenthesis to the end."""
    state = GRAMMAR.advance(GRAMMAR.initial_state, f"{condition})")
    return state is not None and state.is_complete


def well_formed(condition: str) -> bool:
    """Whether a text is a condition of the grammar, by what the parser makes of it."""
    numbers = re.findall(r"(?<!\w)\d+", condition)
    if any(len(n) > _MAX_DIGITS or (n[0] == "0" and len(n) > 1) for n in numbers):
        return False
    try:
        expression = parse_condition(condition, SCOPE, TYPES)
    except UnsupportedProgram:
        return False
    return is_condition(expression, TYPES) and bool(variables(expression))


@given(CONDITIONS)
def test_every_beginning_of_a_condition_is_accepted(condition):
    """The printed text of a random condition is accepted character by character to its end."""
    state = GRAMMAR.initial_state
    for character in f"{format_c(condition)})":
        assert not state.is_complete
        state = GRAMMAR.advance(state, character)
        assert state is not None
    assert state.is_complete


@given(SOUP.map("".join))
@example("n < 1 < sum")
@example("(n) < 1")
@example("!(n)")
@example("!n < 1")
@example("n--1 > 0")
@example("n - -1 > 0")
@example("n + +1 > 0")
@example("(n < 1) == 0")
@example("a > 0")
@example("n[0] > 0")
@example("0 < 1")
@example("n1n > 0")
@example("sum > 0) || (n > 0")
@example("n < 1 && n")
@example("((n) + (1)) * (2) < (0) || !!(n < 1)")
def test_accepted_is_what_parses(condition):
    """A text is accepted to the end exactly if the parser reads a condition of the grammar."""
    assert accepted(condition) == well_formed(condition)


@given(SOUP.map("".join))
def test_an_accepted_beginning_can_be_completed(beginning):
    """Every beginning that is accepted becomes a condition by some more characters."""
    state = GRAMMAR.advance(GRAMMAR.initial_state, beginning)
    if state is None or state.is_complete:
        return
    for _ in range(200):
        options = [(c, GRAMMAR.advance(state, c)) for c in _BY_PREFERENCE]
        fitting = [(c, after) for c, after in options if after is not None]
        assert fitting, beginning
        character, state = fitting[0]
        beginning += character
        if state.is_complete:
            break
    assert well_formed(beginning[:-1])


_BY_PREFERENCE = ")]n[=<&|um(> "
"""Characters in an order that closes what is open; a text is completed by the first that fits."""


@pytest.mark.parametrize("beginning", ["su", "n < 1 &", "n < 1 |", "a", "a[n", "n !", "(n", "!!("])
def test_parts_of_words_and_operators_are_beginnings(beginning):
    """A token may end within a name or an operator."""
    assert GRAMMAR.advance(GRAMMAR.initial_state, beginning) is not None


@pytest.mark.parametrize(
    "beginning", ["x", "sumn", "n n", "1n", "&", "n<<", "n++", "-!", "!n", "a+", "n[", "00", "\n"]
)
def test_what_no_condition_begins_with_is_refused(beginning):
    """What cannot become a condition is refused at once."""
    assert GRAMMAR.advance(GRAMMAR.initial_state, beginning) is None
