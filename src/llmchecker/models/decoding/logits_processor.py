"""Decoding of logits with the logits processors of transformers.

The processors are in the order of `generate` and receive the same input: the tokens of the whole
text, prompt included, and its logits in float32.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import FloatTensor, LongTensor, Tensor
from torch.overrides import TorchFunctionMode
from transformers import (
    EncoderNoRepeatNGramLogitsProcessor,
    EncoderRepetitionPenaltyLogitsProcessor,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    MinPLogitsWarper,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TypicalLogitsWarper,
)

from llmchecker.errors import ConfigError
from llmchecker.models.decoding.grammar import GrammarLogitsProcessor, TokenBytes
from llmchecker.models.decoding.settings import GRAMMAR_SETTINGS, SAMPLING_SETTINGS, Decoding
from llmchecker.models.decoding.top_p import TopPLogitsProcessor
from llmchecker.models.device import compute_running_sums

_DEFAULT_TOP_K = 50
"""Value of `top_k` in `generate` if it samples and the model's file has no value."""

_IGNORED_FIELDS = frozenset(
    """
    _commit_hash _from_model_config bos_token_id cache_config compile_config
    continuous_batching_config decoder_start_token_id disable_compile early_stopping eos_token_id
    length_penalty low_memory max_cache_len max_length max_new_tokens num_return_sequences
    output_attentions output_hidden_states output_logits output_scores pad_token_id
    prefill_chunk_size return_dict_in_generate transformers_version use_cache
    """.split()
)
"""Generation fields without effect on the next token's distribution.

The end tokens are read elsewhere, and the horizon limits the length of a text.
"""

_HARMLESS_VALUES: dict[str, tuple[object, ...]] = {
    "begin_suppress_tokens": ([],),
    # a quantized cache changes logits, these values do not
    "cache_implementation": ("dynamic", "hybrid", "static"),
    "diversity_penalty": (0,),
    "epsilon_cutoff": (0,),
    "eta_cutoff": (0,),
    "guidance_scale": (1,),
    # the assistant's own confidence would end texts
    "is_assistant": (False,),
    "min_length": (0,),
    "num_beam_groups": (1,),
    "num_beams": (1,),
    "penalty_alpha": (0,),
    # it gives forbidden tokens a probability if temperature or a lack of others leaves any
    "remove_invalid_values": (False,),
    # it may make the two largest logits equal, and greedy decoding takes the first
    "renormalize_logits": (False,),
    "token_healing": (False,),
    "use_mtp": (False,),
}
"""Harmless values of fields that may change a distribution or end a text.

None is harmless for every field, and no other value of a field without an entry.
"""


_GREEDY_SETTINGS = Decoding(do_sample=False).settings


class LogitsDecoder:
    """Decoding of logits: the softmax of the result is the distribution of `generate`.

    Truncated tokens have the logit -inf and so probability 0. Several threads may call it at once.

    Args:
        decoding: the settings.
        vocabulary_size: number of tokens of the model.
        end_tokens: ids of the model's end tokens.
        token_bytes: as in `GrammarLogitsProcessor`; only a grammar needs it.

    Raises:
        ConfigError: the settings name tokens that the model does not have, or a grammar that
            `GrammarLogitsProcessor` rejects.
        MissingTool: a grammar needs a package that is not installed.
    """

    def __init__(
        self,
        decoding: Decoding,
        vocabulary_size: int,
        end_tokens: frozenset[int],
        token_bytes: TokenBytes | None = None,
    ) -> None:
        decoding.check_tokens(vocabulary_size, end_tokens)
        self.decoding = decoding
        self._processors = _build_processors(decoding, sorted(end_tokens), token_bytes)
        # a processor initialises itself at its first call, which must not happen in two threads
        self(torch.zeros((1, 1), dtype=torch.int64), torch.zeros((1, vocabulary_size)), 1)

    def __call__(self, tokens: Tensor, logits: Tensor, prompt_length: int) -> Tensor:
        """Return the logits after decoding, (n, vocabulary) float32.

        Args:
            tokens: (n, length) int64, token ids of the whole texts.
            logits: (n, vocabulary), the network's logits after the texts, all finite or -inf.
            prompt_length: number of tokens of the common prompt at the beginning of the texts.
        """
        # a copy, because processors may change their input
        logits_copy = logits.to(torch.float32, copy=True)
        # the annotations of transformers name classes that no tensor has
        token_ids, logits_copy = cast(LongTensor, tokens), cast(FloatTensor, logits_copy)
        with _FixedSums():
            scores: Tensor = self._processors(token_ids, logits_copy, prompt_length=prompt_length)
        if self.decoding.do_sample:
            return scores
        maxima = scores.amax(dim=1, keepdim=True)
        # the first of equal logits; -inf if all tokens are truncated
        indices = (scores == maxima).int().argmax(dim=1, keepdim=True)
        return torch.full_like(scores, -torch.inf).scatter(1, indices, maxima)


