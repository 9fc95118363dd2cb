"""How the byte-level tokenizer of a GGUF file cuts a text into pieces before it merges bytes.

A GGUF file names the rule and does not hold it. transformers has the rules of many names, and takes
that of GPT-2 for all others. The tokens of some texts would then be others than those that the
model was trained on.
"""

from typing import TYPE_CHECKING

from llmchecker.errors import UnusableModel
from llmchecker.fetching.gguf_header import GgufHeader

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_OF_GPT2 = frozenset({"gpt-2", "phi-2"})
"""Names of GPT-2's own rule."""

_DIGITS_APART = frozenset({"smollm", "starcoder"})
"""Names of the rule that cuts every digit off first, and then goes on as GPT-2's."""


def restore_splitting(tokenizer: "PreTrainedTokenizerFast", header: GgufHeader) -> None:
    """Make a tokenizer that transformers read from a GGUF file cut texts as the file says.

    Sentencepiece has no such rule, so that its tokenizers stay as they are.

    Args:
        tokenizer: changed in place.
        header: of the file.

    Raises:
        UnusableModel: nobody here knows the rule of that name, or the file names none.
    """
    from tokenizers import pre_tokenizers
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    if header.tokenizer != "gpt2" or header.splitting in GGUF_PRE_TOKENIZER_SPLITS:
        return
    if header.splitting in _DIGITS_APART:
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
    elif header.splitting not in _OF_GPT2:
        known = sorted({*GGUF_PRE_TOKENIZER_SPLITS, *_OF_GPT2, *_DIGITS_APART})
        raise UnusableModel(
            f"the GGUF file says tokenizer.ggml.pre is {header.splitting!r}, and how that cuts a "
            f"text is not known; use the model's safetensors with its tokenizer.json. Known are "
            f"{', '.join(known)}"
        )
