"""How likely a model is to write a provable invariant: exact in the bounded process, bounded else.

The prompt of a loop is the start string, `provable` the quantifier, and Storm answers.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from llmchecker.checking.evidence import WITNESS
from llmchecker.checking.solve import solve
from llmchecker.checking.verdicts import Verdict
from llmchecker.errors import ConfigError, ProgramError
from llmchecker.files import read_json, write_json
from llmchecker.invariants.prompts import Variant, prompt
from llmchecker.models.language_models import LanguageModel
from llmchecker.programs.c_expressions import closing
from llmchecker.programs.expressions import Semantics
from llmchecker.programs.parsing import read_program
from llmchecker.quantifiers import scores
from llmchecker.quantifiers.provable import Provable
from llmchecker.queries.parser import parse
from llmchecker.trees.expansion import grow
from llmchecker.trees.text_tree import Truncation

QUERIES = {"invariant": "P=? [ F provable > 0 ]", "proof": "P=? [ F provable = 2 ]"}
"""What is asked: that the text is a proven invariant, and that it proves the program."""

_FIGURES = ("value", "lower", "upper", "text")


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


def provability(
    model: LanguageModel, file: Path, semantics: Sequence[Semantics], truncation: Truncation
) -> Iterator[Provability]:
    """Ask both queries on the tree of every loop of a program, for every semantics.

    Semantics that do not cover the program are told in the log and left out.

    Raises:
        ProgramError: the program cannot be read or is not supported.
    """
    program = read_program(file)
    for loop in program.loops:
        judges = list(_quantifiers(file, loop.number, semantics))
        if not judges:
            continue
        tree = grow(model, prompt(program, loop, Variant.CONSTRAINED), truncation)
        for meaning, quantifier in judges:
            values = {"provable": scores.score(quantifier, tree)}
            ranges = {"provable": (quantifier.minimum, quantifier.maximum)}
            for wanted, query in QUERIES.items():
                verdict = solve(tree, values, parse(query), ranges)
                figures = (verdict.value, verdict.lower, verdict.upper, verdict.states)
                asked = (program.name, loop.line, meaning, wanted)
                yield Provability(*asked, *figures, _most_probable(verdict))


def provabilities(
    model: LanguageModel,
    files: Sequence[Path],
    semantics: Sequence[Semantics],
    truncation: Truncation,
) -> Iterator[Provability]:
    """Ask of all programs; what cannot be treated is told in the log and left out."""
    for number, file in enumerate(files, start=1):
        try:
            yield from provability(model, file, semantics, truncation)
        except ProgramError as error:
            logging.info("%s is left out: %s", file.stem, error)
            continue
        logging.info("%s: program %d of %d", file.stem, number, len(files))


def write(made: Sequence[Provability], path: str | Path) -> None:
    """Write the answers of a model as JSON."""
    write_json({"provable": [asdict(one) for one in made]}, path)


def read(path: str | Path) -> tuple[Provability, ...]:
    """Read answers as `write` wrote them."""
    records = read_json(path)["provable"]
    return tuple(Provability(**r | {"semantics": Semantics(r["semantics"])}) for r in records)


def table(by_model: Mapping[str, Sequence[Provability]]) -> pd.DataFrame:
    """One row for every program, loop, model and semantics, with the figures of both queries."""
    rows: dict[tuple, dict] = {}
    for model, made in by_model.items():
        for one in made:
            key = (one.program, one.line, one.semantics, model)
            known = dict(zip(("program", "line", "semantics", "model"), key, strict=True))
            row = rows.setdefault(key, known)
            row |= {f"{one.wanted}_{name}": figure for name, figure in _figures(one).items()}
    columns = ["program", "line", "semantics", "model"]
    columns += [f"{wanted}_{figure}" for wanted in QUERIES for figure in _FIGURES]
    ordered = sorted(rows.items(), key=lambda item: item[0])
    return pd.DataFrame([row for _, row in ordered], columns=columns)


def notes(by_model: Mapping[str, Sequence[Provability]]) -> list[str]:
    """What the figures mean, and of how many loops a model writes a proof at all."""
    found = [
        "Invariant: the text after the prompt is a proven invariant up to its closing parenthesis; "
        "proof: every assertion follows from it alone. The value is the probability in the bounded "
        "process, lower and upper bound it for the whole model within the horizon; the text is the "
        "most probable one that does."
    ]
    for model, made in by_model.items():
        asked = [one for one in made if one.wanted == "proof"]
        some = sum(one.value > 0 for one in asked)
        found.append(f"{model}: {some} of {len(asked)} trees hold a proof.")
    return found


def _figures(one: Provability) -> dict[str, float | str | None]:
    return {name: getattr(one, name) for name in _FIGURES} | {"text": one.text or None}


def _quantifiers(
    file: Path, loop: int, semantics: Sequence[Semantics]
) -> Iterator[tuple[Semantics, Provable]]:
    for meaning in semantics:
        try:
            yield meaning, Provable(file, loop, meaning)
        except ConfigError as error:
            logging.info("%s is left out over %s: %s", file.stem, meaning, error)


def _most_probable(verdict: Verdict) -> str:
    """What the model wrote on the most probable path to a state that satisfies the query."""
    for witness in verdict.witnesses:
        if witness["kind"] == WITNESS:
            text = witness["text"][witness["kept"] :]
            return text[: closing(text)]
    return ""
