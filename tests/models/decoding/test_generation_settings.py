"""Every field of a generation configuration is applied as by `generate`, refused, or no matter."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from transformers import CompileConfig, GenerationConfig

from llmchecker.errors import ConfigError
from llmchecker.models.decoding.logits_processor import parse_generation_config
from llmchecker.models.transformers.load import apply_decoding, load_model

START = "The player won because the player won because"
STEPS = 4
BASES = [
    {"do_sample": True, "temperature": 1.7, "top_k": 0, "repetition_penalty": 1.1},
    {"do_sample": False, "no_repeat_ngram_size": 2},
]
APPLIED = {
    "do_sample": [True, False],
    "temperature": [0.4, 2.5],
    "top_k": [0, 1, 7],
    "top_p": [0.3, 0.9],
    "min_p": [0.0, 0.05, 0.9],
    "typical_p": [0.3, 0.9],
    "repetition_penalty": [0.5, 1.0, 2.5],
    "encoder_repetition_penalty": [0.25, 0.9, 1.0, 4.0],
    "no_repeat_ngram_size": [0, 1, 3],
    "encoder_no_repeat_ngram_size": [0, 1, 2, 3, 50],
    "bad_words_ids": [[[40, 41], [45], [50, 41]]],
    "suppress_tokens": [[], list(range(40, 90))],
    "min_new_tokens": [0, 1, 3],
}
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p")
WITHOUT_EFFECT = {
    # before transformers 5.18
    "_commit_hash": ["abc"],
    "_from_model_config": [True],
    "bos_token_id": [7],
    "cache_config": [{"backend": "quanto", "nbits": 2}],
    "compile_config": [CompileConfig()],
    "continuous_batching_config": [{"block_size": 4}],
    "decoder_start_token_id": [7],
    "disable_compile": [True],
    "early_stopping": [True, "never"],
    "eos_token_id": [9, [40, 41, 42], None],
    "length_penalty": [-2.0, 3.0],
    "low_memory": [True],
    "max_cache_len": [3, 50],
    "max_length": [30],
    "max_new_tokens": [2],
    "num_return_sequences": [3],
    "output_attentions": [True],
    "output_hidden_states": [True],
    "output_logits": [True],
    "output_scores": [False],
    "pad_token_id": [40],
    "prefill_chunk_size": [1, 3],
    "return_dict_in_generate": [False],
    "transformers_version": ["4.0.0"],
    "use_cache": [False],
}
REFUSED = {
    "assistant_confidence_threshold": [0.9],
    "assistant_early_exit": [0, 1],
    "assistant_ensemble_weight": [0.5],
    "assistant_lookbehind": [3],
    "begin_suppress_tokens": [[0], list(range(300))],
    "cache_implementation": ["quantized", "offloaded", "paged"],
    "constraints": [[], [[3]]],
    "diversity_penalty": [0.5],
    "dola_layers": ["low", []],
    "epsilon_cutoff": [0.01],
    "eta_cutoff": [0.01],
    "exponential_decay_length_penalty": [[0, 2.0], []],
    "force_words_ids": [[], [[3]]],
    "forced_bos_token_id": [0, 7],
    "forced_eos_token_id": [0, 2, [2]],
    "guidance_scale": [0, 0.0, 1.5],
    "is_assistant": [True],
    "max_matching_ngram_size": [2],
    "max_time": [0.0, 0.1],
    "min_length": [1, 50],
    "num_assistant_tokens": [5],
    "num_assistant_tokens_schedule": ["heuristic"],
    "num_beam_groups": [0, 2],
    "num_beams": [0, 2],
    "penalty_alpha": [0.6],
    "prompt_lookup_num_tokens": [0, 3],
    "remove_invalid_values": [True],
    "renormalize_logits": [True],
    "sequence_bias": [[[[40], 5.0]], {}],
    "speculation_type": ["dflash"],
    "stop_strings": ["e", ["e"], []],
    "target_lookbehind": [3],
    "token_healing": [True],
    "top_h": [0.0, 0.4],
    "use_mtp": [True],
    "watermarking_config": [{"bias": 2.5}],
}
NEUTRAL = {
    "begin_suppress_tokens": [[]],
    "cache_implementation": ["dynamic", "hybrid", "static"],
    "diversity_penalty": [0.0],
    "epsilon_cutoff": [0.0],
    "eta_cutoff": [0.0],
    "guidance_scale": [1, 1.0],
    "is_assistant": [False],
    "min_length": [0],
    "num_beam_groups": [1],
    "num_beams": [1],
    "penalty_alpha": [0],
    "remove_invalid_values": [False],
    "renormalize_logits": [False],
    "token_healing": [False],
    "use_mtp": [False],
}


GREEDY_REFUSES = (*SAMPLING, "num_return_sequences")
"""Fields that contradict greedy decoding."""


def pairs(*tables: dict[str, list]) -> list[tuple[str, object]]:
    """Each name with each of its values."""
    return [(name, value) for table in tables for name, values in table.items() for value in values]


ACCEPTED = [
    (base, name, value)
    for base in BASES
    for name, value in pairs(APPLIED, WITHOUT_EFFECT, NEUTRAL)
    if base["do_sample"] or name not in GREEDY_REFUSES
]


@pytest.fixture(scope="module")
def model(random_model):
    """A random model in float64, in which batches of any size give the same logits.

    Decoding by settings is compared on further architectures in test_settings.py.
    """
    return load_model(random_model("llama"), dtype="float64")


@pytest.fixture
def published(model):
    """The model's generation configuration, which is as before after the test."""
    before = deepcopy(model.network.generation_config)
    yield model.network.generation_config
    model.network.generation_config = before


