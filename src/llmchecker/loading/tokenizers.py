"""Loading tokenizers alone, for models that run elsewhere or are not to run yet."""

from pathlib import Path
from typing import TYPE_CHECKING

from llmchecker.errors import UnusableModel

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def load_tokenizer(directory: Path) -> "PreTrainedTokenizerBase":
    """The tokenizer in the directory of a model.

    Raises:
        UnusableModel: there is none that loads.
    """
    # transformers takes seconds to import
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # transformers documents no exceptions and raises many kinds
        raise UnusableModel(f"{directory} holds no tokenizer that loads: {error}") from error
