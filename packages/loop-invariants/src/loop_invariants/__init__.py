"""Loop invariants of C programs: proofs by Z3, with candidates from programs, runs and models.

    loop-invariants program.c

Public names are `prove`, and `Provable`, the quantifier `provable` of llmchecker.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loop_invariants.experiments.provable_quantifier import Provable as Provable
    from loop_invariants.proof import prove as prove

_MODULES = {"Provable": "experiments.provable_quantifier", "prove": "proof"}
"""Module of each public name."""

__all__ = ["Provable", "prove"]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"loop_invariants.{_MODULES[name]}"), name)
