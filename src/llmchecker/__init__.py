"""Proofs about what a language model writes: bounded PCTL model checking of text generation.

    import llmchecker as lc

    model = lc.load("resources/models/smollm2-135m")
    tree = lc.grow(model, "The player won because", alpha=0.8, k=4, length=3)
    verdict = lc.check("P=? [ F gender > 0 ]", tree)

Names are imported when they are used, so that importing this package takes no time. Only what is
listed in `__all__` is public; docs/library.md describes it.
"""

import os
from importlib import import_module

__version__ = "0.1.0"

_HOMES = {
    "llmchecker.library.loading": "load",
    "llmchecker.library.trees": "Tree grow",
    "llmchecker.library.answers": "check score",
    "llmchecker.library.asking": "Answer ask",
    "llmchecker.trees.text_tree": "Truncation",
    "llmchecker.queries.parser": "parse",
    "llmchecker.queries.query": "Query",
    "llmchecker.checking.verdicts": "Verdict",
    "llmchecker.models.table": "TableModel",
    "llmchecker.quantifiers.classifier": "Classifier",
    "llmchecker.quantifiers.gender": "Gender",
    "llmchecker.quantifiers.json_text": "JsonText",
    "llmchecker.quantifiers.length": "Length",
    "llmchecker.quantifiers.pattern": "Pattern",
    "llmchecker.quantifiers.polarity": "Polarity",
    "llmchecker.quantifiers.provable": "Provable",
    "llmchecker.quantifiers.readability": "Readability",
    "llmchecker.quantifiers.similarity": "Similarity",
    "llmchecker.quantifiers.words": "Words",
    "llmchecker.scoring.own_class": "OwnClass",
}
"""The modules that define the public names; `__init__.pyi` says the same to editors."""

_PLACES = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__", "errors", *sorted(_PLACES)]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    if name == "errors":
        return import_module("llmchecker.errors")
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


if "LLMCHECKER_JOB" in os.environ:
    # a job of a run meets Ctrl-C anywhere, also while it imports what it needs
    import_module("llmchecker.processes").tell_interrupts()
