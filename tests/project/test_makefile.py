"""The installation of `make`: one line for all warnings of pip, and its whole error."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = """#!/bin/sh
# as `python -m venv .venv`, with a pip that warns
mkdir -p .venv/bin
printf '#!/bin/sh\nfor i in $(seq 100); do echo "WARNING: number $i" >&2; done\n%s\n' \
    "$AT_THE_END" > .venv/bin/python
chmod +x .venv/bin/python
"""


@pytest.mark.parametrize("is_failing", [False, True])
def test_the_warnings_of_pip_are_one_line(tmp_path, is_failing):
    """A hundred warnings are counted on one line, and shown in full only with an error."""
    projects = [str(file.relative_to(ROOT)) for file in ROOT.glob("packages/*/pyproject.toml")]
    for name in ("Makefile", "pyproject.toml", "constraints.txt", *projects):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    end = "echo ERROR: no such package >&2; exit 1" if is_failing else "true"
    run = subprocess.run(
        ["make", "PYTHON=./python", f"AT_THE_END={end}", ".venv/installed"],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    said = run.stdout + run.stderr
    assert (run.returncode == 0) is not is_failing, said
    assert ("pip warned 100 times; .venv/pip.log has the warnings" in said) is not is_failing
    assert said.count("WARNING") == (100 if is_failing else 0)
    assert ("no such package" in said) is is_failing
