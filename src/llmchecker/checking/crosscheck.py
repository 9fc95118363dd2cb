"""Second computations of each answer: Storm on a tree, and Storm's front end on a chain's file."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llmchecker.checking import storm
from llmchecker.checking.answer import Answer
from llmchecker.checking.bounded_value import NO_CONDITION_NOTE, evaluate_value
from llmchecker.checking.bounds import evaluate_bounds
from llmchecker.checking.markov.rest_abstraction import abstract_rest
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.checking.probabilities import MIN_NORMAL, Evaluator
from llmchecker.checking.satisfaction import Satisfaction
from llmchecker.checking.storm import FileAnswer, check_jani, check_prism
from llmchecker.checking.tree_sums import TreeSums
from llmchecker.errors import CheckFailed, InvalidQuery
from llmchecker.properties.logic.ast import Formula
from llmchecker.properties.logic.monitor import find_path_formulas
from llmchecker.properties.logic.query import Query
from llmchecker.utils.atomic_files import read_with_checksum
from llmchecker.utils.interval import Interval

_RELATIVE_TOLERANCE = 1e-12
"""The largest difference of two values: absolute up to 1, else relative."""
_SUM_TOLERANCE = 1e-9
"""The largest relative difference of a sum and Storm, besides the error of the tree's numbers."""
_MAX_UNDERFLOW = MIN_NORMAL * 2**40
"""The largest absolute difference: that of many products too small for float64."""


def compare_evaluators(found: Answer, scored: ScoredTree) -> dict[str, Any]:
    """Compare an answer and the sums behind it with Storm.

    The value, the least and the greatest probability of each path formula are compared before they
    are moved outwards, since the two evaluators have different limits of their errors.

    Args:
        found: the answer of this package.
        scored: as in `bounds.compute_bounds`.

    Returns:
        Whether both evaluators computed numbers. If so, the names of the compared numbers, and
        those of both evaluators for each path formula; if not, the reason.

    Raises:
        CheckFailed: two numbers differ, or the answer contradicts Storm.
    """
    query = found.query
    paths = find_path_formulas(query)
    if not paths:
        reason = "single texts do not decide the query, so that Storm alone evaluated it"
        return {"compared": False, "reason": reason}
    process = abstract_rest(scored, query)
    whole_sums = TreeSums(scored, is_whole_model=True)
    bounded, whole = Satisfaction(scored.build_process(query)), Satisfaction(process)
    try:
        with storm.translate_errors(CheckFailed, f"cannot answer the query {query.text}"):
            by_sums, by_storm = (
                [_compute_figures(value, ends, path) for path in paths]
                for value, ends in (
                    (TreeSums(scored, is_whole_model=False), whole_sums),
                    (bounded, whole),
                )
            )
            expected, _ = evaluate_value(bounded, query)
            interval = evaluate_bounds(whole, query)
    # the answer has a note on it, and nothing to compare
    except CheckFailed as error:
        return {"compared": False, "reason": str(error)}
    names = list(by_sums[0])
    # a limit makes the bounds of one evaluator wider than those of the other
    if whole_sums.is_limited or process.is_unconstrained:
        names = ["value"]
    tolerance = _SUM_TOLERANCE + process.relative_error
    for first, second in zip(by_sums, by_storm, strict=True):
        for name in names:
            _check_close(query, name, first[name], second[name], tolerance)
    # rounding may hide a value from one evaluator
    if found.bounded is not None and expected is not None:
        _check_close(query, "value", found.bounded, expected, tolerance)
    _check_bounds(found, interval, tolerance / _find_scale(by_storm) if len(names) > 1 else 1.0)
    return {"compared": True, "figures": names, "sums": by_sums, "storm": by_storm}


def _compute_figures(bounded: Evaluator, whole: Evaluator, path: Formula) -> dict[str, float]:
    """Compute the value of a path formula, and its least and greatest probability."""
    figures = {
        "value": bounded.compute_probabilities(path, minimize=True),
        "lower": whole.compute_probabilities(path, minimize=True),
        "upper": whole.compute_probabilities(path, minimize=False),
    }
    return {name: figure.values[0].item() for name, figure in figures.items()}


def _check_close(query: Query, name: str, first: float, second: float, tolerance: float) -> None:
    if not math.isclose(first, second, rel_tol=tolerance, abs_tol=_MAX_UNDERFLOW):
        raise CheckFailed(
            f"{query.text}: {name} is {first!r} by sums over the tree, but {second!r} by Storm; "
            "please report this"
        )


