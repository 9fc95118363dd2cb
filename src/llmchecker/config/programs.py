"""The section of a configuration about programs and their invariants."""

from dataclasses import dataclass

from llmchecker.fetching.programs import ProgramSource
from llmchecker.programs.expressions import Semantics
from llmchecker.trees.text_tree import Truncation


@dataclass(frozen=True)
class Asking:
    """How a model is asked for invariants of a loop.

    Attributes:
        iterations: how many answers the model writes to each kind of prompt.
        nodes: how many next-token distributions the enumeration may compute.
        candidates: how many conditions of the enumeration are kept, at most.
        seed: of the sampled answers.
    """

    iterations: int
    nodes: int
    candidates: int
    seed: int


@dataclass(frozen=True)
class Repairing:
    """How often a model is asked again, with a counterexample.

    Attributes:
        rounds: how often it is asked about a program, at most; 0 for never.
        answers: how many answers it writes about each loop in a round.
    """

    rounds: int = 0
    answers: int = 5


@dataclass(frozen=True)
class InvariantsConfig:
    """Which programs are verified, with invariants of which models, and what that may cost.

    Attributes:
        programs: where the programs come from.
        models: names of causal models. The first one proposes where tools are compared.
        semantics: what the integers of a program are; every experiment runs once for each.
        seconds: that one attempt on a program may take.
        tool_seconds: that ESBMC may take without invariants.
        asking: how the models are asked. Its number of candidates also limits what each source but
            sampling proposes for a loop, and its seed is also that of random candidates.
        repairing: how often a model is asked again where its proposals prove nothing.
        provable: truncation of the trees behind the table of provable invariants.
    """

    programs: ProgramSource
    models: tuple[str, ...]
    semantics: tuple[Semantics, ...]
    seconds: float
    tool_seconds: float
    asking: Asking
    repairing: Repairing
    provable: Truncation
