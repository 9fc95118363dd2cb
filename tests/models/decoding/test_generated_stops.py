"""Stops end answers where `generate` of transformers ends them."""

import pytest
import torch
from helpers.random_models import CAUSAL, save
from transformers import AutoModelForCausalLM, AutoTokenizer

from llmchecker.models.decoding.answer_reader import AnswerReader

STOPS = (["."], ["\n\n"], [" the"], ["er"], ["\n", "Q:"], ["a b", "and"], ["ing ", "o"])
"""Stops within a token, over several, and of which one is likely to come first."""
LENGTH = 24


TINY_STOPS = (["."], [" the"], ["er"], ["ing ", "o"], ["e"])


@pytest.mark.few(2)
@pytest.mark.parametrize("architecture", CAUSAL)
def test_stops_of_tiny_models_differ_in_broken_characters_alone(architecture, tmp_path):
    """Answers end where `generate` ends them, but for a byte that is part of no character: the text
    has U+FFFD there, and `generate` compares the byte as if it were a character of its own."""
    folder = save(architecture, tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokens = tokenizer("The player won", return_tensors="pt", return_token_type_ids=False)
    begun = len(tokens["input_ids"][0])
    options = {"do_sample": True, "top_k": 0, "max_new_tokens": LENGTH}
    options |= {"pad_token_id": tokenizer.eos_token_id}
    equal = broken = 0
    for seed in range(12):
        torch.manual_seed(seed)
        (free,) = network.generate(**tokens, **options).tolist()
        for stop in TINY_STOPS:
            torch.manual_seed(seed)
            more = {"stop_strings": stop, "tokenizer": tokenizer}
            (cut,) = network.generate(**tokens, **options, **more).tolist()
            end = _find_end(AnswerReader(tuple(stop), True), tokenizer, free, begun)
            if cut == free[:end]:
                equal += end < begun + LENGTH
            else:
                assert len(cut) < end
                assert "\ufffd" in tokenizer.decode(cut[-4:])
                broken += 1
    assert equal >= 10
    assert (broken > 0) <= (architecture != "gpt2")


@pytest.mark.long
def test_stops_end_answers_where_generate_ends_them(smollm2):
    """The same random numbers give the same tokens, and `stop_strings` cuts them at one place."""
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    network = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32).eval()
    options = {"do_sample": True, "top_k": 0, "max_new_tokens": LENGTH}
    options |= {"pad_token_id": tokenizer.eos_token_id, "num_return_sequences": 4}
    stopped = 0
    for prompt, stops in (("The list of cities: Paris,", STOPS[::2]), ("Q: It?\nA:", STOPS[1::2])):
        tokens = tokenizer(prompt, return_tensors="pt")
        begun = len(tokens["input_ids"][0])
        torch.manual_seed(1)
        written = network.generate(**tokens, **options).tolist()
        for stop in stops:
            torch.manual_seed(1)
            more = {"stop_strings": stop, "tokenizer": tokenizer}
            reader = AnswerReader(tuple(stop), include_stop=True)
            for free, cut in zip(
                written, network.generate(**tokens, **options, **more).tolist(), strict=True
            ):
                end = _find_end(reader, tokenizer, free, begun)
                # a row that has ended is filled while others go on
                assert cut[:end] == free[:end], (prompt, stop)
                assert set(cut[end:]) <= {tokenizer.eos_token_id}, (prompt, stop)
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
