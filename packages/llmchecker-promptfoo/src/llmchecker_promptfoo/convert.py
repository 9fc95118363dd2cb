"""Conversion of promptfoo configurations to suites.

Prompts, variables, tests and deterministic assertions are converted. Everything else is listed with
its line. A configuration is data: no script or provider of it runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from llmchecker.errors import ConfigError
from llmchecker.suites.formats import Conversion
from llmchecker.utils.printable_text import escape_unprintable
from llmchecker_promptfoo.acceptance import CaseSelector, ConvertedCase, build_content
from llmchecker_promptfoo.assertions import Context
from llmchecker_promptfoo.documents import read_document
from llmchecker_promptfoo.pass_rates import choose_probability
from llmchecker_promptfoo.prompts import Prompt, is_text_prompt, read_prompt_list, render_prompt
from llmchecker_promptfoo.providers import convert_providers, find_first_provider
from llmchecker_promptfoo.report import NotConverted, Place, Report, UnknownTemplate
from llmchecker_promptfoo.requirements import RequirementBuilder
from llmchecker_promptfoo.suite_text import format_suite
from llmchecker_promptfoo.tests import Test, TestReader
from llmchecker_promptfoo.variables import iter_combinations, mark_templates

_MAX_CASES = 10_000
"""Maximum number of combinations of prompts, tests and variables."""
_MAX_NAME = 190
"""Maximum number of characters of a case's name, without a number."""
_MAX_PROMPT_NAME = 100
"""Maximum number of characters of the name of a prompt."""
_DEFAULT_PROMPT = "{{prompt}}"
"""The prompt of a configuration without prompts."""
_CONFIG_SUFFIXES = (".yaml", ".yml", ".json")
_CONFIG_KEYS = (
    *("$schema", "description", "tags", "metadata", "prompts", "providers", "targets", "tests"),
    *("defaultTest", "scenarios", "assertionTemplates", "outputPath", "evaluateOptions"),
    *("sharing", "commandLineOptions", "env"),
)
"""Keys of a configuration that are converted or have no effect on verdicts."""
_TEST_KEYS = (
    *("description", "vars", "assert", "options", "threshold", "metadata", "prompts"),
    *("provider", "providers", "providerOutput", "assertScoringFunction"),
)
"""Keys of a test that are converted, have no effect on verdicts, or exclude the test."""
_OPTION_KEYS = (
    *("prefix", "suffix", "disableVarExpansion", "disableDefaultAsserts"),
    *("disableConversationVar", "runSerially", "provider", "rubricPrompt", "factuality"),
)
"""Options of a test that are converted, concern graders alone, or exclude the test."""
_EXCLUDING_KEYS = {
    "provider": "it names a provider, and the suite has one model",
    "providers": "it names providers, and the suite has one model",
    "providerOutput": "its output is given, and no model writes it",
    "assertScoringFunction": "a program computes its score",
}
"""Keys of a test without a counterpart, with the reasons."""
_EXCLUDING_OPTIONS = {
    "transform": "a program changes the output before its assertions",
    "postprocess": "a program changes the output before its assertions",
    "transformVars": "a program changes its variables",
}
"""Options of a test without a counterpart, with the reasons."""


def convert_promptfoo(
    path: str | Path, probability: Decimal | None, model: str | None = None
) -> Conversion:
    """Convert a promptfoo configuration.

    Args:
        path: the file, such as promptfooconfig.yaml.
        probability: the probability that every assertion must have at least; None for that of the
            file.
        model: the model of the suite; None for a placeholder.

    Raises:
        ConfigError: the file is unreadable, or nothing of it can be converted; the message contains
            the reasons with their lines.
    """
    path = Path(path)
    if path.suffix not in _CONFIG_SUFFIXES:
        raise ConfigError(f"{path}: a configuration is YAML or JSON; convert other forms to YAML")
    content, place = read_document(path)
    if not isinstance(content, Mapping):
        raise ConfigError(f"{path}, {place}: the file is not a mapping; write keys and values")
    report = Report()
    builder = RequirementBuilder(choose_probability(content, place, probability, report))
    converter = _Converter(content, place, path, report, builder)
    cases = list(converter.iter_cases())
    settings: dict[str, Any] = {"model": model or "./model"}
    if cases:
        settings |= convert_providers(
            content, place, report, has_model=model is not None, has_chats=converter.has_chats
        )
        cases = CaseSelector(settings, builder.properties, report, path).select(cases)
    if not cases:
        reasons = "".join(f"\n  {omission}" for omission in report.omissions)
        raise ConfigError(f"{path}: no test could be converted; write the suite yourself:{reasons}")
    suite = build_content(settings, builder.properties, cases)
    return Conversion(report.omissions, format_suite(suite, path.name, report.omissions))


