"""Random C programs with assertions whose truth gcc's runs tell, to hold verdicts against.

A program is one of `written_c`, small enough to be proven now and then. What its runs end with is
told by gcc, with the sanitizers on whose reports count. From that come its assertions: one that a
run is known to violate, and one that no run seen so far violates.
"""

import random
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers.compiled import GCC
from helpers.given_inputs import BORDERS, GIVEN_INPUTS
from helpers.written_c import WrittenProgram

from loop_invariants.ir.instrumentation import Property

_UNDEFINED = "address,bounds,integer-divide-by-zero,shift-exponent,null,vla-bound,return"
WRAPPING = ("-fwrapv", f"-fsanitize={_UNDEFINED}")
"""What is signed wraps around; what else C leaves undefined is reported."""
TRAPPING = (f"-fsanitize={_UNDEFINED},signed-integer-overflow,shift",)
"""What is signed may not overflow either."""

OVERFLOW = ("signed integer overflow", "cannot be represented", "left shift of negative")
"""How a report of signed overflow reads; a shifted negative number is one for gcc alone."""

INPUTS = 12

_MAIN = r"""
int main(void) {
    static long given[4096];
    int program, count, parameter;
    dup2(1, 2); setvbuf(stdout, 0, _IOLBF, 1 << 16);
    while (scanf("%d %d %d", &program, &parameter, &count) == 3) {
        for (int i = 0; i < count; i++) if (scanf("%lu", (unsigned long *)given + i) != 1) return 1;
        if (!fork()) { input = given; left = count; alarm(5); programs[program](parameter); _exit(0); }
        wait(0); puts("---");
    }
}
"""  # noqa: E501


_END = "; /* end */"


