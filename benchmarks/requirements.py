"""Measure the packages that the distributions of this repository require: size and import.

    .venv/bin/python benchmarks/requirements.py

The command writes resources/measured/requirements.csv, from which docs/measured_pages.py writes
the page. The seconds are those of the processor, of the fastest of three imports.
"""

import ast
import csv
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from llmchecker.utils.atomic_files import atomic_write

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "resources/measured/requirements.csv"
DISTRIBUTIONS = ("llmchecker", "llmchecker-promptfoo", "loop-invariants")
COLUMNS = ("package", "extra", "used by", "megabytes", "seconds")
NOT_FOR_USERS = ("all", "docs", "test")
MAX_USERS = 3
RUNS = 3


def main() -> None:
    """Measure all packages and write the record."""
    rows = []
    for package, extra in list_requirements():
        modules = find_modules(package)
        users = find_users(package, modules)
        row = (package, extra, ", ".join(users) if len(users) <= MAX_USERS else "most folders")
        try:
            size, seconds = measure_megabytes(package), measure_import(modules)
        # such as a package of another platform
        except PackageNotFoundError:
            continue
        rows.append((*row, f"{size:.1f}", f"{seconds:.2f}"))
        print(*rows[-1], sep="\t", flush=True)
    with atomic_write(RECORD) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *sorted(rows)])


def list_requirements() -> list[tuple[str, str]]:
    """List the packages that users install, with the extras of llmchecker that install them."""
    found: dict[str, set[str]] = {}
    own_extras = {"loop-invariants": "programs", "llmchecker-promptfoo": "promptfoo"}
    for name in DISTRIBUTIONS:
        for line in requires(name) or ():
            requirement = Requirement(line)
            match = re.search(r'extra == "([^"]+)"', str(requirement.marker or ""))
            extra = match[1] if match else own_extras.get(name, "")
            package = canonicalize_name(requirement.name)
            if package not in DISTRIBUTIONS and extra not in NOT_FOR_USERS:
                found.setdefault(package, set()).add(extra)
    # what is always installed needs no extra
    extras = {name: "" if "" in each else ", ".join(sorted(each)) for name, each in found.items()}
    return sorted(extras.items())


def find_modules(package: str) -> list[str]:
    """List the top-level modules of an installed package, without private ones."""
    return [module for module, names in _list_modules() if package in names and module[0] != "_"]


def find_users(package: str, modules: list[str]) -> list[str]:
    """List the folders of this repository that import a package, or else its other users."""
    folders = {
        "/".join(file.relative_to(source).parts[:-1][:2])
        for source in (ROOT / "src", *ROOT.glob("packages/*/src"))
        for file in source.rglob("*.py")
        if not _find_imports(file).isdisjoint(modules)
    }
    return sorted(folders) or [
        name for name, _ in list_requirements() if package in _list_names(name)
    ]


def measure_megabytes(package: str) -> float:
    """Return the size of a package's installed files, without those of its requirements.

    Raises:
        PackageNotFoundError: the package is not installed.
    """
    paths = [Path(str(file.locate())) for file in distribution(package).files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def measure_import(modules: list[str]) -> float:
    """Return the processor seconds of an import, beyond those of a Python that imports nothing."""
    imported = [module for module in modules if module.isidentifier()]
    return max(0.0, _measure_run("; ".join(f"import {name}" for name in imported)) - _measure_run())


def _measure_run(code: str = "") -> float:
    seconds = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds)


@cache
def _list_modules() -> list[tuple[str, set[str]]]:
    """List the top-level modules of all installed packages, with the names of the packages."""
    entries = sorted(packages_distributions().items())
    return [(name, set(map(canonicalize_name, names))) for name, names in entries]


@cache
def _find_imports(file: Path) -> frozenset[str]:
    """Return the top-level modules that a file imports, also by `import_module`."""
    return frozenset(name.partition(".")[0] for name in _iter_imports(ast.parse(file.read_bytes())))


def _iter_imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(str(module)):
                yield module
            case ast.Call(ast.Name("import_module") | ast.Attribute(attr="import_module")):
                yield from (each.value for each in node.args if isinstance(each, ast.Constant))


def _list_names(package: str) -> set[str]:
    """List the packages that an installed package requires, its extras included."""
    try:
        lines = requires(package) or ()
    except PackageNotFoundError:
        return set()
    return {canonicalize_name(Requirement(line).name) for line in lines}


if __name__ == "__main__":
    main()
