"""The probability that a model writes a provable invariant.

It is exact for the bounded process and has bounds for the whole model. The prompt of a loop is the
start string, `provable` is the quantifier, and Storm answers the query.
"""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from llmchecker.checking.evidence import WITNESS
from llmchecker.checking.solve import solve
from llmchecker.checking.verdicts import Verdict
from llmchecker.errors import ConfigError, ProgramError
from llmchecker.invariants.prompts import Variant, prompt
from llmchecker.invariants.provability_records import QUERIES, Provability
from llmchecker.models.protocols import LanguageModel
from llmchecker.programs.expressions import Semantics
from llmchecker.quantifiers.provable import Provable
from llmchecker.queries.parser import parse
from llmchecker.reading.c_expressions import closing
from llmchecker.reading.parsing import read_program
from llmchecker.scoring import scores
from llmchecker.trees.expansion import grow_tree
from llmchecker.trees.text_tree import Truncation


def provability(
    model: LanguageModel, file: Path, semantics: Sequence[Semantics], truncation: Truncation
) -> Iterator[Provability]:
    """Ask both queries on the tree of every loop of a program, for every semantics.

    Semantics that do not cover the program are left out, and the log says why.

    Raises:
        ProgramError: the program cannot be read or is not supported.
    """
    program = read_program(file)
    for loop in program.loops:
        judges = list(_quantifiers(file, loop.number, semantics))
        if not judges:
            continue
        tree = grow_tree(model, prompt(program, loop, Variant.CONSTRAINED), truncation)
        for meaning, quantifier in judges:
            values = {"provable": scores.score_tree(quantifier, tree)}
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
    """Ask both queries about all programs.

    A program that cannot be read or is not supported is left out, and the log says why.
    """
    for number, file in enumerate(files, start=1):
        try:
            yield from provability(model, file, semantics, truncation)
        except ProgramError as error:
            logging.info("%s is left out: %s", file.stem, error)
            continue
        logging.info("%s: program %d of %d", file.stem, number, len(files))


def _quantifiers(
    file: Path, loop: int, semantics: Sequence[Semantics]
) -> Iterator[tuple[Semantics, Provable]]:
    for meaning in semantics:
        try:
            yield meaning, Provable(file, loop, meaning)
        except ConfigError as error:
            logging.info("%s is left out over %s: %s", file.stem, meaning, error)


def _most_probable(verdict: Verdict) -> str:
    """The model's text on the most probable path that satisfies the query; empty without one."""
    for witness in verdict.witnesses:
        if witness["kind"] == WITNESS:
            text = witness["text"][witness["kept"] :]
            return text[: closing(text)]
    return ""
