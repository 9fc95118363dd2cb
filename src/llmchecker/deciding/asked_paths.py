"""Which path formulas answer a query, and whether samples of texts can estimate it."""

from collections.abc import Mapping

from llmchecker.queries.formulas import (
    Conditional,
    Connective,
    Expectation,
    Formula,
    PathQuantifier,
    Probability,
)
from llmchecker.queries.query import Query
from llmchecker.queries.reading import OpenReading, Reading, is_read_along_texts
from llmchecker.queries.valuations import Range


def paths_of(query: Query) -> tuple[Formula, ...]:
    """The path formulas whose probabilities answer a query.

    A conditional of φ given ψ has two: φ & ψ and !φ & ψ. There are none where single texts do not
    decide the query: an expected score, a nested P, E or A, a combination of several, or "rest".
    """
    match query.root:
        case Probability(_, _, path) | PathQuantifier(_, path):
            paths = (path,)
        case Conditional(path, given):
            paths = (
                Connective("&", (path, given)),
                Connective("&", (Connective("!", (path,)), given)),
            )
        case _:
            return ()
    return paths if all(map(is_read_along_texts, paths)) else ()


def readings_of(
    query: Query, length: int, ranges: Mapping[str, Range]
) -> list[Reading | OpenReading]:
    """What a tree is refined for: a reading of each path formula of a query.

    Where single texts do not decide the query, its reading counts every text as undecided until it
    ends, and of an expected score until the step at which it is asked for.

    Args:
        query: what is asked.
        length: the horizon.
        ranges: the declared range of each quantifier of the query.
    """
    if isinstance(query.root, Expectation):
        return [OpenReading(length, query.root.step)]
    return [Reading(path, length, ranges) for path in paths_of(query)] or [OpenReading(length)]


def why_not_estimated(query: Query, ranges: Mapping[str, Range]) -> str | None:
    """A sentence that says why samples of texts cannot estimate the answer; None where they can.

    They can for P=?, for P compared with a threshold, for conditionals, and for expected scores of
    a quantifier with a range. E and A ask for some path and for every path, of which a share of
    samples says nothing.
    """
    match query.root:
        case Expectation(quantifier):
            if None not in ranges.get(quantifier, (None, None))[:2]:
                return None
            return (
                f"{quantifier} has no least or no greatest score, and without both no number of "
                "samples bounds its mean"
            )
        case PathQuantifier():
            return "E and A ask for some path or every path, of which samples say nothing"
    if paths_of(query):
        return None
    return 'single texts do not decide a query with a P, E or A inside another, or with "rest"'
