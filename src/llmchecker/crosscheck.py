"""Two routes to one answer: the chain built by this package, and the PRISM file read by Storm."""

from pathlib import Path
from typing import Any

from llmchecker.errors import CheckFailed
from llmchecker.properties import parse
from llmchecker.storm import Verdict, check_prism

TOLERANCE = 1e-12
"""How far the two routes may be apart, relative to a value above 1."""


def crosscheck(verdict: Verdict, prism_file: str | Path, maximum_states: int) -> dict[str, Any]:
    """Compare a verdict with what Storm's own front end says about the PRISM file.

    Args:
        maximum_states: a larger chain is not compared, since the front end's time grows with the
            square of the states.

    Returns:
        The query, both values, and whether they were compared at all.

    Raises:
        CheckFailed: the sizes explored differ, or the values: two numbers by more than 1e-12
            (an expected score above 1 by more than that part of it), yes from no at all.
    """
    outcome = {"query": verdict.query, "value": verdict.value, "states": verdict.states}
    if verdict.states > maximum_states:
        return outcome | {"compared": False, "reason": f"more than {maximum_states} states"}
    answer = check_prism(prism_file, parse(verdict.query))
    numbers = not isinstance(verdict.value, bool) and not isinstance(answer.value, bool)
    tolerance = TOLERANCE * max(1.0, abs(verdict.value)) if numbers else 0
    if abs(answer.value - verdict.value) > tolerance:
        raise CheckFailed(
            f"{verdict.query}: the chain gives {verdict.value!r}, {prism_file} {answer.value!r}"
        )
    explored = (verdict.states_explored, verdict.transitions_explored)
    if (answer.states, answer.transitions) != explored:
        raise CheckFailed(
            f"{verdict.query}: states and transitions explored are {explored} on the chain, "
            f"{(answer.states, answer.transitions)} on {prism_file}"
        )
    return outcome | {"compared": True, "value_of_prism_file": answer.value}
