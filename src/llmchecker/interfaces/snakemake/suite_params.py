"""Suites of a configuration, as rules and the checks before a run need them."""

from llmchecker.config.config import Config
from llmchecker.properties.registry import find_quantifier_modules
from llmchecker.suites.cases import Suite
from llmchecker.suites.load import load_suite


def load_configured_suite(config: Config, name: str, model: str) -> Suite:
    """Load a suite of the configuration for a model.

    Raises:
        LLMCheckerError: the suite cannot run; the message contains file and line.
    """
    return load_suite(config.suites[name].file, models=[model], config=config)


def list_suite_modules(suite: Suite) -> list[str]:
    """List the modules of the package that define a suite's quantifiers."""
    quantifiers = [
        quantifier
        for case in suite.cases
        for quantifier in case.question.checked_query.quantifiers.values()
    ]
    return find_quantifier_modules(quantifiers)
