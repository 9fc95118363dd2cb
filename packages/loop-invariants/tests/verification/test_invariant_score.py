"""What a text is worth as an invariant, and how likely a model writes a good one."""

import string
from fractions import Fraction
from pathlib import Path

import pytest

from llmchecker.errors import ConfigError
from llmchecker.models.table_model import TableModel
from llmchecker.properties.registry import create_quantifier, find_quantifier_files
from llmchecker.trees.text_tree import Truncation
from loop_invariants.experiments.provable_probability import iter_provable_probabilities
from loop_invariants.experiments.provable_quantifier import Provable
from loop_invariants.experiments.provable_records import (
    read_provable_probabilities,
    write_provable_probabilities,
)
from loop_invariants.ir.expressions import Semantics
from loop_invariants.reporting.tables import build_provable_table

SOURCE = """\
int main(void) {
    int n = __VERIFIER_nondet_int();
    int x = 0;
    __VERIFIER_assume(n >= 0);
    while (x < n) { x = x + 1; }
    __VERIFIER_assert(x == n);
}
"""


@pytest.fixture
def program(tmp_path) -> Path:
    """A program whose assertion needs x <= n."""
    path = tmp_path / "count.c"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize(
    ("written", "worth"),
    [
        ("x <= n);", 2),
        ("x <= n) and whatever follows", 2),
        ("(x <= n) && (x >= 0))", 2),
        ("x <= n", 0),
        ("", 0),
        ("x >= 0)", 1),
        ("x == x)", 1),
        ("x == 0)", 0),
        ("x < n)", 0),
        ("1)", 0),
        ("y <= n)", 0),
        ("x = n)", 0),
        ("f(x))", 0),
        ("x <= n; }", 0),
    ],
)
def test_a_text_is_worth_what_it_proves(program, written, worth):
    """2 for an invariant that proves the assertion, 1 for another one, 0 for anything else."""
    assert create_quantifier("provable", {"program": str(program)})("whatever(", written) == worth


def test_nothing_is_a_proof_where_nothing_is_asserted(program):
    """Without an assertion a proven invariant is worth 1, as one that proves no assertion is."""
    program.write_text(SOURCE.replace("__VERIFIER_assert(x == n);", "x = n;"))
    score = create_quantifier("provable", {"program": str(program)})
    assert [score("whatever(", text) for text in ("x <= n)", "x < n)")] == [1, 0]


def test_the_scores_depend_on_the_headers_of_the_program(program):
    """A header that the program includes, or that its headers do, is a file of the quantifier."""
    program.write_text('#include "a.h"\n' + program.read_text())
    headers = [program.parent / "a.h", program.parent / "b.h"]
    headers[0].write_text('#include "b.h"\n')
    headers[1].write_text("\n")
    assert find_quantifier_files(Provable(program))[:-1] == [program, *headers]


def test_the_semantics_decide(program):
    """x + 1 > x is an invariant of mathematical integers only: the largest int has no successor."""
    program.write_text(SOURCE.replace("x < n", "x != n").replace("int x = 0", "int x"))
    worth = {
        semantics: create_quantifier("provable", {"program": str(program), "semantics": semantics})(
            "", text
        )
        for semantics, text in (("integers", "x + 1 > x)"), ("int32", "x + 1 > x)"))
    }
    assert worth == {"integers": 2, "int32": 0}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"program": "absent.c"}, "absent.c: the file cannot be read"),
        ({"loop": 1}, "no loop 1"),
        ({"semantics": "reals"}, "must be integers or int32"),
    ],
)
def test_a_wrong_setting_is_named(program, settings, message):
    """A program that is not there, a loop it has not, unknown semantics: told before any text."""
    with pytest.raises(ConfigError, match=message):
        create_quantifier("provable", {"program": str(program), **settings})


def test_the_probability_of_a_proof_is_exact(program, tmp_path):
    """Of a model that writes a proof with 3/8 and an invariant with 1/8, Storm says just that.

    The tree leaves out a quarter: whatever follows there may be a proof, or not.
    """
    half, quarter, eighth = 0.5, 0.25, 0.125
    tokens = ["x <= n)", "x >= 0)", "x < n)", "x == ", " y", "n)"]
    first = [quarter, eighth, quarter, eighth, quarter, 0.0]
    second = [0.0, 0.0, 0.0, 0.0, half, half]
    characters = [c for c in string.printable if c not in tokens]

    def distribution(written: tuple[int, ...]) -> list[float]:
        last = written[-1]
        row = second if last == len(characters) + 3 else first
        return [0.0] * len(characters) + row

    model = TableModel([*characters, *tokens], distribution)
    truncation = Truncation(alpha=0.75, k=4, length=1)
    made = list(iter_provable_probabilities(model, [program], [Semantics.INTEGERS], truncation))
    assert [(one.wanted, one.line) for one in made] == [("invariant", 5), ("proof", 5)]
    invariant, proof = made
    assert Fraction(proof.value) == Fraction(1, 4)
    # bounds are rounded outwards
    assert proof.lower <= proof.value == pytest.approx(proof.lower, abs=1e-12)
    assert proof.text == "x <= n"
    kept = {1: Fraction(1, 4), 2: Fraction(1, 4), 3: Fraction(1, 4)}
    assert proof.upper == pytest.approx(proof.value + float(1 - sum(kept.values())), abs=1e-12)
    assert Fraction(invariant.value) == Fraction(1, 4)
    write_provable_probabilities(made, tmp_path / "provable.json")
    assert read_provable_probabilities(tmp_path / "provable.json") == tuple(made)
    rows = build_provable_table({"Table": made})
    assert rows.loc[0, ["model", "proof_value", "invariant_text"]].tolist() == [
        "Table",
        0.25,
        "x <= n",
    ]


def test_what_cannot_be_treated_is_left_out(program, tmp_path, caplog):
    """A program that is not supported does not stop the others, and the log names it."""
    other = tmp_path / "percent.c"
    other.write_text("int main(void) { float p; while (1) { } }")
    model = TableModel(string.printable, lambda written: [1 / 100] * 100)
    with caplog.at_level("INFO"):
        made = list(
            iter_provable_probabilities(
                model, [other, program], list(Semantics), Truncation(0.1, 1, 1)
            )
        )
    assert {one.program for one in made} == {"count"}
    assert "percent is left out" in caplog.text
