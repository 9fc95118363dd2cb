"""The tree of texts that a bounded text generation process can write, as columns.

A `TextTree` of n states is a set of arrays of length n; the row number is the state's `uid`.
States stand in breadth-first order: the root (the start string) is row 0, the children of a state
are adjacent, ordered by falling probability, with their `rest` last.
"""

import hashlib
import json
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from llmchecker.errors import InvalidBound, InvalidTree
from llmchecker.trees.parquet import read_parquet, write_parquet

PROBABILITY_TOLERANCE = 1e-9
"""How far from 1 the probabilities of siblings may add up: they and their sum are rounded."""

NO_TOKEN = -1

MOST_K = 1_000_000
"""The largest k, above the tokens of any vocabulary."""

MOST_TOKENS = 10_000
"""The largest L. A tree has at least as many levels."""


class Kind(IntEnum):
    """What a state is; a `REST` or `END` state is terminal, a `TEXT` state at step L too."""

    TEXT = 0
    REST = 1
    END = 2


@dataclass(frozen=True)
class Truncation:
    """Where a text generation process is cut (Definition III.4 of Gross et al., 2025).

    Attributes:
        alpha: the probability that the selected tokens hold together, from 0 to 1.
        k: the most tokens that are selected after a text.
        length: the horizon L, in tokens.

    Raises:
        InvalidBound: alpha outside [0, 1]; k or length below 1, not whole, or too large.
    """

    alpha: float
    k: int
    length: int

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise InvalidBound(f"alpha is {self.alpha!r}; it must be a number from 0 to 1")
        for name, value, most in (("k", self.k, MOST_K), ("L", self.length, MOST_TOKENS)):
            if not (1 <= value <= most and value == int(value)):
                raise InvalidBound(
                    f"{name} is {value!r}; it must be a whole number from 1 to {most}"
                )

    def __str__(self) -> str:
        return f"alpha={self.alpha}, k={self.k}, L={self.length}"


@dataclass(frozen=True)
class TextTree:
    """All states of one bounded text generation process, or of one shard of it.

    Attributes:
        model: the name of the language model.
        truncation: where the process was cut.
        parent: (n,) int64, row of the parent; -1 for the root.
        step: (n,) int64, tokens generated so far.
        token: (n,) int64, the last token; `NO_TOKEN` for the root and for `rest`.
        probability: (n,) float64, of this state given its parent; 1 for the root.
        kind: (n,) int8, a `Kind` each.
        text: (n,) objects, the start string and what was generated, decoded as a whole; None for
            `rest`, which stands for many texts.
        is_shard: whether this is one part of a tree (see `shards`). Only a part may hold texts
            before the horizon that have no children: another part holds them.

    Raises:
        InvalidTree: columns of unequal length or that break the order described above, a
            probability that is no number from 0 to 1, children whose probabilities do not add up
            to 1, a parent that is not a text, a text before the horizon that has no children.
    """

    model: str
    truncation: Truncation
    parent: np.ndarray
    step: np.ndarray
    token: np.ndarray
    probability: np.ndarray
    kind: np.ndarray
    text: np.ndarray
    is_shard: bool = False

    def __post_init__(self) -> None:
        _check(self)

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def start(self) -> str:
        """The start string, as the model's tokenizer reads it back."""
        return self.text[0]

    @cached_property
    def internal(self) -> np.ndarray:
        """(n,) bool: the states that have children."""
        internal = np.zeros(len(self), dtype=bool)
        internal[self.parent[1:]] = True
        return internal

    @cached_property
    def levels(self) -> tuple[slice, ...]:
        """The rows of each step after the root's: a step's states are adjacent."""
        first = np.searchsorted(self.step, np.arange(1, self.step[-1] + 2)).tolist()
        return tuple(slice(begin, end) for begin, end in pairwise(first))

    @cached_property
    def path_probability(self) -> np.ndarray:
        """(n,) float64: the probability of the path from the root to each state."""
        probability = self.probability.copy()
        for level in self.levels:
            probability[level] *= probability[self.parent[level]]
        return probability

    @property
    def transitions(self) -> int:
        """Transitions of the chain: the edges of the tree and a self-loop on each terminal."""
        return 2 * len(self) - 1 - int(self.internal.sum())

    @cached_property
    def digest(self) -> str:
        """A sha256 of the model's name, the truncation and all columns.

        Equal trees have equal digests, whichever version of whatever library wrote their files.
        """
        about = [self.model, *vars(self.truncation).values(), self.is_shard]
        hasher = hashlib.sha256(json.dumps(about).encode())
        for column, dtype in (
            (self.parent, "<i8"),
            (self.step, "<i8"),
            (self.token, "<i8"),
            (self.probability, "<f8"),
            (self.kind, "<i1"),
        ):
            hasher.update(np.ascontiguousarray(column, dtype))
        # with the length of each, texts in a row can be told apart
        texts = self.text.tolist()
        lengths = [-1 if text is None else len(text) for text in texts]
        hasher.update(np.array(lengths, "<i8"))
        hasher.update("".join(text for text in texts if text is not None).encode())
        return hasher.hexdigest()

    def write(self, path: str | Path) -> None:
        """Write a parquet file: uid, parent, step, token, probability, kind and text."""
        columns = {
            "uid": pa.array(np.arange(len(self)), pa.int64()),
            "parent": pa.array(self.parent, pa.int64()),
            "step": pa.array(self.step, pa.int32()),
            "token": pa.array(self.token, pa.int32()),
            "probability": pa.array(self.probability, pa.float64()),
            "kind": pa.DictionaryArray.from_arrays(
                pa.array(self.kind, pa.int8()), [kind.name.lower() for kind in Kind]
            ),
            "text": pa.array(self.text, pa.large_string()),
        }
        about = {
            "model": self.model,
            "alpha": self.truncation.alpha,
            "k": self.truncation.k,
            "L": self.truncation.length,
        }
        if self.is_shard:
            about["shard"] = True
        write_parquet(pa.table(columns), path, about)

    @classmethod
    def read(cls, path: str | Path, is_shard: bool = False) -> "TextTree":
        """Read what `write` wrote.

        Args:
            is_shard: whether a shard of a tree is asked for. What asks for a whole tree must not
                be given a part of one.

        Raises:
            DamagedFile: a single bit of the file is not what was written.
            InvalidTree: the file is not a text tree, or a shard where none is asked for.
        """
        table, about = read_parquet(path)
        if about.get("shard", False) != is_shard:
            found = "a whole tree, not one shard" if is_shard else "one shard of a tree, not all"
            raise InvalidTree(f"{path} holds {found} of it")
        try:
            return cls(
                model=about["model"],
                truncation=Truncation(about["alpha"], about["k"], about["L"]),
                parent=table["parent"].to_numpy(),
                step=table["step"].to_numpy().astype(np.int64),
                token=table["token"].to_numpy().astype(np.int64),
                probability=table["probability"].to_numpy(),
                kind=_kinds(table["kind"].combine_chunks()),
                text=table["text"].to_numpy(),
                is_shard=is_shard,
            )
        except (pa.ArrowInvalid, KeyError, TypeError) as error:
            raise InvalidTree(f"{path} is not a text tree: {error}") from error


