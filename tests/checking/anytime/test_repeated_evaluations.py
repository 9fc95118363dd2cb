"""Models whose probabilities differ from batch to batch, as those of accelerators do."""

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import llmchecker as lc
from llmchecker.errors import InterruptedCheck
from llmchecker.models.table_model import TableModel

WORDS = [" he", " she", *(f" word{number}" for number in range(148))]
"""Many more tokens than a visit lists."""

START = "The end"
LENGTH = 3
PRONOUNS = 2
"""The number of words that decide."""


class HasPronoun:
    """An opaque quantifier: whether a text has a word that decides."""

    minimum, maximum = 0, 1

    def __call__(self, start: str, continuation: str) -> int:
        return int(" he" in continuation or " she" in continuation)


QUANTIFIERS = {"word": lc.Words(["he", "she"]), "own": HasPronoun()}


class NoisyTable:
    """A table that computes other probabilities at every evaluation of a text.

    Args:
        noise: the largest relative difference of a weight.
        listed: number of words with a probability above 0, as after a truncating decoding.
    """

    def __init__(self, noise: float, listed: int = len(WORDS)) -> None:
        self.noise, self.listed = noise, listed
        self.numbers, self.evaluations = random.Random(0), Counter()

    def __call__(self, text: tuple[int, ...]) -> list[float]:
        self.evaluations[text] += 1
        weights = [0.0, *(1 / (20 + rank) for rank in range(self.listed))]
        noisy = [weight * (1 + self.noise * self.numbers.uniform(-1, 1)) for weight in weights]
        padding = [0.0] * (len(WORDS) - self.listed)
        return [weight / sum(noisy) for weight in noisy] + padding

    @property
    def model(self) -> TableModel:
        return TableModel([START, *WORDS], self)


def find_truth(noise: float) -> tuple[float, float]:
    """Return limits of P(F pronoun) of any model within the noise of the exact one."""
    weights = np.array([1 / (20 + rank) for rank in range(len(WORDS))])
    share = weights[:PRONOUNS].sum() / weights.sum()
    low, high = (1 - (1 - share * factor) ** LENGTH for factor in (1 - 3 * noise, 1 + 3 * noise))
    return low, high


@pytest.mark.parametrize("noise", [1e-7, 0.05])
@pytest.mark.parametrize("name", QUANTIFIERS)
def test_a_second_evaluation_splits_the_probability_that_the_first_one_left(noise, name):
    """Bounds only narrow, hold the truth, and the texts of the tree have a total of 1."""
    table = NoisyTable(noise)
    quantifier = {name: QUANTIFIERS[name]}
    answer = lc.check(
        f"P=? [ F {name} > 0 ]", table.model, START, length=LENGTH, passes=450, **quantifier
    )
    # otherwise nothing was split
    assert max(table.evaluations.values()) > 2
    for earlier, later in pairwise(answer.history):
        assert earlier.lower - 1e-12 <= later.lower <= later.upper <= earlier.upper + 1e-12
    low, high = find_truth(noise)
    assert answer.lower <= high
    assert low <= answer.upper
    assert answer.low <= high
    assert low <= answer.high
    # building the tree checks the sum of each text's children
    assert len(answer.evidence.scored.tree) > 100
    assert lc.find_tree(answer) is not None


def test_a_lost_token_ends_the_samples_and_keeps_the_answer():
    """A decoding that leaves no token in a second batch ends the check with its bounds so far."""
    table = NoisyTable(0.0, listed=60)

    def shrink(text):
        # the first evaluation lists more than these
        table.listed = 60 if table.evaluations[text] == 0 else 20
        return table(text)

    model = TableModel([START, *WORDS], shrink)
    with pytest.raises(InterruptedCheck, match="leaves no token after 'The end") as caught:
        lc.check(
            "P=? [ F word > 0 ]",
            model,
            START,
            length=LENGTH,
            passes=5_000,
            word=QUANTIFIERS["word"],
        )
    answer = caught.value.result
    assert answer.lower > 0
    assert answer.upper < 1
