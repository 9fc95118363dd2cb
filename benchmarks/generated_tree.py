"""Large trees without a language model: random, and of the shape that a real one grows."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from llmchecker.trees.text_tree import MAX_K, NO_TOKEN, StateKind, TextTree, Truncation

START = "The player won because"
WORDS = """
    a and as because but for game had he her his in it man more of one player scored she team that
    the they time to was well who with woman won
""".split()
END_SHARE = 0.02
RANGES = {"gender": (None, None), "polarity": (-100, 100), "readability": (None, None)}
"""The least and the greatest score that each quantifier declares."""
_SCORES = {"gender": (0, 3), "polarity": (0, 100), "readability": (6000, 10)}
"""The score of most texts, and how far others are from it at most."""


def generated_tree(states: int, seed: int, *, length: int = 8) -> TextTree:
    """Return a random tree with just so many states, in time linear in them.

    Steps grow by one factor. Every text before the horizon has children: at least one, on average
    as many as the factor asks for; where there are several, the last is their `rest`. A few texts
    end on the way. Siblings have falling random probabilities; a text is its parent's and a word.

    Args:
        states: at least 20 times `length`, so that every step has room for its texts.
        seed: the same seed gives the same tree.
        length: the horizon L.
    """
    random = np.random.default_rng(seed)
    sizes = _sizes(states - 1, length)
    parents, kinds, tokens, probabilities = [[-1]], [[StateKind.TEXT]], [[NO_TOKEN]], [[1.0]]
    texts = [pa.array([START], pa.large_string())]
    behind, expanding = 1, np.zeros(1, dtype=np.int64)  # rows so far, rows of the last step's texts
    for size in sizes:
        children = 1 + random.multinomial(
            size - len(expanding), np.full(len(expanding), 1 / len(expanding))
        )
        parent = np.repeat(expanding, children)
        kind = _kinds(random, children)
        token = np.where(kind == StateKind.REST, NO_TOKEN, random.integers(len(WORDS), size=size))
        texts.append(_texts(texts[-1], parent - (behind - len(texts[-1])), token, kind))
        parents.append(parent)
        kinds.append(kind)
        tokens.append(token)
        probabilities.append(_probabilities(random, children))
        expanding = behind + np.flatnonzero(kind == StateKind.TEXT)
        behind += size
    return TextTree(
        model="generated",
        truncation=Truncation(1.0, min(states, MAX_K), length),
        parent=np.concatenate(parents),
        step=np.repeat(np.arange(length + 1), [1, *sizes]),
        token=np.concatenate(tokens),
        probability=np.concatenate(probabilities),
        kind=np.concatenate(kinds).astype(np.int8),
        text=pa.concat_arrays(texts).to_numpy(zero_copy_only=False),
    )


def generated_scores(tree: TextTree, seed: int) -> dict[str, np.ndarray]:
    """Return random scores within `RANGES`, which on a path differ from most about once."""
    random = np.random.default_rng(seed)
    share = 1 / tree.truncation.length
    return {
        name: usual
        + random.integers(-spread, spread, size=len(tree), endpoint=True)
        * (random.random(len(tree)) < share)
        for name, (usual, spread) in _SCORES.items()
    }


def _sizes(total: int, length: int) -> np.ndarray:
    """(length,) int64 that sum to the total, each about the same factor above the one before."""
    low, high = 1.0, float(total)
    powers = np.arange(1, length + 1)
    for _ in range(100):
        factor = (low + high) / 2
        low, high = (factor, high) if (factor**powers).sum() < total else (low, factor)
    sizes = np.maximum(1, np.round(high**powers).astype(np.int64))
    sizes[-1] += total - sizes.sum()
    return sizes


def _kinds(random: np.random.Generator, children: np.ndarray) -> np.ndarray:
    kind = np.where(random.random(children.sum()) < END_SHARE, StateKind.END, StateKind.TEXT)
    first = np.cumsum(children) - children
    kind[first] = StateKind.TEXT  # so that no step is the last before the horizon
    kind[(first + children - 1)[children > 1]] = StateKind.REST
    return kind


def _probabilities(random: np.random.Generator, children: np.ndarray) -> np.ndarray:
    family = np.repeat(np.arange(len(children)), children)
    weight = random.exponential(size=len(family)) + 1e-3
    weight = weight[np.lexsort((-weight, family))]
    return weight / np.bincount(family, weights=weight)[family]


def _texts(
    above: pa.LargeStringArray, parent: np.ndarray, token: np.ndarray, kind: np.ndarray
) -> pa.LargeStringArray:
    """What each state's parent reads, and its own word; nothing more in `end`, null in `rest`."""
    words = pa.array(["", *(f" {word}" for word in WORDS), None], pa.large_string())
    chosen = np.where(
        kind == StateKind.END, 0, np.where(kind == StateKind.REST, len(WORDS) + 1, token + 1)
    )
    nothing = pa.scalar("", pa.large_string())
    return pc.binary_join_element_wise(
        above.take(pa.array(parent)), words.take(pa.array(chosen)), nothing
    )
