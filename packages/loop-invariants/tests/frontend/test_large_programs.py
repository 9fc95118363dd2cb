"""Programs that are too large for a proof are refused by name, others are read."""

import pytest
from helpers.marks import long

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.interpreter.simulation import run_program
from loop_invariants.ir.expressions import Semantics
from loop_invariants.verification.esbmc_annotation import format_program


def main(lines: list[str]) -> str:
    return "int main(void) {\nint x = 0;\n" + "\n".join(lines) + "\n}\n"


LARGE = {
    "calls": (["x = f();"] * 10_000, "case.c:304: more than 300 calls of functions"),
    "expression": (["x = " + " + ".join(["x"] * 3000) + ";"], "nesting deeper than 100"),
    "labels": (
        [f"L{i}: x++; if (x == {i}) goto L{i * 37 % 400};" for i in range(400)],
        "a goto into a loop of gotos",
    ),
    "loops": ([f"while (x < {i}) x++;" for i in range(400)], "case.c:104: more than 100 loops"),
    "nested": (
        ["while (x < 9) {"] * 200 + ["x++;"] + ["}"] * 200,
        "case.c:203: such deep nesting",
    ),
    "repeated": (["while (x < 9) {"] + ["x++;"] * 2_500 + ["}"], "more than 2,000 statements"),
    "switch": (["switch (x) {"] + [f"case {i}: x = 0;" for i in range(3000)] + ["}"], "nesting"),
}


SLOW = ("labels", "calls")


@pytest.mark.few(1)
@pytest.mark.parametrize("name", [*(name for name in LARGE if name not in SLOW), *long(*SLOW)])
def test_what_is_too_large_is_refused_by_name(name):
    """Thousands of loops, labels, calls or nested blocks end as unsupported, not as an error."""
    lines, reason = LARGE[name]
    source = "int f(void) { return 1; }\n" + main(lines)
    with pytest.raises(UnsupportedProgram) as raised:
        parse_program(source, "case")
    assert str(raised.value).startswith("case.c")
    assert reason in str(raised.value)


@pytest.mark.long
def test_many_lines_and_variables_are_read():
    """10,000 lines without a loop, and a loop over 1,000 variables, are read and run."""
    many, names = 10_000, 1_000
    lines = parse_program(main([f"x = x + {i % 7};" for i in range(many)]), "case")
    assert len(lines.body) == many + 1
    declared = [f"int v{i} = 0;" for i in range(names)]
    steps = [f"v{i} = v{i} + 1;" for i in range(names)]
    last = f"assert(v{names - 1} == 9);"
    program = parse_program(main([*declared, "while (v0 < 9) {", *steps, "}", last]), "case")
    assert len(program.loops[0].scope) == names + 1
    assert run_program(program, Semantics.INTEGERS).failure is None


@pytest.mark.long
def test_many_arrays_are_written_for_esbmc():
    """The C text of a program with 1,000 arrays closes a block for each, however many there are."""
    program = parse_program(main([f"int a{i}[17]; a{i}[x] = x;" for i in range(1_000)]), "case")
    text = format_program(program, {})
    assert text.count("{") == text.count("}") == 1_001
