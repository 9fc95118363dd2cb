"""Settings of a model's proposals."""

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
