"""The tree of texts of a bounded text generation process, as columns.

A `TextTree` of n states is a set of arrays of length n; the row number is the state's `uid`.
States are in breadth-first order: the root (the start string) is row 0. The children of a state
are adjacent, ordered by decreasing probability, with their `rest` last.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from llmchecker.errors import ConfigError, InvalidBound, InvalidTree
from llmchecker.models.decoding.answer_format import ThoughtMarks
from llmchecker.trees.sealed_parquet import open_parquet, write_parquet
from llmchecker.trees.stored_texts import TEXT_COLUMN, StoredTexts
from llmchecker.utils.number_format import format_count
from llmchecker.utils.section import Length, Section, parse_section

PROBABILITY_TOLERANCE = 1e-9
"""Maximum rounding error of the sum of siblings' probabilities."""

NO_TOKEN = -1

MAX_K = 1_000_000
"""Largest k, above the size of any vocabulary."""

_NUMBER_COLUMNS = ("parent", "step", "token", "probability", "kind")


class StateKind(IntEnum):
    """Kind of a state; all but a `TEXT` before step L are terminal."""

    TEXT = 0
    REST = 1
    END = 2
    """An end token or a stop ended the text."""
    MAX_TOKENS = 3
    """The largest number of tokens of an answer ended the text."""


def find_ended(kind: np.ndarray) -> np.ndarray:
    """Return (n,) bool: the states whose texts have ended, by their kinds."""
    has_ended: np.ndarray = np.isin(kind, (StateKind.END, StateKind.MAX_TOKENS))
    return has_ended


Alpha = Annotated[
    float,
    Field(
        ge=0, le=1, description="The probability that the selected tokens of a state hold together."
    ),
]
SelectedTokens = Annotated[
    int, Field(ge=1, le=MAX_K, description="The largest number of selected tokens of a state.")
]


class _HorizonBounds(Section):
    """The bound of a text generation process without a selection of tokens."""

    length: Length


class TruncationBounds(_HorizonBounds):
    """The bounds of a truncation: the same limits in files, the command line and Python."""

    alpha: Alpha
    k: SelectedTokens


def _check_bounds(section: type[Section], bounds: Mapping[str, Any]) -> None:
    try:
        parse_section(section, bounds)
    except ConfigError as error:
        raise InvalidBound(str(error)) from None


@dataclass(frozen=True)
class Truncation:
    """Truncation of a text generation process (Def. III.4 of Gross et al., 2025).

    Attributes:
        alpha: float, probability that the selected tokens hold together, from 0 to 1.
        k: int, maximum number of tokens selected after a text.
        length: int, the horizon L in tokens.

    Raises:
        InvalidBound: alpha outside [0, 1]; k or length below 1, not an integer, or too large.
    """

    alpha: float
    k: int
    length: int

    def __post_init__(self) -> None:
        _check_bounds(TruncationBounds, vars(self))

    def __str__(self) -> str:
        return f"alpha={self.alpha}, k={self.k}, L={self.length}"


@dataclass(frozen=True)
class Horizon:
    """The length of texts without a truncation.

    Attributes:
        length: the horizon L, in tokens.

    Raises:
        InvalidBound: the length is below 1, not an integer, or too large.
    """

    length: int

    def __post_init__(self) -> None:
        _check_bounds(_HorizonBounds, vars(self))

    def __str__(self) -> str:
        return f"L={self.length}"


