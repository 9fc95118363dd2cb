"""Masked transformers: the next token is read at a mask appended to the text."""

from collections.abc import Sequence

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llmchecker.deployed.chat import Start
from llmchecker.errors import UnusableText
from llmchecker.models.batches import Batches
from llmchecker.models.transformer import Transformer
from llmchecker.models.whole_texts import WholeTextContinuations


class MaskedModel(Transformer):
    """A masked transformer: the next token is read at a mask appended to the text."""

    def __init__(
        self,
        name: str,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        batches: Batches,
        memory_bytes: int,
    ) -> None:
        super().__init__(name, network, tokenizer, batches, memory_bytes)
        self.tail = (tokenizer.mask_token_id, tokenizer.sep_token_id)

    def encode(self, start: Start) -> tuple[int, ...]:
        """Tokens of a prompt, without the separator that would end it."""
        if not isinstance(start, str):
            raise UnusableText(f"{self.name} is a masked model, which answers no messages")
        tokens = super().encode(start)
        ends = len(tokens) > 0 and tokens[-1] == self.tokenizer.sep_token_id
        return tokens[:-1] if ends else tokens

    def continuations(self, prompt: Sequence[int], deepest: int = 0) -> WholeTextContinuations:
        """Open the continuations of a prompt."""
        return WholeTextContinuations(self, prompt, deepest)
