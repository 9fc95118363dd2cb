"""The list of faults in docs/explanation/trust.md counts what the tests try."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^- `(?P<test>tests/[^`]+)` \((?P<cases>[\d,]+)\)$",
    (ROOT / "docs/explanation/trust.md").read_text(encoding="utf-8").partition("\n## Faults\n")[2],
    flags=re.MULTILINE,
)


@pytest.fixture(scope="module")
def collected() -> list[str]:
    """The cases of all tests that the list names, as pytest collects them."""
    files = sorted({test.partition("::")[0] for test, _ in ROWS})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    listed = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True)
    assert listed.returncode == 0, listed.stdout
    return listed.stdout.splitlines()


def cases_of(test: str, collected: list[str]) -> int:
    """How many faults a test tries, or all tests of a file."""
    file, _, name = test.partition("::")
    found = [case for case in collected if re.split(r"\[", case)[0].startswith(test)]
    if not name or file.rpartition("/")[0] != "tests/faults":
        return len(found)
    totals = runpy.run_path(str(ROOT / file)).get("CASES", {})
    return totals.get(name, len(found))


@pytest.mark.long
@pytest.mark.parametrize(("test", "cases"), ROWS, ids=[test for test, _ in ROWS])
def test_the_list_counts_what_is_tried(test, cases, collected):
    """An entry of the list has the number of cases that its test has."""
    assert int(cases.replace(",", "")) == cases_of(test, collected) > 0


def test_every_fault_is_listed():
    """No test of the suite is missing in the list, which has all kinds of faults."""
    tests = {
        f"tests/faults/{file.name}::{name}"
        for file in (ROOT / "tests/faults").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert tests == {test for test, _ in ROWS if test.startswith("tests/faults/")}
