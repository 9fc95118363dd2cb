"""How likely a model is to write a provable invariant: what one answer says, and its file."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from llmchecker.files import read_json, write_json
from llmchecker.programs.expressions import Semantics

QUERIES = {"invariant": "P=? [ F provable > 0 ]", "proof": "P=? [ F provable = 2 ]"}
"""What is asked: that the text is a proven invariant, and that it proves the program."""


@dataclass(frozen=True)
class Provability:
    """How likely a model writes a provable invariant of a loop.

    Attributes:
        line: of the loop.
        wanted: a key of `QUERIES`.
        value: the probability in the bounded process.
        lower, upper: bounds of the probability for the whole model, within the horizon.
        states: of the tree's chain.
        text: the most probable text that does, up to its closing parenthesis; empty if none does.
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
    write_json({"provable": [asdict(one) for one in made]}, path)


def read_provabilities(path: str | Path) -> tuple[Provability, ...]:
    """Read answers as `write` wrote them."""
    records = read_json(path)["provable"]
    return tuple(Provability(**r | {"semantics": Semantics(r["semantics"])}) for r in records)
