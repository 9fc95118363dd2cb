"""Answers on an accelerator, which a processor pretends to be, are those of the processor."""

import numpy as np
import pytest
import torch
from helpers import suites
from helpers.marks import long
from helpers.pretended_accelerator import pretend_accelerators

import llmchecker as lc
from llmchecker.checking.anytime import prompt_reader
from llmchecker.errors import MachineLimit
from llmchecker.models.decoding.settings import Decoding
from llmchecker.models.transformers import batch_invariance, batch_size
from llmchecker.models.transformers.load import apply_decoding, load_model
from llmchecker.trees.selection import select_tokens

PROMPT = "The player won"


def count_letters(start: str, continuation: str) -> int:
    """A quantifier without token transducer."""
    return continuation.count("e")


QUERIES = {
    "words": ("P=? [ F gender > 0 ]", 5, {"gender": lc.Gender()}),
    "many words": ("P=? [ F gender > 0 ]", 16, {"gender": lc.Gender()}),
    "pattern": ("P=? [ F found > 0 ]", 8, {"found": lc.Pattern("ab|he")}),
    "json": ("P=? [ G json < 1 ]", 6, {"json": lc.JsonText()}),
    "opaque": ("P=? [ F letters > 1 ]", 6, {"letters": count_letters}),
}
ROUNDING = 1e-6
"""The largest difference of a probability of float32 logits, which batches of other sizes round.

With AVX512 there is none. With AVX2 these batches are too small for the same order of addition.
"""
TRUNCATING = Decoding(temperature=0.7, top_k=40, top_p=0.9)


@pytest.fixture
def accelerator(monkeypatch):
    """A pretended accelerator, with the batches of a processor."""
    monkeypatch.setattr(batch_size, "_measured_rows", {})
    monkeypatch.setattr(batch_size, "_MAX_ACCELERATOR_ROWS", 64)
    monkeypatch.setattr(batch_size, "_measure_seconds", lambda *_: 1.0)
    monkeypatch.setattr(batch_invariance, "MAX_ROWS", 16)
    with pretend_accelerators() as accelerators:
        yield accelerators


def ask(model, name: str, passes: int = 40) -> list[float]:
    query, length, quantifiers = QUERIES[name]
    answer = lc.ask(query, model, PROMPT, length=length, passes=passes, **quantifiers)
    return [answer.lower, answer.low, answer.estimate, answer.high, answer.upper, answer.passes]


@pytest.mark.parametrize("decoding", [TRUNCATING, *long(None)], ids=["truncating", "plain"])
def test_answers_are_those_of_a_processor(decoding, random_model, request):
    """Every kind of quantifier gives the same bounds, by operations with equal bits in each run."""
    processor = apply_decoding(load_model(random_model("llama")), decoding)
    expected = {name: ask(processor, name) for name in QUERIES}
    expected_tree = lc.grow(processor, PROMPT, alpha=0.8, k=4, length=2)
    accelerator = request.getfixturevalue("accelerator")
    model = apply_decoding(load_model(random_model("llama"), device="cuda"), decoding)
    for name, values in expected.items():
        assert ask(model, name) == pytest.approx(values, abs=ROUNDING), name
    tree = lc.grow(model, PROMPT, alpha=0.8, k=4, length=2)
    assert tree.probability == pytest.approx(expected_tree.probability, abs=ROUNDING)
    assert not accelerator.nondeterministic


def test_the_host_waits_for_a_step_and_not_for_a_text(random_model, accelerator, monkeypatch):
    """However many texts a step has, the host waits and sends a few times."""
    model = apply_decoding(load_model(random_model("llama"), device="cuda"), TRUNCATING)
    answer_step, found = prompt_reader.answer_step, []

    def count(prefix, step, rows, tails):
        accelerator.reset()
        result = answer_step(prefix, step, rows, tails)
        found.append((len(rows), accelerator.waits.total(), accelerator.uploads))
        return result

    monkeypatch.setattr(prompt_reader, "answer_step", count)
    ask(model, "many words", 160)
    assert max(texts for texts, _, _ in found) > 10
    for texts, waits, uploads in found:
        assert waits <= 6, texts
        assert uploads <= 16, texts


def test_growing_waits_for_a_batch_and_not_for_a_text(random_model, accelerator):
    """A level of a truncated tree needs as few answers of the device as a single text."""
    model = apply_decoding(load_model(random_model("llama"), device="cuda"), TRUNCATING)
    waits = []
    for texts in (1, 40):
        prefix = model.open_prefix(model.encode(PROMPT))
        continuations = np.arange(5, 5 + texts)[:, np.newaxis]
        accelerator.reset()
        list(prefix.map_next(lambda _, part: select_tokens(part, 1.0, 50), continuations))
        waits.append(accelerator.waits.total())
    assert waits[0] == waits[1] <= 5


@pytest.mark.long
def test_suites_and_comparisons_are_those_of_a_processor(random_model, request, tmp_path):
    """Prompts that share batches, a long shared prompt and two decodings agree with a processor."""
    long_prompt = "a reader, a writer and a very small machine " * 3
    starts = [PROMPT, long_prompt, long_prompt + "won"]
    suite = suites.load(
        tmp_path,
        [{"start": start, "require": ["P>=0.5 [ F gender > 0 ]"]} for start in starts],
        properties={"gender": {"type": "gender"}},
        length=3,
        budget={"passes": 20},
    )

    def answer(model) -> list[float]:
        results = suites.run(suite, model).results
        pair = lc.compare(
            QUERIES["words"][0],
            *(model, PROMPT),
            versus_decoding={"temperature": 0.7, "top_p": 0.9},
            length=4,
            passes=20,
            gender=lc.Gender(),
        )
        answers = [*(each.answer for each in results), pair.first, pair.versus]
        return [n for each in answers for n in (each.lower, each.low, each.high, each.upper)]

    expected = answer(load_model(random_model("gemma3")))
    accelerator = request.getfixturevalue("accelerator")
    model = load_model(random_model("gemma3"), device="cuda")
    assert answer(model) == pytest.approx(expected, abs=ROUNDING)
    assert not accelerator.nondeterministic


@pytest.mark.long
def test_memory_that_runs_out_during_a_check_changes_no_answer(random_model, accelerator):
    """Batches become smaller; a device that is too small for any ends the check with a reason."""
    model = load_model(random_model("llama"), device="cuda")
    expected = ask(model, "words", 160)
    limits = [9]

    def fail(module, given, settings):
        if len(settings["input_ids"]) >= limits[0]:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    model.network.base_model.register_forward_pre_hook(fail, with_kwargs=True)
    assert ask(model, "words", 160) == pytest.approx(expected, abs=ROUNDING)
    assert model.executor.max_rows == 8
    limits[0] = 1
    with pytest.raises(MachineLimit, match=r"device cuda:0, 8\.0 GB free: too little memory"):
        ask(model, "words")
