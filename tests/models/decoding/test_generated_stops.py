"""Stops end answers where `generate` of transformers ends them."""

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from llmchecker.models.decoding.answer_reader import AnswerReader

STOPS = (["."], ["\n\n"], [" the"], ["er"], ["\n", "Q:"], ["a b", "and"], ["ing ", "o"])
"""Stops within a token, over several, and of which one is likely to come first."""
LENGTH = 24


@pytest.mark.long
def test_stops_end_answers_where_generate_ends_them(smollm2):
    """The same random numbers give the same tokens, and `stop_strings` cuts them at one place."""
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    network = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32).eval()
    stopped = 0
    for prompt in ("The list of cities: Paris, London.", "Q: What is it?\nA:"):
        tokens = tokenizer(prompt, return_tensors="pt")
        options = {"do_sample": True, "top_k": 0, "max_new_tokens": LENGTH}
        options |= {"pad_token_id": tokenizer.eos_token_id}
        for number, stop in enumerate(STOPS):
            torch.manual_seed(number)
            (free,) = network.generate(**tokens, **options).tolist()
            torch.manual_seed(number)
            more = {"stop_strings": stop, "tokenizer": tokenizer}
            (cut,) = network.generate(**tokens, **options, **more).tolist()
            reader = AnswerReader(tuple(stop), include_stop=True)
            begun = len(tokens["input_ids"][0])
            end = _find_end(reader, tokenizer, free, begun)
            assert cut == free[:end], (prompt, stop)
            stopped += end < begun + LENGTH
    assert stopped >= 5


def _find_end(reader: AnswerReader, tokenizer, tokens: list[int], begun: int) -> int:
    """The number of tokens, with those of the prompt, after which a stop is complete."""
    prompt = tokenizer.decode(tokens[:begun])
    for end in range(begun + 1, len(tokens) + 1):
        text = tokenizer.decode(tokens[:end]).removeprefix(prompt)
        if reader.read(text, is_whole=False).has_stopped:
            return end
    return len(tokens)
