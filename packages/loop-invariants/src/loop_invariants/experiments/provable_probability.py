"""Provable probability: the probability that a model writes a provable invariant.

The probability is exact for the bounded process and has bounds for the whole model. The prompt of a
loop is the start string, `provable` is the quantifier, and Storm checks the query.
"""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from llmchecker.checking.answer import Answer
from llmchecker.checking.check import check_query
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.checking.witnesses import WITNESS
from llmchecker.errors import ConfigError, ProgramError
from llmchecker.models.interface import LanguageModel
from llmchecker.properties import scores
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import Truncation
from loop_invariants.experiments.provable_quantifier import Provable
from loop_invariants.experiments.provable_records import QUERIES, ProvableProbability
from loop_invariants.frontend.expressions import find_closing_parenthesis
from loop_invariants.frontend.translation_unit import read_program
from loop_invariants.ir.expressions import Semantics
from loop_invariants.proposals.prompt_templates import PromptVariant, build_prompt


def _iter_loop_probabilities(
    model: LanguageModel, file: Path, semantics: Sequence[Semantics], truncation: Truncation
) -> Iterator[ProvableProbability]:
    """Check both queries on the tree of every loop of a program, for every semantics.

    Semantics that do not cover the program are skipped and logged.

    Raises:
        ProgramError: the program cannot be read or is not supported.
    """
    program = read_program(file)
    for loop in program.loops:
        quantifiers = list(_iter_quantifiers(file, loop.number, semantics))
        # Without a quantifier the tree would have no use, and building it is slow.
        if not quantifiers:
            continue
        # The tree depends only on the prompt, so all semantics share it.
        tree = build_tree(model, build_prompt(program, loop, PromptVariant.CONSTRAINED), truncation)
        for integer_semantics, quantifier in quantifiers:
            values = {"provable": scores.score_tree(quantifier, tree)}
            ranges = {"provable": (quantifier.minimum, quantifier.maximum)}
            scored = ScoredTree(tree, values, ranges)
            for query_name, query in QUERIES.items():
                answer = check_query(scored, parse(query))
                # A query for a number has both.
                assert answer.bounded is not None
                assert answer.costs.states is not None
                yield ProvableProbability(
                    program.name,
                    loop.line,
                    integer_semantics,
                    query_name,
                    float(answer.bounded),
                    answer.lower,
                    answer.upper,
                    answer.costs.states,
                    _find_witness_text(answer),
                )


def iter_provable_probabilities(
    model: LanguageModel,
    files: Sequence[Path],
    semantics: Sequence[Semantics],
    truncation: Truncation,
) -> Iterator[ProvableProbability]:
    """Check both queries for all programs.

    A program that cannot be read or is not supported is skipped and logged.
    """
    for number, file in enumerate(files, start=1):
        try:
            yield from _iter_loop_probabilities(model, file, semantics, truncation)
        # A single unusable program must not end the queries for the others.
        except ProgramError as error:
            logging.info("%s is left out: %s", file.stem, error)
            continue
        logging.info("%s: program %d of %d", file.stem, number, len(files))


def _iter_quantifiers(
    file: Path, loop: int, semantics: Sequence[Semantics]
) -> Iterator[tuple[Semantics, Quantifier]]:
    for integer_semantics in semantics:
        try:
            yield integer_semantics, cast(Quantifier, Provable(file, loop, integer_semantics))
        # The semantics may not cover the program, although others do.
        except ConfigError as error:
            logging.info("%s is left out over %s: %s", file.stem, integer_semantics, error)


def _find_witness_text(answer: Answer) -> str:
    """Return the text of the most probable witness; empty without a witness."""
    for witness in answer.witnesses:
        if witness.kind == WITNESS:
            # The prompt and the text after the closing parenthesis are no part of the proposal.
            text = witness.continuation
            return text[: find_closing_parenthesis(text)]
    return ""
