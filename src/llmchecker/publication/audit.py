"""Whether the sizes that the paper published can be.

The audit asks whether an alpha-k-bounded text generation process (Gross et al., 2025, Definition
III.4) can have the printed size. What is printed is what Storm explored for the query: N states, of
which I were expanded, each to all of its children; the others only loop. An expanded state lies
less than L steps from the start. It has 1 to k selected tokens, any of which may be expanded, and
at most one `rest`, which never is. Hence

1. transitions = (N - 1) + (N - I), the edges of the tree and the loops;
2. I <= 1 + k + ... + k^(L-1);
3. N <= 1 + (k + 1) I;
4. N >= I + w, where w is the least width such that L levels of at most w expanded states each have
   room for I: the sum of min(k^d, w) over d < L is at least I. For with f_d expanded states at step
   d there are at least max(f_d, f_(d+1)) states at step d + 1; over all d these sum to I and the
   rises from one f_d to the next, which bring f_0 = 1 up to the largest f_d, at least w.

All N and I within 2 to 4 occur together. Where alpha is 1 every expanded state has exactly k tokens
and a `rest`, so that instead of 3 and 4

5. N = 1 + (k + 1) I,

given a vocabulary of more than k tokens, none of probability 0. Where alpha is 0 one token is
selected, whatever k is.

6. A tree whose alpha, k and L are at most those of another, for the same model, start and query, is
   a part of it, and so is what Storm explores of it: neither N nor I is larger.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from llmchecker.publication.published import PublishedRow
from llmchecker.trees.text_tree import Truncation

COLUMNS_OF_AUDIT = """
    row label interest model alpha k L query states transitions internal children most_internal
    most_states finding would_fit same_size_as
""".split()


@dataclass(frozen=True)
class Finding:
    """What the audit found of a published row.

    Attributes:
        row: the row.
        contradictions: a sentence for every limit that it breaks; what follows is for rows that
            break one.
        length: the smallest L with which the printed alpha and k allow the size; None if none does.
        k: the smallest k with which the printed alpha and L do; None if none does.
        pairs: the (k, L) that do with the printed alpha, as far as no smaller k or L does.
    """

    row: PublishedRow
    contradictions: tuple[str, ...] = ()
    length: int | None = None
    k: int | None = None
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def verdict(self) -> str:
        """One word for the row."""
        return "contradiction" if self.contradictions else "consistent"


def contradictions(truncation: Truncation, states: int, internal: int) -> Iterator[str]:
    """A sentence for each of the limits 1 to 5 that a size breaks."""
    if not min(1, states - 1) <= internal < states:
        transitions = 2 * states - 1 - internal
        yield (
            f"{transitions} transitions would leave {internal} internal states of {states}; "
            f"{states} states have {states} to {max(1, 2 * states - 2)} transitions"
        )
        return
    k = _most_selected(truncation)
    most = most_internal(k, truncation.length)
    if internal > most:
        yield f"{internal} internal states are more than the {most} that {truncation} can have"
    if states > 1 + (k + 1) * most:
        yield f"{states} states are more than the {1 + (k + 1) * most} that {truncation} can have"
    widest = 1 + (k + 1) * internal
    if truncation.alpha == 1 and states != widest:
        yield (
            f"alpha=1 cuts nothing, so that {internal} internal states with k + 1 = {k + 1} "
            f"children each make exactly {widest} states, not {states}"
        )
    elif states > widest:
        yield (
            f"{internal} internal states with at most k + 1 = {k + 1} children each make at most "
            f"{widest} states, not {states}"
        )
    if internal <= most:
        fewest = internal + _least_width(k, truncation.length, internal)
        if states < fewest:
            yield (
                f"{internal} internal states within {truncation.length} steps make at least "
                f"{fewest} states, not {states}"
            )


def allowed(truncation: Truncation, states: int, internal: int) -> bool:
    """Whether a tree with this truncation can have this size."""
    return next(contradictions(truncation, states, internal), None) is None


def most_internal(k: int, length: int) -> int:
    """The states that are expanded where every text goes on with k tokens for `length` steps."""
    return length if k == 1 else (k**length - 1) // (k - 1)


def _most_selected(truncation: Truncation) -> int:
    return 1 if truncation.alpha == 0 else truncation.k


def _least_width(k: int, length: int, internal: int) -> int:
    """The least w such that the sum of min(k^d, w) over d < length is at least `internal`.

    Raises:
        ValueError: no width is enough.
    """
    if internal > most_internal(k, length):
        raise ValueError(f"no tree with k={k} and L={length} has {internal} internal states")

    def room(width: int) -> int:
        growing = 0 if k > 1 else length
        while growing < length and k**growing < width:
            growing += 1
        return most_internal(k, growing) + (length - growing) * width

    return 1 + bisect_left(range(1, internal), internal, key=room)


def audit(rows: Sequence[PublishedRow]) -> tuple[Finding, ...]:
    """Every row held against every limit, in the order given."""
    return tuple(_finding(row, rows) for row in rows)


def _finding(row: PublishedRow, rows: Sequence[PublishedRow]) -> Finding:
    broken = *contradictions(row.truncation, row.states, row.internal), *_disorder(row, rows)
    if not broken:
        return Finding(row)
    # no tree of this size has use for more steps than internal states, or more tokens than states
    lengths, ks = range(1, row.internal + 1), range(1, row.states + 1)

    def fits(k: int, length: int) -> bool:
        return allowed(Truncation(row.truncation.alpha, k, length), row.states, row.internal)

    return Finding(
        row=row,
        contradictions=broken,
        length=next((length for length in lengths if fits(row.truncation.k, length)), None),
        k=next((k for k in ks if fits(k, row.truncation.length)), None),
        pairs=tuple(_smallest_pairs(fits, ks, lengths)),
    )


def _disorder(row: PublishedRow, rows: Sequence[PublishedRow]) -> Iterator[str]:
    """A sentence for every row whose tree contains this one's, limit 6, and yet is smaller."""
    for other in rows:
        larger = row.states > other.states or row.internal > other.internal
        if larger and _contains(other, row):
            yield (
                f"{row.states} states and {row.internal} internal do not fit into row "
                f"{other.number}, whose tree contains this one and has {other.states} and "
                f"{other.internal}"
            )


