"""Loop invariants of C programs: proofs by Z3, with candidates from programs, runs and models.

    loop-invariants program.c

`Provable`, the quantifier `provable` of llmchecker, is the only public name.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loop_invariants.experiments.provable_quantifier import Provable as Provable

__all__ = ["Provable"]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("loop_invariants.experiments.provable_quantifier"), name)
