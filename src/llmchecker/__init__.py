"""Bounded PCTL model checking of the texts that language models generate.

    import llmchecker as lc

    model = lc.load("resources/models/smollm2-135m")
    tree = lc.grow(model, "The player won because", alpha=0.8, k=4, length=3)
    verdict = lc.check("P=? [ F gender > 0 ]", tree)

The package imports a name at its first use, so that importing the package is fast. Only the names
in `__all__` are public; docs/how-to/python.md describes them.
"""

import os
from importlib import import_module

__version__ = "0.1.0"

_EXPORTS = {
    "llmchecker.interfaces.python.load": "load",
    "llmchecker.interfaces.python.tree": "Tree grow",
    "llmchecker.interfaces.python.check": "check score",
    "llmchecker.interfaces.python.ask": "Answer ask",
    "llmchecker.interfaces.python.compare": "Comparison compare",
    "llmchecker.interfaces.python.suite": "SuiteReport suite",
    "llmchecker.trees.text_tree": "Truncation",
    "llmchecker.properties.logic.parser": "parse",
    "llmchecker.properties.logic.query": "Query",
    "llmchecker.checking.verdict": "Verdict",
    "llmchecker.models.table_model": "TableModel",
    "llmchecker.properties.quantifiers.classifier": "Classifier",
    "llmchecker.properties.quantifiers.gender": "Gender",
    "llmchecker.properties.quantifiers.json_validity": "JsonText",
    "llmchecker.properties.quantifiers.language": "Language",
    "llmchecker.properties.quantifiers.length": "Length",
    "llmchecker.properties.quantifiers.pattern": "Pattern",
    "llmchecker.properties.quantifiers.polarity": "Polarity",
    "llmchecker.programs.experiments.provable_quantifier": "Provable",
    "llmchecker.properties.quantifiers.readability": "Readability",
    "llmchecker.properties.quantifiers.refusal": "Refusal",
    "llmchecker.properties.quantifiers.similarity": "Similarity",
    "llmchecker.properties.quantifiers.word_count": "Words",
    "llmchecker.properties.custom_class": "OwnClass",
}
"""Modules of the public names; `__init__.pyi` lists them for editors."""

_MODULES = {name: module for module, names in _EXPORTS.items() for name in names.split()}

__all__ = ["__version__", "errors", *sorted(_MODULES)]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    # A module, not a name in a module, so that it is not in `_EXPORTS`.
    if name == "errors":
        return import_module("llmchecker.errors")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value  # later uses find the global
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


if "LLMCHECKER_JOB" in os.environ:
    # Ctrl-C can interrupt a job at any time, also during its imports.
    import_module("llmchecker.utils.processes").install_sigint_handler()
