"""The syntax trees of the packages' modules, parsed once for the tests of a process."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [ROOT / "src", *sorted(ROOT.glob("packages/*/src"))]
"""The folders of the packages."""


@cache
def parse_modules() -> dict[Path, ast.Module]:
    """The modules of the packages in alphabetical order, by their paths."""
    files = [path for source in SOURCES for path in sorted(source.rglob("*.py"))]
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}


def is_of_a_package(path: Path) -> bool:
    """Whether a file is in one of the packages."""
    return any(path.is_relative_to(source) for source in SOURCES)


def name_file(path: Path) -> str:
    """The path of a file of a package, from the package on."""
    return next(str(path.relative_to(each)) for each in SOURCES if path.is_relative_to(each))


def find_file(name: str) -> Path:
    """The file of a package by its path from the package on."""
    return next(path for source in SOURCES if (path := source / name).exists())
