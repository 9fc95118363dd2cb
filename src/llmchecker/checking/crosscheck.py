"""A second computation of each answer: Storm's front end on a chain's file."""

from pathlib import Path
from typing import Any

from llmchecker.checking.answer import Answer
from llmchecker.checking.bounded_value import NO_CONDITION_NOTE
from llmchecker.checking.storm import FileAnswer, check_jani, check_prism
from llmchecker.errors import CheckFailed, InvalidQuery
from llmchecker.utils.atomic_files import read_with_checksum

_RELATIVE_TOLERANCE = 1e-12
"""The largest difference of two values: absolute up to 1, else relative."""


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
    outcome = {"query": query.text, "value": value, "states": costs.states}
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
