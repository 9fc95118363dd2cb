"""Common parts of causal and masked transformers: tokens, texts, checked answers."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from typing import Self, TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llmchecker.errors import InvalidDistribution, UnusableText, prefix_errors
from llmchecker.models.decoding.answer_format import AnswerFormat
from llmchecker.models.decoding.chat_template import (
    Chat,
    ChatTemplate,
    Start,
    encode_chat,
    find_prompt_date,
)
from llmchecker.models.decoding.grammar import TokenBytes
from llmchecker.models.decoding.logits_processor import LogitsDecoder
from llmchecker.models.decoding.settings import parse_end_tokens
from llmchecker.models.decoding.template_format import read_answer_format, read_template_format
from llmchecker.models.decoding.template_settings import NO_SETTINGS, TemplateSettings
from llmchecker.models.device import find_free_bytes
from llmchecker.models.distribution import Distributions
from llmchecker.models.transformers.batching import BatchExecutor, iter_chunks, join_prompt
from llmchecker.models.transformers.position_limits import PositionLimits
from llmchecker.models.transformers.token_pieces import (
    REPLACEMENT_CHARACTER,
    CharacterEnds,
    Detokenizer,
    is_piecewise,
    show_marks,
)

_PROCESSOR_BATCH = 64
"""Number of texts that a few processor cores evaluate about as fast as one."""

_T = TypeVar("_T")


class TokenizedModel:
    """A model with a tokenizer: the base class of loaded and served models.

    Args:
        name: name of the model in trees and messages.
        tokenizer: the model's tokenizer.
        end_tokens: ids of the model's own end tokens.

    Attributes:
        own_end_tokens: these ids, whatever ends texts by a decoding.
        end_tokens: ids of the tokens that end a text.
    """

    vocabulary_size: int
    """Number of tokens."""
    is_truncated = False
    """Whether decoding leaves few tokens with a probability above 0."""
    compares_prompt = False
    """Whether decoding compares texts with the prompt."""
    batch_texts = 16
    """Number of texts that are evaluated about as fast as one."""
    template_settings = NO_SETTINGS
    """Settings of the chat template."""
    probability_spread: float | None = None
    """Largest difference between probabilities of a text in batches of different sizes."""

    def __init__(
        self, name: str, tokenizer: PreTrainedTokenizerBase, end_tokens: frozenset[int]
    ) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.own_end_tokens = self.end_tokens = end_tokens
        # an empty text begins with the same token for every decoding, whatever ends texts
        begin_token = tokenizer.bos_token_id
        self._start_token = min(end_tokens, default=None) if begin_token is None else begin_token

    def encode(self, start: Start) -> tuple[int, ...]:
        """Return the tokens of a text or of a chat.

        The tokens of a text include those that the tokenizer adds around every text. A string that
        looks like a special token, such as `<|im_end|>`, is encoded as plain text. The tokens of a
        chat are those of `encode_chat`.

        Raises:
            UnusableText: the tokenizer can only encode a part of the text as a special token, or
                `encode_chat` rejects the chat.
        """
        if not isinstance(start, str):
            if start.tools:
                with prefix_errors(self.name):
                    self.find_answer_format(start).check_calls()
            return encode_chat(
                self.tokenizer, start, self.name, self.template_settings, marks=self._marks
            )
        return self._encode_text(start)

    def with_template(self, settings: TemplateSettings) -> Self:
        """Return the model with other settings of its chat template; both share all else."""
        model = copy(self)
        model.template_settings = settings
        return model

    def find_prompt_date(self, start: Start) -> str | None:
        """Find the date that the chat template writes into a chat; see there."""
        if isinstance(start, str):
            return None
        return find_prompt_date(self.tokenizer, start, self.name, self.template_settings)

    def find_answer_format(self, chat: Chat) -> AnswerFormat:
        """Find the format of the answers to a chat; see `read_answer_format`."""
        return read_answer_format(self.tokenizer, chat, self.name, self.template_settings)

    def _encode_text(self, text: str) -> tuple[int, ...]:
        settings = {"split_special_tokens": True, "verbose": False}
        text_tokens = self.tokenizer(text, add_special_tokens=False, **settings)["input_ids"]
        # the token of unknown words is special too, but its reading is the model's property
        special_tokens = set(self.tokenizer.all_special_ids) - {self.tokenizer.unk_token_id}
        for token in text_tokens:
            if token in special_tokens:
                raise UnusableText(
                    f"{self.name}: the tokenizer reads a part of {text!r} as its special token "
                    f"{self.tokenizer.convert_ids_to_tokens(token)!r}; rewrite the text"
                )
        return tuple(self.tokenizer(text, **settings)["input_ids"])

    @cached_property
    def _marks(self) -> tuple[str, ...]:
        """The marks of thoughts and calls in the model's texts."""
        try:
            return read_template_format(ChatTemplate(self.tokenizer, self.name)).marks
        except UnusableText:  # no chat template, or one that chats reject later
            return AnswerFormat().marks

    @cached_property
    def _text_tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of texts, which have marks that are special tokens."""
        return show_marks(self.tokenizer, self._marks, self.own_end_tokens)

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of whole token sequences, without special tokens but marks."""
        if self.tokenizer.is_fast:
            # the same as `batch_decode`, which decodes the texts one after another
            backend = self._text_tokenizer.backend_tokenizer
            texts: list[str] = backend.decode_batch(sequences, skip_special_tokens=True)
            return texts
        return self.tokenizer.batch_decode(
            [list(sequence) for sequence in sequences],
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )

    def decode_unfinished(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of token sequences that may go on.

        The bytes of an incomplete character at the end are left out.
        """
        texts = self.decode(sequences)
        beginnings: dict[int, Sequence[int]] = {}
        for row, text in enumerate(texts):
            # nearly all texts end with a whole character, which needs no look at the tokens
            if not text.endswith(REPLACEMENT_CHARACTER):
                continue
            character = self._character_ends.find_incomplete(sequences[row])
            if character is None:
                continue
            if self._character_ends.is_byte_level:
                texts[row] = text.removesuffix(character.content.decode(errors="replace"))
            else:
                # ByteFallback replaces the bytes of whole characters before it too
                beginnings[row] = sequences[row][: character.position]
        for row, text in zip(beginnings, self.decode(list(beginnings.values())), strict=True):
            texts[row] = text
        return texts

    @cached_property
    def _character_ends(self) -> CharacterEnds:
        return CharacterEnds(self._text_tokenizer)

    @cached_property
    def detokenizer(self) -> Detokenizer | None:
        """Detokenizer of single tokens; None if a token's text depends on its context."""
        return Detokenizer(self._text_tokenizer) if is_piecewise(self.tokenizer) else None

    @cached_property
    def token_pieces(self) -> tuple[str | None, ...] | None:
        """The text that each token adds to a text of whole characters.

        None for a token of single bytes or one that ends within a character. None if a token's text
        depends on its context.
        """
        if self.detokenizer is None:
            return None
        tokens = np.arange(self.vocabulary_size)
        pieces = self.detokenizer.decode_tokens(tokens)
        pieces[self.detokenizer.find_incomplete(tokens)] = None
        return tuple(pieces.tolist())

    @property
    def token_bytes(self) -> TokenBytes | None:
        """The bytes that each token adds to a text; None if they depend on its context."""
        if self.detokenizer is None:
            return None
        tokens = self.detokenizer.read_bytes(self.vocabulary_size)
        added_tokens = self.tokenizer.added_tokens_decoder
        special_tokens = [
            token
            for token, added in added_tokens.items()
            if added.special and token < self.vocabulary_size
        ]
        for token in special_tokens:
            tokens[token] = added_tokens[token].content.encode()
        return TokenBytes(tokens, special_tokens)

    @property
    def start_token(self) -> int:
        """The token that begins a text, or else the smallest of those that end a text.

        Raises:
            UnusableText: the model has neither.
        """
        if self._start_token is None:
            raise UnusableText(
                f"{self.name}: the start string is empty, but no special token begins a text; "
                "give a start string"
            )
        return self._start_token


class Transformer(TokenizedModel):
    """A network and its tokenizer: the base class of causal and masked models.

    Args:
        name: name of the model in trees and messages.
        network: the transformers network.
        tokenizer: the network's tokenizer.
        executor: the threads that compute batches.
        memory_bytes: limit in bytes for the continuations of one prompt, in addition to the model;
            an accelerator with a known free memory has no other limit.
    """

    decoder: LogitsDecoder | None = None
    """Decoding of the logits; None for temperature 1 without truncation."""

    def __init__(
        self,
        name: str,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        executor: BatchExecutor,
        memory_bytes: int,
    ) -> None:
        super().__init__(name, tokenizer, _read_end_tokens(network, tokenizer))
        self.network = network
        self.executor = executor
        self.memory_bytes = memory_bytes
        self.vocabulary_size: int = network.config.get_text_config().vocab_size
        self.input_vocabulary_size = count_input_tokens(network)
        self.position_limits = PositionLimits.from_network(network)
        parameters = inspect.signature(network.forward).parameters
        # no cache, and the logits of the last position only
        settings = {"use_cache": False, "logits_to_keep": 1}
        self.forward_settings = {
            name: value for name, value in settings.items() if name in parameters
        }
        self.files: Mapping[str, str] = {}
        """The sha256 of every file of the model; empty for a model that was passed as an object."""
        self.weight_note = ""
        """The note on answers of `describe_weights`."""

    @property
    def tail(self) -> tuple[int, ...]:
        """Token ids that are appended to every text before the network reads it."""
        return ()

    @property
    def listed_tokens(self) -> int:
        """Number of tokens that each distribution lists: the whole vocabulary."""
        return self.vocabulary_size

    @property
    def batch_texts(self) -> int:  # type: ignore[override]
        """Number of texts that are evaluated about as fast as one."""
        # On a processor the same number everywhere: an answer depends on the sizes of its rounds.
        return _PROCESSOR_BATCH if self.executor.is_processor else self.executor.max_rows

    @property
    def dtype(self) -> str:
        """Torch name of the weights' dtype, such as `float32`."""
        return str(self.network.dtype).removeprefix("torch.")

    def find_memory_bytes(self) -> int:
        """Return the memory for continuations: what is free on an accelerator, or the limit."""
        free_bytes = [find_free_bytes(device) for device in self.devices]
        known_bytes = [number for number in free_bytes if number is not None]
        return min(known_bytes, default=self.memory_bytes)

    @cached_property
    def devices(self) -> frozenset[torch.device]:
        """Devices of the network's weights."""
        return frozenset(parameter.device for parameter in self.network.parameters())

    def check_texts(self, prompt: Sequence[int], max_length: int) -> None:
        """Check that the network can read the prompt, the tokens after it, and the tail.

        Args:
            prompt: token ids of the prompt.
            max_length: number of tokens after the prompt in the longest text.

        Raises:
            UnusableText: the network lacks a token of the prompt, or cannot read the longest text
                correctly.
        """
        # a template's special tokens or the start token may exist only in the tokenizer
        missing_tokens = [token for token in prompt if token >= self.input_vocabulary_size]
        if missing_tokens:
            text = self.tokenizer.convert_ids_to_tokens(int(missing_tokens[0]))
            raise UnusableText(
                f"{self.name}: the network lacks the tokenizer's special token {text!r} "
                f"({missing_tokens[0]}); give another start string"
            )
        reason = self.position_limits.find_problem(len(prompt) + len(self.tail), max_length)
        if reason is not None:
            raise UnusableText(f"{self.name}: {reason}")

    def compute_logits(self, tokens: np.ndarray) -> Tensor:
        """Return the logits at the last positions of whole texts, the last position last.

        Args:
            tokens: (n, length) int64, the token ids including the tail.

        Returns:
            (n, positions, vocabulary). The number of positions depends on the network: at least
            that of the tail, or 1.
        """
        input_ids = torch.from_numpy(tokens).to(self.network.device)
        logits: Tensor = self.network(input_ids=input_ids, **self.forward_settings).logits
        return logits

    def map_distributions(
        self,
        function: Callable[[np.ndarray, Distributions], _T],
        logits: Tensor,
        prompt: Sequence[int],
        continuations: np.ndarray,
        rows: np.ndarray,
    ) -> list[_T]:
        """Apply a function to the distributions of logits, a few rows at a time.

        Args:
            function: maps a few rows and their distributions to a result.
            logits: (rows, vocabulary), at least as many rows as continuations.
            prompt: token ids of the prompt.
            continuations: (n, d) int64, the token ids after the prompt.
            rows: (n,) int64, the row of each continuation, for `function`.

        Raises:
            InvalidDistribution: the softmax of the logits is undefined, or decoding leaves no
                token.
        """
        return [task() for task in self.split_logits(function, logits, prompt, continuations, rows)]

    def split_logits(
        self,
        function: Callable[[np.ndarray, Distributions], _T],
        logits: Tensor,
        prompt: Sequence[int],
        continuations: np.ndarray,
        rows: np.ndarray,
    ) -> Iterator[Callable[[], _T]]:
        """Yield the calls of `map_distributions`, which several threads may make."""
        for first, chunk in iter_chunks(logits, len(continuations)):
            # padded rows at the end have no continuation
            part = slice(first, first + len(chunk))
            yield partial(self._map_chunk, function, chunk, prompt, continuations[part], rows[part])

    def _map_chunk(
        self,
        function: Callable[[np.ndarray, Distributions], _T],
        logits: Tensor,
        prompt: Sequence[int],
        texts: np.ndarray,
        rows: np.ndarray,
    ) -> _T:
        decoder = self.decoder
        with torch.inference_mode():
            decoded_logits = (
                logits if decoder is None else _decode_logits(decoder, logits, prompt, texts)
            )
            distributions = Distributions.from_logits(decoded_logits)[: len(texts)]
            if (row := distributions.find_invalid_row()) is None:
                return function(rows, distributions)
        (text,) = self.decode_unfinished([[*prompt, *texts[row].tolist()]])
        # find out whether the network or the decoding caused the problem
        if decoder is None or not _has_softmax(logits)[row]:
            raise InvalidDistribution(
                f"{self.name}: logits in {self.dtype} after {text!r} are not finite; try "
                "another dtype or fetch the weights again"
            )
        raise InvalidDistribution(
            f"{self.name}: its decoding {decoder.decoding} excludes all tokens after "
            f"{text!r}; weaken it"
        )


def count_input_tokens(network: PreTrainedModel) -> int:
    """Return the number of tokens that a network reads, which may exceed its outputs."""
    table = getattr(network.get_input_embeddings(), "weight", None)
    # a few networks, such as Perceiver, return another object here
    size: int = network.config.vocab_size if table is None else table.shape[0]
    return size


def _decode_logits(
    decoder: LogitsDecoder, logits: Tensor, prompt: Sequence[int], continuations: np.ndarray
) -> Tensor:
    """Decode logits; mark rows without a softmax as NaN."""
    tokens = torch.from_numpy(join_prompt(prompt, continuations)).to(logits.device)
    text_logits = logits[: len(continuations)]
    decoded_logits = decoder(tokens, text_logits, len(prompt))
    # a decoder may turn invalid logits into finite ones, which would hide the problem
    decoded_logits[~_has_softmax(text_logits)] = torch.nan
    # processors treat each row alone, but the sums that follow need the same number of rows
    padding = decoded_logits[-1:].expand(len(logits) - len(decoded_logits), -1)
    return torch.cat([decoded_logits, padding])


def _has_softmax(logits: Tensor) -> Tensor:
    """Return (rows,) bool: whether the softmax exists (no NaN, no +inf, not all -inf)."""
    return logits.amax(dim=1).isfinite()


def _read_end_tokens(
    network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> frozenset[int]:
    """Return the end tokens of the model's generation configuration, or else of its tokenizer."""
    generation_config = getattr(network, "generation_config", None)
    end_token = getattr(generation_config, "eos_token_id", None)
    # the model's own configuration has priority over its tokenizer
    candidates = (end_token, tokenizer.eos_token_id, tokenizer.sep_token_id)
    parsed_tokens = map(parse_end_tokens, candidates)
    return next((tokens for tokens in parsed_tokens if tokens is not None), frozenset())
