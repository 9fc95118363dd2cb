"""Drawing next tokens in proportion to the model's probabilities.

A random number chooses a token of a distribution by inversion. Where a model tells only its most
probable tokens, the number may fall to all others together. The model itself then draws one of
those, with a seed that the number gives: the token has its right probability all the same.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from llmchecker.errors import InvalidDistribution, InvalidEstimate
from llmchecker.models.distributions import NO_TOKENS
from llmchecker.models.protocols import LanguageModel
from llmchecker.trees.expansion import selections
from llmchecker.trees.store import StoredDistributions
from llmchecker.trees.text_tree import Kind, TextTree

_Choose = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Chooses tokens by random numbers, some tokens excluded."""

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
        for number, choose, told in self._choices(texts, extended):
            of_row = np.flatnonzero(row == number)
            for state in np.unique(taken[of_row]):
                chosen, followed = of_row[taken[of_row] == state], self._children(int(state))
                try:
                    tokens[chosen] = choose(drawn[chosen], followed)
                except InvalidDistribution as error:
                    raise InvalidEstimate(f"nothing is left to be drawn: {error}") from None
                for place in chosen[tokens[chosen] == BEYOND]:
                    excluded[place] = np.union1d(told, followed)
        if excluded:
            places = np.array(list(excluded))
            seeds = (drawn[places] * _SEEDS).astype(np.int64).tolist()
            self.passes += len(places)
            tokens[places] = self._continuations.drawn(
                suffixes[places], list(excluded.values()), seeds
            )
        return tokens

    def _choices(
        self, texts: np.ndarray, extended: bool
    ) -> Iterator[tuple[int, "_Choose", np.ndarray]]:
        """What follows each text: its number, how numbers choose a token, and the tokens told.

        None are told where all are.
        """
        told = self._model.told
        if told == self._model.vocabulary_size:
            parts = self._continuations.map(lambda part: part, texts, extended)
            rows = (partial(part.chosen, row) for part in parts for row in range(len(part)))
            yield from ((number, choose, NO_TOKENS) for number, choose in enumerate(rows))
            return
        asked = selections(lambda: self._continuations, self._stored, texts, 1.0, told, extended)
        for numbers, selection in asked:
            for place, number in enumerate(numbers):
                head = slice(0, selection.counts[place])
                tokens, known = selection.tokens[place, head], selection.probabilities[place, head]
                choose = partial(among_told, tokens, known, float(selection.rest[place]))
                yield int(number), choose, tokens

    def _children(self, state: int) -> np.ndarray:
        """The tokens of the children of a state; none for -1."""
        parent = self._tree.parent
        first, behind = np.searchsorted(parent[1:], [state, state + 1]) + 1
        children = slice(first, behind) if state >= 0 else slice(0, 0)
        return self._tree.token[children][self._tree.kind[children] != Kind.REST]


def among_told(
    tokens: np.ndarray,
    probabilities: np.ndarray,
    others: float,
    numbers: np.ndarray,
    without: np.ndarray,
) -> np.ndarray:
    """Tokens that random numbers choose by inversion, as `Distributions.chosen` does.

    Args:
        tokens: (m,) those that are told.
        probabilities: (m,) float64, of these.
        others: of all tokens that are not told, together. They come last, and `BEYOND` stands for
            whichever of them is chosen.
        numbers: (n,) float64 from [0, 1).
        without: tokens that are excluded.

    Raises:
        InvalidDistribution: all tokens that are not excluded have probability 0.
    """
    left = np.where(np.isin(tokens, without), 0.0, probabilities)
    sums = np.append(left, others).cumsum()
    if not sums[-1] > 0:
        raise InvalidDistribution("all tokens that are not excluded have probability 0")
    possible = np.flatnonzero(np.append(left, others))
    # a product that is rounded up to the whole sum leads past the last possible token
    places = np.searchsorted(sums, numbers * sums[-1], side="right").clip(max=possible[-1])
    return np.append(tokens, BEYOND)[places]
