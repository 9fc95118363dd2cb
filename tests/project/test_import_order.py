"""The order of layers: what imports what, and what may load packages that take seconds."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

LAYERS = (
    "errors utils models trees properties checking config reporting suites interfaces"
).split()
"""The folders of llmchecker, each before all that may import from it."""

PROGRAMS = "loop_invariants"
PROGRAMS_ABOVE = {"errors", "utils", "models", "trees", "properties", "checking"}
"""The folders of llmchecker from which the package on programs imports."""
EXTENSIONS = {f"{PROGRAMS}.{name}" for name in ("cli", "reporting", "workflow")}
"""The folders of the package on programs that extend llmchecker, and import from all of it."""

SUBFOLDERS = {
    "models": "sources decoding transformers servers".split(),
    "properties": "logic quantifiers".split(),
    "checking": "markov anytime".split(),
    "loop_invariants": (
        "ir interpreter generation frontend verification proposals experiments repair "
        "reporting workflow cli"
    ).split(),
    "suites": ["promptfoo"],
    "interfaces": "snakemake python cli".split(),
}
"""The sub-folders of a folder, each before all of the same folder that may import from it."""


def modules_below(folder: Path) -> list[str]:
    """The modules in a folder and in its folders, by their dotted names."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


MODULES = modules_below(SOURCE)

WRAPPED = {
    "torch": ["models", "trees.selection"],
    "transformers": ["models", "interfaces.python.load"],
    "httpx2": ["models.servers.http_client"],
    "anyio": ["models.servers.http_client"],
    "stormpy": ["checking.storm"],
    "z3": ["loop_invariants.verification", "loop_invariants.repair.counterexamples"],
    "pycparser": ["loop_invariants.frontend", "loop_invariants.verification.esbmc_annotation"],
    "pcpp": ["loop_invariants.frontend.preprocessing.preprocessor"],
    "matplotlib": ["reporting", "loop_invariants.reporting"],
    "snakemake": [],
}
"""The folders and modules that alone may import a package that is slow to import or optional."""


def file_of(module: str) -> Path:
    """The source file of a module."""
    path = SOURCE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def imported(module: str) -> list[tuple[str, str]]:
    """The imports in a module as (module, name); the name is empty where a module is imported."""
    found = []
    for node in ast.walk(ast.parse(file_of(module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            found += [(node.module, alias.name) for alias in node.names]
    return found


def imported_modules(module: str) -> set[str]:
    """The modules of the packages that a module imports: `from p import module` is one too."""
    found = set()
    for source, name in imported(module):
        if source.partition(".")[0] in ("llmchecker", "loop_invariants"):
            full = f"{source}.{name}"
            found.add(full if full in MODULES else source)
    return found


def layer_of(module: str) -> str:
    """The folder of a module, or the module itself where it has none."""
    return [*module.removeprefix("llmchecker").removeprefix(".").split("."), ""][0]


def unit_of(module: str) -> str:
    """The sub-folder of a module, or the module itself where its folder has none for it."""
    return ".".join(module.removeprefix("llmchecker.").split(".")[:2])


def test_every_module_has_its_layer():
    """Every module and folder of llmchecker stands in the order of layers, and nothing else."""
    assert sorted({layer_of(module) for module in MODULES} - {""}) == sorted([*LAYERS, PROGRAMS])


def test_every_subfolder_has_its_place():
    """Every sub-folder stands in the order of its folder, and nothing else."""
    packages = {module for module in MODULES if file_of(module).name == "__init__.py"}
    found = {tuple(module.removeprefix("llmchecker.").split(".")) for module in packages}
    listed = {(folder, name) for folder, names in SUBFOLDERS.items() for name in names}
    assert {parts[:2] for parts in found if len(parts) > 1} == listed


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_its_own_layer_and_those_before(module):
    """Imports go one way through the folders, and llmchecker imports nothing on programs."""
    layer = layer_of(module)
    if unit_of(module) in EXTENSIONS:
        above = {*LAYERS, PROGRAMS}
    elif layer == PROGRAMS:
        above = {*PROGRAMS_ABOVE, PROGRAMS}
    else:
        above = set(LAYERS[: LAYERS.index(layer) + 1]) if layer else {*LAYERS}
    assert {layer_of(other) for other in imported_modules(module)} - {""} <= above


@pytest.mark.parametrize("folder", SUBFOLDERS)
def test_a_subfolder_imports_only_from_those_before(folder):
    """Imports between the sub-folders of a folder go one way."""
    order = {f"{folder}.{name}": i for i, name in enumerate(SUBFOLDERS[folder])}
    for module in MODULES:
        place = order.get(unit_of(module))
        if place is not None:
            others = {order.get(unit_of(other), -1) for other in imported_modules(module)}
            assert max(others, default=-1) <= place, module


def test_no_folders_import_each_other_in_a_circle():
    """Modules next to sub-folders fit into the order of those: no import leads back."""
    graph: dict[str, set[str]] = {}
    for module in MODULES:
        others = {unit_of(other) for other in imported_modules(module)} - {unit_of(module)}
        graph.setdefault(unit_of(module), set()).update(others)
    assert len(list(TopologicalSorter(graph).static_order())) == len(graph)


def test_no_modules_import_each_other_in_a_circle():
    """There is an order in which every module stands after all that it imports."""
    graph = {module: imported_modules(module) for module in MODULES}
    assert len(list(TopologicalSorter(graph).static_order())) == len(MODULES)


@pytest.mark.parametrize("package", WRAPPED)
def test_a_heavy_package_is_imported_only_where_it_is_wrapped(package):
    """torch, stormpy, z3 and their like are imported only by what wraps them."""
    users = {
        module.removeprefix("llmchecker.")
        for module in MODULES
        for source, _ in imported(module)
        if source.partition(".")[0] == package
    }
    allowed = WRAPPED[package]
    inside = {user for user in users if any(f"{user}.".startswith(f"{name}.") for name in allowed)}
    assert users == inside
    assert bool(users) == bool(allowed)


LIGHT = """
import sys
from llmchecker.config import config
from llmchecker.reporting import comparison, figures, html_report, provenance, tables
from llmchecker.properties.registry import create_quantifier
for name in ("gender", "polarity", "readability"):
    create_quantifier(name)
print([name for name in sys.argv[1:] if name in sys.modules])
"""


def test_tables_figures_and_configurations_load_no_heavy_package():
    """What reads a configuration or results waits for no model, model checker or lexicon."""
    heavy = ("torch", "transformers", "stormpy", "z3", "textblob", "textstat", "loop_invariants")
    run = subprocess.run(
        [sys.executable, "-c", LIGHT, *heavy], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


def test_only_scripts_and_the_command_line_set_up_logs():
    """No other module imports `job_logging`: how a job logs is decided by what runs it."""
    users = {
        module for module in MODULES if "llmchecker.utils.job_logging" in imported_modules(module)
    }
    assert {layer_of(module) for module in users} == {"interfaces"}