def _kinds(words: pa.DictionaryArray) -> np.ndarray:
    """(n,) int8, a `Kind` each; a word is looked up once in the dictionary, not for each row."""
    values = [Kind[word.upper()].value for word in words.dictionary.to_pylist()]
    return np.array(values, dtype=np.int8)[words.indices.to_numpy()]


def _check(tree: TextTree) -> None:
    n = len(tree.parent)
    columns = (tree.step, tree.token, tree.probability, tree.kind, tree.text)
    if n == 0 or any(len(column) != n for column in columns):
        raise InvalidTree("the columns of a tree must have one equal length of at least 1")
    parent = tree.parent[1:]
    if tree.parent[0] != -1 or np.any(parent < 0) or np.any(parent >= np.arange(1, n)):
        raise InvalidTree("row 0 is the root, and every other state must follow its parent")
    if np.any(np.diff(parent) < 0) or np.any(tree.step[1:] != tree.step[parent] + 1):
        raise InvalidTree("states must stand in breadth-first order, each a step after its parent")
    if np.any(tree.kind[parent] != Kind.TEXT):
        raise InvalidTree("only a text can have children; rest and end are terminal")
    # said so that a probability that is not a number, which compares as false, is refused too
    if not np.all((tree.probability >= 0) & (tree.probability <= 1)):
        raise InvalidTree("a probability is not a number from 0 to 1")
    sums = np.bincount(parent, weights=tree.probability[1:], minlength=n)
    wrong = tree.internal & (np.abs(sums - 1) > PROBABILITY_TOLERANCE)
    if np.any(wrong):
        uid = int(np.flatnonzero(wrong)[0])
        raise InvalidTree(
            f"the children of state {uid} have probability {float(sums[uid])!r}, not 1"
        )
    unfinished = (tree.kind == Kind.TEXT) & (tree.step < tree.truncation.length) & ~tree.internal
    if np.any(unfinished) and not tree.is_shard:
        uid = int(np.flatnonzero(unfinished)[0])
        raise InvalidTree(
            f"state {uid} is a text of {tree.step[uid]} tokens, fewer than L = "
            f"{tree.truncation.length}, that has not ended and has no children"
        )