@dataclass(frozen=True)
class TextTree:
    """All states of one bounded text generation process, or of one shard of it.

    Attributes:
        model: str, name of the language model.
        truncation: alpha, k and L of the process; L alone if its texts were chosen in another way.
        parent: (n,) int64, row of the parent; -1 for the root.
        step: (n,) int64, number of generated tokens.
        token: (n,) int64, the last token; `NO_TOKEN` for the root and for `rest`.
        probability: (n,) float64, of this state given its parent; 1 for the root.
        kind: (n,) int8, the `StateKind`.
        text: (n,) objects, the start string with the generated tokens, decoded together; None for
            `rest`, which represents many texts. A tree from a file has `StoredTexts`.
        is_shard: bool, whether this is a part of a tree (see `shards`). Only a shard may hold texts
            before the horizon without children: another shard holds their children.
        messages: str, the messages of the chat that the texts answer, as `Chat.as_text` returns
            them; None for a start string.
        marks: ThoughtMarks, the marks of thoughts in the texts; None for texts without thoughts.

    Raises:
        InvalidTree: columns of unequal length or in another order than described above; a
            probability outside 0 to 1; children whose probabilities do not sum to 1; a parent that
            is not a text; a text before the horizon without children.
    """

    model: str
    truncation: Truncation | Horizon
    parent: np.ndarray
    step: np.ndarray
    token: np.ndarray
    probability: np.ndarray
    kind: np.ndarray
    text: np.ndarray | StoredTexts
    is_shard: bool = False
    messages: str | None = None
    marks: ThoughtMarks | None = None

    def __post_init__(self) -> None:
        _check_columns(self)

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def start(self) -> str:
        """The start string, as decoded by the model's tokenizer."""
        start: str = self.text[0]
        return start

    @property
    def is_whole(self) -> np.ndarray:
        """(n,) bool: the texts that ended, or have all tokens of the horizon."""
        whole: np.ndarray = find_ended(self.kind) | (
            (self.kind == StateKind.TEXT) & (self.step == self.truncation.length)
        )
        return whole

    @cached_property
    def internal(self) -> np.ndarray:
        """(n,) bool: the states that have children."""
        internal = np.zeros(len(self), dtype=bool)
        internal[self.parent[1:]] = True
        return internal

    @cached_property
    def levels(self) -> tuple[slice, ...]:
        """Rows of each step after the root's; the states of a step are adjacent."""
        row_bounds = np.searchsorted(self.step, np.arange(1, self.step[-1] + 2)).tolist()
        return tuple(slice(begin, end) for begin, end in pairwise(row_bounds))

    @cached_property
    def path_probability(self) -> np.ndarray:
        """(n,) float64: the probability of the path from the root to each state."""
        probability = self.probability.copy()
        # a parent's product is complete before its children's level
        for level in self.levels:
            probability[level] *= probability[self.parent[level]]
        return probability

    @property
    def transitions(self) -> int:
        """Number of transitions: tree edges, and a self-loop on each terminal state."""
        return 2 * len(self) - 1 - int(self.internal.sum())

    @cached_property
    def digest(self) -> str:
        """Sha256 of the model's name, the truncation, the messages, the marks and all columns.

        Equal trees have equal digests, whichever library versions wrote their files.
        """
        header = [self.model, *vars(self.truncation).values(), self.is_shard]
        if self.messages is not None:
            header.append(self.messages)
        if self.marks is not None:
            header.append(asdict(self.marks))
        hasher = hashlib.sha256(json.dumps(header).encode())
        # fixed byte order and width, so that the digest does not depend on the machine
        for column, dtype in (
            (self.parent, "<i8"),
            (self.step, "<i8"),
            (self.token, "<i8"),
            (self.probability, "<f8"),
            (self.kind, "<i1"),
        ):
            hasher.update(np.ascontiguousarray(column, dtype).data)
        texts = _build_text_array(self.text)
        # without their lengths, different lists of texts could have the same concatenation
        lengths = pc.utf8_length(texts).fill_null(-1).to_numpy()
        hasher.update(np.ascontiguousarray(lengths, "<i8").data)
        # the buffer of all characters, to which a missing text adds none
        hasher.update(texts.buffers()[2])
        return hasher.hexdigest()

    def write(self, path: str | Path) -> None:
        """Write the tree to a parquet file.

        The columns are uid, parent, step, token, probability, kind and text.
        """
        columns = {
            "uid": pa.array(np.arange(len(self)), pa.int64()),
            "parent": pa.array(self.parent, pa.int64()),
            "step": pa.array(self.step, pa.int32()),
            "token": pa.array(self.token, pa.int32()),
            "probability": pa.array(self.probability, pa.float64()),
            "kind": pa.DictionaryArray.from_arrays(
                pa.array(self.kind, pa.int8()), [kind.name.lower() for kind in StateKind]
            ),
            TEXT_COLUMN: _build_text_array(self.text),
        }
        metadata = {
            "model": self.model,
            "L": self.truncation.length,
            "digest": self.digest,
        }
        if isinstance(self.truncation, Truncation):
            metadata |= {"alpha": self.truncation.alpha, "k": self.truncation.k}
        # only shards have the key, so that the files of whole trees do not depend on it
        if self.is_shard:
            metadata["shard"] = True
        if self.messages is not None:
            metadata["messages"] = self.messages
        if self.marks is not None:
            metadata["marks"] = asdict(self.marks)
        write_parquet(pa.table(columns), path, metadata)

    @classmethod
    def read(cls, path: str | Path, is_shard: bool = False) -> "TextTree":
        """Read a file that `write` wrote.

        Args:
            path: path of the file.
            is_shard: whether the file must hold a shard; otherwise it must hold a whole tree.

        Raises:
            DamagedFile: the contents of the file differ from those written.
            InvalidTree: the file is not a text tree, or a shard instead of a tree or the reverse.
        """
        stored = open_parquet(path)
        metadata = stored.metadata
        if metadata.get("shard", False) != is_shard:
            contents = "a whole tree, not one shard" if is_shard else "one shard of a tree, not all"
            raise InvalidTree(f"{path}: it holds {contents} of it")
        table = stored.read_columns(_NUMBER_COLUMNS)
        try:
            tree = cls(
                model=metadata["model"],
                truncation=_parse_truncation(metadata),
                parent=table["parent"].to_numpy(),
                step=table["step"].to_numpy().astype(np.int64),
                token=table["token"].to_numpy().astype(np.int64),
                probability=table["probability"].to_numpy(),
                kind=_parse_kinds(table["kind"].combine_chunks()),
                text=StoredTexts(stored),
                is_shard=is_shard,
                messages=metadata.get("messages"),
                marks=ThoughtMarks(**metadata["marks"]) if "marks" in metadata else None,
            )
        except (pa.ArrowInvalid, KeyError, TypeError) as error:
            raise InvalidTree(f"{path}: not a text tree: {error}") from error
        # the file's checksum covers the digest; computing it again would decode all texts
        if "digest" in metadata:
            vars(tree)["digest"] = metadata["digest"]
        return tree


