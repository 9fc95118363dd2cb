"""Random expressions and programs without anything undefined, from a seeded generator."""

import random
from collections.abc import Mapping

from loop_invariants.ir.expressions import (
    BOOL,
    INT,
    Binary,
    Cast,
    Constant,
    Expression,
    Identifier,
    Ternary,
    Type,
    Unary,
    format_c,
)

C_NAMES = {
    BOOL: "_Bool",
    Type(8): "signed char",
    Type(8, False): "unsigned char",
    Type(16): "short",
    Type(16, False): "unsigned short",
    INT: "int",
    Type(32, False): "unsigned",
    Type(64): "long",
    Type(64, False): "unsigned long",
}

_NUMBERS = (0, 1, 2, 3, 7, 100, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**40)
_OPERATORS = ("+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "&&", "||")


def extreme(type_: Type, source: random.Random) -> int:
    """A value of a type, often next to its borders."""
    least = -(1 << type_.bits - 1) if type_.signed else 0
    most = (1 << type_.bits - type_.signed) - 1
    near = [v for v in (least, least + 1, -1, 0, 1, 2, most - 1, most) if least <= v <= most]
    return source.choice(near) if source.random() < 0.6 else source.randint(least, most)


def expression(types: Mapping[str, Type], depth: int, source: random.Random) -> Expression:
    """An expression whose divisors are more than zero, so that C defines it (with -fwrapv)."""
    if depth == 0 or source.random() < 0.1:
        if source.random() < 0.7:
            name = source.choice(sorted(types))
            return Identifier(name, types[name])
        return Constant(source.choice((1, -1)) * source.choice(_NUMBERS))

    def part() -> Expression:
        return expression(types, depth - 1, source)

    kind = source.random()
    if kind < 0.15:
        return Unary(source.choice("-!"), part())
    if kind < 0.25:
        return Ternary(part(), part(), part())
    operator = source.choice(_OPERATORS)
    if operator in "/%":
        divisor = part()
        positive = Binary(">", divisor, Constant(0))
        return Binary(operator, part(), Ternary(positive, divisor, Constant(3)))
    return Binary(operator, part(), part())


def any_expression(
    types: Mapping[str, Type], depth: int, source: random.Random, bits: bool
) -> Expression:
    """An expression that also casts, shifts and takes single bits.

    Args:
        bits: whether `&`, `|` and `^` may combine any two values; else `&` takes the last bits.
    """
    if depth == 0:
        return expression(types, 1, source)

    def part() -> Expression:
        return any_expression(types, depth - 1, source, bits)

    kind = source.random()
    if kind < 0.25:
        return Cast(source.choice(list(C_NAMES)), part())
    if kind < 0.35:
        return Unary("~", part())
    if kind < 0.5:
        return Binary(source.choice(("<<", ">>")), part(), Constant(source.randint(0, 31)))
    if kind < 0.65:
        if bits:
            return Binary(source.choice("&|^"), part(), part())
        return Binary("&", part(), Constant(source.choice((1, 3, 255, 2**20 - 1))))
    return Binary(source.choice(("+", "-", "*", "<", "==", "&&")), part(), part())


def statements(types: Mapping[str, Type], source: random.Random) -> str:
    """C statements that end: each loop has a counter of its own, `c0`, `c1`, …"""
    return _Writer(types, source).block(3)


class _Writer:
    def __init__(self, types: Mapping[str, Type], source: random.Random) -> None:
        self._types = types
        self._source = source
        self._counters = 0

    def block(self, depth: int) -> str:
        size = self._source.randint(2, 4)
        return "{ " + " ".join(self._statement(depth) for _ in range(size)) + " }"

    def _statement(self, depth: int) -> str:
        source = self._source
        kind = source.random() if depth else 0.0
        if kind < 0.5:
            return self._assignment()
        if kind < 0.7:
            otherwise = source.choice(("", f" else {self.block(depth - 1)}"))
            return f"if ({self._condition()}) {self.block(depth - 1)}{otherwise}"
        counter = f"c{self._counters}"
        self._counters += 1
        leave = source.choice(("", f"if ({self._condition()}) {source.choice(_LEAVE)}"))
        rest = source.randint(1, 4)
        if kind < 0.85:
            inner = f"{{ {leave} {self.block(depth - 1)} {leave} }}"
            return f"for (int {counter} = 0; {counter} < {rest}; {counter}++) {inner}"
        if kind < 0.95:
            inner = f"{{ {counter}--; {leave} {self.block(depth - 1)} }}"
            return f"int {counter} = {rest}; while ({counter} > 0) {inner}"
        inner = f"{{ {counter} += 1; {self._assignment()} {self._assignment()} }}"
        return f"int {counter} = 0; do {inner} while ({counter} < {rest});"

    def _assignment(self) -> str:
        target = self._source.choice(sorted(self._types))
        operator = self._source.choice(("=", "=", "+=", "-=", "*=", "++", "--"))
        if operator in ("++", "--"):
            return f"{target}{operator};" if self._source.random() < 0.5 else f"{operator}{target};"
        return f"{target} {operator} {format_c(expression(self._types, 2, self._source))};"

    def _condition(self) -> str:
        return format_c(expression(self._types, 2, self._source))


_LEAVE = ("break;", "continue;")
