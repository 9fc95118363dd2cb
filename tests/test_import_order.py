"""The package is layered: imports go one way, and heavy packages stay where they are wrapped.

The imports are read from the source, so that one inside a function counts too.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src/llmchecker"

ORDER = [
    "llmchecker",
    "llmchecker.errors",
    "llmchecker.files",
    "llmchecker.logs",
    "llmchecker.text_tree",
    "llmchecker.downloads",
    "llmchecker.locks",
    "llmchecker.weights",
    "llmchecker.sources",
    "llmchecker.fingerprints",
    "llmchecker.provenance",
    "llmchecker.distributions",
    "llmchecker.continuations",
    "llmchecker.language_models",
    "llmchecker.selection",
    "llmchecker.distribution_store",
    "llmchecker.shards",
    "llmchecker.expansion",
    "llmchecker.growth",
    "llmchecker.invariants.expressions",
    "llmchecker.invariants.program_sources",
    "llmchecker.invariants.settings",
    "llmchecker.invariants.programs",
    "llmchecker.invariants.c_expressions",
    "llmchecker.invariants.c_programs",
    "llmchecker.invariants.encoding",
    "llmchecker.invariants.houdini",
    "llmchecker.invariants.judging",
    "llmchecker.invariants.execution",
    "llmchecker.invariants.completion",
    "llmchecker.invariants.baselines",
    "llmchecker.invariants.prompts",
    "llmchecker.invariants.proposals",
    "llmchecker.invariants.token_texts",
    "llmchecker.invariants.sampling",
    "llmchecker.invariants.grammar",
    "llmchecker.invariants.enumeration",
    "llmchecker.invariants.asking",
    "llmchecker.invariants.relations",
    "llmchecker.invariants.esbmc",
    "llmchecker.invariants.verification",
    "llmchecker.invariants.attempts",
    "llmchecker.invariants.experiments",
    "llmchecker.invariants",
    "llmchecker.formulas",
    "llmchecker.quantifiers.gender",
    "llmchecker.quantifiers.polarity",
    "llmchecker.quantifiers.provable",
    "llmchecker.quantifiers.readability",
    "llmchecker.quantifiers.similarity",
    "llmchecker.quantifiers",
    "llmchecker.scores",
    "llmchecker.properties",
    "llmchecker.markov_chain",
    "llmchecker.valuations",
    "llmchecker.chaos",
    "llmchecker.evidence",
    "llmchecker.drawing",
    "llmchecker.prism",
    "llmchecker.jani",
    "llmchecker.verdicts",
    "llmchecker.storm",
    "llmchecker.bounding",
    "llmchecker.checking",
    "llmchecker.invariants.provability",
    "llmchecker.transition_systems",
    "llmchecker.crosscheck",
    "llmchecker.topk",
    "llmchecker.config",
    "llmchecker.tables",
    "llmchecker.figures",
    "llmchecker.invariants.tables",
    "llmchecker.invariants.figures",
    "llmchecker.published",
    "llmchecker.comparison",
    "llmchecker.report",
    "llmchecker.invariants.command",
    "llmchecker.cli",
]
"""Every module, each after all that it imports."""

WRAPPED = {
    "torch": {"continuations", "distributions", "language_models", "selection", "weights"},
    "transformers": {"continuations", "language_models", "weights"},
    "stormpy": {"storm"},
    "z3": {"invariants.encoding", "invariants.houdini"},
    "pycparser": {"invariants.c_expressions", "invariants.c_programs"},
    "snakemake": set(),
}
"""Which modules may import a package that takes seconds to import or that one may not have."""


def file_of(module: str) -> Path:
    """The source file of a module of the package."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


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
            found.add(full if full in ORDER else source)
    return found


def test_the_list_has_every_module():
    """Every file of the package stands in the order of layers exactly once."""
    assert sorted(file_of(module) for module in ORDER) == sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("module", ORDER)
def test_a_module_imports_only_modules_before_it(module):
    """Imports within the package go one way."""
    assert imported_modules(module) <= set(ORDER[: ORDER.index(module)])


@pytest.mark.parametrize("package", WRAPPED)
def test_a_heavy_package_is_imported_only_where_it_is_wrapped(package):
    """torch, stormpy, z3 and their like are imported only by what wraps them."""
    users = {
        module.removeprefix("llmchecker.")
        for module in ORDER
        for source, _ in imported(module)
        if source.partition(".")[0] == package
    }
    assert users == WRAPPED[package]


LIGHT = """
import sys
from llmchecker import comparison, config, figures, provenance, report, tables
from llmchecker.quantifiers import QUANTIFIERS, create
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
    users = [module for module in ORDER if "llmchecker.logs" in imported_modules(module)]
    assert users == ["llmchecker.cli"]
