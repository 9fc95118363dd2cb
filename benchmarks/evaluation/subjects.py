"""What the experiments ask: six kinds of queries, models, decodings and plain samples."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from plain_sampling import FORMULAS, ModelPool, TextFormula
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

import llmchecker as lc
from llmchecker.checking.answer import Progress
from llmchecker.errors import LLMCheckerError
from llmchecker.models.interface import LanguageModel
from llmchecker.properties.quantifiers.interface import Quantifier

Row = dict[str, Any]
"""A row of a table: the values of its columns by name."""

QUERIES: dict[str, TextFormula] = {
    "reachability": FORMULAS["player"],
    "safety": FORMULAS["prefix"],
    "rare event": FORMULAS["rare"],
    "LTL": FORMULAS["ltl"],
    "conditional": TextFormula(
        "P=? [ F gender > 0 || F gender != 0 ]",
        lambda score: score > 0,
        lambda scores: max(scores) > 0 if any(scores) else None,
    ),
    "opaque quantifier": TextFormula(
        "P=? [ F polarity >= 30 ]",
        lambda score: score >= 30,
        lambda scores: max(scores) >= 30,
        quantifier="polarity",
    ),
}
"""Six kinds of queries, by name."""


def build_quantifiers() -> dict[str, Quantifier]:
    """Return the quantifiers of the queries."""
    return {"gender": lc.Gender(), "polarity": lc.Polarity()}


@dataclass(frozen=True)
class Subject:
    """A model with a decoding, or a table.

    Attributes:
        name: name of the model.
        model: the model, decoding included.
        start: the start string.
        quantifiers: the quantifiers of the queries, by name.
        network: the network of transformers, for `generate`; None for a table.
        decoding: the settings of `generate`; grammars are only the package's.
    """

    name: str
    model: LanguageModel
    start: str
    quantifiers: Mapping[str, Quantifier]
    network: PreTrainedModel | None = None
    decoding: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, directory: Path, start: str, decoding: Mapping[str, Any]) -> "Subject":
        """Read the directory of a model, with float32 weights on the processor."""
        network = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(directory)
        model = lc.load(network, tokenizer, decoding=dict(decoding) or None)
        return cls(directory.name, model, start, build_quantifiers(), network, decoding)

    def build_pool(self, length: int, seed: int = 0) -> ModelPool:
        """Return plain samples of the model, of which none is drawn yet."""
        options = {"seed": seed, "quantifiers": self.quantifiers}
        return ModelPool(self.model, self.start, length, **options)

    def ask(self, query: str, quantifier: str, length: int, **options: Any) -> lc.Answer:
        """Answer a query."""
        quantifiers = {quantifier: self.quantifiers[quantifier]}
        return lc.check(
            query, self.model, self.start, length=length, quantifiers=quantifiers, **options
        )


def find_progress(answer: lc.Answer, passes: int) -> Progress | None:
    """Return the last intervals of an answer within a number of passes."""
    within = [progress for progress in answer.history if progress.passes <= passes]
    return within[-1] if within else None


def measure_answer(
    subject: Subject, formula: TextFormula, length: int, **options: Any
) -> tuple[lc.Answer | None, float, str]:
    """Answer a query; return the answer, its seconds, and the reason if there is none."""
    began = time.perf_counter()
    try:
        answer = subject.ask(formula.query, formula.quantifier, length, **options)
    except LLMCheckerError as error:
        return None, time.perf_counter() - began, str(error)
    return answer, time.perf_counter() - began, ""