def _contains(outer: PublishedRow, inner: PublishedRow) -> bool:
    """Whether the tree of one row is a part of another's, or equal to it."""
    one, other = outer.truncation, inner.truncation
    return (
        _subject(outer) == _subject(inner)
        and outer.query.root == inner.query.root
        and one.alpha >= other.alpha
        and one.k >= other.k
        and one.length >= other.length
    )


def _subject(row: PublishedRow) -> tuple[str, str]:
    return row.label.casefold(), row.model.casefold()


def _smallest_pairs(
    fits: Callable[[int, int], bool], ks: range, lengths: range
) -> Iterator[tuple[int, int]]:
    """Every (k, L) that fits, unless one with a smaller k or L and the other no larger does too."""
    for length in lengths:
        k = next((k for k in ks if fits(k, length)), None)
        if k is not None:
            yield k, length
            ks = ks[: ks.index(k)]


def same_size_as(states: int, internal: int) -> str:
    """Name the uncut trees of exactly this size, with a `rest` in every text or in none."""
    if internal < 1 or (states - 1) % internal:
        return ""
    children = (states - 1) // internal
    lengths = range(1, internal + 1)
    named = []
    for k, form in ((children - 1, "uncut tree"), (children, "uncut tree without rest")):
        if k >= 1:
            place = bisect_left(lengths, internal, key=lambda length, k=k: most_internal(k, length))
            if most_internal(k, lengths[place]) == internal:
                named.append(f"{form}: k={k}, L={lengths[place]}")
    return "; ".join(named)


def audit_table(findings: Iterable[Finding]) -> pd.DataFrame:
    """One row for every finding: the size, its limits, what contradicts it and what would fit.

    `children` is the mean over internal states, at most k + 1. `most_internal` and `most_states`
    are those of the tree in which nothing is cut.
    """
    return pd.DataFrame(map(_audited, findings), columns=COLUMNS_OF_AUDIT)


def _audited(finding: Finding) -> dict[str, object]:
    row = finding.row
    k = _most_selected(row.truncation)
    most = most_internal(k, row.truncation.length)
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
        "internal": row.internal,
        "children": (row.states - 1) / row.internal if row.internal > 0 else None,
        "most_internal": most,
        "most_states": 1 + (k + 1) * most,
        "finding": "; ".join(finding.contradictions) or finding.verdict,
        "would_fit": _remedy(finding) if finding.contradictions else None,
        "same_size_as": same_size_as(row.states, row.internal) or None,
    }


def _remedy(finding: Finding) -> str:
    """The parameters that allow the size."""
    truncation = finding.row.truncation
    length = "no L fits" if finding.length is None else f"the smallest L is {finding.length}"
    k = "no k fits" if finding.k is None else f"the smallest k is {finding.k}"
    pairs = ", ".join(f"({k}, {length})" for k, length in finding.pairs) or "none"
    return (
        f"with k={truncation.k} {length}; with L={truncation.length} {k}; "
        f"smallest (k, L) with alpha={truncation.alpha}: {pairs}"
    )
