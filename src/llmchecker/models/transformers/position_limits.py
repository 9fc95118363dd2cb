"""Limits of text lengths, and thresholds of position encodings."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn
from transformers import PreTrainedModel

_LIMIT_FIELDS = ("max_position_embeddings", "max_seq_len", "max_sequence_length")
"""Configuration fields with a text's token limit; `n_positions` is an alias of the first."""


@dataclass(frozen=True)
class PositionLimits:
    """Lengths of texts that a network reads correctly.

    Attributes:
        max_tokens: largest number of tokens of a text; None for no limit.
        longrope_threshold: number of tokens above which longrope encodes all positions in another
            way, so that keys and values of a shorter text are useless; None for no threshold.
        is_stateful: whether the network keeps position factors from one text to the next, so that
            texts must not be read at the same time.
    """

    max_tokens: int | None
    longrope_threshold: int | None
    is_stateful: bool

    @classmethod
    def from_network(cls, network: PreTrainedModel) -> "PositionLimits":
        """Read the limits from a network and its configuration."""
        config = network.config.get_text_config()
        limits = [getattr(config, name, None) for name in _LIMIT_FIELDS]
        # RoBERTa and similar networks number positions from the padding index + 1
        limits += [
            module.num_embeddings - module.padding_idx - 1
            for name, module in network.named_modules()
            if isinstance(module, nn.Embedding)
            and "position" in name.rpartition(".")[2]
            and module.padding_idx is not None
        ]
        thresholds = list(_iter_longrope_thresholds(network))
        return cls(
            max_tokens=min((n for n in limits if isinstance(n, int) and n > 0), default=None),
            longrope_threshold=min(thresholds, default=None),
            # a longrope embedding changes its factors with the text that it reads
            is_stateful=bool(thresholds),
        )

    def find_problem(self, tokens: int, max_length: int) -> str | None:
        """Return the problem with texts of these lengths, or None if they can be read.

        Args:
            tokens: number of tokens of the shortest text.
            max_length: number of further tokens of the longest text.
        """
        length = tokens + max_length
        if self.max_tokens is not None and length > self.max_tokens:
            return f"texts of {length} tokens are too long, it reads at most {self.max_tokens}"
        # texts on both sides of the threshold cannot share keys and values
        if self.longrope_threshold is not None and tokens <= self.longrope_threshold < length:
            return (
                f"texts of {tokens} to {length} tokens are not all read alike, since it marks "
                f"the places of a text with more than {self.longrope_threshold} tokens in "
                "another way; the "
                "start string may be longer, or the texts shorter"
            )
        return None


def _iter_longrope_thresholds(network: PreTrainedModel) -> Iterator[int]:
    """Yield the length at which each longrope embedding changes its factors."""
    for module in network.modules():
        kinds = getattr(module, "rope_type", None)
        parameters = getattr(getattr(module, "config", None), "rope_parameters", None)
        if not isinstance(parameters, dict):
            continue
        # layers of several types may have a rotary embedding of their own
        items = kinds.items() if isinstance(kinds, dict) else [(None, kinds)]
        for layers, kind in items:
            if kind == "longrope":
                layer_parameters = parameters if layers is None else parameters[layers]
                yield layer_parameters["original_max_position_embeddings"]
