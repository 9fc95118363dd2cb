"""A second route to each answer: a file of the same chain, which Storm itself reads and builds."""

from pathlib import Path
from typing import Any

from llmchecker.checking.storm import check_jani, check_prism
from llmchecker.checking.verdicts import Verdict
from llmchecker.errors import CheckFailed, InvalidQuery
from llmchecker.files import read_with_checksum
from llmchecker.queries.parser import parse

RELATIVE_TOLERANCE = 1e-12
"""How far the two routes may differ: absolutely up to a value of 1, relatively above it."""


def crosscheck(
    verdict: Verdict,
    prism_file: str | Path,
    jani_file: str | Path,
    *,
    maximum_prism: int,
    maximum_jani: int,
) -> dict[str, Any]:
    """Compare a verdict with what Storm's own front end says about a file of the same chain.

    Args:
        verdict: what this package found.
        prism_file, jani_file: the same chain in two languages.
        maximum_prism: the PRISM file of a chain with up to this many states is read. The time for
            it grows with the square of the states.
        maximum_jani: the JANI file of a larger chain with up to this many states is read.

    Returns:
        The query, both values, and whether they were compared. If so, by which file; if not, why:
        the tree is too large, the value is unknown, or Storm's front end cannot be asked this
        query.

    Raises:
        DamagedFile: the file is not what was written.
        CheckFailed: the sizes explored differ, or the values do: yes from no, or numbers by more
            than `RELATIVE_TOLERANCE`.
    """
    outcome = {"query": verdict.query, "value": verdict.value, "states": verdict.states}
    if verdict.states <= maximum_prism:
        language, path, check = "prism", prism_file, check_prism
    elif verdict.states <= maximum_jani:
        language, path, check = "jani", jani_file, check_jani
    else:
        most = max(maximum_prism, maximum_jani)
        return outcome | {"compared": False, "reason": f"more than {most} states"}
    if verdict.value is None:
        return outcome | {"compared": False, "reason": "the value is unknown"}
    # a truncated file may still be a chain, on which the query may even have the same value
    read_with_checksum(path)
    try:
        answer = check(path, parse(verdict.query))
    except InvalidQuery as error:
        return outcome | {"compared": False, "reason": str(error)}
    numbers = not isinstance(verdict.value, bool) and not isinstance(answer.value, bool)
    tolerance = RELATIVE_TOLERANCE * max(1.0, abs(verdict.value)) if numbers else 0
    if abs(answer.value - verdict.value) > tolerance:
        raise CheckFailed(
            f"{verdict.query}: the chain gives {verdict.value!r}, {path} {answer.value!r}"
        )
    explored = (verdict.states_explored, verdict.transitions_explored)
    if (answer.states, answer.transitions) != explored:
        raise CheckFailed(
            f"{verdict.query}: states and transitions explored are {explored} on the chain, "
            f"{(answer.states, answer.transitions)} on {path}"
        )
    return outcome | {"compared": True, "by": language, "value_of_file": answer.value}
