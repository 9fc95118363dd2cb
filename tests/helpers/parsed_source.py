"""The syntax trees of the packages' modules, parsed once for the tests of a process."""

import ast
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


@cache
def parse_modules() -> dict[Path, ast.Module]:
    """The modules of the packages in alphabetical order, by their paths."""
    return {
        path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))
    }
