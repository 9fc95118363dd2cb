"""The texts of tokens as they read after a prompt."""

from collections.abc import Sequence

from llmchecker.models.protocols import LanguageModel


def texts_after(
    model: LanguageModel, prompt: Sequence[int], suffixes: Sequence[Sequence[int]]
) -> list[str]:
    """The text that each of the suffixes adds to a prompt.

    The prompt's last token is decoded together with each suffix, since some tokenizers drop the
    space with which a text begins. A suffix of special tokens adds nothing.
    """
    anchor = tuple(prompt[-1:])
    (before,) = model.decode([anchor])
    decoded = model.decode([(*anchor, *suffix) for suffix in suffixes])
    return [text.removeprefix(before) for text in decoded]
