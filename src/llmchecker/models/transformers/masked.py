"""Masked transformers: next-token logits at a mask appended to the text."""

from collections.abc import Sequence

from llmchecker.errors import UnusableText
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.transformers.base import Transformer
from llmchecker.models.transformers.uncached import UncachedPrefix


class MaskedModel(Transformer):
    """A masked transformer: next-token logits at a mask appended to the text."""

    @property
    def tail(self) -> tuple[int, ...]:
        """Token ids of the mask, at which the network predicts, and of the text's end."""
        return (self.tokenizer.mask_token_id, self.tokenizer.sep_token_id)

    def encode(self, start: Start) -> tuple[int, ...]:
        """Return the tokens of a prompt, without the separator that would close it."""
        if not isinstance(start, str):
            raise UnusableText(
                f"{self.name}: a masked model answers no messages; use a start string"
            )
        tokens = super().encode(start)
        # the prompt is continued, so its separator moves to the tail
        has_separator = len(tokens) > 0 and tokens[-1] == self.tokenizer.sep_token_id
        return tokens[:-1] if has_separator else tokens

    def open_prefix(
        self, prompt: Sequence[int], max_length: int = 0, *, batch_invariant: bool = True
    ) -> UncachedPrefix:
        """Open the continuations of a prompt."""
        # all batches are
        del batch_invariant
        return UncachedPrefix(self, prompt, max_length)
