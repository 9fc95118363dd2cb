"""Checks of suites on models that return texts alone, before anything is requested."""

from collections.abc import Iterable

from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.config.models import ModelConfig
from llmchecker.errors import ConfigError
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.servers.settings import ServerSource


def check_answerable(model: ModelConfig, prompt: Start, asked: CheckedQuery) -> None:
    """Check that a model that returns texts alone can answer a case; others always can.

    Raises:
        InvalidQuery: whole answers do not decide the query.
        ConfigError: the API does not accept the form of the prompt.
    """
    if model.has_distributions:
        return
    # imported here: a suite of other models needs no numpy
    from llmchecker.checking.anytime.answer_monitor import check_decidable

    assert isinstance(model.source, ServerSource)
    is_text = isinstance(prompt, str)
    if is_text != (model.source.api == "openai-completions"):
        form, use = ("start", "user") if is_text else ("messages", "start")
        raise ConfigError(
            f"{form}: the api {model.source.api} of {model.name} does not accept it; use {use}"
        )
    check_decidable(asked)


def check_prices(models: Iterable[ModelConfig], max_dollars: float | None) -> None:
    """Check that all models that return texts alone have prices if money is limited.

    Raises:
        ConfigError: one has none.
    """
    for model in models:
        if max_dollars is not None and not model.has_distributions and model.prices is None:
            raise ConfigError(
                f"budget.dollars: {model.name} has no prices; add `prices` to the model"
            )
