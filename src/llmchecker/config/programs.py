"""What a configuration says of programs and their invariants."""

from dataclasses import dataclass

from llmchecker.fetching.programs import ProgramSource
from llmchecker.programs.expressions import Semantics
from llmchecker.trees.text_tree import Truncation


@dataclass(frozen=True)
class Asking:
    """How a model is asked for invariants of a loop.

    Attributes:
        iterations: answers to each kind of prompt.
        nodes: next-token distributions that the enumeration may compute.
        candidates: conditions of the enumeration that are kept, at most.
        seed: of the samples.
    """

    iterations: int
    nodes: int
    candidates: int
    seed: int


@dataclass(frozen=True)
class InvariantsConfig:
    """Which programs are verified, with invariants of which models, and what that may cost.

    Attributes:
        models: names of causal models, of which the first proposes for the comparison of tools.
        seconds: of one attempt on a program.
        tool_seconds: that ESBMC may take where it works without invariants.
        asking: how the models are asked; its candidates are also those that each source but
            sampling may propose for a loop, and its seed that of random candidates.
        provable: truncation of the trees that the table of provable invariants asks.
    """

    programs: ProgramSource
    models: tuple[str, ...]
    semantics: tuple[Semantics, ...]
    seconds: float
    tool_seconds: float
    asking: Asking
    provable: Truncation
