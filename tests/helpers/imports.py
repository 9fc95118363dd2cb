"""Imports of the workflow's scripts as Python's own module finder sees them, in their bytecode."""

import io
import re
from collections.abc import Collection
from functools import cache
from modulefinder import ModuleFinder
from pathlib import Path
from types import CodeType

from helpers.parsed_source import ROOT, SOURCES, find_file, is_of_a_package, name_file

SCRIPTS = {script.stem: script for script in sorted((ROOT / "workflow/scripts").glob("*.py"))}


class Imports(ModuleFinder):
    """Modules that a script imports, as its bytecode says; only those of the packages count."""

    def __init__(self, without: Collection[str]) -> None:
        super().__init__(path=list(map(str, SOURCES)), excludes=sorted(without))

    def load_module(self, fqname, fp, pathname, file_info):
        """Compile without what is for type checkers: the compiler drops what cannot be reached."""
        if fp is not None:
            source = fp.read().decode() if isinstance(fp, io.BufferedIOBase) else fp.read()
            source = source.replace("if TYPE_CHECKING:", "if False:")
            fp = io.BytesIO(source.encode())
        return super().load_module(fqname, fp, pathname, file_info)

    def scan_opcodes(self, co):
        """Scan each code once, as many scripts import the same modules."""
        return _scan_opcodes(co)


@cache
def _scan_opcodes(code: CodeType) -> list[tuple]:
    return list(ModuleFinder().scan_opcodes(code))


def module_names(paths: Collection[str]) -> set[str]:
    """The dotted names of modules, and of all modules in folders, given as in the exceptions."""
    names = set()
    for path in paths:
        files = find_file(path).glob("*.py") if path.endswith("/") else [find_file(path)]
        names |= {".".join(Path(name_file(file)).with_suffix("").parts) for file in files}
    return names


def imported_by(script: Path, without: Collection[str] = ()) -> set[str]:
    """The modules behind a script, as paths from their packages on."""
    return set(_walk_imports(script, frozenset(without)))


# one walk compiles a hundred modules, and several tests need the same walk
@cache
def _walk_imports(script: Path, without: frozenset[str]) -> frozenset[str]:
    finder = Imports(module_names(without))
    finder.run_script(str(script))
    files = {Path(module.__file__) for module in finder.modules.values() if module.__file__}
    found = set(map(name_file, filter(is_of_a_package, files)))
    return frozenset(name for name in found if not name.endswith("__init__.py"))


@cache
def scripts_of_rules() -> dict[str, str]:
    """For every rule, or what the names of rules made in a loop begin with, its script."""
    found, inherited = {}, {}
    for file in sorted((ROOT / "workflow/rules").glob("*.smk")):
        text = file.read_text(encoding="utf-8")
        inherited |= {new: old for old, new in re.findall(r"^use rule (\w+) as (\w+)", text, re.M)}
        blocks = re.split(r"^ *rule ?(?=\w*:$)", text, flags=re.M)
        for block in blocks[1:]:
            name = re.match(r"\w+", block) or re.search(r'f"(\w+)_\{', block)
            found[name[name.re.groups]] = re.search(r"scripts/(\w+)\.py", block)[1]
    return found | {new: found[old] for new, old in inherited.items()}


def script_of(rule: str) -> str:
    """The script of a rule by the rule's full name."""
    scripts = scripts_of_rules()
    return scripts[max((name for name in scripts if rule.startswith(name)), key=len)]
