"""How modules name what they define: public where another file uses it, one verb for one act."""

import ast
import re
from functools import cache

import pytest
from helpers.parsed_source import ROOT, find_file, name_file, parse_modules

FOLDERS = "tests packages/*/tests workflow benchmarks docs examples release".split()
HOOK = re.compile(r"pytest_|add_[a-z_]+_command$")
"""Functions that pytest and `cli/commands.py` find by their name."""
OTHER_VERBS = ("demand", "require", "refuse", "ensure_no")
"""Verbs for what `check` names: to raise an error where a value is not as it must be."""
OTHER_LIMITS = ("MOST", "LARGEST", "DEEPEST", "LONGEST", "FEWEST", "SMALLEST", "ENOUGH", "AT_MOST")
"""Words for what `MAX` and `MIN` name."""


def defined_names(module: ast.Module) -> list[str]:
    """The public functions and values of a module.

    Classes are exempt: a signature of a public function names them, so its reader needs the name.
    """
    names = []
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in names if not name.startswith("_") and not HOOK.match(name)]


@cache
def used_names(module: ast.Module) -> set[tuple[str, str]]:
    """The names that a module takes from others, as (last part of the other's name, name)."""
    used, attributes, modules = set(), set(), {}
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                used.add((str(node.module).rpartition(".")[2], alias.name))
                modules[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            attributes.add((node.value.id, node.attr))
    return used | {(modules[name], attribute) for name, attribute in attributes if name in modules}


def words_of_other_files() -> list[set[str]]:
    """The words of each file that is no module of the packages but may use one.

    `__init__.pyi` is one of them: the package imports its names when they are first used.
    """
    files = [
        ROOT / "workflow/Snakefile",
        ROOT / "pyproject.toml",
        *ROOT.glob("packages/*/pyproject.toml"),
    ]
    files.append(find_file("llmchecker/__init__.pyi"))
    for folder in FOLDERS:
        files += [path for path in ROOT.glob(f"{folder}/**/*") if path.suffix in (".py", ".smk")]
    return [set(re.findall(r"\w+", path.read_text(encoding="utf-8"))) for path in files]


@pytest.mark.long
def test_a_name_that_no_other_file_uses_is_private():
    """Every public function and value of a module has a user in another file of the project."""
    modules = parse_modules()
    used = set().union(*map(used_names, modules.values()))
    others = words_of_other_files()
    unused = [
        f"{name_file(path)}: {name}"
        for path, module in modules.items()
        for name in defined_names(module)
        if (path.stem, name) not in used
        and not any(path.stem in words and name in words for words in others)
    ]
    assert unused == []


def test_a_private_name_has_no_user_in_another_module():
    """No module of the packages imports a private name of another module."""
    used = set().union(*map(used_names, parse_modules().values()))
    names = {name for _, name in used}
    assert [name for name in names if name.startswith("_") and not name.startswith("__")] == []


def test_uses_by_import_and_by_attribute_are_found():
    """Both ways to use a name of another module count as uses."""
    text = "from package.first import name\nfrom package import second\nsecond.other(self.third)"
    found = used_names(ast.parse(text))
    assert found == {("first", "name"), ("package", "second"), ("second", "other")}


def functions() -> list[str]:
    """The names of all functions and methods of the packages, without dunder methods."""
    nodes = (node for module in parse_modules().values() for node in ast.walk(module))
    names = [node.name for node in nodes if isinstance(node, ast.FunctionDef)]
    return [name for name in names if not name.startswith("__")]


def constants() -> list[str]:
    """The names of all constants of the packages' modules."""
    assignments = (node for module in parse_modules().values() for node in module.body)
    targets = (
        target
        for node in assignments
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    )
    return [target.id for target in targets if isinstance(target, ast.Name)]


def test_a_function_that_raises_where_a_value_is_wrong_is_named_check():
    """No second verb stands for the act that `check` names."""
    others = [name for name in functions() if name.strip("_").split("_")[0] in OTHER_VERBS]
    assert others == []


def test_limits_are_named_max_and_min():
    """No constant uses another word for an upper or lower limit."""
    limits = [name for name in constants() if name.strip("_").startswith(OTHER_LIMITS)]
    assert limits == []
