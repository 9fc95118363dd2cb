"""The host's cost: passes a second of checks on a network that costs nothing."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from random_llama import SHAPES, START, build_network
from speed import Subject, count_passes, measure_check, warm_up
from transformers import AutoTokenizer

import llmchecker as lc

LENGTHS = (5, 40)
PASSES = 6_000

DEFINITIONS = {
    "{question}.L{length}.passes_per_second": "passes a second of a check with a network of one "
    "layer and width 32, which costs nothing, on the vocabulary of a real model, from the call to "
    "the answer",
    "{question}.L{length}.passes_per_processor_second": "the same over the processor time of all "
    "threads, which depends less on other programs of the machine",
    "{question}.L{length}.passes": "the passes that were made",
    "first_seconds": "seconds of a first check with few passes, once for each vocabulary and "
    "quantifier; the largest of all questions",
}
"""What each figure `host.…` is."""


@dataclass(frozen=True)
class HostQuestion:
    """A query that few texts decide early, so that a check makes its passes.

    Attributes:
        start: the start string.
        query: the query.
        quantifiers: the quantifiers of the query that need settings.
    """

    start: str
    query: str
    quantifiers: Mapping[str, Any] = field(default_factory=dict)


QUESTIONS = {
    "words": HostQuestion(START, "P=? [ F gender > 0 ]"),
    "pattern": HostQuestion(START, "P=? [ F year = 1 ]", {"year": lc.Pattern(r"\b(19|20)\d\d\b")}),
    "json": HostQuestion('{"name": "', "P=? [ F json = 2 ]", {"json": lc.JsonText(of="text")}),
}


def measure(
    tokenizer_directory: Path,
    passes: int = PASSES,
    report: Callable[[str], None] = print,
) -> dict[str, float]:
    """Measure every question at every horizon.

    Args:
        tokenizer_directory: directory of a model, whose tokenizer is used.
        passes: the budget of each check.
        report: a function that receives the progress.

    Returns:
        The figures of `DEFINITIONS`.
    """
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_directory)
    model = Subject.of(build_network(SHAPES["host"], tokenizer), tokenizer).model
    figures, first = {}, []
    for name, question in QUESTIONS.items():
        # a first check imports and computes what depends on the vocabulary alone
        first.append(
            warm_up(model, question.query, question.start, LENGTHS[0], **question.quantifiers)
        )
        for length in LENGTHS:
            began = time.process_time()
            rate, answer = measure_check(
                model,
                question.query,
                question.start,
                length=length,
                passes=passes,
                **question.quantifiers,
            )
            passes_made = count_passes(answer)
            of_processor = passes_made / (time.process_time() - began)
            figures[f"{name}.L{length}.passes_per_second"] = rate
            figures[f"{name}.L{length}.passes_per_processor_second"] = of_processor
            figures[f"{name}.L{length}.passes"] = passes_made
            report(
                f"host: {name}, {length} tokens: {passes_made:,} passes, {rate:,.0f} a second, "
                f"{of_processor:,.0f} a processor second"
            )
    return figures | {"first_seconds": max(first)}