@dataclass
class _Converter:
    """A converter of one configuration.

    Attributes:
        content: the keys of the configuration.
        place: its place.
        path: its file.
        report: the list of what is not converted.
        builder: the builder of the requirements.
        has_chats: whether one of its prompts so far is a chat.
    """

    content: Mapping[str, Any]
    place: Place
    path: Path
    report: Report
    builder: RequirementBuilder
    has_chats: bool = False
    _names: set[str] = field(default_factory=set)
    _combinations: int = 0

    def iter_cases(self) -> Iterator[ConvertedCase]:
        """Yield the entries of the suite, and list what is not converted."""
        content, place = self.content, self.place
        self._omit_keys(content, place, _CONFIG_KEYS, "{} has no counterpart")
        for name in ("promptPrefix", "promptSuffix"):
            if name in (content.get("commandLineOptions") or {}):
                self.report.omit(place.child("commandLineOptions"), f"{name} has no counterpart")
        provider, provider_place = find_first_provider(content, place)
        if provider.get("transform") is not None:
            reason = "a program of the provider changes the output before all assertions"
            self.report.omit(provider_place.child("transform"), f"transform: {reason}")
            return
        # without prompts, promptfoo sends the variable of each test
        value, prompts_place = content.get("prompts"), place.child("prompts")
        if not value and not isinstance(value, list):
            value = [_DEFAULT_PROMPT]
        elif not value:
            self.report.omit(prompts_place, "the configuration has no prompts")
        prompts = read_prompt_list(value, prompts_place, self.path.parent, self.report)
        selected = [prompt for prompt in prompts if prompt.is_selected(provider.get("prompts"))]
        for prompt in prompts:
            if prompt not in selected:
                self.report.omit(prompt.place, "the first provider does not select the prompt")
        for test in TestReader(content, place, self.path.parent, self.report).read():
            try:
                yield from self._iter_test_cases(test, selected)
            except NotConverted as error:
                self.report.omit(test.place, error)

    @cached_property
    def _custom_filters(self) -> frozenset[str]:
        filters = self.content.get("nunjucksFilters")
        return frozenset(filters if isinstance(filters, Mapping) else ())

    def _omit_keys(
        self, keys: Mapping[str, Any], place: Place, known: Sequence[str], reason: str
    ) -> None:
        for name in keys:
            if name not in known:
                self.report.omit(place.child(name), reason.format(name))

    def _iter_test_cases(self, test: Test, prompts: Sequence[Prompt]) -> Iterator[ConvertedCase]:
        """Yield a case for each combination of variables, with its prompts if they are texts."""
        for part in test.parts:
            self._omit_keys(part.keys, part.place, _TEST_KEYS, "{} of a test has no counterpart")
        options = test.options
        for name, (_, place) in options.items():
            if name not in (*_OPTION_KEYS, *_EXCLUDING_OPTIONS):
                self.report.omit(place, f"the option {name} of a test has no counterpart")
        if self._is_excluded(test):
            return
        selection, _ = test.find("prompts")
        selected = [prompt for prompt in prompts if prompt.is_selected(selection)]
        if prompts and not selected:
            raise NotConverted("the test selects none of the converted prompts")
        is_expanded = options.get("disableVarExpansion", (None,))[0] is not True
        prefix, suffix = (str(options.get(name, ("",))[0] or "") for name in ("prefix", "suffix"))
        variables = test.merge_variables()
        for combination in iter_combinations(variables, self.path.parent, is_expanded=is_expanded):
            require = self._convert_test(test, combination)
            if not require:
                raise NotConverted("the test has no assertion that could be converted")
            rendered: list[tuple[str, dict[str, Any]]] = []
            for prompt in selected:
                self._combinations += 1
                if self._combinations > _MAX_CASES:
                    raise ConfigError(
                        f"{self.path}, {test.place}: over {_MAX_CASES:,} cases; split the tests"
                    )
                try:
                    text = f"{prefix}{prompt.text}{suffix}"
                    entry = render_prompt(text, combination, self._custom_filters)
                except NotConverted as error:
                    # one prompt needs no mention, and its own fault is listed once
                    if not variables or isinstance(error, UnknownTemplate):
                        self.report.omit(prompt.place, error)
                    elif len(selected) == 1:
                        self.report.omit(test.place, error)
                    else:
                        self.report.omit(test.place, f"the prompt in {prompt.place}: {error}")
                    continue
                if not is_text_prompt(entry, text, combination, self._custom_filters):
                    self.has_chats = True
                rendered.append((prompt.name, entry))
            for entry in _join_prompts(rendered):
                name = _make_unique(test.name, self._names)
                yield ConvertedCase({"name": name, **entry}, tuple(require), test.place)

    def _is_excluded(self, test: Test) -> bool:
        """Return whether a test has no counterpart, and list the reason."""
        found = [(name, reason, test.find(name)) for name, reason in _EXCLUDING_KEYS.items()]
        found += [
            (name, reason, test.options.get(name, (None, test.place)))
            for name, reason in _EXCLUDING_OPTIONS.items()
        ]
        present = [
            (name, reason, place) for name, reason, (value, place) in found if value is not None
        ]
        for name, reason, place in present:
            self.report.omit(place, f"the test with {name} is not converted: {reason}")
        return bool(present)

    def _convert_test(self, test: Test, variables: Mapping[str, Any]) -> list[Any]:
        """Convert the assertions of a test to requirements."""
        context = Context(
            mark_templates(variables), self.path.parent, self.report, self._custom_filters
        )
        threshold, place = test.find("threshold")
        if threshold is None:
            return self.builder.build_all(test.assertions, context)
        return self.builder.build_threshold(test.assertions, threshold, place, context)


def _join_prompts(prompts: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Join distinct texts to one entry with several, by their names if all have one.

    Args:
        prompts: the name of each prompt, which may be empty, and its keys.
    """
    entries = [entry for _, entry in prompts]
    texts = [entry["user"] for entry in entries if entry.keys() == {"user"}]
    # a suite takes no text twice, and chats are entries of their own
    if len(texts) < 2 or len(texts) < len(entries) or len(set(texts)) < len(texts):
        return entries
    names = [escape_unprintable(" ".join(name.split()))[:_MAX_PROMPT_NAME] for name, _ in prompts]
    if all(names) and len(set(names)) == len(names):
        return [{"user": dict(zip(names, texts, strict=True))}]
    return [{"user": texts}]


def _make_unique(name: str, names: set[str]) -> str:
    """Return a name that no earlier case has, and remember it."""
    name = escape_unprintable(" ".join(name.split()))[:_MAX_NAME]
    unique, number = name, 1
    while unique in names:
        number += 1
        unique = f"{name}, {number}"
    names.add(unique)
    return unique