def sort_breadth_first(parent: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort states breadth first; siblings keep their order.

    Args:
        parent: (n,) int64, the row of each state's parent, which is before it; -1 for row 0.
        step: (n,) int64, number of tokens.

    Returns:
        (n,) int64, the rows in their new order, and (n,) int64, the parents of these states in the
        new order.
    """
    levels, uids, count = [np.zeros(1, dtype=np.int64)], np.zeros(len(step), dtype=np.int64), 1
    for depth in range(1, int(step.max()) + 1):
        level = np.flatnonzero(step == depth)
        level = level[np.argsort(uids[parent[level]], kind="stable")]
        uids[level] = count + np.arange(len(level))
        levels.append(level)
        count += len(level)
    order = np.concatenate(levels)
    return order, np.append(-1, uids[parent[order[1:]]])


def _parse_truncation(metadata: Mapping[str, Any]) -> Truncation | Horizon:
    """Return the truncation of a tree file's metadata."""
    if "alpha" not in metadata:
        return Horizon(metadata["L"])
    return Truncation(metadata["alpha"], metadata["k"], metadata["L"])


def _build_text_array(texts: np.ndarray | StoredTexts) -> pa.LargeStringArray:
    return pa.array(np.asarray(texts), pa.large_string())


def _parse_kinds(words: pa.DictionaryArray) -> np.ndarray:
    """Return (n,) int8, a `StateKind` for each word.

    A word is looked up once in the dictionary, not once for each row.
    """
    values = [StateKind[word.upper()].value for word in words.dictionary.to_pylist()]
    rows: np.ndarray = words.indices.to_numpy()
    return np.array(values, dtype=np.int8).take(rows)


def _check_columns(tree: TextTree) -> None:
    n = len(tree.parent)
    columns = (tree.step, tree.token, tree.probability, tree.kind, tree.text)
    if n == 0 or any(len(column) != n for column in columns):
        raise InvalidTree("tree: its columns are empty or differ in length")
    parent = tree.parent[1:]
    if tree.parent[0] != -1 or np.any(parent < 0) or np.any(parent >= np.arange(1, n)):
        raise InvalidTree("tree: row 0 is not the root, or a state precedes its parent")
    # breadth-first order means that parents never decrease
    if np.any(np.diff(parent) < 0) or np.any(tree.step[1:] != tree.step[parent] + 1):
        raise InvalidTree(
            "tree: its states are not in breadth-first order, each one step after its parent"
        )
    if np.any(tree.kind[parent] != StateKind.TEXT):
        raise InvalidTree("tree: a rest or an end has children; only texts may have children")
    # negated, because NaN compares as false and must be rejected too
    if not np.all((tree.probability >= 0) & (tree.probability <= 1)):
        raise InvalidTree("tree: a probability is not a number from 0 to 1")
    sums = np.bincount(parent, weights=tree.probability[1:], minlength=n)
    is_wrong = tree.internal & (np.abs(sums - 1) > PROBABILITY_TOLERANCE)
    if np.any(is_wrong):
        uid = int(np.flatnonzero(is_wrong)[0])
        raise InvalidTree(f"state {uid}: its children have probability {float(sums[uid])!r}, not 1")
    # another shard may hold the children
    if not tree.is_shard:
        check_complete(tree)


def check_complete(tree: TextTree) -> None:
    """Check that every text without children has ended or is at the horizon.

    A chain would give an unfinished text a loop, although the model continues it.

    Raises:
        InvalidTree: a text without children has not ended and is before the horizon.
    """
    is_unfinished = (
        (tree.kind == StateKind.TEXT) & (tree.step < tree.truncation.length) & ~tree.internal
    )
    if np.any(is_unfinished):
        uid = int(np.flatnonzero(is_unfinished)[0])
        raise InvalidTree(
            f"state {uid}: a text of {format_count(tree.step[uid], 'token')} below L = "
            f"{tree.truncation.length} that has neither ended nor children; build the whole tree"
        )
