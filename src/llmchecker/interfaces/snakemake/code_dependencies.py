"""Code dependencies of a script: the modules of this package and of plug-ins that it imports.

Snakemake runs a rule again when its script has a new time, as after `git clone`, but not when a
package changes that the script imports. Therefore every rule has a digest of all that code as a
param, and the profiles leave out the times of scripts. This module finds the files and
computes the digest. It parses import statements instead of executing them, so that it also finds
imports in functions. Imports for type checkers only do not count.
"""

import ast
import hashlib
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from llmchecker.utils.plugins import find_plugin_packages

_PACKAGE = __package__.partition(".")[0]

_DATA_FILES = {
    "llmchecker/reporting/html_report.py": "llmchecker/reporting/templates/*",
    "llmchecker/suites/starter.py": "llmchecker/suites/action.yml",
}
"""Patterns of the data files of a module, which count as its code."""


def compute_code_digest(
    script: Path, also: Collection[str] = (), data_files: Iterable[Path] = ()
) -> str:
    """Compute the sha256 of a script and of the files that it depends on, with their names.

    The location of the files and their times do not change the digest.

    Args:
        script: a Python file.
        also: dotted names of modules that the script loads by a name in its data.
        data_files: other files that the script reads.
    """
    files = (script, *source_files_of(script, also), *data_files)
    digests = {_name_file(file): _compute_sha256(file) for file in files}
    return hashlib.sha256(repr(digests).encode()).hexdigest()


def source_files_of(script: Path, extra_modules: Collection[str] = ()) -> list[Path]:
    """List the files of the packages that a script depends on, sorted.

    Args:
        script: a Python file.
        extra_modules: dotted names of modules that the script loads by a name in its data.
    """
    files, queue = (
        set(),
        [*find_imported_files(script), *filter(None, map(_find_file, extra_modules))],
    )
    while queue:
        file = queue.pop()
        # Import cycles would repeat files without end.
        if file not in files:
            files.add(file)
            queue += find_imported_files(file)
    return sorted(files | {data for file in files for data in _find_data_files(file)})


@cache
def _compute_sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@cache
def find_imported_files(file: Path) -> frozenset[Path]:
    """Return the files of the packages that a file imports at run time."""
    tree = ast.parse(file.read_bytes())
    return frozenset(path for name in _find_imported_names(tree.body) if (path := _find_file(name)))


def _find_imported_names(statements: list[ast.stmt]) -> Iterator[str]:
    """Yield the dotted names that statements import.

    `from a import b` yields a.b, which is a module, or a name that the module a defines.
    """
    for statement in statements:
        match statement:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module, names):
                yield from (f"{module}.{alias.name}" for alias in names)
            # Blocks for type checkers do not run; their `else` does.
            case ast.If(ast.Name("TYPE_CHECKING"), _, else_body):
                yield from _find_imported_names(else_body)
            case ast.Match(_, cases):
                for case in cases:
                    yield from _find_imported_names(case.body)
            case ast.Try(body, handlers, else_body, finalbody):
                handler_bodies = (handler.body for handler in handlers)
                for block in (body, *handler_bodies, else_body, finalbody):
                    yield from _find_imported_names(block)
            # Any other statement may contain blocks with imports, such as a function.
            case _:
                for name in ("body", "orelse"):
                    yield from _find_imported_names(getattr(statement, name, []))


@cache
def _find_file(name: str) -> Path | None:
    """Return the file of a module or of a name; None outside of the packages."""
    steps = name.split(".")
    root = _find_root(steps[0])
    if root is None:
        return None
    # Last, a name without a module of its own is defined in its parent module.
    for module in (root.joinpath(*steps), root.joinpath(*steps[:-1])):
        for file in (module.with_suffix(".py"), module / "__init__.py"):
            if file.is_file():
                return file
    return None


def _find_data_files(file: Path) -> Iterator[Path]:
    pattern = _DATA_FILES.get(_name_file(file))
    root = _find_root(_PACKAGE)
    if pattern is not None and root is not None:
        yield from root.glob(pattern)


# each rule names the same hundreds of files
@cache
def _name_file(file: Path) -> str:
    """Return the path of a file of a package, from the package on."""
    for package in _list_packages():
        root = _find_root(package)
        if root is not None and file.is_relative_to(root / package):
            return file.relative_to(root).as_posix()
    # a plug-in that is a single module, or a script
    return file.name


@cache
def _list_packages() -> tuple[str, ...]:
    """List this package and the packages of plug-ins."""
    return (_PACKAGE, *sorted(find_plugin_packages() - {_PACKAGE}))


@cache
def _find_root(package: str) -> Path | None:
    """Return the folder that contains a package whose code counts; None for other packages."""
    spec = find_spec(package) if package in _list_packages() else None
    # A plug-in may be registered without its code.
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin)
    # A package is a folder with `__init__.py`, or a single module.
    return file.parents[1] if spec.submodule_search_locations else file.parent
