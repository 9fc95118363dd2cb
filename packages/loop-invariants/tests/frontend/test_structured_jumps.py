"""Jumps out of blocks and back to the beginning of loops, compared with gcc."""

import random
from pathlib import Path

import pytest
from test_lowering import RUNS, compiled, inputs, needs_gcc, ours

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.translation_unit import parse_program


class JumpingProgram:
    """A random program of labels and jumps, also into loops and branches; it ends by itself."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"jumping {seed}")
        self._suffix = f"_{seed}"
        self._labels = [f"L{n}{self._suffix}" for n in range(self._random.randint(2, 6))]
        self._open = list(self._labels)
        self._random.shuffle(self._open)
        self.observed = tuple(f"{name}{self._suffix}" for name in "xyz")
        names = ", ".join(self.observed)
        fuel = f"fuel{self._suffix}"
        body = "\n".join(self._statement(2) for _ in range(8))
        rest = "".join(f"{label}: {self._change()}\n" for label in self._open)
        first = " ".join(f"{name} = __VERIFIER_nondet_int();" for name in self.observed)
        self.text = (
            f"extern int __VERIFIER_nondet_int(void);\nint {names};\nint {fuel} = 30;\n"
            f"int main(void)\n{{ {first}\n{body}\n{rest}; }}\n"
        )
        self.compiled_text = self.text

    def _change(self) -> str:
        a, b = self._random.choices(self.observed, k=2)
        return f"{a} = {a} * 3 + {b} + {self._random.randint(-9, 9)};"

    def _test(self) -> str:
        return f"({self._random.choice(self.observed)} & {self._random.choice((1, 2, 3))})"

    def _statement(self, depth: int) -> str:
        kind = self._random.random()
        fuel = f"fuel{self._suffix}"
        if kind < 0.25:
            return self._change()
        if kind < 0.55:
            label = self._random.choice(self._labels)
            return f"if ({self._test()} && {fuel}-- > 0) goto {label};"
        if kind < 0.75 and self._open:
            return f"{self._open.pop()}: {self._change()}"
        if depth == 0:
            return self._change()
        parts = " ".join(self._statement(depth - 1) for _ in range(self._random.randint(1, 3)))
        forms = (
            f"if ({self._test()}) {{ {parts} }}",
            f"if ({self._test()}) {{ {self._change()} }} else {{ {parts} }}",
            f"while ({self._test()} && {fuel}-- > 0) {{ {parts} }}",
            f"do {{ {parts} }} while ({self._test()} && {fuel}-- > 0);",
            f"for ({self._change()[:-1]}; {fuel}-- > 0; {self._change()[:-1]}) {{ {parts} }}",
            f"{{ {parts} }}",
        )
        return self._random.choice(forms)


@pytest.mark.long
@needs_gcc
def test_jumps_lead_where_those_of_gcc_lead(tmp_path: Path) -> None:
    """Runs of random programs full of jumps end in the states in which gcc's end."""
    covered, count = [], 200
    for seed in range(count):
        made = JumpingProgram(seed)
        try:
            covered.append((made, parse_program(made.text, "case")))
        except UnsupportedProgram:
            continue
    told = compiled([made for made, _ in covered], "-O1", tmp_path)
    assert len(told) == RUNS * len(covered) > RUNS * 20
    for place, (made, program) in enumerate(covered):
        for run in range(RUNS):
            result = ours(program, made.observed, inputs(run))
            assert result == told[place * RUNS + run], f"{made.text}\n{inputs(run)}"
