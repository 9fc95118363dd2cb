"""Settings of a model's proposals and of their repair."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProposalSettings:
    """Settings of the proposals for a loop.

    Attributes:
        iterations: number of answers of the model to each kind of prompt.
        nodes: maximum number of next-token distributions of the enumeration.
        candidates: maximum number of conditions of the enumeration.
        seed: seed of the sampled answers.
    """

    iterations: int
    nodes: int
    candidates: int
    seed: int


@dataclass(frozen=True)
class RepairSettings:
    """Settings of repair by counterexamples.

    Attributes:
        rounds: maximum number of repair rounds for a program; 0 for no repair.
        answers: number of answers for each loop in a round.
    """

    rounds: int = 0
    answers: int = 5
