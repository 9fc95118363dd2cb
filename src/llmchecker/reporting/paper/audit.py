"""Audit of the published sizes by limits of bounded text generation processes.

The audit checks whether an alpha-k-bounded text generation process (Gross et al., 2025, Definition
III.4) can have the printed size. The paper prints the part that Storm explored for the query: N
states, of which I were expanded to all of their children. The other states only have a loop. An
expanded state is less than L steps from the start. It has 1 to k selected tokens, any of which may
be expanded, and at most one `rest`, which is never expanded. Hence

1. transitions = (N - 1) + (N - I), the edges of the tree and the loops;
2. I <= 1 + k + ... + k^(L-1);
3. N <= 1 + (k + 1) I;
4. N >= I + w, with the least w for which L levels of at most w expanded states can contain I: the
   sum of min(k^d, w) over d < L is at least I. Proof: with f_d expanded states at step d, step
   d + 1 has at least max(f_d, f_(d+1)) states. The sum over all d is I plus the increases from each
   f_d to the next. These lead from f_0 = 1 to the largest f_d, which is at least w.

Every pair of N and I within limits 2 to 4 is possible. If alpha is 1, every expanded state has
exactly k tokens and a `rest`, so that limit 5 replaces 3 and 4:

5. N = 1 + (k + 1) I,

given a vocabulary of more than k tokens, none of probability 0. If alpha is 0, one token is
selected for any k.

6. Consider two trees for the same model, start and query. If alpha, k and L of the first tree are
   at most those of the second, the second tree contains the first. The same applies to the parts
   that Storm explores, so that neither N nor I of the first is larger.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd

from llmchecker.reporting.paper.published_table import PublishedRow
from llmchecker.trees.text_tree import Truncation

_AUDIT_COLUMNS = """
    row label interest model alpha k L query states transitions internal children most_internal
    most_states finding would_fit same_size_as
""".split()


@dataclass(frozen=True)
class AuditRow:
    """The audit of a published row.

    The attributes after `contradictions` have values only for a row with a contradiction.

    Attributes:
        row: the published row.
        contradictions: a sentence for every violated limit.
        min_length: the smallest L that allows the size with the printed alpha and k; None if no L
            does.
        min_k: the smallest k that allows the size with the printed alpha and L; None if no k does.
        min_pairs: the minimal pairs (k, L) that allow the size with the printed alpha.
    """

    row: PublishedRow
    contradictions: tuple[str, ...] = ()
    min_length: int | None = None
    min_k: int | None = None
    min_pairs: tuple[tuple[int, int], ...] = ()

    @property
    def verdict(self) -> str:
        """The result in one word."""
        return "contradiction" if self.contradictions else "consistent"


def _find_contradictions(truncation: Truncation, states: int, internal: int) -> Iterator[str]:
    """Yield a sentence for each of the limits 1 to 5 that a size violates."""
    # Limit 1. The other limits have no meaning for such a size.
    if not min(1, states - 1) <= internal < states:
        transitions = 2 * states - 1 - internal
        yield (
            f"{transitions} transitions would leave {internal} internal states of {states}; "
            f"{states} states have {states} to {max(1, 2 * states - 2)} transitions"
        )
        return
    k = _max_selected(truncation)
    max_internal = _max_internal(k, truncation.length)
    if internal > max_internal:
        yield (
            f"{internal} internal states are more than the {max_internal} that {truncation} "
            "can have"
        )
    # Limit 3 with the largest I of limit 2.
    if states > 1 + (k + 1) * max_internal:
        yield (
            f"{states} states are more than the {1 + (k + 1) * max_internal} that {truncation} "
            "can have"
        )
    max_states = 1 + (k + 1) * internal
    # Limit 5 replaces limit 3.
    if truncation.alpha == 1 and states != max_states:
        yield (
            f"alpha=1 cuts nothing, so that {internal} internal states with k + 1 = {k + 1} "
            f"children each make exactly {max_states} states, not {states}"
        )
    elif states > max_states:
        yield (
            f"{internal} internal states with at most k + 1 = {k + 1} children each make at most "
            f"{max_states} states, not {states}"
        )
    # With more internal states than limit 2 allows, no width exists.
    if internal <= max_internal:
        min_states = internal + _compute_min_width(k, truncation.length, internal)
        if states < min_states:
            yield (
                f"{internal} internal states within {truncation.length} steps make at least "
                f"{min_states} states, not {states}"
            )


def _is_possible(truncation: Truncation, states: int, internal: int) -> bool:
    """Return whether a tree with this truncation can have this size."""
    return next(_find_contradictions(truncation, states, internal), None) is None


def _max_internal(k: int, length: int) -> int:
    """Return the number of internal states of a tree with k tokens for each text."""
    # The closed form of the geometric sum divides by k - 1.
    return length if k == 1 else (k**length - 1) // (k - 1)


def _max_selected(truncation: Truncation) -> int:
    # With alpha 0 the most probable token alone is enough.
    return 1 if truncation.alpha == 0 else truncation.k


def _compute_min_width(k: int, length: int, internal: int) -> int:
    """Compute the least w: the sum of min(k^d, w), d < length, reaches `internal`.

    Raises:
        ValueError: no width suffices.
    """
    if internal > _max_internal(k, length):
        raise ValueError(f"no tree with k={k} and L={length} has {internal} internal states")

    def capacity(width: int) -> int:
        # Only levels below `full_levels` have fewer than `width` states in a full tree.
        full_levels = 0 if k > 1 else length
        while full_levels < length and k**full_levels < width:
            full_levels += 1
        return _max_internal(k, full_levels) + (length - full_levels) * width

    return 1 + bisect_left(range(1, internal), internal, key=capacity)


def audit(rows: Sequence[PublishedRow]) -> tuple[AuditRow, ...]:
    """Audit every row against every limit, in the given order."""
    return tuple(_build_audit_row(row, rows) for row in rows)


def _build_audit_row(row: PublishedRow, rows: Sequence[PublishedRow]) -> AuditRow:
    contradictions = (
        *_find_contradictions(row.truncation, row.states, row.internal_states),
        *_find_order_violations(row, rows),
    )
    # A row without contradictions needs no other parameters.
    if not contradictions:
        return AuditRow(row)
    # No tree of this size needs more steps than internal states, or more tokens than states.
    lengths, ks = range(1, row.internal_states + 1), range(1, row.states + 1)

    def is_possible(k: int, length: int) -> bool:
        return _is_possible(
            Truncation(row.truncation.alpha, k, length), row.states, row.internal_states
        )

    return AuditRow(
        row=row,
        contradictions=contradictions,
        min_length=next(
            (length for length in lengths if is_possible(row.truncation.k, length)), None
        ),
        min_k=next((k for k in ks if is_possible(k, row.truncation.length)), None),
        min_pairs=tuple(_iter_min_pairs(is_possible, ks, lengths)),
    )


def _find_order_violations(row: PublishedRow, rows: Sequence[PublishedRow]) -> Iterator[str]:
    """Yield a sentence for each smaller row whose tree contains this row's, limit 6."""
    for candidate in rows:
        is_larger = row.states > candidate.states or row.internal_states > candidate.internal_states
        if is_larger and _contains(candidate, row):
            yield (
                f"{row.states} states and {row.internal_states} internal do not fit into row "
                f"{candidate.number}, whose tree contains this one and has {candidate.states} and "
                f"{candidate.internal_states}"
            )


