"""Drawing next tokens in proportion to the model's probabilities.

A random number chooses a token of a distribution by inversion. Where a model tells only its most
probable tokens, the number may fall to all others together. The model itself then draws one of
those, with a seed that the number gives: the token has its right probability all the same.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from llmchecker.errors import InvalidEstimate
from llmchecker.models.distributions import Distributions
from llmchecker.models.protocols import LanguageModel
from llmchecker.trees.expansion import selections
from llmchecker.trees.store import StoredDistributions
from llmchecker.trees.text_tree import Kind, TextTree

if TYPE_CHECKING:
    from llmchecker.serving.heads import Heads

BEYOND = -1
"""Stands for a token that is not told."""

_SEEDS = 2**32 - 1
"""Seeds that every server takes: 2^32 - 1 stands for a random one."""


class NextTokens:
    """Draws the next tokens of texts that share a prompt. `passes` counts what the model was asked.

    Args:
        model: the language model.
        prompt: the tokens with which every text begins.
        tree: whose texts are followed where it does not follow them itself.
        stored: what a model that tells only its most probable tokens need not be asked again.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompt: Sequence[int],
        tree: TextTree,
        stored: StoredDistributions | None,
    ) -> None:
        self._model = model
        self._tree = tree
        self._stored = stored
        self._continuations = model.continuations(prompt)
        self.passes = 0

    def after(
        self, suffixes: np.ndarray, taken: np.ndarray, drawn: np.ndarray, extended: bool
    ) -> np.ndarray:
        """The next token after each suffix.

        Args:
            suffixes: (n, d) int64, the tokens after the prompt.
            taken: (n,) for each suffix the state of the tree whose children are excluded, since the
                tree follows them itself; -1 where any token may follow.
            drawn: (n,) random numbers from [0, 1) that choose the tokens.
            extended: whether longer suffixes will be asked for.
        """
        texts, row = np.unique(suffixes, axis=0, return_inverse=True)
        self.passes += len(texts)
        row = row.ravel()
        tokens = np.empty(len(suffixes), dtype=np.int64)
        excluded: dict[int, np.ndarray] = {}
        for number, distribution, others in self._distributions(texts, extended):
            of_row = np.flatnonzero(row == number)
            for state in np.unique(taken[of_row]):
                chosen, followed = of_row[taken[of_row] == state], self._children(int(state))
                tokens[chosen] = by_inversion(distribution, followed, drawn[chosen], others)
                for place in chosen[tokens[chosen] == BEYOND]:
                    excluded[place] = np.union1d(np.flatnonzero(distribution), followed)
        if excluded:
            places = np.array(list(excluded))
            seeds = (drawn[places] * _SEEDS).astype(np.int64).tolist()
            self.passes += len(places)
            tokens[places] = self._continuations.drawn(
                suffixes[places], list(excluded.values()), seeds
            )
        return tokens

    def _distributions(
        self, texts: np.ndarray, extended: bool
    ) -> Iterator[tuple[int, np.ndarray, float]]:
        """What follows each text: its number, (vocabulary,) probabilities, and that of the others.

        The others are tokens that are not told, which have 0 among the probabilities.
        """

        def probabilities(after: "Distributions | Heads") -> np.ndarray:
            return after.probabilities().cpu().numpy()

        size, told = self._model.vocabulary_size, self._model.told
        if told == size:
            parts = self._continuations.map(probabilities, texts, extended)
            rows = (distribution for part in parts for distribution in part)
            yield from ((number, distribution, 0.0) for number, distribution in enumerate(rows))
            return
        asked = selections(lambda: self._continuations, self._stored, texts, 1.0, told, extended)
        for numbers, selection in asked:
            for place, number in enumerate(numbers):
                distribution = np.zeros(size)
                head = slice(0, selection.counts[place])
                distribution[selection.tokens[place, head]] = selection.probabilities[place, head]
                yield int(number), distribution, float(selection.rest[place])

    def _children(self, state: int) -> np.ndarray:
        """The tokens of the children of a state; none for -1."""
        parent = self._tree.parent
        first, behind = np.searchsorted(parent[1:], [state, state + 1]) + 1
        children = slice(first, behind) if state >= 0 else slice(0, 0)
        return self._tree.token[children][self._tree.kind[children] != Kind.REST]


def by_inversion(
    distribution: np.ndarray, without: np.ndarray, drawn: np.ndarray, others: float = 0.0
) -> np.ndarray:
    """Tokens chosen by random numbers, in proportion to their probabilities.

    A number chooses the first token at which the sum of the probabilities so far exceeds that share
    of the whole sum.

    Args:
        distribution: (vocabulary,) float64.
        without: tokens that are excluded.
        drawn: (n,) random numbers from [0, 1).
        others: the probability of all tokens that have 0 in the distribution. They come last, and
            `BEYOND` stands for whichever of them is chosen.

    Raises:
        InvalidEstimate: all tokens that are not excluded have probability 0.
    """
    left = distribution.copy()
    left[without] = 0
    sums = left.cumsum()
    whole = sums[-1] + others
    if not whole > 0:
        raise InvalidEstimate("the tokens that a tree does not follow have probability 0")
    tokens = np.searchsorted(sums, drawn * whole, side="right")
    if others > 0:
        return np.where(tokens < len(left), tokens, BEYOND)
    if (tokens == len(left)).any():
        # a product that is rounded up to the whole sum leads past the last possible token
        tokens = np.minimum(tokens, np.flatnonzero(left)[-1])
    return tokens