class _FixedSums(TorchFunctionMode):
    """Running sums of rows that are added in a fixed order, also on an accelerator."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.cumsum and args[0].is_floating_point():
            return compute_running_sums(args[0])
        return func(*args, **(kwargs or {}))


class _PromptLogitsProcessor(LogitsProcessor):
    """A transformers logits processor that compares each text with the common prompt.

    Args:
        build: creates the processor from its setting and the prompt, (1, length) int64.
        setting: setting of the processor.
    """

    def __init__(self, build: Callable[[Any, LongTensor], LogitsProcessor], setting: Any) -> None:
        self._build = build
        self._setting = setting

    def __call__(
        self, input_ids: LongTensor, scores: FloatTensor, prompt_length: int
    ) -> FloatTensor:
        prompt = cast(LongTensor, input_ids[:1, :prompt_length])
        new_scores: FloatTensor = self._build(self._setting, prompt)(input_ids, scores)
        return new_scores


class _CountLogitsProcessor(LogitsProcessor):
    """A transformers logits processor of penalties for the tokens of the answer, as of vLLM.

    Args:
        frequency: what a logit loses for each time that the answer has the token.
        presence: what a logit loses if the answer has the token.
    """

    def __init__(self, frequency: float, presence: float) -> None:
        self._frequency, self._presence = frequency, presence

    def __call__(
        self, input_ids: LongTensor, scores: FloatTensor, prompt_length: int
    ) -> FloatTensor:
        answers = input_ids[:, prompt_length:]
        counts = torch.zeros_like(scores)
        counts.scatter_add_(1, answers, torch.ones_like(answers, dtype=scores.dtype))
        penalties = self._frequency * counts + self._presence * (counts > 0)
        return cast(FloatTensor, scores - penalties)


class _MinNewTokensLogitsProcessor(LogitsProcessor):
    """A transformers logits processor that excludes the end of a short answer.

    Args:
        least: least number of tokens of an answer before its end.
        end_tokens: ids of the tokens that end a text.
    """

    def __init__(self, least: int, end_tokens: list[int]) -> None:
        self._least, self._end_tokens = least, end_tokens

    def __call__(
        self, input_ids: LongTensor, scores: FloatTensor, prompt_length: int
    ) -> FloatTensor:
        if input_ids.shape[1] - prompt_length < self._least:
            scores[:, self._end_tokens] = -torch.inf
        return scores


def _build_processors(
    decoding: Decoding, end_tokens: list[int], token_bytes: TokenBytes | None
) -> LogitsProcessorList:
    """Build the processors that have an effect, in the order of `generate`."""
    bad_words = [list(word) for word in decoding.bad_words_ids]
    bias: list[list[list[int] | float]] = [[[t], value] for t, value in decoding.logit_bias]
    builders: dict[str, Callable[[Any], LogitsProcessor]] = {
        "logit_bias": lambda _: SequenceBiasLogitsProcessor(bias),
        # the two encoder processors get the prompt from transformers if a model has no encoder
        "encoder_repetition_penalty": partial(
            _PromptLogitsProcessor, EncoderRepetitionPenaltyLogitsProcessor
        ),
        "repetition_penalty": RepetitionPenaltyLogitsProcessor,
        # vLLM subtracts penalties after the repetition penalty; `generate` has none
        "frequency_penalty": lambda value: _CountLogitsProcessor(value, 0.0),
        "presence_penalty": lambda value: _CountLogitsProcessor(0.0, value),
        "no_repeat_ngram_size": NoRepeatNGramLogitsProcessor,
        "encoder_no_repeat_ngram_size": partial(
            _PromptLogitsProcessor, EncoderNoRepeatNGramLogitsProcessor
        ),
        "bad_words_ids": lambda _: NoBadWordsLogitsProcessor(bad_words, end_tokens),
        "min_new_tokens": partial(_MinNewTokensLogitsProcessor, end_tokens=end_tokens),
        "suppress_tokens": SuppressTokensLogitsProcessor,
        # where `generate` calls the processors of its caller
        **dict.fromkeys(
            GRAMMAR_SETTINGS,
            lambda _: GrammarLogitsProcessor(decoding, token_bytes, end_tokens),
        ),
        "temperature": TemperatureLogitsWarper,
        "top_k": TopKLogitsWarper,
        "top_p": TopPLogitsProcessor,
        "min_p": MinPLogitsWarper,
        "typical_p": TypicalLogitsWarper,
    }
    settings = decoding.settings
    return LogitsProcessorList(
        [builder(settings[name]) for name, builder in builders.items() if name in settings]
    )


def check_published_decoding(directory: Path) -> None:
    """Check that a model's generation_config.json, if present, defines its decoding.

    Raises:
        ConfigError: as in `parse_generation_config`.
    """
    try:
        config = GenerationConfig.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError):
        return  # loading the model reports the problem
    parse_generation_config(config)


def parse_generation_config(generation_config: GenerationConfig) -> Decoding:
    """Return the default decoding of `generate` with this generation configuration.

    Raises:
        ConfigError: it has no decoding settings, contradicts itself, or sets an unsupported field
            that may change a distribution.
    """
    supported_names = {field.name for field in fields(Decoding)}
    # `generate` ignores fields that transformers does not define
    known_names = vars(GenerationConfig()).keys() - _IGNORED_FIELDS
    values = {
        name: value
        for name, value in generation_config.to_dict().items()
        if value is not None and name in known_names
    }
    for name in sorted(values.keys() - supported_names):
        if values[name] not in _HARMLESS_VALUES.get(name, ()):
            raise ConfigError(
                f"generation_config.json: {name} is {values[name]!r}, an unknown setting; write "
                "the relevant settings into the configuration"
            )
    settings = {name: values[name] for name in supported_names & values.keys()}
    if not settings:
        raise ConfigError(
            "generation_config.json: no decoding settings; write them into the "
            "configuration, or greedy"
        )
    if not settings.setdefault("do_sample", False):
        sampling = Decoding.from_settings(
            {name: settings[name] for name in SAMPLING_SETTINGS if name in settings}
        )
        # without do_sample, transformers ignores these settings and other programs use them
        # at temperature 0 they do not sample either
        if sampling.settings not in ({}, _GREEDY_SETTINGS):
            raise ConfigError(
                f"generation_config.json: {sampling} without do_sample, so programs sample "
                "differently; write the settings into the configuration, or greedy"
            )
        settings = {
            name: value for name, value in settings.items() if name not in SAMPLING_SETTINGS
        }
    elif "top_k" not in settings and settings.get("temperature") != 0:
        settings["top_k"] = _DEFAULT_TOP_K
    return Decoding.from_settings(settings)
