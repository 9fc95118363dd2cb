"""The benchmark on programs counts verdicts and records one row for each set of programs."""

import pandas as pd
import pytest
import verifying

FOUND = {
    "programs": [
        {"outcome": "verified", "verdict": "true"},
        {"outcome": "verified", "verdict": "true"},
        {"outcome": "false", "verdict": "false"},
        {"outcome": "unsupported", "verdict": "unknown"},
        {"outcome": "prover timeout", "verdict": "unknown"},
        {"outcome": "no assertion", "verdict": "unknown"},
    ]
}


def test_each_program_has_one_verdict():
    """The counts of the four verdicts add up to the number of programs."""
    counts = verifying.count_verdicts(FOUND)
    assert counts == {"programs": 6, "verified": 2, "false": 1, "unsupported": 1, "unknown": 2}


def test_a_row_of_the_same_run_is_replaced(tmp_path):
    """A second run of a set replaces its row, and other rows stay in order."""
    path = tmp_path / "measured/programs.csv"
    counts = dict.fromkeys(verifying.COUNTS, 1)
    runs = [("b", 20.0, "0123"), ("a", 20.0, "0123"), ("b", 0.5, "0123"), ("b", 20.0, "4567+")]
    for name, seconds, commit in runs:
        row = {"set": name, "semantics": "int32", "seconds": seconds, "commit": commit}
        verifying.write_row(row | counts, path)
    rows = pd.read_csv(path, dtype=str)
    assert list(rows.columns) == verifying.COLUMNS
    found = rows[["set", "seconds", "commit"]].itertuples(index=False, name=None)
    assert list(found) == [("a", "20", "0123"), ("b", "0.5", "0123"), ("b", "20", "4567+")]


@pytest.mark.long
def test_a_small_directory_is_verified(tmp_path):
    """A true and a false program have the verdicts of `llmchecker verify`."""
    head = "void __VERIFIER_assert(int c) { if (!c) { reach_error(); } }\n"
    for name, bound in (("true", 10), ("false", 9)):
        text = f"int i = 0; while (i < 10) i = i + 1; __VERIFIER_assert(i <= {bound});"
        (tmp_path / f"{name}.c").write_text(
            f"void reach_error(void);\n{head}int main(void) {{ {text} }}\n", encoding="utf-8"
        )
    found = verifying.verify(tmp_path, verifying.Semantics.INT32, 20)
    verdicts = {program["program"]: program["verdict"] for program in found["programs"]}
    assert verdicts == {"true": "true", "false": "false"}
