"""The order of layers: what imports what, and what may load packages that take seconds."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src/llmchecker"

LAYERS = """
    errors files processes logs fetching deployed models loading serving queries trees programs
    translating reading suggesting proving quantifiers scoring chains checking deciding config
    invariants repairing publication library cli
""".split()
"""Modules and folders of the package, each before all that may import from it."""

MOST_MODULES = 12
"""Modules in a folder; one with more is hard to find something in."""


def modules_below(folder: Path) -> list[str]:
    """The modules in a folder of the package and in its folders, by their dotted names."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


MODULES = modules_below(PACKAGE)

WRAPPED = {
    "torch": {
        "deployed.logits",
        "fetching.model_files",
        "fetching.sizes",
        "loading.checks",
        "loading.classification",
        "loading.measuring",
        "loading.models",
        "models.batches",
        "models.causal",
        "models.distributions",
        "models.positions",
        "models.table",
        "models.transformer",
        "models.whole_texts",
        "serving.heads",
        "trees.selection",
    },
    "transformers": {
        "deployed.chat",
        "deployed.logits",
        "fetching.gguf_splitting",
        "fetching.model_files",
        "library.loading",
        "loading.checks",
        "loading.classification",
        "loading.models",
        "loading.tokenizers",
        "models.causal",
        "models.masked",
        "models.pieces",
        "models.positions",
        "models.transformer",
        "serving.connecting",
        "serving.served",
    },
    "httpx2": {"serving.client"},
    "stormpy": {"checking.storm"},
    "z3": {
        "proving.terms",
        "proving.obligations",
        "proving.houdini",
        "proving.horn",
        "repairing.counterexamples",
    },
    "pycparser": {
        "proving.annotation",
        "reading.binding",
        "reading.c_expressions",
        "reading.control",
        "reading.declarations",
        "reading.effects",
        "reading.functions",
        "reading.known_functions",
        "reading.memory",
        "reading.parsing",
        "reading.pointers",
        "reading.remarks",
        "translating.gotos",
        "translating.jumps",
        "translating.syntax",
    },
    "pcpp": {"translating.preprocessing"},
    "snakemake": set(),
}
"""Which modules may import a package that takes seconds to import or that one may not have."""


def file_of(module: str) -> Path:
    """The source file of a module of the package."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
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
    """The modules of the package that a module imports: `from package import module` is one too."""
    found = set()
    for source, name in imported(module):
        if source.partition(".")[0] == "llmchecker":
            full = f"{source}.{name}"
            found.add(full if full in MODULES else source)
    return found


def layer_of(module: str) -> str:
    """The folder of a module, or the module itself where it lies beside the folders."""
    return [*module.split("."), ""][1]


def test_every_module_has_its_layer():
    """Every module and folder of the package stands in the order of layers, and nothing else."""
    assert sorted({layer_of(module) for module in MODULES} - {""}) == sorted(LAYERS)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_its_own_layer_and_those_before(module):
    """Imports within the package go one way through the folders."""
    if module == "llmchecker":
        return
    above = set(LAYERS[: LAYERS.index(layer_of(module)) + 1])
    assert {layer_of(other) for other in imported_modules(module)} - {""} <= above


def test_no_modules_import_each_other_in_a_circle():
    """There is an order in which every module stands after all that it imports."""
    graph = {module: imported_modules(module) for module in MODULES}
    assert len(list(TopologicalSorter(graph).static_order())) == len(MODULES)


@pytest.mark.parametrize("folder", [name for name in LAYERS if (PACKAGE / name).is_dir()])
def test_a_folder_is_small_enough_to_look_through(folder):
    """No folder has more modules than a person looks through."""
    assert len(list((PACKAGE / folder).glob("[!_]*.py"))) <= MOST_MODULES


@pytest.mark.parametrize("package", WRAPPED)
def test_a_heavy_package_is_imported_only_where_it_is_wrapped(package):
    """torch, stormpy, z3 and their like are imported only by what wraps them."""
    users = {
        module.removeprefix("llmchecker.")
        for module in MODULES
        for source, _ in imported(module)
        if source.partition(".")[0] == package
    }
    assert users == WRAPPED[package]


LIGHT = """
import sys
from llmchecker.config import configuration
from llmchecker.publication import comparison, figures, provenance, report, tables
from llmchecker.scoring.registry import QUANTIFIERS, create
for name in ("gender", "polarity", "readability"):
    create(name)
print([name for name in sys.argv[1:] if name in sys.modules])
"""


def test_tables_figures_and_configurations_load_no_heavy_package():
    """What reads a configuration or results waits for no model, model checker or lexicon."""
    heavy = ("torch", "transformers", "stormpy", "z3", "textblob", "textstat")
    run = subprocess.run(
        [sys.executable, "-c", LIGHT, *heavy], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


def test_only_scripts_and_the_command_line_set_up_logs():
    """No other module imports `logs`: how a job logs is decided by what runs it."""
    users = {module for module in MODULES if "llmchecker.logs" in imported_modules(module)}
    assert {layer_of(module) for module in users} == {"cli"}
