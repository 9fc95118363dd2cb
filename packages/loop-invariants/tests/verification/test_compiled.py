"""Verified programs beside gcc: no run of the compiled program contradicts a proof."""

import random
from itertools import islice
from pathlib import Path

import pytest
import yaml
from helpers import random_c
from helpers.compiled import needs_gcc, violations
from helpers.marks import long
from helpers.mutations import ORIGINALS, candidates, mutants

from llmchecker.errors import ProgramError
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.ir.expressions import INT, Semantics, Type, format_c
from loop_invariants.verification.houdini import Prover
from loop_invariants.verification.result import Outcome
from loop_invariants.verification.verifier import VerificationLimits, Verifier

PROGRAMS = Path(__file__).parents[4] / "resources" / "programs"
EXPECTED = yaml.safe_load(Path(__file__).with_name("expected.yaml").read_text(encoding="utf-8"))
HOLDING = {
    semantics: [(n, semantics) for n, known in EXPECTED.items() if known[semantics] == "holds"]
    for semantics in Semantics
}
HOLDING_OVER_INTEGERS_ALONE = [
    (n, s)
    for n, s in HOLDING[Semantics.INTEGERS]
    if (n, Semantics.INT32) not in HOLDING[Semantics.INT32]
]
"""A run of another program over integers is one over machine integers, up to its first overflow."""

ASSERT = "void __VERIFIER_assert(int);\nint __VERIFIER_nondet_int(void);\n"

