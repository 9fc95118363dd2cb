"""The benchmark that switches parts of loop_invariants off."""

from pathlib import Path

import ablation
import pandas as pd
import pytest
from helpers.compiled import needs_gcc

from loop_invariants.ir.expressions import Semantics
from loop_invariants.verification.portfolio import FileTask
from loop_invariants.verification.result import Outcome

TASK = FileTask(Semantics.INT32, seconds=60)
LATE = """int main(void) { int i = 0; while (i < 100000000) i++; assert(i < 100000000); }"""


@pytest.mark.parametrize("part", ablation.PARTS, ids=lambda part: part.name)
def test_each_part_is_a_function_of_the_package(part):
    """The function is found by its name, and another takes its place."""
    with part.replaced(part.without):
        pass


@pytest.mark.long
@needs_gcc
def test_a_violation_belongs_to_the_part_that_finds_it(tmp_path: Path):
    """A run of 100,000,000 iterations is a compiled one."""
    file = tmp_path / "late.c"
    file.write_text(LATE)
    outcome, parts = ablation.verify(file, TASK)
    assert outcome is Outcome.FALSE
    assert ("violation", "compiled runs") in parts
    assert ("source", "atoms") not in parts


def test_rows_replace_those_of_the_same_set_and_semantics(tmp_path: Path):
    """A second measurement of a set leaves the rows of other sets."""
    path = tmp_path / "ablation.csv"
    row = dict.fromkeys(ablation.COLUMNS, "") | {"semantics": "int32", "verdicts": 1, "lost": None}
    ablation.write_rows([row | {"set": "a", "part": "x"}, row | {"set": "b", "part": "x"}], path)
    ablation.write_rows([row | {"set": "a", "part": "y", "lost": 1}], path)
    rows = pd.read_csv(path)
    assert list(rows["set"]) == ["b", "a"]
    assert list(rows["part"]) == ["x", "y"]
