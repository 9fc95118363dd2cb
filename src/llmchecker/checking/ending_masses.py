"""Masses of the texts that ended within the horizon, and of those that it cuts."""

import math

import numpy as np

from llmchecker.checking.endings import ROUNDING, Endings
from llmchecker.checking.interval import Interval
from llmchecker.trees.text_tree import StateKind, TextTree


def build_endings(
    masses: np.ndarray,
    has_ended: np.ndarray,
    is_cut: np.ndarray,
    is_decided: np.ndarray,
    *,
    can_end: bool = True,
) -> Endings:
    """Build endings from disjoint texts; all other texts of the model may be anything.

    Args:
        masses: (n,) float64, the probability of each text.
        has_ended: (n,) bool, whether the text ended.
        is_cut: (n,) bool, whether the text has all tokens of the horizon and did not end.
        is_decided: (n,) bool, whether the text decides the query before the horizon.
        can_end: whether the model has a token that ends a text.
    """
    ended, cut, decided = (
        math.fsum(masses[is_kind].tolist()) for is_kind in (has_ended, is_cut, is_decided)
    )
    others = 1 - ended - decided
    interval = Interval(max(0.0, ended - ROUNDING), min(1.0, 1 - cut + ROUNDING))
    return Endings(
        interval if can_end else Interval(0.0, 0.0),
        # what is left of rounding cuts no text
        0.0 if others <= ROUNDING else min(1.0, others),
    )


def measure_endings(tree: TextTree) -> Endings:
    """Measure the endings of a tree; a text in `rest` may end or not."""
    has_ended = tree.kind == StateKind.END
    is_cut = (tree.kind == StateKind.TEXT) & (tree.step == tree.truncation.length)
    return build_endings(tree.path_probability, has_ended, is_cut, np.zeros(len(tree), dtype=bool))
