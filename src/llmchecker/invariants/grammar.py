"""A grammar that tells whether a text is the beginning of a condition over a program's variables.

Conditions are comparisons of values, joined by `&&`, `||` and `!`. Values are variables, elements
of arrays and whole numbers, joined by `+`, `-` and `*`. Both may stand in parentheses. A condition
names at least one variable and ends with the parenthesis that was opened before it. Text is split
into the longest possible pieces, as in C.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from llmchecker.programs.expressions import COMPARISONS, CONNECTIVES, Type

MOST_DIGITS = 10
"""The most digits of a number: as many as the largest number of 32 bits has."""

OperandKind = Literal["any", "value", "truth"]

_ARITHMETIC = ("+", "-", "*")
_OPERATORS = (*COMPARISONS, *CONNECTIVES, *_ARITHMETIC, "!")
_REFUSED = ("++", "--", "->", "<<", ">>", "+=", "-=", "*=")
"""Pieces of C that conditions do not have: `x--y` is no subtraction of a negative number."""


@dataclass(frozen=True)
class Level:
    """The text since the innermost parenthesis or bracket that is open.

    Attributes:
        closer: the character that closes it.
        needed: the kind of operand that it has to become.
        clause: what was read since the last connective: a value, two values compared, something
            that is true or false, or (the empty text) nothing.
        operand: what must come next: an operand of some kind, `operator` after an operand, or
            `index` after the name of an array.
    """

    closer: Literal[")", "]"]
    needed: OperandKind
    clause: Literal["", "value", "comparison", "truth"]
    operand: OperandKind | Literal["operator", "index"]


@dataclass(frozen=True)
class GrammarState:
    """All that one must know of a text to tell what may follow it.

    Attributes:
        levels: the open parentheses and brackets, outermost first; none if the condition has ended.
        piece: the last word or operator, as long as it may go on.
        variable: whether a variable was named.
    """

    levels: tuple[Level, ...]
    piece: str = ""
    variable: bool = False

    @property
    def ended(self) -> bool:
        """Whether the text is a condition with its closing parenthesis."""
        return not self.levels


class Grammar:
    """The grammar of conditions over the variables in scope.

    Args:
        scope: the names in scope.
        types: the type of every name in scope.
    """

    def __init__(self, scope: Sequence[str], types: Mapping[str, Type]) -> None:
        self._arrays = frozenset(name for name in scope if types[name].array)
        self._scalars = frozenset(scope) - self._arrays
        # Of an array whose elements are integers of their own, none can be written word by word.
        names = {name for name in scope if "[" not in name}
        self._beginnings = {name[:end] for name in names for end in range(1, len(name) + 1)}
        self.start = GrammarState((Level(")", "truth", "", "any"),))

    def after(self, state: GrammarState | None, text: str) -> GrammarState | None:
        """The state after more text; None if no condition begins so."""
        for character in text:
            state = state and self._after_character(state, character)
        return state

    def _after_character(self, state: GrammarState, character: str) -> GrammarState | None:
        if state.ended:
            return None
        joined = state.piece + character
        if _continues(state.piece, character):
            return replace(state, piece=joined) if self._possible(state, joined) else None
        whole = self._with_piece(state)
        if whole is None or character == " ":
            return whole
        if character in "()[]":
            return self._read(whole, character)
        return replace(whole, piece=character) if self._possible(whole, character) else None

    def _with_piece(self, state: GrammarState) -> GrammarState | None:
        """The state once the piece that was begun is complete; None if it must not stand here."""
        return self._read(replace(state, piece=""), state.piece) if state.piece else state

    def _possible(self, state: GrammarState, beginning: str) -> bool:
        """Whether some piece with this beginning may stand here."""
        level = state.levels[-1]
        if _is_word(beginning[0]):
            return level.operand in ("any", "value") and self._is_beginning(beginning)
        pieces = (operator for operator in _OPERATORS if operator.startswith(beginning))
        return any(_after_piece(level, piece) is not None for piece in pieces)

    def _is_beginning(self, word: str) -> bool:
        return word in self._beginnings or _is_number(word)

    def _read(self, state: GrammarState, piece: str) -> GrammarState | None:
        """The state after a whole piece; None if it must not stand here."""
        *outer, level = state.levels
        if piece in (")", "]"):
            return _closed(state, piece)
        if piece == "(" and level.operand in ("any", "value", "truth"):
            inside: OperandKind = "value" if level.operand == "value" else "any"
            return replace(state, levels=(*state.levels, Level(")", level.operand, "", inside)))
        if piece == "[" and level.operand == "index":
            return replace(state, levels=(*state.levels, Level("]", "value", "", "value")))
        named = piece in self._scalars or piece in self._arrays
        if named or _is_number(piece):
            if level.operand not in ("any", "value"):
                return None
            after = "index" if piece in self._arrays else "operator"
            read = replace(level, clause=level.clause or "value", operand=after)
        else:
            read = _after_piece(level, piece)
        if read is None:
            return None
        return replace(state, levels=(*outer, read), variable=state.variable or named)


def _continues(piece: str, character: str) -> bool:
    """Whether a character belongs to the same piece of text as those before it."""
    if not piece:
        return False
    # Refused pieces are joined as well: read as two, their parts might be allowed.
    if _is_word(piece[0]):
        return _is_word(character)
    return piece + character in (*_OPERATORS, *_REFUSED)


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


def _is_number(word: str) -> bool:
    return word.isdigit() and len(word) <= MOST_DIGITS and (word == "0" or word[0] != "0")


def _after_piece(level: Level, operator: str) -> Level | None:
    """The level after an operator; None if it must not stand here."""
    if level.operand in ("any", "value") and operator in ("+", "-"):
        return replace(level, clause=level.clause or "value", operand="value")
    if level.operand in ("any", "truth") and operator == "!":
        return replace(level, operand="truth")
    if level.operand != "operator":
        return None
    if operator in _ARITHMETIC and level.clause != "truth":
        return replace(level, operand="value")
    if level.needed == "value":
        return None
    if operator in COMPARISONS and level.clause == "value":
        return replace(level, clause="comparison", operand="value")
    if operator in CONNECTIVES and level.clause != "value":
        return replace(level, needed="truth", clause="", operand="any")
    return None


def _closed(state: GrammarState, closer: str) -> GrammarState | None:
    """The state after the innermost level is closed; None if it must not be closed here."""
    *outer, level = state.levels
    kind = "value" if level.clause == "value" else "truth"
    if closer != level.closer or level.operand != "operator" or level.needed not in ("any", kind):
        return None
    if not outer:
        return replace(state, levels=()) if state.variable else None
    *outer, around = outer
    clause = around.clause or kind
    return replace(state, levels=(*outer, replace(around, clause=clause, operand="operator")))
