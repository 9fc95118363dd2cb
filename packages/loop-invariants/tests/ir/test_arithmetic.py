"""What the arithmetic of concrete runs and of the prover is: that of a C compiler."""

import random
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import z3
from helpers import random_c

from loop_invariants.frontend.expressions import parse_condition
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.interpreter.evaluator import Evaluator
from loop_invariants.interpreter.simulation import run_program
from loop_invariants.ir.expressions import (
    BOOL,
    INT,
    Binary,
    Constant,
    Expression,
    Identifier,
    Semantics,
    Ternary,
    Type,
    format_c,
    promote,
    wrap,
)
from loop_invariants.verification.z3_encoding import Encoder

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
compiled = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")

TYPES = {f"v{number}": type_ for number, type_ in enumerate(random_c.C_NAMES)}
SIGNED = {"a": INT, "b": INT, "s": Type(16), "l": Type(64), "f": BOOL}

CASES = [
    ({name: random_c.extreme(type_, source) for name, type_ in TYPES.items()}, written)
    for source in (random.Random(seed) for seed in range(300))
    for written in (random_c.expression(TYPES, 3, source),)
]


def output_of(code: str, folder: Path) -> list[str]:
    """The lines that a C program prints, where what overflows wraps around."""
    source, program = folder / "program.c", folder / "program"
    source.write_text(code)
    flags = ["-std=gnu11", "-fwrapv", "-w", "-O0"]
    subprocess.run([COMPILER, *flags, source, "-o", program], check=True)
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout.split("\n")


def c_constant(value: int, type_: Type) -> str:
    return f"({random_c.C_NAMES[type_]}){value % 2**64}UL"


def evaluator(semantics: Semantics) -> Evaluator:
    return Evaluator(semantics, lambda type_: 0)


def simplified(
    expression: Expression,
    state: Mapping[str, int],
    semantics: Semantics,
    types: Mapping,
    numbers: bool = False,
) -> int | None:
    """The value that Z3 gives to the term of an expression; None if the term leaves it open."""
    encoder = Encoder(semantics, numbers)
    machine = semantics is Semantics.INT32 and not numbers
    terms = {
        name: z3.BitVecVal(value, types[name].bits) if machine else z3.IntVal(value)
        for name, value in state.items()
    }
    term = z3.simplify(encoder.encode_conversion(expression, expression.type, terms))
    if not encoder.is_exact:
        return None
    if not machine:
        return term.as_long()
    return term.as_signed_long() if expression.type.signed else term.as_long()


@compiled
def test_values_and_types_are_those_of_a_compiler(tmp_path: Path) -> None:
    """A random expression over all integer types has the value that C gives it and, promoted,
    its width and sign."""
    lines = []
    for state, written in CASES:
        given = " ".join(
            f"{random_c.C_NAMES[TYPES[name]]} {name} = {c_constant(value, TYPES[name])};"
            for name, value in state.items()
        )
        c = format_c(written)
        sign = f"(__typeof__(+({c})))-1 < 0"
        lines.append(
            f'{{ {given} printf("%lld %d %d\\n", (long long)({c}), '
            f"(int)sizeof(+({c})) * 8, {sign}); }}"
        )
    code = "#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) + "\nreturn 0; }\n"
    printed = output_of(code, tmp_path)
    values = evaluator(Semantics.INT32)
    for (state, written), line in zip(CASES, printed[:-1], strict=True):
        type_ = promote(written.type)
        value = int(wrap(values.interpret(written)(dict(state)), Type(64)))
        assert line == f"{value} {type_.bits} {int(type_.signed)}", (format_c(written), state)


def test_prover_and_runs_agree_over_32_bits() -> None:
    """The term of a random expression over all integer types has the value of concrete runs."""
    values = evaluator(Semantics.INT32)
    for state, written in CASES:
        expected = values.interpret(written)(dict(state))
        assert simplified(written, state, Semantics.INT32, TYPES) == expected, format_c(written)


def test_prover_and_runs_agree_over_integers() -> None:
    """Over mathematical integers, too, terms and concrete runs give the same values."""
    for types in (SIGNED, TYPES):
        values = evaluator(Semantics.INTEGERS)
        for seed in range(150):
            source = random.Random(seed)
            state = {name: random_c.extreme(type_, source) for name, type_ in types.items()}
            state |= {name: abs(state[name]) % 2 for name in types if types[name] == BOOL}
            written = random_c.expression(types, 3, source)
            expected = values.interpret(written)(dict(state))
            found = simplified(written, state, Semantics.INTEGERS, types)
            assert found == expected, format_c(written)


@pytest.mark.parametrize("semantics", Semantics)
def test_prover_and_runs_agree_on_casts_shifts_and_bits(semantics: Semantics) -> None:
    """Terms and concrete runs convert, shift and combine bits of all integer types alike."""
    values = evaluator(semantics)
    for seed in range(200):
        source = random.Random(f"any {seed}")
        state = {name: random_c.extreme(type_, source) for name, type_ in TYPES.items()}
        written = random_c.any_expression(TYPES, 3, source, bits=semantics is Semantics.INT32)
        expected = values.interpret(written)(dict(state))
        assert simplified(written, state, semantics, TYPES) == expected, format_c(written)


