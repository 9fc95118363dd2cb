"""What causal and masked transformers share: tokens and texts, and answers that are checked."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llmchecker.deployed.chat import Start, chat_tokens
from llmchecker.deployed.logits import LogitsDecoder
from llmchecker.errors import InvalidDistribution, UnusableText
from llmchecker.models.batches import Batches, few_rows
from llmchecker.models.distributions import Distributions
from llmchecker.models.pieces import Pieces, joins_pieces
from llmchecker.models.positions import Positions

_T = TypeVar("_T")


class Tokenized:
    """What reads and writes texts by a tokenizer: every language model does.

    Args:
        name: of the model.
        tokenizer: of the model.
        end_tokens: tokens that end a text.
    """

    is_cut = False
    """Whether decoding leaves few tokens a probability above 0."""

    def __init__(
        self, name: str, tokenizer: PreTrainedTokenizerBase, end_tokens: frozenset[int]
    ) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.end_tokens = end_tokens

    def encode(self, start: Start) -> tuple[int, ...]:
        """Tokens of a text, with those that the tokenizer puts around every text, or of a chat.

        What looks like a special token, `<|im_end|>` say, is text like any other.

        Raises:
            UnusableText: the tokenizer has no other way to read a part of the text, or no template
                for the chat.
        """
        if not isinstance(start, str):
            return chat_tokens(self.tokenizer, start, self.name)
        return self._tokens_of_text(start)

    def _tokens_of_text(self, text: str) -> tuple[int, ...]:
        plain = {"split_special_tokens": True, "verbose": False}
        own = self.tokenizer(text, add_special_tokens=False, **plain)["input_ids"]
        # an unknown word is special too; what a model makes of it is a property of the model
        special = set(self.tokenizer.all_special_ids) - {self.tokenizer.unk_token_id}
        for token in own:
            if token in special:
                raise UnusableText(
                    f"the tokenizer of {self.name} reads a part of {text!r} as its special token "
                    f"{self.tokenizer.convert_ids_to_tokens(token)!r}; write it differently"
                )
        return tuple(self.tokenizer(text, **plain)["input_ids"])

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """The texts of whole token sequences, special tokens left out."""
        if self.tokenizer.is_fast:
            # what batch_decode does for one text after the other
            backend = self.tokenizer.backend_tokenizer
            return backend.decode_batch(sequences, skip_special_tokens=True)
        return self.tokenizer.batch_decode(
            sequences, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )

    @cached_property
    def pieces(self) -> Pieces | None:
        """What single tokens add to texts; None where that depends on the text."""
        return Pieces(self.tokenizer) if joins_pieces(self.tokenizer) else None

    @property
    def first_token(self) -> int:
        """The token that begins a text, or else the first of those that end one."""
        begin = self.tokenizer.bos_token_id
        return begin if begin is not None else min(self.end_tokens)


class Transformer(Tokenized):
    """A network and its tokenizer: the common part of causal and masked language models.

    Args:
        batches: how many texts are computed at once.
        memory_bytes: limit of what one prompt's continuations use beside the model.
    """

    tail: tuple[int, ...] = ()
    """Tokens that are appended to every text before it is read."""

    decoder: LogitsDecoder | None = None
    """What is done to logits; None for nothing, which is temperature 1 and uncut."""

    def __init__(
        self,
        name: str,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        batches: Batches,
        memory_bytes: int,
    ) -> None:
        super().__init__(name, tokenizer, _end_tokens(network, tokenizer))
        self.network = network
        self.batches = batches
        self.memory_bytes = memory_bytes
        self.vocabulary_size = network.config.get_text_config().vocab_size
        self.positions = Positions.of(network)
        self.plain_settings = _settings(network)
        self.files: Mapping[str, str] = {}
        """The sha256 of every file that the model was loaded from; none if it was handed over."""

    @property
    def told(self) -> int:
        """How many of the most probable next tokens are told: all there are."""
        return self.vocabulary_size

    @property
    def dtype(self) -> str:
        """Of the weights, a torch name such as `float32`."""
        return str(self.network.dtype).removeprefix("torch.")

    def check_length(self, prompt: Sequence[int], deepest: int) -> None:
        """Refuse texts that have no place: the prompt, so many tokens after it, and the tail.

        Raises:
            UnusableText: the longest of them would be answered wrongly, or not at all.
        """
        reason = self.positions.objection(len(prompt) + len(self.tail), deepest)
        if reason is not None:
            raise UnusableText(f"{self.name}: {reason}")

    def logits(self, tokens: np.ndarray) -> Tensor:
        """The logits at the last places of whole texts, the last place last.

        Args:
            tokens: (n, length) int64, the tail included.

        Returns:
            (n, places, vocabulary): as many places as the network can be told to return, at least
            the tail's, or one.
        """
        input_ids = torch.from_numpy(tokens).to(self.network.device)
        return self.network(input_ids=input_ids, **self.plain_settings).logits

    def answers(
        self,
        function: Callable[[Distributions], _T],
        logits: Tensor,
        prompt: Sequence[int],
        suffixes: np.ndarray,
    ) -> list[_T]:
        """Apply a function to the distributions that some logits stand for, a few rows at a time.

        Args:
            logits: (rows, vocabulary), at least as many rows as suffixes.

        Raises:
            InvalidDistribution: logits of which there is no softmax, or decoding leaves no token.
        """
        results = []
        for first, few in few_rows(logits, len(suffixes)):
            texts = suffixes[first : first + len(few)]
            decoded = few if self.decoder is None else self._decoded(few, prompt, texts)
            part = Distributions.of_logits(decoded)[: len(texts)]
            if (row := part.invalid_row()) is not None:
                (text,) = self.decode([[*prompt, *texts[row].tolist()]])
                if decoded is few or not _give_probabilities(few)[row]:
                    raise InvalidDistribution(
                        f"{self.name} in {self.dtype} gives no probabilities after {text!r}: its "
                        "logits are not finite; another dtype may help, or its weights are damaged"
                    )
                raise InvalidDistribution(
                    f"no token is left after {text!r}: the decoding of {self.name} cuts all of "
                    f"them ({self.decoder.decoding})"
                )
            results.append(function(part))
        return results

    def _decoded(self, logits: Tensor, prompt: Sequence[int], suffixes: np.ndarray) -> Tensor:
        """Logits after decoding; those that give no probabilities give none afterwards either."""
        before = np.broadcast_to(prompt, (len(suffixes), len(prompt)))
        tokens = torch.from_numpy(np.concatenate([before, suffixes], axis=1)).to(logits.device)
        asked = logits[: len(suffixes)]
        decoded = self.decoder(tokens, asked)
        decoded[~_give_probabilities(asked)] = torch.nan
        # each processor treats every row alone; what follows is summed in rows of one number
        last = decoded[-1:].expand(len(logits) - len(decoded), -1)
        return torch.cat([decoded, last])


def _give_probabilities(logits: Tensor) -> Tensor:
    """(rows,) bool: whether there is a softmax: no NaN, no +inf, and not -inf alone."""
    return logits.amax(dim=1).isfinite()


def _settings(network: PreTrainedModel) -> dict[str, Any]:
    """Settings of a plain pass over whole texts, of those that this network knows."""
    known = inspect.signature(network.forward).parameters
    wanted = {"use_cache": False, "logits_to_keep": 1}
    return {name: value for name, value in wanted.items() if name in known}


def _end_tokens(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The tokens after which the model's own configuration stops generating."""
    generation = getattr(network, "generation_config", None)
    configured = getattr(generation, "eos_token_id", None)
    candidates = (configured, tokenizer.eos_token_id, tokenizer.sep_token_id)
    chosen = next((tokens for tokens in candidates if tokens is not None), [])
    return frozenset(chosen if isinstance(chosen, list) else [chosen])
