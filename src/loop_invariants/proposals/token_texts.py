"""Texts of tokens after a prompt."""

from collections.abc import Sequence

from llmchecker.models.interface import LanguageModel


def decode_continuations(
    model: LanguageModel, prompt: Sequence[int], continuations: Sequence[Sequence[int]]
) -> list[str]:
    """Decode the text that each continuation adds to a prompt.

    The prompt's last token is decoded together with each continuation, since tokenizers may drop
    the space at the begin of a text. A continuation of special tokens adds nothing.
    """
    anchor = tuple(prompt[-1:])
    (anchor_text,) = model.decode([anchor])
    texts = model.decode([(*anchor, *continuation) for continuation in continuations])
    # The text of the anchor belongs to the prompt.
    return [text.removeprefix(anchor_text) for text in texts]
