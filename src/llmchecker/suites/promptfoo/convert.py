"""Conversion of promptfoo configurations to suites.

Prompts, variables, tests and deterministic assertions are converted. Everything else is listed with
its line. A configuration is data: no script or provider of it runs.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from llmchecker.errors import ConfigError, LLMCheckerError
from llmchecker.suites.load import load_suite
from llmchecker.suites.promptfoo.assertions import (
    ASSERT_SET,
    Condition,
    Context,
    Weighted,
    convert_assertion,
)
from llmchecker.suites.promptfoo.documents import Document, read_document
from llmchecker.suites.promptfoo.prompts import Prompt, read_prompts, render_prompt
from llmchecker.suites.promptfoo.providers import convert_providers, find_first_provider
from llmchecker.suites.promptfoo.report import NotConverted, Place, Report
from llmchecker.suites.promptfoo.suite_text import format_suite
from llmchecker.suites.promptfoo.tests import Test, TestReader
from llmchecker.suites.promptfoo.thresholds import build_path, parse_fraction, select_required
from llmchecker.suites.promptfoo.variables import iter_combinations, mark_templates
from llmchecker.utils.printable_text import escape_unprintable

_MAX_CASES = 10_000
"""Maximum number of combinations of prompts, tests and variables."""
_MAX_NAME = 190
"""Maximum number of characters of a case's name, without a number."""
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
_METRIC = "the assertion has weight 0 or is a metric, so no answer must satisfy it"

_Entries = Sequence[tuple[Any, Place]]
"""Assertions with their places."""


@dataclass(frozen=True)
class Conversion:
    """A converted configuration.

    Attributes:
        suite: the content of the suite file.
        omissions: the parts that were not converted, or not exactly, each with its line.
        text: the suite file, with the omissions as a comment.
    """

    suite: Mapping[str, Any]
    omissions: tuple[str, ...]
    text: str


def convert_promptfoo(
    path: str | Path, probability: Decimal, model: str | None = None
) -> Conversion:
    """Convert a promptfoo configuration.

    Args:
        path: the file, such as promptfooconfig.yaml.
        probability: the probability that every assertion must have at least.
        model: the model of the suite; None for a placeholder.

    Raises:
        ConfigError: the file is unreadable, or nothing of it can be converted; the message contains
            the reasons with their lines.
    """
    path = Path(path)
    document = read_document(path)
    if not isinstance(document.content, Mapping):
        where = f"{path}, {document.place}"
        raise ConfigError(f"{where}: the file is not a mapping; write keys and values")
    report = Report()
    converter = _Converter(document, path.parent, report, probability)
    cases = list(converter.iter_cases())
    if cases:
        settings = convert_providers(document.content, document.place, report)
        suite = {"model": model or "./model"} | settings
        cases = _select_accepted(suite, converter, cases)
    if not cases:
        reasons = "".join(f"\n  {omission}" for omission in report.omissions)
        raise ConfigError(f"{path}: no test could be converted; write the suite yourself:{reasons}")
    suite |= _build_content(converter.properties, cases)
    text = format_suite(suite, path.name, report.omissions)
    return Conversion(suite, report.omissions, text)


@dataclass(frozen=True)
class _Case:
    """An entry of the suite, with the place of its test."""

    entry: Mapping[str, Any]
    place: Place


def _build_content(
    properties: Mapping[str, Mapping[str, Any]], cases: Sequence[_Case]
) -> dict[str, Any]:
    """Return the cases with the properties that their queries name."""
    queries = " ".join(
        entry for case in cases for entry in case.entry["require"] if isinstance(entry, str)
    )
    names = set(re.findall(r"\w+", queries))
    used = {name: settings for name, settings in properties.items() if name in names}
    content: dict[str, Any] = {"properties": used} if used else {}
    return content | {"cases": [case.entry for case in cases]}


def _select_accepted(
    settings: Mapping[str, Any], converter: "_Converter", cases: list[_Case]
) -> list[_Case]:
    """Return the cases that the reader of suites accepts, and list the others with its reasons.

    Raises:
        ConfigError: each case is accepted, and the suite is not.
    """
    report = converter.report
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "suite.yaml"
        model = Path(folder) / "model"
        model.mkdir()
        (model / "config.json").write_text("{}", encoding="utf-8")

        def find_reason(selected: Sequence[_Case]) -> str | None:
            # the files of a classifier are not there yet
            present = [case for case in selected if not _has_classifier(case)]
            if not present:
                return None
            content = {**settings, **_build_content(converter.properties, present)}
            path.write_text(format_suite(content, "", report.omissions), encoding="utf-8")
            try:
                load_suite(path, models=["./model"])
            except LLMCheckerError as error:
                place = rf"{re.escape(str(path))}(, line \d+)?: (cases\[0\]\.?)?"
                return re.sub(f"^{place}", "", str(error))
            return None

        def select(selected: list[_Case]) -> list[_Case]:
            reason = find_reason(selected)
            if reason is None:
                return selected
            if len(selected) == 1:
                report.omit(selected[0].place, f"a suite does not accept the test: {reason}")
                return []
            middle = len(selected) // 2
            return select(selected[:middle]) + select(selected[middle:])

        accepted = select(cases)
        reason = find_reason(accepted)
        if reason is not None:
            raise ConfigError(f"{converter.document.place}: no valid suite: {reason}")
        return accepted


