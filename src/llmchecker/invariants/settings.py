"""What a configuration says of programs and their invariants."""

from dataclasses import dataclass

from llmchecker.invariants.expressions import Semantics
from llmchecker.invariants.program_sources import ProgramSource
from llmchecker.text_tree import Bounds


@dataclass(frozen=True)
class InvariantsConfig:
    """Which programs are verified, with invariants of which models, and what that may cost.

    Attributes:
        models: names of causal models, of which the first proposes for the comparison of tools.
        seconds: of one attempt on a program.
        tool_seconds: that ESBMC may take where it works without invariants.
        nodes: next-token distributions that the enumeration of a loop may compute.
        candidates: that each source but sampling may propose for a loop.
        seed: of samples and random candidates.
        provable: bounds of the trees that the table of provable invariants asks.
    """

    programs: ProgramSource
    models: tuple[str, ...]
    semantics: tuple[Semantics, ...]
    seconds: float
    tool_seconds: float
    nodes: int
    candidates: int
    seed: int
    provable: Bounds