def test_numbers_that_wrap_around_mean_what_bit_vectors_do() -> None:
    """Machine integers as numbers have the values of concrete runs, or what they mean is open."""
    values = evaluator(Semantics.INT32)
    known = 0
    cases = list(CASES)
    for seed in range(200):
        source = random.Random(f"numbers {seed}")
        state = {name: random_c.extreme(type_, source) for name, type_ in TYPES.items()}
        cases.append((state, random_c.any_expression(TYPES, 3, source, bits=seed % 2 == 0)))
    for state, written in cases:
        found = simplified(written, state, Semantics.INT32, TYPES, numbers=True)
        known += found is not None
        expected = values.interpret(written)(dict(state))
        assert found in (None, expected), format_c(written)
    assert known >= 400


@pytest.mark.few(1)
@pytest.mark.parametrize("type_", [INT, Type(32, False), Type(64), Type(16), Type(64, False)])
def test_both_encodings_of_machine_integers_divide_alike(type_: Type) -> None:
    """By 0 and -1 too, where C gives no value: what is proven with one is used with the other."""
    types = {"a": type_, "b": type_}
    edges = [v for v in (type_.min_value, -1, 0, 1, 2, 7, type_.max_value) if type_.min_value <= v]
    for operator in ("/", "%"):
        written = Binary(operator, Identifier("a", types["a"]), Identifier("b", types["b"]))
        for a in edges:
            for b in edges:
                both = [
                    simplified(written, {"a": a, "b": b}, Semantics.INT32, types, numbers)
                    for numbers in (True, False)
                ]
                assert both[0] == both[1], (a, operator, b)
        for divisor in (0, -1):
            written = Binary(operator, Identifier("a", types["a"]), Constant(divisor))
            for a in edges:
                both = [
                    simplified(written, {"a": a}, Semantics.INT32, types, numbers)
                    for numbers in (True, False)
                ]
                assert both[0] == both[1], (a, operator, divisor)


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize(
    ("a", "b", "quotient", "rest"), [(7, 2, 3, 1), (-7, 2, -3, -1), (7, -2, -3, 1), (-7, -2, 3, -1)]
)
def test_division_rounds_towards_zero(
    semantics: Semantics, a: int, b: int, quotient: int, rest: int
) -> None:
    """Quotients are rounded towards zero and remainders have the sign of the dividend."""
    types = {"a": INT, "b": INT}
    state = {"a": a, "b": b}
    for operator, expected in (("/", quotient), ("%", rest)):
        written = Binary(operator, Identifier("a", types["a"]), Identifier("b", types["b"]))
        assert evaluator(semantics).interpret(written)(dict(state)) == expected
        assert simplified(written, state, semantics, types) == expected


def test_smallest_int_is_a_long_as_in_c() -> None:
    """-2147483648 minus one does not wrap around, since C takes the number for a long."""
    written = Binary("-", Constant(-(2**31)), Constant(1))
    assert evaluator(Semantics.INT32).interpret(written)({}) == -(2**31) - 1


def test_text_is_read_back_as_the_same_expression() -> None:
    """What `text` writes of a random expression is read as that expression."""
    for _, written in CASES:
        assert parse_condition(format_c(written), TYPES.keys(), TYPES) == _folded(written)


def _folded(expression: Expression) -> Expression:
    """The expression with `-` of a number as the negative number, as the reader has it."""
    match expression:
        case Binary(operator=op, left=left, right=right):
            return Binary(op, _folded(left), _folded(right))
        case Ternary(condition=condition, then=then, otherwise=otherwise):
            return Ternary(_folded(condition), _folded(then), _folded(otherwise))
        case Identifier() | Constant():
            return expression
    operand = _folded(expression.operand)
    if expression.operator == "-" and isinstance(operand, Constant):
        return Constant(-operand.value)
    return type(expression)(expression.operator, operand)


NAMES = {"a": INT, "b": Type(32, False), "c": Type(8), "d": Type(16, False), "e": BOOL}


def programs(count: int) -> Iterator[str]:
    """Bodies of random programs without nondeterminism."""
    for seed in range(count):
        source = random.Random(f"program {seed}")
        given = " ".join(
            f"{random_c.C_NAMES[type_]} {name} = {source.randint(0, 3)};"
            for name, type_ in NAMES.items()
        )
        yield f"{given} {random_c.statements(NAMES, source)}"


def final_values(body: str) -> Sequence[int]:
    """The values of the variables at the end, read off the head of one more loop."""
    program = parse_program(f"int main(void) {{ {body} while (0) ; return 0; }}", "random")
    last = program.loops[-1].number
    (state,) = run_program(program, Semantics.INT32, runs=1, max_iterations=10_000).head_states[
        last
    ]
    return [state[name] for name in NAMES]


@pytest.mark.long
@compiled
def test_runs_end_as_compiled_programs_do(tmp_path: Path) -> None:
    """A random program with branches, nested loops, break and continue ends in the same state."""
    bodies = list(programs(60))
    prints = f'printf("{"%lld " * len(NAMES)}\\n", {", ".join(f"(long long){n}" for n in NAMES)});'
    functions = [f"void p{i}(void) {{ {body} {prints} }}" for i, body in enumerate(bodies)]
    calls = " ".join(f"p{i}();" for i in range(len(bodies)))
    code = "\n".join(["#include <stdio.h>", *functions, f"int main(void) {{ {calls} return 0; }}"])
    for body, line in zip(bodies, output_of(code, tmp_path), strict=False):
        assert final_values(body) == [int(word) for word in line.split()], body
