"""What causal and masked transformers share: tokens, texts and the end of a text."""

from collections.abc import Mapping, Sequence

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llmchecker.models.batches import Batches


class Transformer:
    """What causal and masked transformers share: tokens, texts and the end of a text."""

    def __init__(
        self,
        name: str,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        batches: Batches,
        memory_bytes: int,
    ) -> None:
        self.name = name
        self.network = network
        self.tokenizer = tokenizer
        self.batches = batches
        self.memory_bytes = memory_bytes
        self.vocabulary_size = network.config.vocab_size
        self.end_tokens = _end_tokens(network, tokenizer)
        self.files: Mapping[str, str] = {}
        """The sha256 of every file that the model was loaded from; none if it was handed over."""

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, verbose=False)["input_ids"])

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        if self.tokenizer.is_fast:
            # what batch_decode does for one text after the other
            backend = self.tokenizer.backend_tokenizer
            return backend.decode_batch(sequences, skip_special_tokens=True)
        return self.tokenizer.batch_decode(
            sequences, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )


def _end_tokens(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The tokens after which the model's own configuration stops generating."""
    generation = getattr(network, "generation_config", None)
    configured = getattr(generation, "eos_token_id", None)
    candidates = (configured, tokenizer.eos_token_id, tokenizer.sep_token_id)
    chosen = next((tokens for tokens in candidates if tokens is not None), [])
    return frozenset(chosen if isinstance(chosen, list) else [chosen])
