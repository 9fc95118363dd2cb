"""Properties: what counts as a violation, and overflow compared with gcc's own sanitizer."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.marks import long
from helpers.random_c import C_NAMES, any_expression, extreme

from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.interpreter.evaluator import Evaluator
from loop_invariants.interpreter.simulation import run_program
from loop_invariants.ir.expressions import (
    Binary,
    Cast,
    Constant,
    Expression,
    Semantics,
    Ternary,
    Type,
    Unary,
    format_c,
    size,
    wrap,
)
from loop_invariants.ir.instrumentation import Property
from loop_invariants.ir.statements import Program

GCC = shutil.which("gcc")
needs_gcc = pytest.mark.skipif(GCC is None, reason="there is no gcc")


def failure(body: str, asked: Property, before: str = "") -> int | None:
    """The line of the violation that runs find; the text starts in line 1."""
    source = f"{before} int main(void) {{ int x = __VERIFIER_nondet_int(); {body} }}"
    found = run_program(
        parse_program(source, "case", required_property=asked), Semantics.INT32
    ).failure
    return None if found is None else found.line


CASES = {
    "assert(x != 3);": (1, None, None),
    "if (x == 3) reach_error();": (1, 1, None),
    "if (x == 3) __assert_fail(0, 0, 0, 0);": (1, None, None),
    "__VERIFIER_assert(x != 3);": (1, 1, None),
    "\n//@ assert x != 3;\n": (2, None, None),
    "assert(x != 3); if (x == 3) reach_error();": (1, None, None),
    "assert(x < 5); \n x = x + 1;": (1, None, None),
    "assert(x < 5); \n x = x - 1;": (1, None, 2),
    "x = 1 / x;": (0, None, 1),
    "int a[2]; a[0] = 1; x = a[x];": (0, None, None),
    "\n\nif (x > 3 && x + 1 < 0) x = 0;": (None, None, 3),
    "if (x < 3 && x + 1 < 0) x = 0;": (None, None, None),
    "x = x < 3 ? x + 1 : x;": (None, None, None),
    "x++;": (None, None, 1),
    "x = -x;": (None, None, 1),
    "unsigned u = x; u = u * u + 1;": (None, None, None),
    "long l = x; l = l * l + 1;": (None, None, None),
    "char c = x; c++; c = c + c;": (None, None, None),
    "while (x + 1 > 0) { x = 0; break; }": (None, None, 1),
    "while (x < 5 && x > 0)\n{ x = x - 1; continue; }": (None, None, None),
    "while (__VERIFIER_nondet_int() + 1 > 0) { break; }": (None, None, 1),
    "for (int i = 0; i < 3; i = i + x) { if (i > 5) break; }": (None, None, 1),
    "x = 3 % x;": (0, None, 1),
    "x = (-2147483647 - 1) / (x ? x : 1);": (0, None, 1),
    "x = x << 1;": (None, None, 1),
}


@pytest.mark.few(6)
@pytest.mark.parametrize(("body", "expected"), CASES.items())
def test_each_property_has_violations_of_its_own(body, expected):
    """Assertions, calls of errors, and overflow with division by zero are told apart."""
    for asked, line in zip(
        (Property.ASSERT, Property.REACH, Property.NO_OVERFLOW), expected, strict=True
    ):
        assert failure(body, asked) == line, asked


def test_definitions_tell_what_a_failing_assertion_does():
    """Behind an assertion that returns, overflow counts; behind one that stops, it does not."""
    body = "__VERIFIER_assert(x < 9); \n x = x + 1;"
    returns = "void __VERIFIER_assert(int c) { if (!c) { reach_error(); } } void reach_error() { }"
    stops = "void __VERIFIER_assert(int c) { if (!c) { reach_error(); abort(); } }"
    assert failure(body, Property.NO_OVERFLOW, returns) == 2
    assert failure(body, Property.NO_OVERFLOW, stops) is None
    assert failure(body, Property.REACH, returns) == 1
    aborts = "void assert(int c) { if (!c) abort(); }"
    assert failure("assert(x < 9);", Property.REACH, aborts) is None
    reaches = "void assert(int c) { if (!c) reach_error(); }"
    assert failure("assert(x < 9);", Property.REACH, reaches) == 1


TYPES = {f"v{n}": type_ for n, type_ in enumerate(C_NAMES)}

_CHECKED = r"""
#include <stdio.h>
static int bad;
#define SIGNED(a, b) ((__typeof__((a) + (b)))-1 < 0)
#define BY(kind, a, b) ({ __auto_type A = +(a); __auto_type B = +(b); __typeof__(A + B) R; \
    int wrong = __builtin_##kind##_overflow(A, B, &R); if (SIGNED(A, B)) bad |= wrong; R; })