def scores_of_generate(model, prompt) -> dict[tuple[int, ...], torch.Tensor]:
    """What `generate` chooses from after each text that it writes without further settings."""
    torch.manual_seed(0)
    own = model.network.generation_config
    asked = {"output_scores": True, "return_dict_in_generate": True}
    if own.max_new_tokens is None and own.max_length is None:
        asked["max_new_tokens"] = STEPS
    tokens = torch.tensor([prompt])
    written = model.network.generate(tokens, attention_mask=torch.ones_like(tokens), **asked)
    ends = own.eos_token_id if isinstance(own.eos_token_id, list) else [own.eos_token_id]
    scores = {}
    for row, text in enumerate(written.sequences[:, len(prompt) :].tolist()):
        for step, after in enumerate(written.scores):
            if not set(text[:step]) & set(ends):
                scores[tuple(text[:step])] = after[row].double()
    return scores


def difference(model) -> float:
    """The largest difference of a probability from `generate`; infinite at another cut."""
    prompt = list(model.encode(START))
    largest = 0.0
    continuations = apply_decoding(model, "as_published").open_prefix(prompt)
    for text, row in scores_of_generate(model, prompt).items():
        suffix = np.array([text], dtype=np.int64)
        (found,) = continuations.map_next(
            lambda _, part: part.probabilities(), suffix, will_extend=True
        )
        expected = row.softmax(0)
        if not model.network.generation_config.do_sample:
            expected = torch.nn.functional.one_hot(row.argmax(), len(row)).double()
        if not torch.equal(found[0] > 0, expected > 0):
            return np.inf
        largest = max(largest, (found[0] - expected).abs().max().item())
    return largest


def test_every_field_is_classified():
    """No field that transformers knows is left out here, so that a new one fails this test."""
    tables = (APPLIED, WITHOUT_EFFECT, REFUSED)
    classified = [name for table in tables for name in table]
    assert sorted({*classified} - {"_commit_hash"}) == sorted(
        {*vars(GenerationConfig())} - {"_commit_hash"}
    )
    assert len(classified) == len({*classified})
    assert NEUTRAL.keys() <= REFUSED.keys()


@pytest.mark.few(18)
@pytest.mark.parametrize(("base", "name", "value"), ACCEPTED, ids=str)
def test_accepted_settings_give_the_scores_of_generate(base, name, value, model, published):
    """With a setting that `as_published` accepts, probabilities equal those of `generate`."""
    settings = base | {name: value}
    if not settings["do_sample"]:
        settings = {key: value for key, value in settings.items() if key not in SAMPLING}
    for key, setting in settings.items():
        setattr(published, key, setting)
    assert difference(model) < 1e-6


@pytest.mark.parametrize(("name", "value"), pairs(REFUSED), ids=str)
def test_settings_that_are_not_applied_are_refused_by_name(name, value):
    """A setting that may change a distribution or end a text is refused, and so is 0 if it may."""
    published = GenerationConfig(do_sample=True, top_p=0.9)
    setattr(published, name, value)
    with pytest.raises(ConfigError, match=rf"{name} is .*, an unknown setting"):
        parse_generation_config(published)


def test_a_setting_of_a_later_version_is_refused_by_name(monkeypatch):
    """A field that only a later version of transformers knows is refused unless it is None."""
    build = GenerationConfig.__init__

    def build_with_field(self, **settings):
        build(self, **settings)
        self.new_field = settings.get("new_field")

    monkeypatch.setattr(GenerationConfig, "__init__", build_with_field)
    plain = GenerationConfig(do_sample=True)
    assert parse_generation_config(plain).top_k == 50
    with pytest.raises(ConfigError, match="new_field is 0"):
        parse_generation_config(GenerationConfig(do_sample=True, new_field=0))
