"""Entries of matrices, and groups of codes."""

from collections import defaultdict
from fractions import Fraction
from itertools import chain

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.checking.markov.sparse_matrix import group_codes, merge_entries

ENTRIES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 64)), min_size=1)


@given(st.lists(st.integers(0, 9) | st.integers(0, 2**62)))
def test_codes_are_grouped_by_sorting_or_counting(codes):
    """Distinct codes are those of a set in rising order, and each index finds its code."""
    distinct_codes, indices = group_codes(np.array(codes, dtype=np.int64))
    assert distinct_codes.tolist() == sorted(set(codes))
    assert distinct_codes[indices].tolist() == codes


@given(st.lists(ENTRIES, min_size=1, max_size=3))
def test_merged_entries_are_sorted_sums(parts):
    """Entries of several parts are sorted by row and column, with equal positions added exactly."""
    expected: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for row, column, value in chain.from_iterable(parts):
        expected[row, column] += Fraction(value, 64)
    arrays = [
        (np.array(rows), np.array(columns), np.array(values) / 64)
        for rows, columns, values in (zip(*part, strict=True) for part in parts)
    ]
    rows, columns, values = (column.tolist() for column in merge_entries(arrays))
    assert list(zip(rows, columns, strict=True)) == sorted(expected)
    assert values == [expected[position] for position in sorted(expected)]
