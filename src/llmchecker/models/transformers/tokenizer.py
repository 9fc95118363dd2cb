"""Loading of tokenizers without their model, and the tokens that a user names."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from llmchecker.errors import ConfigError, UnusableModel
from llmchecker.utils.printable_text import quote_value

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def load_tokenizer(directory: Path) -> "PreTrainedTokenizerBase":
    """Load the tokenizer of a model directory.

    Raises:
        UnusableModel: the directory contains no tokenizer that loads.
    """
    # transformers takes seconds to import
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # transformers documents no exceptions and raises many kinds
        reason = format_loading_error(error)
        raise UnusableModel(f"{directory}: no tokenizer loads: {reason}") from error


def find_end_tokens(
    tokenizer: "PreTrainedTokenizerBase", entries: Iterable[int | str]
) -> frozenset[int]:
    """Return the ids of the key `end_tokens`: ids, names of added tokens, or texts of one token.

    Raises:
        ConfigError: a text is not one token.
    """
    added_tokens = tokenizer.get_added_vocab()
    found = set()
    for entry in entries:
        tokens = [entry] if isinstance(entry, int) else [added_tokens.get(entry)]
        if tokens == [None]:
            tokens = tokenizer(entry, add_special_tokens=False, split_special_tokens=True)[
                "input_ids"
            ]
            # an unknown word is one token too, but has another text
            if len(tokens) != 1 or tokenizer.decode(tokens) != entry:
                names = tokenizer.convert_ids_to_tokens(tokens)
                raise ConfigError(
                    f"end_tokens: {quote_value(entry)} is not one token, but {names}; write ids, "
                    "or the text into `stop`"
                )
        found.update(tokens)
    return frozenset(found)


def format_loading_error(error: Exception) -> str:
    """Return a transformers error's message, without its advice to run remote code."""
    if "trust_remote_code" in str(error):
        return "it needs foreign code, which never runs; choose a model without such code"
    return str(error)
