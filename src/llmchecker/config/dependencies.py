"""The code behind a result: the modules that a script imports, directly or through other modules.

Snakemake makes a result again when the script of its rule has changed, but it does not look at the
package that the script imports. So every rule names the files of that code as an input. This module
finds them. It parses the import statements instead of importing anything, so that it also sees
imports inside of functions. Imports for type checkers alone do not count. Neither do the modules
that Python imports to unpickle a rule's parameters.

A script may import a module that its result does not depend on. Such exceptions are listed here,
each with its reason.
"""

import ast
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]

ALWAYS = {
    "errors.py": "says why there is no result",
    "logs.py": "says how a job is getting on",
    "processes.py": "says when a process ends",
}
"""No result depends on these modules."""

OF_NO_DISTRIBUTION = {
    "fetching/": "what was fetched is an input, known by its checksums",
    "files.py": "how a file is written; what is in a tree is decided elsewhere",
    "loading/checks.py": "refuses models; what one answers is computed elsewhere",
    "models/protocols.py": "says what a model offers, and computes nothing",
    "trees/fingerprints.py": "recognises what is kept; it compares what the other modules are",
    "trees/making.py": "tells how a tree was made",
    "trees/parquet.py": "how tables of numbers are written and read",
    "trees/text_tree.py": "holds and checks a tree; others decide what is in it",
}
"""These modules do not change what a model answers, so that a change must not ask it again."""

EXCEPTIONS: Mapping[str, Mapping[str, str]] = {
    "trees": OF_NO_DISTRIBUTION | {"trees/topk.py": "asks on behalf of another rule"},
    "shard": OF_NO_DISTRIBUTION,
    "refined": OF_NO_DISTRIBUTION,
    "topk": OF_NO_DISTRIBUTION
    | {
        "trees/expansion.py": "grows trees, which the statistics do not need",
        "trees/shards.py": "divides trees, which the statistics do not need",
    },
}
"""The modules and folders that the result of a script does not depend on, each with its reason."""

FETCHING = "what was fetched is kept until its source changes"

WITHOUT_CODE = {
    "fetch_model": FETCHING,
    "fetch_programs": FETCHING,
    "fetch_prompts": FETCHING,
    "lock": "a lock is kept until somebody deletes it, whatever made it",
}
"""Scripts whose results are kept whatever code changes, each with its reason."""

DATA = {
    "config/validation.py": "config/config.schema.yaml",
    "publication/report.py": "publication/templates/*",
}
"""Patterns of the data files that a module reads. They count as its code."""


def code_behind(script: Path, without: Collection[str] = ()) -> list[Path]:
    """The files of the package that, when they change, make the result of a script again; sorted.

    Args:
        script: a Python file.
        without: further modules that the result does not depend on, as paths below the package. The
            exceptions for all scripts and for a script of this name hold in any case.
    """
    exceptions = {*ALWAYS, *EXCEPTIONS.get(script.stem, ()), *without}
    found, waiting = set(), list(imported_files(script))
    while waiting:
        file = waiting.pop()
        if file not in found and not _is_excepted(file, exceptions):
            found.add(file)
            waiting += imported_files(file)
    return sorted(found | {data for file in found for data in _data_of(file)})


@cache
def imported_files(file: Path) -> frozenset[Path]:
    """The files of the package that a file imports, but for imports for type checkers alone."""
    tree = ast.parse(file.read_bytes())
    return frozenset(path for name in _imported_names(tree.body) if (path := _file_of(name)))


def _imported_names(statements: list[ast.stmt]) -> Iterator[str]:
    """Dotted names of what statements import.

    `from a import b` gives a.b, which may be a module or a name that the module a defines.
    """
    for statement in statements:
        match statement:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module, names):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.If(ast.Name("TYPE_CHECKING"), _, otherwise):
                yield from _imported_names(otherwise)
            case ast.Match(_, cases):
                for case in cases:
                    yield from _imported_names(case.body)
            case ast.Try(body, handlers, otherwise, finalbody):
                nested = (handler.body for handler in handlers)
                for block in (body, *nested, otherwise, finalbody):
                    yield from _imported_names(block)
            case _:
                for block in ("body", "orelse"):
                    yield from _imported_names(getattr(statement, block, []))


@cache
def _file_of(name: str) -> Path | None:
    """The file of a module, or of the module that defines a name; None outside of the package."""
    package, *steps = name.split(".")
    if package != PACKAGE.name:
        return None
    for module in (PACKAGE.joinpath(*steps), PACKAGE.joinpath(*steps[:-1])):
        for file in (module.with_suffix(".py"), module / "__init__.py"):
            if file.is_file():
                return file
    return None


def _is_excepted(file: Path, exceptions: Collection[str]) -> bool:
    path = file.relative_to(PACKAGE).as_posix()
    return path in exceptions or path.partition("/")[0] + "/" in exceptions


def _data_of(file: Path) -> Iterator[Path]:
    pattern = DATA.get(file.relative_to(PACKAGE).as_posix())
    if pattern is not None:
        yield from PACKAGE.glob(pattern)
