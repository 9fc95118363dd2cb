"""Grammar of conditions over a program's variables, read incrementally.

Conditions are comparisons of values, joined by `&&`, `||` and `!`. Values are variables, array
elements and integers, joined by `+`, `-` and `*`. Both may have parentheses. A condition contains
at least one variable and ends with the parenthesis that was opened before it. Text is split into
the longest possible lexemes, as in C.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from loop_invariants.ir.expressions import COMPARISONS, CONNECTIVES, Type

_MAX_DIGITS = 10
"""Maximum number of digits of a number: those of the largest 32-bit number."""

_OperandKind = Literal["any", "value", "truth"]
_NextKind = _OperandKind | Literal["operator", "index"]

_ARITHMETIC = ("+", "-", "*")
_OPERATORS = (*COMPARISONS, *CONNECTIVES, *_ARITHMETIC, "!")
_UNSUPPORTED_OPERATORS = ("++", "--", "->", "<<", ">>", "+=", "-=", "*=")
"""Lexemes of C that conditions exclude: `x--y` does not subtract a negative number."""


@dataclass(frozen=True)
class _Level:
    """The parser state within the innermost open parenthesis or bracket.

    Attributes:
        closer: its closing character.
        required_kind: the required kind of its content.
        clause: the content since the last connective: a value, a comparison of two values, a
            truth value, or an empty string for no content.
        next_kind: the required kind of the next lexeme: a kind of operand, `operator` after an
            operand, or `index` after the name of an array.
    """

    closer: Literal[")", "]"]
    required_kind: _OperandKind
    clause: Literal["", "value", "comparison", "truth"]
    next_kind: _NextKind


@dataclass(frozen=True)
class GrammarState:
    """The grammar's state after a text, which determines the allowed continuations.

    Attributes:
        levels: the open parentheses and brackets, outermost first; empty at the end of a condition.
        lexeme: the last word or operator, if it may continue.
        has_variable: whether the text contains a variable.
    """

    levels: tuple[_Level, ...]
    lexeme: str = ""
    has_variable: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the text is a condition with its closing parenthesis."""
        return not self.levels


class Grammar:
    """The grammar of conditions over the variables in scope.

    Args:
        scope: the names in scope.
        types: the type of every name in scope.
    """

    def __init__(self, scope: Sequence[str], types: Mapping[str, Type]) -> None:
        self._arrays = frozenset(name for name in scope if types[name].is_array)
        self._scalars = frozenset(scope) - self._arrays
        # The elements of a lowered array are separate integers, whose names are not single words.
        names = {name for name in scope if "[" not in name}
        self._name_prefixes = {name[:end] for name in names for end in range(1, len(name) + 1)}
        self.initial_state = GrammarState((_Level(")", "truth", "", "any"),))

    def advance(self, state: GrammarState | None, text: str) -> GrammarState | None:
        """Return the state after more text; None if no condition has this beginning."""
        for character in text:
            state = state and self._advance_character(state, character)
        return state

    def _advance_character(self, state: GrammarState, character: str) -> GrammarState | None:
        # Nothing follows the closing parenthesis of the condition.
        if state.is_complete:
            return None
        extended_lexeme = state.lexeme + character
        if _can_extend(state.lexeme, character):
            return (
                replace(state, lexeme=extended_lexeme)
                if self._can_begin(state, extended_lexeme)
                else None
            )
        # The character begins a new lexeme, so the previous lexeme is complete.
        next_state = self._complete_lexeme(state)
        if next_state is None or character == " ":
            return next_state
        # Parentheses and brackets are always complete lexemes.
        if character in "()[]":
            return self._read_lexeme(next_state, character)
        return (
            replace(next_state, lexeme=character)
            if self._can_begin(next_state, character)
            else None
        )

    def _complete_lexeme(self, state: GrammarState) -> GrammarState | None:
        """Return the state after the current lexeme is complete; None if not allowed."""
        return self._read_lexeme(replace(state, lexeme=""), state.lexeme) if state.lexeme else state

    def _can_begin(self, state: GrammarState, prefix: str) -> bool:
        """Check whether a lexeme with this beginning is allowed."""
        level = state.levels[-1]
        if _is_word_character(prefix[0]):
            return level.next_kind in ("any", "value") and self._is_prefix(prefix)
        operators = (operator for operator in _OPERATORS if operator.startswith(prefix))
        return any(_apply_operator(level, operator) is not None for operator in operators)

    def _is_prefix(self, word: str) -> bool:
        return word in self._name_prefixes or _is_number(word)

    def _read_lexeme(self, state: GrammarState, lexeme: str) -> GrammarState | None:
        """Return the state after a complete lexeme; None if it is not allowed."""
        *outer_levels, level = state.levels
        if lexeme in (")", "]"):
            return _close_level(state, lexeme)
        # Parentheses inside a value contain a value; elsewhere their content decides.
        if lexeme == "(" and level.next_kind in ("any", "value", "truth"):
            inner_kind: _OperandKind = "value" if level.next_kind == "value" else "any"
            return replace(
                state, levels=(*state.levels, _Level(")", level.next_kind, "", inner_kind))
            )
        if lexeme == "[" and level.next_kind == "index":
            return replace(state, levels=(*state.levels, _Level("]", "value", "", "value")))
        is_name = lexeme in self._scalars or lexeme in self._arrays
        if is_name or _is_number(lexeme):
            if level.next_kind not in ("any", "value"):
                return None
            # The name of an array alone is not a value: an index must follow.
            next_kind: _NextKind = "index" if lexeme in self._arrays else "operator"
            next_level: _Level | None = replace(
                level, clause=level.clause or "value", next_kind=next_kind
            )
        else:
            next_level = _apply_operator(level, lexeme)
        if next_level is None:
            return None
        return replace(
            state, levels=(*outer_levels, next_level), has_variable=state.has_variable or is_name
        )