#define DIV(op, a, b) ({ __auto_type P = +(a); __auto_type Q = +(b); \
    __typeof__(P + Q) A = P, B = Q; \
    __typeof__(A) R = 0, M = (__typeof__(A))1 << (sizeof(A) * 8 - 1); \
    if (B == 0 || (SIGNED(A, B) && A == M && B == (__typeof__(B))-1)) bad = 1; \
    else R = A op B; R; })
"""
_KINDS = {"+": "add", "-": "sub", "*": "mul"}


def checked(expression: Expression) -> str:
    """C text of an expression that sets `bad` where gcc's own functions tell an overflow."""
    match expression:
        case Unary("-", operand):
            return f"BY(sub, 0, {checked(operand)})"
        case Unary(operator, operand):
            return f"({operator}{checked(operand)})"
        case Binary("+" | "-" | "*" as operator, left, right):
            return f"BY({_KINDS[operator]}, {checked(left)}, {checked(right)})"
        case Binary("/" | "%" as operator, left, right):
            return f"DIV({operator}, {checked(left)}, {checked(right)})"
        case Binary(operator, left, right):
            return f"({checked(left)} {operator} {checked(right)})"
        case Ternary(condition, then, otherwise):
            return f"({checked(condition)} ? {checked(then)} : {checked(otherwise)})"
        case Cast(type_, operand):
            return f"(({C_NAMES[type_]}){checked(operand)})"
        case Constant(value) if value < 0:
            return f"({value}{'L' if value == -(2**31) else ''})"
    return format_c(expression)


def overflows(program: Program, state: dict[str, int]) -> bool:
    """Whether an assertion of the program fails in a state."""
    evaluator = Evaluator(Semantics.INT32, lambda type_: 0)
    return any(not evaluator.interpret(a.condition)(dict(state)) for a in program.assertions)


@needs_gcc
@pytest.mark.parametrize("count", [60, *long(800)])
def test_overflow_is_where_gcc_tells_it(count, tmp_path: Path):
    """Random expressions overflow for just the values for which gcc's own functions tell it."""
    source = random.Random(f"overflow {count}")
    cases, texts, calls = [], [], []
    given = ", ".join(f"{c} {n}" for n, c in zip(TYPES, C_NAMES.values(), strict=True))
    declared = given.replace(",", ";") + ";"
    while len(cases) < count:
        expression = any_expression(TYPES, 3, source, bits=True)
        if "<<" in format_c(expression) or size(expression) > 25:
            continue  # of shifts gcc has no function that tells; nested macros grow fast
        text = f"{declared} int main(void) {{ long r = {format_c(expression)}; }}"
        program = parse_program(text, "case", required_property=Property.NO_OVERFLOW)
        state = {n: extreme(t, source) for n, t in TYPES.items()}
        texts.append(f"long f{len(cases)}({given}) {{ return {checked(expression)}; }}")
        values = ", ".join(f"{wrap(v, Type(64, False))}UL" for v in state.values())
        calls.append(f"bad = 0; f{len(cases)}({values}); putchar('0' + bad);")
        cases.append((program, state, format_c(expression)))
    body = "\n".join([_CHECKED, *texts, "int main(void) {", *calls, "}"])
    (tmp_path / "all.c").write_text(body)
    subprocess.run([GCC, "-w", "-O0", "-fwrapv", "all.c", "-o", "all"], cwd=tmp_path, check=True)
    told = subprocess.run(["./all"], cwd=tmp_path, capture_output=True, text=True, check=True)
    for (program, state, text), bad in zip(cases, told.stdout, strict=True):
        assert overflows(program, state) == (bad == "1"), f"{text} {state}"
    assert count / 30 < told.stdout.count("1") < count
