"""Bounds of BEAVER, written literally.

Suresh, Wadhwa, Banerjee and Singh, "BEAVER: An Efficient Deterministic LLM Verifier", arXiv
2512.05439: a trie of the texts that keep a prefix-closed constraint, whose leaves are the frontier.
Each pass takes the most probable unfinished leaf, and adds all next tokens that keep the
constraint. The mass of the finished leaves is a lower bound, that of all leaves an upper bound.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from llmchecker.models.distribution import Distributions
from llmchecker.models.interface import LanguageModel


@dataclass(frozen=True)
class Bounds:
    """Bounds after a number of passes."""

    passes: int
    lower: float
    upper: float


def iter_bounds(
    model: LanguageModel,
    start: str,
    keeps: Callable[[str], bool],
    length: int,
    passes: int,
) -> Iterator[Bounds]:
    """Yield bounds on the probability that a text keeps a constraint, after each pass.

    Args:
        model: the model.
        start: the start string.
        keeps: whether a text after the start string keeps the constraint; if not, no longer text
            does.
        length: the horizon in tokens.
        passes: maximum number of passes.
    """
    prompt = model.encode(start)
    prefix = model.open_prefix(prompt, length)
    beginning = len(model.decode([prompt])[0])
    pieces = model.token_pieces
    assert pieces is not None
    finished, unfinished, made = 0.0, 1.0, 0
    frontier: list[tuple[float, tuple[int, ...]]] = [(-1.0, ())]
    yield Bounds(0, 0.0, 1.0)
    while frontier and made < passes:
        negative, tokens = heapq.heappop(frontier)
        mass, made = -negative, made + 1
        (following,) = prefix.map_next(_get_probabilities, np.array([tokens], dtype=np.int64))
        text = model.decode_unfinished([[*prompt, *tokens]])[0][beginning:]
        unfinished -= mass
        # only so many of the most probable children may become a leaf that is taken
        waiting = passes - made
        for token in np.argsort(-following, kind="stable").tolist():
            child = mass * float(following[token])
            # tokens of probability 0 follow
            if child == 0:
                break
            # a piece of a character adds no text
            if not keeps(text + (pieces[token] or "")):
                continue
            if token in model.end_tokens or len(tokens) + 1 == length:
                finished += child
                continue
            unfinished += child
            if waiting:
                waiting -= 1
                heapq.heappush(frontier, (-child, (*tokens, token)))
        unfinished = max(unfinished, 0.0)
        yield Bounds(made, finished, min(1.0, finished + unfinished))


def _get_probabilities(rows: np.ndarray, found: Distributions) -> np.ndarray:
    del rows
    probabilities: np.ndarray = found.probabilities()[0].cpu().numpy()
    return probabilities
