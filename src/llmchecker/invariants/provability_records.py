"""Records of the probability that a model writes a provable invariant, and the file of them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from llmchecker.files import read_sealed_json, write_sealed_json
from llmchecker.programs.expressions import Semantics

QUERIES = {"invariant": "P=? [ F provable > 0 ]", "proof": "P=? [ F provable = 2 ]"}
"""The queries: the text is a proven invariant, and the text proves the program."""


@dataclass(frozen=True)
class Provability:
    """The probability that a model writes a provable invariant of a loop.

    Attributes:
        program: the program's name.
        line: the line of the loop.
        semantics: what the integers of the program are.
        wanted: the query, as a key of `QUERIES`.
        value: the probability in the bounded process.
        lower: the lower bound of the probability for the whole model, within the horizon.
        upper: the upper bound of it.
        states: the number of states of the tree's chain.
        text: the most probable text that satisfies the query, up to its closing parenthesis; empty
            if none does.
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


def write_provabilities(made: Sequence[Provability], path: str | Path) -> None:
    """Write the answers of a model as JSON."""
    write_sealed_json({"provable": [asdict(one) for one in made]}, path)


def read_provabilities(path: str | Path) -> tuple[Provability, ...]:
    """Read the answers of a file that `write_provabilities` wrote."""
    records = read_sealed_json(path)["provable"]
    return tuple(Provability(**r | {"semantics": Semantics(r["semantics"])}) for r in records)
