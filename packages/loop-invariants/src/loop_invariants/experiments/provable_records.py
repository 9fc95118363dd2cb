"""Records of provable probabilities, and their JSON file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from llmchecker.utils.atomic_files import read_json_with_digest, write_json_with_digest
from loop_invariants.ir.expressions import Semantics

QUERIES = {"invariant": "P=? [ F provable > 0 ]", "proof": "P=? [ F provable = 2 ]"}
"""The queries: a text that is a proven invariant, and one that proves the program."""


@dataclass(frozen=True)
class ProvableProbability:
    """The probability that a model writes a provable invariant of a loop.

    Attributes:
        program: the program's name.
        line: line of the loop.
        semantics: the semantics of the program's integers.
        wanted: the query, as a key of `QUERIES`.
        value: probability in the bounded process.
        lower: lower bound of the probability for the whole model, within the horizon.
        upper: upper bound of the probability for the whole model, within the horizon.
        states: number of states of the tree's Markov chain.
        text: the most probable text that satisfies the query, up to its closing parenthesis; empty
            without such a text.
    """

    program: str
    line: int
    semantics: Semantics
    wanted: str
    value: float
    lower: float
    upper: float
    states: int
    text: str


_RECORDS = TypeAdapter(tuple[ProvableProbability, ...])


def write_provable_probabilities(records: Sequence[ProvableProbability], path: str | Path) -> None:
    """Write the records of a model as JSON."""
    write_json_with_digest({"provable": _RECORDS.dump_python(tuple(records), mode="json")}, path)


def read_provable_probabilities(path: str | Path) -> tuple[ProvableProbability, ...]:
    """Read the records of a file from `write_provable_probabilities`."""
    return _RECORDS.validate_python(read_json_with_digest(path)["provable"])