def _find_scale(figures: Sequence[Mapping[str, float]]) -> float:
    """Return the least probability that the bounds of a query are divided by."""
    if len(figures) == 1:
        return 1.0
    part, other = figures
    sizes = part["lower"] + other["upper"], part["upper"] + other["lower"]
    # a quotient by 0 has no digits to compare
    return max(min(1.0, *sizes), MIN_NORMAL)


def _check_bounds(found: Answer, interval: Interval, tolerance: float) -> None:
    """Check that the bounds of an answer are those of Storm.

    The truth of a query with a threshold may be open for one evaluator and not for the other.

    Args:
        found: the answer.
        interval: the bounds by Storm.
        tolerance: the largest difference of numbers.

    Raises:
        CheckFailed: numbers differ, or the bounds exclude each other.
    """
    certain = found.certain
    is_close = max(certain.lower, interval.lower) <= min(certain.upper, interval.upper)
    if found.query.is_numeric:
        is_close &= abs(certain.lower - interval.lower) <= tolerance
        is_close &= abs(certain.upper - interval.upper) <= tolerance
    if not is_close:
        raise CheckFailed(
            f"{found.query.text}: the bounds are {certain} by sums over the tree, but {interval} "
            "by Storm; please report this"
        )


def crosscheck(
    found: Answer,
    prism_file: str | Path,
    jani_file: str | Path,
    *,
    max_prism_states: int,
    max_jani_states: int,
) -> dict[str, Any]:
    """Compare an answer with the answer of Storm's front end on a chain's file.

    Args:
        found: the answer of this package.
        prism_file, jani_file: the same chain in two languages.
        max_prism_states: largest number of states of a chain whose PRISM file is read. The time
            for it grows with the square of the states.
        max_jani_states: largest number of states of a larger chain whose JANI file is read.

    Returns:
        The query, both values, and whether they were compared. If so, the language of the file; if
        not, the reason: the tree is too large, the value is unknown, or Storm's front end does not
        accept this query.

    Raises:
        DamagedFile: the content of the file has changed.
        CheckFailed: the sizes explored differ, or the values do: yes from no, or numbers by more
            than `_RELATIVE_TOLERANCE`.
    """
    query, value, costs = found.query, found.bounded, found.costs
    assert costs.states is not None  # an answer on a tree has its sizes
    outcome: dict[str, Any] = {"query": query.text, "value": value, "states": costs.states}
    if costs.states <= max_prism_states:
        # PRISM first: JANI is for the chains that Storm reads too slowly from PRISM
        language, path, check = "prism", prism_file, check_prism
    elif costs.states <= max_jani_states:
        language, path, check = "jani", jani_file, check_jani
    else:
        max_states = max(max_prism_states, max_jani_states)
        return outcome | {"compared": False, "reason": f"more than {max_states} states"}
    # a missing value can be compared only if the chain has none, not if rounding hides it
    if value is None and NO_CONDITION_NOTE not in found.notes:
        return outcome | {"compared": False, "reason": "the value is unknown"}
    # a truncated file may still be a chain, on which the query may even have the same value
    read_with_checksum(path)
    try:
        answer = check(path, query)
    # a limit of Storm's front end, and no disagreement
    except InvalidQuery as error:
        return outcome | {"compared": False, "reason": str(error)}
    if not _is_close(value, answer):
        raise CheckFailed(f"{query.text}: {value!r} on the chain, but {answer.value!r} on {path}")
    sizes = (costs.states_explored, costs.transitions_explored)
    # equal values may be a coincidence, so the sizes are a second check
    if (answer.states, answer.transitions) != sizes:
        raise CheckFailed(
            f"{query.text}: {sizes} states and transitions explored on the chain, "
            f"{(answer.states, answer.transitions)} on {path}"
        )
    return outcome | {"compared": True, "by": language, "value_of_file": answer.value}


def _is_close(value: float | bool | None, answer: FileAnswer) -> bool:
    """Return whether both values agree, or are both missing."""
    file_value = answer.value
    if value is None or file_value is None:
        return value is file_value
    # a bool is also an int, so yes and 1.0 would pass for close
    if isinstance(value, bool) or isinstance(file_value, bool):
        return value == file_value
    return abs(value - file_value) <= _RELATIVE_TOLERANCE * max(1.0, abs(value))