def _can_extend(lexeme: str, character: str) -> bool:
    """Check whether a character extends the current lexeme."""
    if not lexeme:
        return False
    # Excluded lexemes are joined too: as two lexemes, their parts might be allowed.
    if _is_word_character(lexeme[0]):
        return _is_word_character(character)
    return lexeme + character in (*_OPERATORS, *_UNSUPPORTED_OPERATORS)


def _is_word_character(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


def _is_number(word: str) -> bool:
    return word.isdigit() and len(word) <= _MAX_DIGITS and (word == "0" or word[0] != "0")


def _apply_operator(level: _Level, operator: str) -> _Level | None:
    """Return the level after an operator; None if the operator is not allowed."""
    # A sign, which requires another operand.
    if level.next_kind in ("any", "value") and operator in ("+", "-"):
        return replace(level, clause=level.clause or "value", next_kind="value")
    if level.next_kind in ("any", "truth") and operator == "!":
        return replace(level, next_kind="truth")
    if level.next_kind != "operator":
        return None
    # Truth values have no arithmetic.
    if operator in _ARITHMETIC and level.clause != "truth":
        return replace(level, next_kind="value")
    # Inside an index or an operand, comparisons are not allowed.
    if level.required_kind == "value":
        return None
    if operator in COMPARISONS and level.clause == "value":
        return replace(level, clause="comparison", next_kind="value")
    # A value alone is not a truth value that a connective could join.
    if operator in CONNECTIVES and level.clause != "value":
        return replace(level, required_kind="truth", clause="", next_kind="any")
    return None


def _close_level(state: GrammarState, closer: str) -> GrammarState | None:
    """Return the state after the innermost level is closed; None if not allowed."""
    *outer_levels, level = state.levels
    kind: Literal["value", "truth"] = "value" if level.clause == "value" else "truth"
    if (
        closer != level.closer
        or level.next_kind != "operator"
        or level.required_kind not in ("any", kind)
    ):
        return None
    # The outermost level ends the condition, which must contain a variable.
    if not outer_levels:
        return replace(state, levels=()) if state.has_variable else None
    *outer_levels, outer_level = outer_levels
    closed_level = replace(outer_level, clause=outer_level.clause or kind, next_kind="operator")
    return replace(state, levels=(*outer_levels, closed_level))
