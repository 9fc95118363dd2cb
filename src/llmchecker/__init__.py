"""Bounded PCTL model checking of the texts that language models generate.

    import llmchecker as lc

    model = lc.load("resources/models/smollm2-135m")
    tree = lc.grow(model, "The player won because", alpha=0.8, k=4, length=3)
    answer = lc.check("P=? [ F gender > 0 ]", tree)

The package imports a name at its first use, so that importing the package is fast. `__init__.pyi`
lists the public names with their modules; docs/how-to/python.md describes them.
"""

import os
from importlib import import_module

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

if "LLMCHECKER_JOB" in os.environ:
    # Ctrl-C can interrupt a job at any time, also during its imports.
    import_module("llmchecker.utils.processes").install_sigint_handler()
