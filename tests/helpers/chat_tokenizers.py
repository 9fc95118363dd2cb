"""Tokenizers of bytes with a chat template."""

from collections.abc import Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

TURN_MARKS = ("<|im_start|>", "<|im_end|>")


def build_tokenizer(
    template: str | dict[str, str], special: Sequence[str] = (), added: Sequence[str] = ()
) -> PreTrainedTokenizerFast:
    """Build a tokenizer of single bytes and some whole tokens; `<|im_end|>` ends a text.

    Args:
        template: the chat template, or several by name.
        special: further special tokens.
        added: added tokens that are not special.
    """
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    for text in (*TURN_MARKS, *special):
        backend.add_tokens([AddedToken(text, special=True, normalized=False)])
    for text in added:
        backend.add_tokens([AddedToken(text, special=False, normalized=False)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>")
    tokenizer.chat_template = template
    return tokenizer
