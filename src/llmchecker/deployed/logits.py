"""What decoding makes of logits, by the logits processors of transformers.

The processors stand in the order in which `generate` applies them, and get what it gives them: the
tokens of the whole text, prompt included, and its logits in float32.
"""

from dataclasses import fields
from pathlib import Path

import torch
from torch import Tensor
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    MinPLogitsWarper,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from llmchecker.deployed.decoding import SAMPLING, Decoding
from llmchecker.errors import ConfigError

DEFAULT_TOP_K = 50
"""What `generate` takes for `top_k` where it samples and the model's file names none."""

_WITHOUT_EFFECT = frozenset(
    """
    bos_token_id cache_config cache_implementation compile_config continuous_batching_config
    decoder_start_token_id disable_compile early_stopping encoder_no_repeat_ngram_size
    encoder_repetition_penalty eos_token_id is_assistant length_penalty low_memory max_length
    max_new_tokens max_time num_return_sequences output_attentions output_hidden_states
    max_cache_len output_logits output_scores pad_token_id prefill_chunk_size remove_invalid_values
    renormalize_logits return_dict_in_generate transformers_version use_cache
    """.split()
)
"""Fields of a generation configuration that leave the next token's distribution as it is.

What ends a text is read elsewhere, and how long texts are is said by the horizon.
"""

_NEUTRAL = {"num_beams": 1, "num_beam_groups": 1, "guidance_scale": 1}
"""Values of further fields that change nothing; those that are 0 or false do not either."""


class LogitsDecoder:
    """Makes of logits those of which the softmax is what `generate` draws from.

    Tokens that are cut have -inf, and so probability 0. It may be called in several threads.

    Args:
        decoding: the settings.
        vocabulary_size: of the model.
        end_tokens: of the model.

    Raises:
        ConfigError: the settings name tokens that the model does not have.
    """

    def __init__(
        self, decoding: Decoding, vocabulary_size: int, end_tokens: frozenset[int]
    ) -> None:
        decoding.require_tokens(vocabulary_size, end_tokens)
        self.decoding = decoding
        self._processors = _processors(decoding, sorted(end_tokens))
        # one of them prepares itself at the first call, which must not happen in two threads
        self._processors(torch.zeros((1, 1), dtype=torch.int64), torch.zeros((1, vocabulary_size)))

    def __call__(self, tokens: Tensor, logits: Tensor) -> Tensor:
        """The logits after decoding, (n, vocabulary) float32.

        Args:
            tokens: (n, length) int64, the whole texts.
            logits: (n, vocabulary), what the network gave after them, all finite or -inf.
        """
        scores = self._processors(tokens, logits.to(torch.float32, copy=True))
        if self.decoding.do_sample:
            return scores
        best = scores.amax(dim=1, keepdim=True)
        # of equal ones the first; where all are cut nothing is left
        chosen = (scores == best).int().argmax(dim=1, keepdim=True)
        return torch.full_like(scores, -torch.inf).scatter(1, chosen, best)


def _processors(decoding: Decoding, ends: list[int]) -> LogitsProcessorList:
    """The processors that change something, in the order of `generate`."""
    bad_words = [list(word) for word in decoding.bad_words_ids]
    made = {
        "repetition_penalty": RepetitionPenaltyLogitsProcessor,
        "no_repeat_ngram_size": NoRepeatNGramLogitsProcessor,
        "bad_words_ids": lambda _: NoBadWordsLogitsProcessor(bad_words, ends),
        "suppress_tokens": SuppressTokensLogitsProcessor,
        "temperature": TemperatureLogitsWarper,
        "top_k": TopKLogitsWarper,
        "top_p": TopPLogitsWarper,
        "min_p": MinPLogitsWarper,
        "typical_p": TypicalLogitsWarper,
    }
    settings = decoding.settings
    return LogitsProcessorList(
        [make(settings[name]) for name, make in made.items() if name in settings]
    )


def demand_published(directory: Path) -> None:
    """Check that the generation_config.json of a model says how it is decoded, if it is there.

    Raises:
        ConfigError: as `published_decoding` raises it.
    """
    try:
        published = GenerationConfig.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError):
        return  # which is told where the model is loaded
    published_decoding(published)


def published_decoding(published: GenerationConfig) -> Decoding:
    """What `generate` does by default with a model that has this generation configuration.

    Raises:
        ConfigError: it says nothing of decoding, contradicts itself, or says what is not known
            here.
    """
    usual = vars(GenerationConfig())
    said = {
        name: value
        for name, value in published.to_dict().items()
        # what transformers does not know `generate` does not obey
        if value is not None and name in usual and name not in _WITHOUT_EFFECT
    }
    said = {name: value for name, value in said.items() if not name.startswith("_")}
    settings = {field.name for field in fields(Decoding)} & said.keys()
    for name in sorted(said.keys() - settings):
        if said[name] and said[name] != _NEUTRAL.get(name):
            raise ConfigError(
                f"generation_config.json sets {name} to {said[name]!r}, which is not known here; "
                "write out the settings that count"
            )
    if not settings:
        raise ConfigError(
            "generation_config.json says nothing of decoding; write out the settings, or greedy"
        )
    wanted = {name: said[name] for name in settings}
    if not wanted.setdefault("do_sample", False):
        usually = Decoding.of({name: wanted[name] for name in SAMPLING if name in wanted})
        if usually:
            raise ConfigError(
                f"generation_config.json sets {usually} and not do_sample, so that some programs "
                "sample and transformers does not; write out the settings, or greedy"
            )
        wanted = {name: value for name, value in wanted.items() if name not in SAMPLING}
    elif "top_k" not in wanted:
        wanted["top_k"] = DEFAULT_TOP_K
    return Decoding.of(wanted)
