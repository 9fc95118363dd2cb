"""How likely a model is to write a provable invariant: exact in the bounded process, bounded else.

The prompt of a loop is the start string, `provable` the quantifier, and Storm answers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from llmchecker import scores
from llmchecker.checking import solve
from llmchecker.evidence import WITNESS
from llmchecker.expansion import grow
from llmchecker.invariants.c_expressions import closing
from llmchecker.invariants.c_programs import read_program
from llmchecker.invariants.expressions import Semantics
from llmchecker.invariants.prompts import Variant, prompt
from llmchecker.language_models import LanguageModel
from llmchecker.properties import parse
from llmchecker.quantifiers.provable import Provable
from llmchecker.storm import Verdict
from llmchecker.text_tree import Bounds

QUERIES = {"invariant": "P=? [ F provable > 0 ]", "proof": "P=? [ F provable = 2 ]"}
"""What is asked: that the text is a proven invariant, and that it proves the program."""


@dataclass(frozen=True)
class Provability:
    """The probability that a model writes a provable invariant of a loop.

    Attributes:
        line: of the loop.
        wanted: `invariant` or `proof`, the key of the query in `QUERIES`.
        value: in the bounded process.
        lower, upper: for the whole model, within the horizon.
        text: the most probable text that does, up to the closing parenthesis; empty if none does.
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


def provability(
    model: LanguageModel, file: Path, semantics: tuple[Semantics, ...], bounds: Bounds
) -> Iterator[Provability]:
    """Ask both queries on the tree of every loop of a program, for every semantics.

    Raises:
        ProgramError: the program cannot be read or is not supported.
        ConfigError: the semantics do not cover the program.
    """
    program = read_program(file)
    for loop in program.loops:
        tree = grow(model, prompt(program, loop, Variant.CONSTRAINED), bounds)
        for meaning in semantics:
            quantifier = Provable(file, loop.number, meaning)
            values = {"provable": scores.score(quantifier, tree)}
            ranges = {"provable": (quantifier.minimum, quantifier.maximum)}
            for wanted, query in QUERIES.items():
                verdict = solve(tree, values, parse(query), ranges)
                yield Provability(
                    program.name,
                    loop.line,
                    meaning,
                    wanted,
                    verdict.value,
                    verdict.lower,
                    verdict.upper,
                    verdict.states,
                    _most_probable(verdict),
                )


def _most_probable(verdict: Verdict) -> str:
    """What the model wrote on the most probable path to a state that satisfies the query."""
    for witness in verdict.witnesses:
        if witness["kind"] == WITNESS:
            text = witness["text"][witness["kept"] :]
            return text[: closing(text)]
    return ""
