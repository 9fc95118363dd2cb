"""Sampling of next tokens in proportion to the model's probabilities.

A random number chooses a token of a distribution by inversion. If a model lists only its most
probable tokens, the number may choose all unlisted tokens together. The model itself then draws an
unlisted token, with a seed from that number: the token has its right probability all the same.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from llmchecker.errors import InvalidDistribution, InvalidEstimate
from llmchecker.models.distribution import NO_TOKENS
from llmchecker.models.interface import LanguageModel
from llmchecker.trees.distribution_cache import PromptDistributions
from llmchecker.trees.expansion import iter_selections
from llmchecker.trees.text_tree import StateKind, TextTree

_TokenChooser = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""A function that chooses tokens by random numbers, with exclusions."""

_UNLISTED_TOKEN = -1
"""The placeholder for a token that the model does not list."""

_SEED_COUNT = 2**32 - 1
"""The number of seeds that all servers accept; 2^32 - 1 means random."""


class TokenSampler:
    """A sampler of the next tokens of texts that share a prompt.

    The attribute `passes` counts the texts that the model evaluated.

    Args:
        model: the language model.
        prompt: the tokens with which every text begins.
        tree: a tree whose child tokens are excluded.
        distributions: known distributions of a model that lists only its most probable tokens.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompt: Sequence[int],
        tree: TextTree,
        distributions: PromptDistributions | None,
    ) -> None:
        self._model = model
        self._tree = tree
        self._distributions = distributions
        self._prefix = model.open_prefix(prompt)
        self.passes = 0

    def sample(
        self,
        continuations: np.ndarray,
        tree_states: np.ndarray,
        uniforms: np.ndarray,
        will_extend: bool,
    ) -> np.ndarray:
        """Sample the next token after each continuation.

        Args:
            continuations: (n, d) int64, the tokens after the prompt.
            tree_states: (n,) for each continuation the state of the tree whose children are
                excluded, since the tree follows them itself; -1 where any token may follow.
            uniforms: (n,) random numbers from [0, 1) that choose the tokens.
            will_extend: whether longer continuations will follow.
        """
        # equal texts have equal distributions, so each is computed once
        texts, row = np.unique(continuations, axis=0, return_inverse=True)
        self.passes += len(texts)
        row = row.ravel()
        tokens = np.empty(len(continuations), dtype=np.int64)
        excluded: dict[int, np.ndarray] = {}
        for index, choose, listed_tokens in self._iter_choosers(texts, will_extend):
            positions = np.flatnonzero(row == index)
            for tree_state in np.unique(tree_states[positions]):
                group, child_tokens = (
                    positions[tree_states[positions] == tree_state],
                    self._find_child_tokens(int(tree_state)),
                )
                try:
                    tokens[group] = choose(uniforms[group], child_tokens)
                except InvalidDistribution as error:
                    raise InvalidEstimate(f"nothing is left to be drawn: {error}") from None
                for position in group[tokens[group] == _UNLISTED_TOKEN]:
                    # the model must draw neither a listed token nor a child of the tree
                    excluded[position] = np.union1d(listed_tokens, child_tokens)
        if excluded:
            unlisted_positions = np.array(list(excluded))
            seeds = (uniforms[unlisted_positions] * _SEED_COUNT).astype(np.int64).tolist()
            self.passes += len(unlisted_positions)
            tokens[unlisted_positions] = self._prefix.sample_next(
                continuations[unlisted_positions], list(excluded.values()), seeds
            )
        return tokens

    def _iter_choosers(
        self, continuations: np.ndarray, will_extend: bool
    ) -> Iterator[tuple[int, "_TokenChooser", np.ndarray]]:
        """Yield for each text its number, its token chooser, and its listed tokens.

        The listed tokens are empty if the model lists its whole vocabulary.
        """
        listed_count = self._model.listed_tokens
        # with all tokens listed, no mass is left for the model to draw from
        if listed_count == self._model.vocabulary_size:
            batches = self._prefix.map_next(lambda part: part, continuations, will_extend)
            rows = (
                partial(batch.sample_by_inversion, row)
                for batch in batches
                for row in range(len(batch))
            )
            yield from ((index, choose, NO_TOKENS) for index, choose in enumerate(rows))
            return
        selections = iter_selections(
            lambda: self._prefix, self._distributions, continuations, 1.0, listed_count, will_extend
        )
        for indices, selection in selections:
            for position, index in enumerate(indices):
                listed = slice(0, selection.counts[position])
                tokens, probabilities = (
                    selection.tokens[position, listed],
                    selection.probabilities[position, listed],
                )
                choose = partial(
                    _sample_listed, tokens, probabilities, float(selection.rest[position])
                )
                yield int(index), choose, tokens

    def _find_child_tokens(self, state: int) -> np.ndarray:
        """Return the tokens of the children of a state; no tokens for -1."""
        parents = self._tree.parent
        first, stop = np.searchsorted(parents[1:], [state, state + 1]) + 1
        # siblings are adjacent, so the children of a state are one slice
        children = slice(first, stop) if state >= 0 else slice(0, 0)
        return self._tree.token[children][self._tree.kind[children] != StateKind.REST]


def _sample_listed(
    tokens: np.ndarray,
    probabilities: np.ndarray,
    unlisted_mass: float,
    uniforms: np.ndarray,
    excluded: np.ndarray,
) -> np.ndarray:
    """Sample tokens by inversion, as `Distributions.sample_by_inversion` does.

    Args:
        tokens: (m,) the listed tokens.
        probabilities: (m,) float64, of these tokens.
        unlisted_mass: probability of all unlisted tokens together. They come last, and
            `_UNLISTED_TOKEN` represents the chosen token among them.
        uniforms: (n,) float64 from [0, 1).
        excluded: tokens that are excluded.

    Raises:
        InvalidDistribution: all tokens that are not excluded have probability 0.
    """
    weights = np.where(np.isin(tokens, excluded), 0.0, probabilities)
    sums = np.append(weights, unlisted_mass).cumsum()
    if not sums[-1] > 0:
        raise InvalidDistribution("all tokens that are not excluded have probability 0")
    nonzero = np.flatnonzero(np.append(weights, unlisted_mass))
    # a product that is rounded up to the whole sum would select an entry after the last token
    indices = np.searchsorted(sums, uniforms * sums[-1], side="right").clip(max=nonzero[-1])
    return np.append(tokens, _UNLISTED_TOKEN)[indices]
