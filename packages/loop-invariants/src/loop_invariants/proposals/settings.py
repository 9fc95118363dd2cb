"""Settings of a model's proposals."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProposalSettings:
    """Settings of the proposals for a loop.

    Attributes:
        iterations: number of answers of the model to each kind of prompt.
        seed: seed of the sampled answers.
    """

    iterations: int
    seed: int
