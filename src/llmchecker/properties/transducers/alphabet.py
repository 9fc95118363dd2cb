"""Classes of characters that a pattern does not tell apart."""

import sys
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import regex

from llmchecker.properties.transducers.patterns import Atom

_UNUSED = r"\U0010FFFF"
"""A character that no text has."""


class AlphabetPartition:
    """Partition of all characters into classes that no atom tells apart.

    Attributes:
        size: number of classes.

    Args:
        atoms: sets of characters.
    """

    def __init__(self, atoms: Sequence[Atom]) -> None:
        bounds = [_find_bounds(atom.source) for atom in atoms]
        self._starts = np.unique(np.concatenate([np.zeros(1, np.int64), *bounds]))
        # a character is in a set if it follows an odd number of the set's bounds
        membership = np.stack(
            [np.searchsorted(bound, self._starts, side="right") % 2 for bound in bounds]
            or [np.zeros(len(self._starts), np.int64)]
        )
        signatures, classes = np.unique(membership, axis=1, return_inverse=True)
        self._classes = classes.reshape(-1)
        self.size = signatures.shape[1]
        self._members = {
            atom: frozenset(np.flatnonzero(row).tolist())
            for atom, row in zip(atoms, signatures, strict=False)
        }

    def find_members(self, atom: Atom) -> frozenset[int]:
        """Return the classes of an atom's characters."""
        return self._members[atom]

    def find_class(self, character: int) -> int:
        """Return the class of a character's code point."""
        return int(self._classes[np.searchsorted(self._starts, character, side="right") - 1])


def depends_on_branch(atom: Atom) -> bool:
    r"""Return whether an atom matches other characters where it is one of several alternatives.

    `regex` joins alternatives of one character to a set. Without regard to case it then reads some
    properties otherwise: `(?i)\p{L}` does not match U+0345, and `(?i)\p{L}|a` does.
    """
    found = regex.fullmatch(r"\(\?is?:(.*)\)", atom.source, regex.DOTALL)
    # a single character has the same cases in a set
    if found is None or regex.fullmatch(r"\\U[0-9A-F]{8}", found[1]):
        return False
    joined = _find_bounds(f"{atom.source[:-1]}|{_UNUSED})")
    return not np.array_equal(_drop_unused(joined), _drop_unused(_find_bounds(atom.source)))


def _drop_unused(bounds: np.ndarray) -> np.ndarray:
    """Return the bounds without those of the last character."""
    return bounds[bounds < sys.maxunicode]


@lru_cache(maxsize=1)
def _join_all_characters() -> str:
    return "".join(map(chr, range(sys.maxunicode + 1)))


@lru_cache(maxsize=4096)
def _find_bounds(source: str) -> np.ndarray:
    """Return the sorted code points at which membership of an atom's set changes."""
    # a character without flags needs no search
    if regex.fullmatch(r"\\U[0-9A-F]{8}", source):
        return np.array([int(source[2:], 16), int(source[2:], 16) + 1], np.int64)
    matches = regex.compile(f"(?:{source})+").finditer(_join_all_characters())
    return np.array([bound for match in matches for bound in match.span()], np.int64)