FAILING = {
    "a joined comment": (
        "int main(void) { int x = 0;\n// a remark that goes on \\\nx = 1;\n"
        "__VERIFIER_assert(x == 1); }"
    ),
    "a comment of joined slashes": (
        "int main(void) { int x = 0;\n/\\\n/ x = 1;\n;x = x;\n__VERIFIER_assert(x == 1); }"
    ),
    "a constructor": (
        "int x = 1;\n__attribute__((constructor)) void before(void) { x = 0; }\n"
        "int main(void) { __VERIFIER_assert(x == 1); }"
    ),
    "a constructor by another word": (
        "int x = 1;\nvoid before(void) __attribute__((__constructor__, unused));\n"
        "void before(void) { x = 0; }\nint main(void) { __VERIFIER_assert(x == 1); }"
    ),
    "a variable that is cleaned up": (
        "int x = 1;\nvoid after(int *p) { x = 0; }\n"
        "int main(void) { { int y __attribute__((cleanup(after))) = 0; y = 1; } "
        "__VERIFIER_assert(x == 1); }"
    ),
    "an int of eight bits": (
        "int main(void) { int x __attribute__((mode(QI))) = 0; x = 300; "
        "__VERIFIER_assert(x == 300); }"
    ),
    "an abort of the program's own": (
        "int x = 1;\nvoid abort(void) { x = 0; }\n"
        "int main(void) { if (x) abort(); __VERIFIER_assert(x == 1); }"
    ),
    "an exit of the program's own": (
        "void exit(int status) { }\nint main(void) { exit(0); __VERIFIER_assert(0); }"
    ),
    "an assumption that returns": (
        "void __VERIFIER_assume(int condition) { }\nint main(void) { "
        "int x = __VERIFIER_nondet_int(); __VERIFIER_assume(x > 0); __VERIFIER_assert(x > 0); }"
    ),
    "an assumption that may return": (
        "void assume_abort_if_not(int c) { if (!c) return; if (!c) abort(); }\nint main(void) { "
        "int x = __VERIFIER_nondet_int(); assume_abort_if_not(x > 0); __VERIFIER_assert(x > 0); }"
    ),
    "an assumption that asserts": (
        "#include <assert.h>\nvoid __VERIFIER_assume(int c) { assert(c); while (!c) ; }\n"
        "int main(void) { int x = __VERIFIER_nondet_int(); __VERIFIER_assume(x > 0); }"
    ),
    "an assertion with an effect": (
        "int x = 1;\nvoid __ESBMC_assert(int c, const char *m) { x = 0; }\n"
        'int main(void) { __ESBMC_assert(x == 1, ""); __VERIFIER_assert(x == 1); }'
    ),
    "an assertion of a char": (
        "void assert(char c) { if (!c) reach_error(); }\n"
        "int main(void) { int x = 256; assert(x); }"
    ),
    "an assertion of a wide number": (
        "int main(void) { long x = 4294967296; __VERIFIER_assert(x); }"
    ),
    "an open value with an effect": (
        "int x = 1;\nint __VERIFIER_nondet_int(void) { x = 0; return 1; }\n"
        "int main(void) { int y = __VERIFIER_nondet_int(); __VERIFIER_assert(x == 1); }"
    ),
    "an open value of another type": (
        "extern int __VERIFIER_nondet_uint(void);\n"
        "int main(void) { __VERIFIER_assert(__VERIFIER_nondet_uint() >= 0); }"
    ),
    "an open value that is not declared": (
        "int main(void) { __VERIFIER_assert(__VERIFIER_nondet_uint() >= 0); }"
    ),
    "bool by another name": (
        "typedef int bool;\nint main(void) { bool b = 2; __VERIFIER_assert(b == 1); }"
    ),
    "a raw string": (
        'int main(void) { int x = 0; __ESBMC_assert(x == 0, R"(")"); x = 1; /* " */\n'
        '__VERIFIER_assert(x == 0); }'
    ),
    "a quotient that traps": (
        "int main(void) { int x = __VERIFIER_nondet_int(); int y = -1; "
        "int z = x / y; __VERIFIER_assert(y == -1); }"
    ),
    "a remainder that traps": (
        "int main(void) { int x = __VERIFIER_nondet_int(); int y = -1; "
        "x %= y; __VERIFIER_assert(y == -1); }"
    ),
    "a wide quotient that traps": (
        "long __VERIFIER_nondet_long(void);\nint main(void) { "
        "long x = __VERIFIER_nondet_long(); int y = -1; x = x / y; __VERIFIER_assert(y == -1); }"
    ),
    "a status that traps": (
        "#include <stdlib.h>\nint main(void) { int x = __VERIFIER_nondet_int(); exit(1 / x); }"
    ),
    "a status out of range": (
        "#include <stdlib.h>\nint main(void) { int a[2] = {0, 0}; int i = 2; exit(a[i]); }"
    ),
    "a quotient by zero in what is returned": (
        "int main(void) { int x = __VERIFIER_nondet_int(); return 1 % x; }"
    ),
}  # fmt: skip
"""Programs that fail when gcc has compiled them, by the reason."""


def verdict(source: str, semantics: Semantics) -> Outcome | None:
    """What becomes of a program; None if it is refused."""
    try:
        program = parse_program(source, "case")
        return Verifier(program, semantics, VerificationLimits(seconds=20)).verify({}).outcome
    except ProgramError:
        return None


@pytest.mark.few(2)
@needs_gcc
@pytest.mark.parametrize("reason", FAILING)
def test_what_fails_after_gcc_is_not_verified(reason: str, tmp_path: Path) -> None:
    """A program that fails when it is compiled and run is refused, false or not proven."""
    source = ASSERT + FAILING[reason]
    assert violations(source, Semantics.INT32, tmp_path) != 0
    assert verdict(source, Semantics.INT32) is not Outcome.VERIFIED


@needs_gcc
def test_an_included_file_that_changes_the_meaning_is_not_ignored(tmp_path: Path) -> None:
    """A program whose assertion fails because of a file that it includes is refused."""
    (tmp_path / "change.h").write_text("#define while if\n")
    source = f"""#include "change.h"
{ASSERT}int main(void) {{ int x = 0; while (x < 5) x++; __VERIFIER_assert(x == 5); }}"""
    assert violations(source, Semantics.INT32, tmp_path)
    assert verdict(source, Semantics.INT32) is None


