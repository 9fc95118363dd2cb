"""The lengths of texts that a network reads rightly, and where its reading of a text changes."""

from dataclasses import dataclass

from torch import nn
from transformers import PreTrainedModel

LIMITS = ("max_position_embeddings", "max_seq_len", "max_sequence_length")
"""Fields of configurations that say how many tokens a text may have; `n_positions` is the first."""


@dataclass(frozen=True)
class Positions:
    """The lengths of texts that a network reads rightly.

    Attributes:
        most: tokens that a text may have; None if there is no limit.
        turn: texts with more tokens than this have the places of all their tokens marked in
            another way (longrope), so that what was kept of a shorter text is of no use.
        state: whether the network keeps marks of places from one text to the next, so that no two
            texts may be read at once.
    """

    most: int | None
    turn: int | None
    state: bool

    @classmethod
    def of(cls, network: PreTrainedModel) -> "Positions":
        """Read them from a network and its configuration."""
        config = network.config.get_text_config()
        limits = [getattr(config, name, None) for name in LIMITS]
        # RoBERTa and its like count places from behind the padding's
        limits += [
            module.num_embeddings - module.padding_idx - 1
            for name, module in network.named_modules()
            if isinstance(module, nn.Embedding)
            and "position" in name.rpartition(".")[2]
            and module.padding_idx is not None
        ]
        turns = [size for kind, size in _rotations(network) if kind == "longrope"]
        return cls(
            most=min((n for n in limits if isinstance(n, int) and n > 0), default=None),
            turn=min(turns, default=None),
            state=bool(turns),
        )

    def objection(self, tokens: int, deepest: int) -> str | None:
        """What speaks against texts of so many tokens and up to `deepest` more; None if nothing."""
        longest = tokens + deepest
        if self.most is not None and longest > self.most:
            return f"texts of {longest} tokens are too long, it reads at most {self.most}"
        if self.turn is not None and tokens <= self.turn < longest:
            return (
                f"texts of {tokens} to {longest} tokens are not all read alike, since it marks "
                f"the places of a text with more than {self.turn} tokens in another way; the "
                "start string may be longer, or the texts shorter"
            )
        return None


def _rotations(network: PreTrainedModel) -> list[tuple[str, int]]:
    """The kinds of rotary embeddings, and the length of texts for which each was made at first."""
    found = []
    for module in network.modules():
        kinds = getattr(module, "rope_type", None)
        config = getattr(module, "config", None)
        parameters = getattr(config, "rope_parameters", None)
        if kinds is None or not isinstance(parameters, dict):
            continue
        each = kinds.items() if isinstance(kinds, dict) else [(None, kinds)]
        for layers, kind in each:
            own = parameters if layers is None else parameters.get(layers, {})
            first = own.get("original_max_position_embeddings")
            found.append((kind, first or config.max_position_embeddings))
    return found