def _contains(outer: PublishedRow, inner: PublishedRow) -> bool:
    """Return whether the tree of the outer row contains that of the inner row."""
    outer_truncation, inner_truncation = outer.truncation, inner.truncation
    return (
        _subject_key(outer) == _subject_key(inner)
        and outer.query.root == inner.query.root
        and outer_truncation.alpha >= inner_truncation.alpha
        and outer_truncation.k >= inner_truncation.k
        and outer_truncation.length >= inner_truncation.length
    )


def _subject_key(row: PublishedRow) -> tuple[str, str]:
    return row.label.casefold(), row.model.casefold()


def _iter_min_pairs(
    is_possible: Callable[[int, int], bool], ks: range, lengths: range
) -> Iterator[tuple[int, int]]:
    """Yield the minimal pairs (k, L) that fit.

    No other pair that fits has a smaller k or L without a larger value of the other.
    """
    for length in lengths:
        k = next((k for k in ks if is_possible(k, length)), None)
        if k is not None:
            yield k, length
            # With a larger L, only a smaller k is minimal.
            ks = ks[: ks.index(k)]


def _format_uncut_trees(states: int, internal: int) -> str:
    """Describe the uncut trees of exactly this size, with or without `rest`."""
    # In an uncut tree every internal state has the same number of children.
    if internal < 1 or (states - 1) % internal:
        return ""
    children = (states - 1) // internal
    lengths = range(1, internal + 1)
    descriptions = []
    for k, label in ((children - 1, "uncut tree"), (children, "uncut tree without rest")):
        if k >= 1:
            index = bisect_left(lengths, internal, key=partial(_max_internal, k))
            if _max_internal(k, lengths[index]) == internal:
                descriptions.append(f"{label}: k={k}, L={lengths[index]}")
    return "; ".join(descriptions)


def build_audit_table(audit_rows: Iterable[AuditRow]) -> pd.DataFrame:
    """Build the audit table: sizes, limits, contradictions, possible parameters.

    `children` is the mean over internal states, at most k + 1. `most_internal` and `most_states`
    are the sizes of the uncut tree.
    """
    return pd.DataFrame(map(_build_record, audit_rows), columns=_AUDIT_COLUMNS)


def _build_record(audit_row: AuditRow) -> dict[str, object]:
    row = audit_row.row
    k = _max_selected(row.truncation)
    max_internal = _max_internal(k, row.truncation.length)
    return {
        "row": row.number,
        "label": row.label,
        "interest": row.interest,
        "model": row.model,
        "alpha": row.truncation.alpha,
        "k": row.truncation.k,
        "L": row.truncation.length,
        "query": row.query.text,
        "states": row.states,
        "transitions": row.transitions,
        "internal": row.internal_states,
        "children": (row.states - 1) / row.internal_states if row.internal_states > 0 else None,
        "most_internal": max_internal,
        "most_states": 1 + (k + 1) * max_internal,
        "finding": "; ".join(audit_row.contradictions) or audit_row.verdict,
        "would_fit": _format_remedy(audit_row) if audit_row.contradictions else None,
        "same_size_as": _format_uncut_trees(row.states, row.internal_states) or None,
    }


def _format_remedy(audit_row: AuditRow) -> str:
    """Format the parameters that allow the size."""
    truncation = audit_row.row.truncation
    length = (
        "no L fits" if audit_row.min_length is None else f"the smallest L is {audit_row.min_length}"
    )
    k = "no k fits" if audit_row.min_k is None else f"the smallest k is {audit_row.min_k}"
    pairs = ", ".join(f"({k}, {length})" for k, length in audit_row.min_pairs) or "none"
    return (
        f"with k={truncation.k} {length}; with L={truncation.length} {k}; "
        f"smallest (k, L) with alpha={truncation.alpha}: {pairs}"
    )
