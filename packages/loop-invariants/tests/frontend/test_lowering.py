"""Programs as people write them mean what gcc makes of them, run by run."""

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from helpers.compiled import GCC, needs_gcc
from helpers.given_inputs import BORDERS, GIVEN_INPUTS
from helpers.written_c import DECLARED, WrittenProgram

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.interpreter.machine import Machine
from loop_invariants.ir.expressions import Semantics, Type, wrap
from loop_invariants.ir.statements import Program
from loop_invariants.verification.esbmc_annotation import format_program

RUNS = 6


def inputs(seed: int) -> list[int]:
    """Values to draw, often near the borders of types."""
    source = random.Random(f"inputs {seed}")
    return [source.choice(BORDERS) for _ in range(5)]


def ours(program: Program, observed: Sequence[str], drawn: Sequence[int]) -> str:
    """How a run of our own ends."""
    machine = Machine(program, Semantics.INT32, max_iterations=10**6)
    left = iter(drawn)

    def value(type_: Type, name: str) -> int:
        if name:
            return 0  # a result that is not there yet
        drawn = next(left, 7)
        return drawn & 1 if type_.bits == 1 else wrap(drawn, type_)

    machine.draw, machine.on_head = value, lambda loop, iteration, state: None
    state = {name: {} if type_.is_array else 0 for name, type_ in program.types.items()}
    if machine.run(state) is not None:
        return "failed"
    return " ".join(str(wrap(state[name], Type(64))) for name in observed)


def compiled(programs: Sequence[WrittenProgram], option: str, folder: Path) -> list[str]:
    """How the runs of compiled programs end, in the order of the programs and their inputs."""
    texts, calls = [], []
    for number, program in enumerate(programs):
        texts.append(program.compiled_text.replace("int main(void)", f"int main_{number}(void)"))
        shown = "; ".join(f'printf("%lld ", (long long){name})' for name in program.observed)
        for run in range(RUNS):
            values = ", ".join(f"{value}L" for value in inputs(run))
            calls.append(
                f"if (!fork()) {{ static const long given[] = {{{values}}}; "
                f"input = given; left = {len(inputs(run))}; "
                f'main_{number}(); {shown}; end(""); }} wait(0);'
            )
    source = f'#define ASSERTED "failed"\n{GIVEN_INPUTS}' + "\n".join(texts)
    source += "\nint main(void) { setvbuf(stdout, 0, _IOLBF, 1 << 16);\n"
    source += "\n".join(calls) + "\n}\n"
    (folder / "all.c").write_text(source)
    command = [GCC, "-w", option, "-fwrapv", "all.c", "-o", "all"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    done = subprocess.run(["./all"], cwd=folder, capture_output=True, text=True, check=False)
    return [line.strip() for line in done.stdout.splitlines()]


def compared(first: int, count: int, folder: Path, options: Sequence[str]) -> int:
    """Compare so many programs with gcc; the number that the front end covers."""
    covered: list[tuple[WrittenProgram, Program]] = []
    for seed in range(first, first + count):
        made = WrittenProgram(seed)
        try:
            covered.append((made, parse_program(made.text, "case")))
        except UnsupportedProgram:
            continue
    told = [compiled([made for made, _ in covered], option, folder) for option in options]
    assert {len(of_option) for of_option in told} == {RUNS * len(covered)}
    for place, (made, program) in enumerate(covered):
        for run in range(RUNS):
            result = ours(program, made.observed, inputs(run))
            for expected in {of_option[place * RUNS + run] for of_option in told}:
                if expected == "stopped":
                    # Our run ends there too, and leaves the state as it is.
                    assert result != "failed", made.text
                else:
                    assert result == expected, f"{made.text}\n{inputs(run)}"
    return len(covered)


@pytest.mark.long
@needs_gcc
@pytest.mark.parametrize("block", range(2))
def test_written_programs_run_as_gcc_runs_them(block: int, tmp_path: Path) -> None:
    """Runs of random programs with every construct end as those of the compiled programs do."""
    assert compared(100 * block, 100, tmp_path, ["-O0", "-O2"]) > 30


@pytest.mark.long
@needs_gcc
def test_what_is_written_for_esbmc_is_c(tmp_path: Path) -> None:
    """gcc accepts the C text of every program that is lowered."""
    texts = []
    for seed in range(60):
        try:
            program = parse_program(WrittenProgram(seed).text, "case")
        except UnsupportedProgram:
            continue
        texts.append(
            format_program(program, {}).replace("int main(void)", f"int main_{seed}(void)")
        )
    helpers = "void __ESBMC_assume(int);\nvoid __ESBMC_assert(int, const char *);\n"
    (tmp_path / "all.c").write_text(helpers + DECLARED + "\n".join(texts))
    done = subprocess.run(
        [GCC, "-w", "-fsyntax-only", "all.c"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