@pytest.mark.few(2)
@needs_gcc
@pytest.mark.parametrize(
    "holding", [*HOLDING[Semantics.INT32], *long(*HOLDING_OVER_INTEGERS_ALONE)], ids="-".join
)
def test_what_holds_does_not_fail_after_gcc(holding: tuple[str, Semantics], tmp_path: Path):
    """No run of a compiled program of the project violates what is proven of it."""
    name, semantics = holding
    source = next(PROGRAMS.rglob(f"{name}.c")).read_text(encoding="utf-8")
    found = violations(source, semantics, tmp_path)
    # Quantifiers are ESBMC's, and gcc has none.
    assert found == 0 if "__ESBMC_" not in source else found is None


NAMES = {"a": INT, "b": INT, "c": Type(8), "d": Type(16, False), "e": Type(64)}
DRAWN = """
extern int __VERIFIER_nondet_int(void);
extern char __VERIFIER_nondet_char(void);
extern unsigned short __VERIFIER_nondet_ushort(void);
extern long __VERIFIER_nondet_long(void);
extern void __VERIFIER_assert(int);
int main(void) {
    int a = __VERIFIER_nondet_int(); int b = __VERIFIER_nondet_int();
    char c = __VERIFIER_nondet_char(); unsigned short d = __VERIFIER_nondet_ushort();
    long e = __VERIFIER_nondet_long();
"""


def random_program(seed: int) -> str:
    """Branches, assignments and quotients that may trap, and an assertion that may hold."""
    source = random.Random(f"compiled {seed}")
    lines = []
    for _ in range(source.randint(1, 3)):
        target = source.choice(sorted(NAMES))
        value = format_c(random_c.expression(NAMES, 2, source))
        if source.random() < 0.4:
            value = f"{source.choice(sorted(NAMES))} {source.choice('/%')} ({value})"
        lines.append(f"{target} = {value};")
        if source.random() < 0.5:
            lines[-1] = f"if ({format_c(random_c.expression(NAMES, 1, source))}) {lines[-1]}"
    condition = format_c(random_c.expression(NAMES, 1, source))
    lines.append(f"__VERIFIER_assert(({condition}) != 0 || {target} == {target});")
    if source.random() < 0.5:
        lines.append(f"__VERIFIER_assert(({condition}) != 0);")
    return DRAWN + "\n".join(lines) + "\n}\n"


@needs_gcc
@pytest.mark.long
@pytest.mark.parametrize("block", range(2))
def test_random_programs_that_are_proven_do_not_fail_after_gcc(block: int, tmp_path: Path) -> None:
    """What is proven of random programs over all kinds of integers, no compiled run violates."""
    proven = 0
    for seed in range(40 * block, 40 * block + 40):
        source = random_program(seed)
        program = parse_program(source, "random")
        if Prover(program, Semantics.INT32, seconds=2).entails_assertions(()):
            proven += 1
            assert violations(source, Semantics.INT32, tmp_path, runs=200) == 0, source
    assert proven > 4


@needs_gcc
@pytest.mark.long
@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("original", ORIGINALS, ids=lambda original: original.name)
def test_changed_programs_that_are_proven_do_not_fail_after_gcc(original, semantics, tmp_path):
    """What is proven of a program changed in one place, no run of the compiled one violates."""

    def is_proven(mutant) -> bool:
        prover = Prover(mutant.program, semantics, seconds=2)
        tried = candidates(mutant.program, original.invariants)
        return prover.entails_assertions(prover.find_inductive_subset(tried))

    for mutant in islice(filter(is_proven, islice(mutants(original), 12)), 2):
        source = mutant.program.source
        if "__ESBMC_" not in source:
            assert violations(source, semantics, tmp_path, runs=100) == 0, mutant
