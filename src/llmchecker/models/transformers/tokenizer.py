"""Loading of tokenizers without their model, which may run elsewhere or later."""

from pathlib import Path
from typing import TYPE_CHECKING

from llmchecker.errors import UnusableModel

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


def format_loading_error(error: Exception) -> str:
    """Return a transformers error's message, without its advice to run remote code."""
    if "trust_remote_code" in str(error):
        return "it needs foreign code, which never runs; choose a model without such code"
    return str(error)
