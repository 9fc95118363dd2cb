"""The code behind a result: the modules that a script of the workflow imports, and all they import.

Snakemake makes a result again when the script that made it has changed. It does not see that the
package behind the script has changed, so every rule has those files as an input, and this module
finds them. It reads imports and runs none, so that imports inside of functions count too. What is
imported for type checkers alone does not count, and neither does what unpickles parameters.

A module that a script imports without depending on it is an exception, named here with its reason.
"""

import ast
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]

ALWAYS = {
    "errors.py": "says why there is no result",
    "logs.py": "says how a job is getting on",
}
"""Modules on which no result depends."""

OF_NO_DISTRIBUTION = {
    "fetching/": "what was fetched is an input, known by its checksums",
    "files.py": "how a file is written; what is in a tree is decided elsewhere",
    "models/checks.py": "refuses models; what one answers is computed elsewhere",
    "models/protocols.py": "says what a model offers, and computes nothing",
    "trees/fingerprints.py": "recognises what is kept; it compares what the other modules are",
    "trees/making.py": "tells how a tree was made",
    "trees/parquet.py": "how tables of numbers are written and read",
    "trees/text_tree.py": "holds and checks a tree; others decide what is in it",
}
"""Modules that do not change what a model answers, for which nobody wants to ask it again."""

EXCEPTIONS: Mapping[str, Mapping[str, str]] = {
    "trees": OF_NO_DISTRIBUTION | {"trees/topk.py": "asks on behalf of another rule"},
    "shard": OF_NO_DISTRIBUTION,
    "topk": OF_NO_DISTRIBUTION
    | {
        "trees/expansion.py": "grows trees, which the statistics do not need",
        "trees/shards.py": "divides trees, which the statistics do not need",
    },
}
"""For a script the modules and folders that its result does not depend on, each with its reason."""

FETCHING = "what was fetched is kept until its source changes"

WITHOUT_CODE = {
    "fetch_model": FETCHING,
    "fetch_programs": FETCHING,
    "fetch_prompts": FETCHING,
    "lock": "a lock is kept until somebody deletes it, whatever made it",
}
"""Scripts whose result is kept whatever code changes, each with the reason."""

DATA = {
    "config/validation.py": "config/config.schema.yaml",
    "publication/report.py": "publication/templates/*",
}
"""Files of the package, as patterns, that the code of a module reads."""


def code_behind(script: Path, without: Collection[str] = ()) -> list[Path]:
    """The files of the package whose change must make the result of a script again, sorted.

    Args:
        script: a file of Python.
        without: modules that are not followed, as paths below the package, beside the exceptions
            for all scripts and for the script of that name.
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
    """The files of the package that a file imports anywhere but for type checkers."""
    tree = ast.parse(file.read_bytes())
    return frozenset(path for name in _imported_names(tree.body) if (path := _file_of(name)))


def _imported_names(statements: list[ast.stmt]) -> Iterator[str]:
    """Dotted names of what statements import; in `from a import b` a module may be a.b or a."""
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
    """The file of a module of the package, or of the module that defines what the name means."""
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
