"""End of sequence: whether the end tokens of a model end a text, or are tokens as any other."""

from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from llmchecker.errors import ConfigError
from llmchecker.models.text_answer import TextModel

if TYPE_CHECKING:
    from llmchecker.models.interface import LanguageModel

EndOfSequence = Literal["terminal", "ordinary"]
"""Whether an end-of-sequence token ends a text, or is an ordinary token."""

_ModelT = TypeVar("_ModelT", bound="LanguageModel | TextModel")


def apply_end_of_sequence(model: _ModelT, end_of_sequence: EndOfSequence) -> _ModelT:
    """Return the model, without end tokens if they are ordinary tokens.

    All else stays, so that a decoding may still depend on the ids of these tokens. Answers of a
    model that returns texts alone end where the provider says so.

    Raises:
        ConfigError: the end of sequence is unknown.
    """
    if end_of_sequence not in ("terminal", "ordinary"):
        raise ConfigError(
            f"end_of_sequence: {end_of_sequence!r} is unknown; use 'terminal' or 'ordinary'"
        )
    if end_of_sequence == "terminal" or isinstance(model, TextModel):
        return model
    return cast(_ModelT, _EndlessModel(model))


class _EndlessModel:
    """A language model whose end-of-sequence tokens are ordinary tokens.

    Args:
        model: the model, which has all other attributes.
    """

    end_tokens = frozenset[int]()

    def __init__(self, model: "LanguageModel") -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)
