"""Forward passes a second of samples, beside those of transformers' `generate`."""

import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from llmchecker.checking.anytime.answer import check_anytime
from llmchecker.checking.anytime.budget import AnswerBudget
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.models.interface import LanguageModel
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.registry import create_quantifier

TOKENS = 60
BATCH = 16
PASSES = 2_000
ROUNDS = 2
"""Measurements of each; the fastest counts, since other work only slows down."""


def compare_rates(model: LanguageModel, directory: Path, start: str, passes: int = PASSES) -> float:
    """Passes a second of samples of 60 tokens, over those of `generate` in equal batches.

    The first samples of an answer are drawn in batches of 16, which grow only later.

    Args:
        model: the language model of `llmchecker check`.
        directory: of the model's files, in which transformers reads the same model.
        start: the start string.
        passes: the budget of the answer.
    """
    return max(_sample(model, start, passes) for _ in range(ROUNDS)) / max(
        _generate(directory, start) for _ in range(ROUNDS)
    )


def _sample(model: LanguageModel, start: str, passes: int) -> float:
    """Passes a second of an anytime answer: head, scores, bounds and interval included."""
    quantifiers = {"gender": create_quantifier("gender")}
    # hardly any text decides this query early, so that samples have their full length
    asked = CheckedQuery(parse("P=? [ F gender > 20 ]"), quantifiers, TOKENS)
    result = check_anytime(model, start, asked, AnswerBudget(passes=passes))
    return result.passes / result.history[-1].seconds


def _generate(directory: Path, start: str) -> float:
    """Sampled tokens a second of a batch of `generate`, which ends no text early."""
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    encoded = tokenizer([start] * BATCH, return_tensors="pt")
    torch.manual_seed(0)
    started = time.perf_counter()
    texts = model.generate(
        **encoded, do_sample=True, top_k=0, min_new_tokens=TOKENS, max_new_tokens=TOKENS
    )
    seconds = time.perf_counter() - started
    return BATCH * (texts.shape[1] - encoded["input_ids"].shape[1]) / seconds
