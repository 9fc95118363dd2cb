"""Failing runs made again by gcc: every round one by one, with the values that the trace tells.

It shares no code with the package but the form of a trace.
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from helpers.compiled import GCC

from loop_invariants.interpreter.simulation import HeadState, NondetValue, RepeatedIterations
from loop_invariants.ir.expressions import Semantics

_HARNESS = r"""
#include <stdlib.h>

static const long long drawn[] = {%s 0};
static const struct { int first, count; unsigned long long times; } parts[] = {%s {0, 0, 0}};
static int part, place;
static unsigned long long done;

static long long next(void) {
    while (parts[part].count && done == parts[part].times) { part++; done = 0; }
    if (!parts[part].count) exit(3);
    long long value = drawn[parts[part].first + place];
    if (++place == parts[part].count) { place = 0; done++; }
    return value;
}

int __VERIFIER_nondet_int(void) { return next(); }
unsigned __VERIFIER_nondet_uint(void) { return next(); }
long __VERIFIER_nondet_long(void) { return next(); }
char __VERIFIER_nondet_char(void) { return next(); }
void __VERIFIER_assume(int condition) { if (!condition) exit(2); }
void __VERIFIER_assert(int condition) { if (!condition) exit(1); }
"""


def parts(
    trace: Iterable[NondetValue | HeadState | RepeatedIterations],
) -> list[tuple[list[int], int]]:
    """The values that functions return, in parts, and how often each part comes."""
    events = list(trace)
    found = []
    for place, event in enumerate(events):
        match event:
            case NondetValue("", value):
                found.append(([value], 1))
            case RepeatedIterations(line, rounds, times):
                heads = [
                    n
                    for n, e in enumerate(events[:place])
                    if isinstance(e, HeadState) and e.line == line
                ]
                since = events[heads[-1 - rounds] : place]
                values = [e.value for e in since if isinstance(e, NondetValue)]
                if values:
                    found.append((values, times))
    return found


def fails_after_gcc(
    source: str,
    semantics: Semantics,
    trace: Iterable[NondetValue | HeadState | RepeatedIterations],
    folder: Path,
) -> bool:
    """Whether the compiled program violates an assertion in a run that draws these values.

    Args:
        source: a program without variables that have no value, of which no value is computed twice
            by the compiler's leave.
    """
    drawn: list[int] = []
    listed = []
    for values, times in parts(trace):
        listed.append(f"{{{len(drawn)}, {len(values)}, {times}ULL}},")
        drawn += values
    numbers = "".join(f"{value}LL," for value in drawn)
    (folder / "program.c").write_text(source, encoding="utf-8")
    (folder / "harness.c").write_text(_HARNESS % (numbers, "".join(listed)), encoding="utf-8")
    traps = ["-fsanitize=signed-integer-overflow", "-fno-sanitize-recover=all"]
    flags = ["-fwrapv"] if semantics is Semantics.INT32 else traps
    files = ["program.c", "harness.c", "-o", "program"]
    subprocess.run([GCC, "-w", "-O2", "-flto", *flags, *files], cwd=folder, check=True)
    ended = subprocess.run(["./program"], cwd=folder, check=False, timeout=300)
    return ended.returncode == 1
