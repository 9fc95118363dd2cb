"""`import llmchecker`: what it offers, and that it loads only what is used."""

import ast
import subprocess
import sys

import pytest

import llmchecker
from llmchecker.properties.registry import BUILTIN_TYPES

HEAVY = ("torch", "transformers", "stormpy", "pandas", "numpy", "matplotlib", "z3")


def modules_after(statement: str) -> set[str]:
    """Those of the heavy packages that a new interpreter has imported after a statement."""
    code = f"import sys\n{statement}\nprint([n for n in {HEAVY!r} if n in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ast.literal_eval(run.stdout))


def test_importing_the_package_imports_nothing_else():
    """`import llmchecker` loads no heavy package and none of its own modules."""
    assert modules_after("import llmchecker") == set()
    loaded = "assert [n for n in sys.modules if n.startswith('llmchecker')] == ['llmchecker']"
    assert modules_after(f"import llmchecker\n{loaded}") == set()


def test_a_question_can_be_written_down_before_anything_heavy_is_loaded():
    """Queries, truncations, quantifiers and errors wait for neither torch, Storm nor pandas."""
    used = "lc.parse('P=? [ F gender > 0 ]'), lc.Truncation(0.8, 4, 3), lc.Gender(), lc.errors"
    assert modules_after(f"import llmchecker as lc\n{used}") <= {"numpy"}


@pytest.mark.parametrize("name", llmchecker.__all__)
def test_every_public_name_is_there(name):
    """Each name of `__all__` can be taken from the package, and `dir` lists it."""
    assert getattr(llmchecker, name) is not None
    assert name in dir(llmchecker)
    assert not name.startswith("_")


def test_every_quantifier_is_public():
    """The class of each type in the registry is a public name."""
    classes = {entry.attr for entry in BUILTIN_TYPES.values()}
    assert classes <= set(llmchecker.__all__)
    assert all(getattr(llmchecker, e.attr) is e.load() for e in BUILTIN_TYPES.values())


def test_what_is_not_public_is_not_offered():
    """A name that the package does not have is an AttributeError, as of any module."""
    with pytest.raises(AttributeError, match="llmchecker attribute grwo"):
        _ = llmchecker.grwo
    assert not hasattr(llmchecker, "_texts")