class JudgedProgram(WrittenProgram):
    """A small program of `written_c`, whose `main` may have parameters.

    Attributes:
        parameter: the name of the parameter `argc`; empty if there is none.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        source = random.Random(f"parameters {seed}")
        kind = source.random()
        self.parameter = f"argc_{seed}" if kind < 0.4 else ""
        self._some = source
        super().__init__(seed)

    def with_end(self, condition: str) -> str:
        """The text with an assertion at the end of `main`."""
        return self.text.replace(_END, f"__VERIFIER_assert({condition});")

    def _main(self) -> str:
        start = self._inputs()
        if self._some.random() < 0.7:
            # Few values, of which more can be proven.
            for name in self.observed:
                start += f" __VERIFIER_assume({name} >= 0 && {name} <= {self._some.randint(3, 9)});"
        given = "void"
        if self.parameter:
            given = f"int {self.parameter}, char **texts"
            start += f" {self._some.choice(self.observed)} = {self.parameter};"
        lines = " ".join(self._statement(1) for _ in range(self._some.randint(1, 3)))
        return f"int main({given})\n{{ {start} {{ {lines} }} {_END} return 0; }}\n"


class ExactProgram(JudgedProgram):
    """One in which no signed number becomes one of a narrower signed type.

    That would mean something else over mathematical integers than it does for gcc.
    """

    kinds = ("_Bool", "int", "unsigned", "unsigned char", "unsigned long", "unsigned short")
    numbers = ("0", "1", "2", "3", "7", "100", "255", "5u", "2UL", "0x10", "'a'", "010", "-1")


@dataclass(frozen=True)
class Run:
    """How a run of a compiled program ended.

    Attributes:
        inputs: the parameter of `main`, and the values that were drawn.
        values: of the observed variables at the end of `main`; None if it did not come there.
        failed: whether an assertion failed on the way.
        report: what a sanitizer said.
    """

    inputs: tuple[int, ...]
    values: tuple[int, ...] | None
    failed: bool
    report: str


class Compiled:
    """Programs that were compiled together.

    Args:
        programs: of which no two have the same seed.
        asked: unless it is `assert`, remarks do nothing, and what `assert` finds false ends a run.
        options: WRAPPING or TRAPPING.
        folder: where nothing else lies.
    """

    def __init__(
        self,
        programs: Sequence[JudgedProgram],
        asked: Property,
        options: Sequence[str],
        folder: Path,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        asserted = asked is Property.ASSERT
        parts = [f'#define ASSERTED "{"failed" if asserted else "stopped"}"\n{GIVEN_INPUTS}']
        for number, program in enumerate(programs):
            shown = "; ".join(f'printf("%lld ", (long long){name})' for name in program.observed)
            written = program.compiled_text if asserted else program.text
            text = written.replace(_END, f'{shown}; end("");')
            parts.append(text.replace("int main(", f"int main_{number}("))
            given = "parameter, 0" if program.parameter else ""
            parts.append(f"static void run_{number}(int parameter) {{ main_{number}({given}); }}\n")
        listed = ", ".join(f"run_{number}" for number in range(len(programs)))
        parts.append(f"static void (*programs[])(int) = {{ {listed} }};\n{_MAIN}")
        (folder / "all.c").write_text("".join(parts))
        command = [GCC, "-w", "-O0", "-fno-sanitize-recover=all", *options, "all.c", "-o", "all"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)

    def runs(self, asked: Sequence[tuple[int, Sequence[int]]]) -> list[Run]:
        """The runs of programs, each by its number, on the parameter and the values drawn."""
        lines = [(n, p, len(values), *values) for n, (p, *values) in asked]
        given = "\n".join(" ".join(map(str, line)) for line in lines)
        done = subprocess.run(
            ["./all"],
            cwd=self._folder,
            input=given,
            capture_output=True,
            text=True,
            errors="replace",
            check=True,
            env={"PATH": "/usr/bin:/bin", "ASAN_OPTIONS": "detect_leaks=0"},
        )
        told = done.stdout.split("---\n")[:-1]
        return [_run(tuple(inputs), text) for (_, inputs), text in zip(asked, told, strict=True)]


def _run(inputs: tuple[int, ...], told: str) -> Run:
    report = told if "runtime error" in told or "Sanitizer" in told else ""
    last = told.strip()
    values = None
    if not report and last not in ("failed", "stopped", ""):
        values = tuple(map(int, last.split()))
    return Run(inputs, values, last == "failed", report)


def drawn(source: random.Random) -> tuple[int, ...]:
    """The parameter of `main` and values to draw, small ones and some near the borders of types."""
    most = source.choice((3, 9))
    wide = source.random() < 0.3
    values = [source.choice(BORDERS) if wide else source.randint(0, most) for _ in range(12)]
    return (source.randint(0, 6), *values)


def as_long(name: str, value: int) -> str:
    """A comparison of a variable with what gcc printed of it."""
    number = f"{value}L" if value > -(2**63) else "(-9223372036854775807L - 1)"
    return f"(long){name} == {number}"


class Condition:
    """A condition on the observed variables, in C and as runs see it."""

    def __init__(self, text: str, places: Sequence[tuple[int, int]], bounds: bool) -> None:
        self.text = text
        self._places = places
        self._bounds = bounds

    def holds(self, values: Sequence[int]) -> bool:
        if self._bounds:
            (place, least), (_, most) = self._places
            return least <= values[place] <= most
        return any(values[place] != value for place, value in self._places)


def conditions(
    program: JudgedProgram, runs: Sequence[Run], source: random.Random
) -> list[Condition]:
    """One that a run violates at the end of `main`, and one that none of them does."""
    ended = [run.values for run in runs if run.values is not None]
    if not ended:
        return []
    names = program.observed
    values = source.choice(ended)
    some = source.sample(range(len(names)), 2)
    wrong = " && ".join(as_long(names[place], values[place]) for place in some)
    made = [Condition(f"!({wrong})", [(place, values[place]) for place in some], False)]
    place = source.randrange(len(names))
    low, high = min(v[place] for v in ended), max(v[place] for v in ended)
    low = max(low, -(2**63) + 1)
    bounds = f"(long){names[place]} >= {low}L && (long){names[place]} <= {high}L"
    made.append(Condition(bounds, [(place, low), (place, high)], True))
    return made
