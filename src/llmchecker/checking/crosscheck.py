"""Two routes to one answer: the chain built by this package, and a file that Storm itself reads."""

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
        maximum_prism: states up to which the PRISM file is read; the time for it grows with the
            square of the states.
        maximum_jani: states up to which, beyond that, the JANI file is read.

    Returns:
        The query, both values, whether they were compared at all, and by which file or why not: the
        tree is too large, the value is unknown, or Storm's front end cannot be asked this query.

    Raises:
        DamagedFile: the file is not what was written.
        CheckFailed: the sizes explored differ, or the values: two numbers by more than 1e-12
            (an expected score above 1 by more than that part of it), yes from no at all.
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
    # a file that was cut may still be a chain, of which the query may even have the same value
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