def _has_classifier(case: _Case) -> bool:
    return any(
        isinstance(entry, Mapping) and {"classifier", "not_classifier"} & entry.keys()
        for entry in case.entry["require"]
    )


@dataclass
class _Converter:
    """A converter of one configuration.

    Attributes:
        document: the configuration.
        folder: its folder.
        report: the list of what is not converted.
        probability: probability of every assertion.
        properties: the quantifiers of the suite, by name.
    """

    document: Document
    folder: Path
    report: Report
    probability: Decimal
    properties: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _combinations: int = 0

    def iter_cases(self) -> Iterator[_Case]:
        """Yield the entries of the suite, and list what is not converted."""
        content, place = self.document.content, self.document.place
        self._omit_keys(content, place, _CONFIG_KEYS, "{} has no counterpart")
        for name in ("promptPrefix", "promptSuffix"):
            if name in (content.get("commandLineOptions") or {}):
                self.report.omit(place.child("commandLineOptions"), f"{name} has no counterpart")
        if "prompts" not in content:
            self.report.omit(place, "the configuration has no prompts")
        provider, provider_place = find_first_provider(content, place)
        if provider.get("transform") is not None:
            reason = "a program of the provider changes the output before all assertions"
            self.report.omit(provider_place.child("transform"), f"transform: {reason}")
            return
        value, prompts_place = content.get("prompts") or [], place.child("prompts")
        prompts = read_prompts(value, prompts_place, self.folder, self.report)
        prompts = [prompt for prompt in prompts if prompt.is_selected(provider.get("prompts"))]
        for test in TestReader(self.document, self.folder, self.report).read():
            try:
                yield from self._iter_test_cases(test, prompts)
            except NotConverted as error:
                self.report.omit(test.place, error)

    @cached_property
    def _custom_filters(self) -> frozenset[str]:
        filters = self.document.content.get("nunjucksFilters")
        return frozenset(filters if isinstance(filters, Mapping) else ())

    def _omit_keys(
        self, keys: Mapping[str, Any], place: Place, known: Sequence[str], reason: str
    ) -> None:
        for name in keys:
            if name not in known:
                self.report.omit(place.child(name), reason.format(name))

    def _iter_test_cases(self, test: Test, prompts: Sequence[Prompt]) -> Iterator[_Case]:
        """Yield a case for each combination of variables and prompt."""
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
        for combination in iter_combinations(variables, self.folder, is_expanded=is_expanded):
            require = self._convert_test(test, combination)
            if not require:
                raise NotConverted("the test has no assertion that could be converted")
            for prompt in selected:
                self._combinations += 1
                if self._combinations > _MAX_CASES:
                    raise ConfigError(f"{test.place}: over {_MAX_CASES:,} cases; split the tests")
                try:
                    text = f"{prefix}{prompt.text}{suffix}"
                    entry = render_prompt(text, combination, self._custom_filters)
                except NotConverted as error:
                    self.report.omit(prompt.place if not variables else test.place, error)
                    continue
                name = _make_unique(test.name, self._names)
                yield _Case({"name": name, **entry, "require": require}, test.place)

    def _is_excluded(self, test: Test) -> bool:
        """Return whether a test has no counterpart, and list the reason."""
        is_excluded = False
        for name, reason in _EXCLUDING_KEYS.items():
            value, place = test.find(name)
            if value is not None:
                self.report.omit(place, f"the test with {name} is not converted: {reason}")
                is_excluded = True
        for name, reason in _EXCLUDING_OPTIONS.items():
            value, place = test.options.get(name, (None, test.place))
            if value is not None:
                self.report.omit(place, f"the test with {name} is not converted: {reason}")
                is_excluded = True
        return is_excluded

    def _convert_test(self, test: Test, variables: Mapping[str, Any]) -> list[Any]:
        """Convert the assertions of a test to requirements."""
        context = Context(mark_templates(variables), self.folder, self.report, self._custom_filters)
        threshold, place = test.find("threshold")
        if threshold is not None:
            return self._convert_threshold(test.assertions, threshold, place, context)
        return self._convert_all(test.assertions, context)

    def _convert_all(self, assertions: _Entries, context: Context) -> list[Any]:
        """Convert assertions of which each must hold."""
        require: list[Any] = []
        for assertion, place in assertions:
            try:
                converted = self._convert_required(assertion, place, context)
            except NotConverted as error:
                self.report.omit(place, error)
                continue
            # promptfoo counts equal assertions twice; their verdicts are equal
            require += [entry for entry in converted if entry not in require]
        return require

    def _convert_required(self, assertion: Any, place: Place, context: Context) -> list[Any]:
        """Convert an assertion, or a set of these, that must hold."""
        if not isinstance(assertion, Mapping) or assertion.get("type") != ASSERT_SET:
            if _is_metric(assertion):
                raise NotConverted(_METRIC)
            return [self._format(convert_assertion(assertion, place, context))]
        if _is_metric(assertion):
            raise NotConverted("assert-set with weight 0 has no counterpart")
        members = _list_members(assertion, place)
        threshold = assertion.get("threshold")
        if threshold is None:
            return self._convert_all(members, context)
        return self._convert_threshold(members, threshold, place.child("threshold"), context)

    def _convert_threshold(
        self, assertions: _Entries, threshold: Any, place: Place, context: Context
    ) -> list[Any]:
        """Convert a threshold of the weighted share of assertions that hold."""
        number = parse_fraction(threshold, "the threshold")
        try:
            conditions = self._weigh(assertions, Fraction(1), context)
            if select_required(conditions, number):
                return [self._format(weighted.condition) for weighted in conditions]
            path = build_path(conditions, number, self._name_property)
        except NotConverted as error:
            self.report.omit(place, f"threshold {threshold}: {error}")
            return []
        return [f"P>={self.probability:f} [ {path} ]"]

    def _weigh(self, assertions: _Entries, weight: Fraction, context: Context) -> list[Weighted]:
        """Convert assertions with their shares of a weight."""
        members: list[tuple[Fraction, Any, Place]] = []
        for assertion, place in assertions:
            if _is_metric(assertion):
                self.report.omit(place, _METRIC)
                continue
            given = assertion.get("weight") if isinstance(assertion, Mapping) else None
            share = Fraction(1) if given is None else parse_fraction(given, "the weight")
            if share < 0:
                raise NotConverted(f"{place}: the weight is negative")
            members.append((share, assertion, place))
        total = sum((share for share, _, _ in members), Fraction(0))
        conditions: list[Weighted] = []
        is_complete = bool(members)
        for share, assertion, place in members:
            part = weight * share / total
            try:
                if isinstance(assertion, Mapping) and assertion.get("type") == ASSERT_SET:
                    conditions += self._weigh(_list_members(assertion, place), part, context)
                else:
                    condition = convert_assertion(assertion, place, context)
                    conditions.append(Weighted(part, condition))
            except NotConverted as error:
                self.report.omit(place, error)
                is_complete = False
        if not is_complete:
            raise NotConverted("not all of its assertions are converted")
        return conditions

    def _format(self, condition: Condition) -> Any:
        """Format a condition as a requirement."""
        if condition.entry is not None:
            return {**condition.entry, "at_least": self.probability}
        self.properties |= condition.properties
        return f"P>={self.probability:f} [ {condition.path} ]"

    def _name_property(self, name: str, settings: Mapping[str, Any]) -> str:
        """Return the name of a property with some settings; equal ones share it."""
        number = 1
        while self.properties.setdefault(f"{name}_{number}", settings) != settings:
            number += 1
        return f"{name}_{number}"


def _is_metric(assertion: Any) -> bool:
    """Return whether promptfoo reports an assertion without a verdict."""
    if not isinstance(assertion, Mapping):
        return False
    weight = assertion.get("weight")
    has_no_weight = isinstance(weight, int | float) and not isinstance(weight, bool) and weight == 0
    return has_no_weight or assertion.get("metricOnly") is True


def _list_members(assertion: Mapping[str, Any], place: Place) -> _Entries:
    members = assertion.get("assert")
    if not isinstance(members, list) or not members:
        raise NotConverted("assert-set has no list `assert`")
    for member in members:
        if isinstance(member, Mapping) and member.get("type") == ASSERT_SET:
            raise NotConverted("assert-set contains another assert-set")
    return [(member, place.child("assert").item(i)) for i, member in enumerate(members)]


def _make_unique(name: str, names: set[str]) -> str:
    """Return a name that no earlier case has, and remember it."""
    name = escape_unprintable(" ".join(name.split()))[:_MAX_NAME]
    unique, number = name, 1
    while unique in names:
        number += 1
        unique = f"{name}, {number}"
    names.add(unique)
    return unique
