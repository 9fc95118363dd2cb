"""Quantifiers of the workflow: their settings as params, and the models that judge."""

from collections.abc import Mapping
from typing import Any

from llmchecker.config.config import Config
from llmchecker.config.judges import ConfiguredJudge
from llmchecker.config.registry import Registry
from llmchecker.properties.quantifiers.interface import Quantifier


def parse_quantifiers(
    settings: Mapping[str, Mapping[str, Any]], config: Mapping[str, Any]
) -> dict[str, Quantifier]:
    """Create quantifiers from params.

    Args:
        settings: the settings of each, by name.
        config: the configuration, whose models may judge.
    """
    named = {each.get("model") for each in settings.values()}
    models = {name: keys for name, keys in config.get("models", {}).items() if name in named}
    expansion = config.get("expansion", {})
    sections = {"models": models, "expansion": expansion, "quantifiers": settings}
    return dict(Registry.parse(sections).quantifiers)


def list_judges(config: Config, model: str) -> list[str]:
    """List the names of the configured models that judge the texts of a model."""
    judges = (getattr(each, "model", None) for each in config.used_quantifiers(model).values())
    return sorted({judge.model.name for judge in judges if isinstance(judge, ConfiguredJudge)})
