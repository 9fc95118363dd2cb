"""Checks of questions to models that return texts alone, before anything is requested."""

from collections.abc import Iterable

from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.config.models import ModelConfig
from llmchecker.errors import ConfigError
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.servers.settings import ServerSource


def check_prompt_form(model: ModelConfig, prompt: Start) -> None:
    """Check that a model accepts the form of a prompt; one with probabilities always does.

    Raises:
        ConfigError: its API does not.
    """
    if not model.has_distributions:
        assert isinstance(model.source, ServerSource)
        model.source.check_prompt(prompt, model.name)


def check_query_form(model: ModelConfig, asked: CheckedQuery) -> None:
    """Check that the answers of a model decide a query; those with probabilities always may.

    Raises:
        InvalidQuery: whole answers do not decide it.
    """
    if model.has_distributions:
        return
    # imported here: a question to another model needs no numpy
    from llmchecker.checking.anytime.answer_monitor import check_decidable

    check_decidable(asked)


def check_prices(key: str, models: Iterable[ModelConfig], max_dollars: float | None) -> None:
    """Check that all models that return texts alone have prices if money is limited.

    Args:
        key: the key or the option of the limit, for messages.
        models: the models.
        max_dollars: the limit; None for none.

    Raises:
        ConfigError: one has none.
    """
    for model in models:
        if max_dollars is not None and not model.has_distributions and model.prices is None:
            raise ConfigError(
                f"{key}: {model.label} has no prices; add `prices` to the model, or limit tokens"
            )
