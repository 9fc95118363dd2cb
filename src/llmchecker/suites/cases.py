"""Suites and their cases: a prompt with a requirement each.

An entry of a suite file becomes a case for each prompt, requirement and deployment. Everything is
checked before a model is loaded.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.config.config import Config
from llmchecker.errors import ConfigError, prefix_errors
from llmchecker.models.decoding.chat_template import Chat, Start
from llmchecker.properties.logic.ast import STEP, Probability
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.registry import BUILTIN_TYPES, create_quantifier
from llmchecker.suites.assertions import AT_LEAST, AT_MOST, parse_assertion
from llmchecker.suites.deployments import Deployment
from llmchecker.suites.prompt_rows import PromptTable, Row, insert_columns, read_prompt_table
from llmchecker.suites.suite_file import BudgetKeys, CaseKeys
from llmchecker.suites.verdicts import Threshold, parse_threshold

_MAX_PROMPT_CHARACTERS = 100_000
"""Maximum number of characters of a prompt."""
_PATH_KEYS = ("file", "directory")
"""Settings of quantifiers that are paths, relative to the suite file."""
_MEAN = re.compile(r"\s*mean\s+(P\s*=\s*\?\s*\[.*\])(.*)", re.DOTALL)


# the rows of a table mostly have the same query
_parse = lru_cache(maxsize=256)(parse)


@dataclass(frozen=True)
class Case:
    """A prompt with a query, for one deployment.

    Attributes:
        name: its name, unique in its deployment.
        entry: the name of its entry in the suite file.
        label: the name of its requirement or average.
        deployment: its deployment.
        start: the prompt.
        query: the query; with a threshold for a requirement.
        settings: settings of quantifiers by name, for those that the suite defines.
        length: the horizon in tokens.
        budget: the budget.
        threshold: the threshold of the query; None for a query without one.
        is_measured: whether the query is a member of an average, without a verdict of its own.
        row: the number of the prompt's row, from 1 on; 0 without a table.
    """

    name: str
    entry: str
    label: str
    deployment: Deployment
    start: Start
    query: Query
    settings: Mapping[str, Mapping[str, Any]]
    length: int
    budget: BudgetKeys
    threshold: Threshold | None = None
    is_measured: bool = False
    row: int = 0

    @property
    def prompt(self) -> str:
        """The last message, or the text to continue."""
        return self.start if isinstance(self.start, str) else self.start.messages[-1][1]

    def measure(self) -> "Case":
        """Return the case with `P=?` in place of its threshold.

        The case itself is returned if its query has no threshold.
        """
        root = self.query.root
        if self.threshold is None or not isinstance(root, Probability):
            return self
        numeric = replace(root, comparison="=", threshold=None)
        text = "P=? " + self.query.text[self.query.text.index("[") :]
        return replace(self, query=Query(text, numeric))


@dataclass(frozen=True)
class Average:
    """A mean of probabilities over the rows of an entry.

    Attributes:
        name: its name.
        label: its name in the suite file.
        cases: names of its cases.
        threshold: its requirement; None if it is only reported.
        groups: names of cases by the values of a column; empty without groups.
    """

    name: str
    label: str
    cases: tuple[str, ...]
    threshold: Threshold | None
    groups: Mapping[str, tuple[str, ...]]


class QuantifierPool:
    """The quantifiers of a suite, created when they are needed.

    Args:
        config: the configuration; None without one.
        properties: the settings of the suite's quantifiers by name.
        folder: folder to which paths in settings are relative.
    """

    def __init__(
        self, config: Config | None, properties: Mapping[str, Mapping[str, Any]], folder: Path
    ) -> None:
        self._config_quantifiers = {} if config is None else config.quantifiers
        self._folder = folder
        self._recent: dict[str, Quantifier] = {}
        self.properties = properties
        self.names = {*properties, *self._config_quantifiers, *BUILTIN_TYPES}

    def create(self, name: str, settings: Mapping[str, Any] | None = None) -> Quantifier:
        """Return the quantifier of a name, and keep the recent ones.

        Args:
            name: name in the query.
            settings: settings with inserted columns; None for a quantifier of the configuration, or
                a type without settings.

        Raises:
            ConfigError: the type is unknown, or a setting is unusable.
        """
        if settings is None and name in self._config_quantifiers:
            return self._config_quantifiers[name]
        key = json.dumps([name, settings], sort_keys=True, default=str)
        if key not in self._recent:
            # cases in a row mostly share quantifiers, and a few are enough
            if len(self._recent) >= 64:
                self._recent.clear()
            self._recent[key] = create_quantifier(name, self._resolve_paths(settings or {}))
        return self._recent[key]

    def _resolve_paths(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {
            key: str(self._folder / value)
            if key in _PATH_KEYS and isinstance(value, str)
            else value
            for key, value in settings.items()
        }


@dataclass(frozen=True)
class Suite:
    """A validated suite.

    Attributes:
        name: name of the suite, that of its file.
        project: folder of the configuration, to which its paths are relative.
        config: the configuration; None without one.
        deployments: the deployments whose verdicts count.
        versus: the deployment to compare with; None without a comparison.
        cases: the cases of all deployments, `versus` last.
        averages: the averages, the same for each deployment.
        differences: requirements of differences, by the label of an average or requirement.
        confidence: confidence of all verdicts together.
        seed: seed of the samples.
        quantifiers: the quantifiers.
        digest: sha256 of everything that determines the results.
    """

    name: str
    project: Path
    config: Config | None
    deployments: tuple[Deployment, ...]
    versus: Deployment | None
    cases: tuple[Case, ...]
    averages: tuple[Average, ...]
    differences: Mapping[str, Threshold]
    confidence: float
    seed: int
    quantifiers: QuantifierPool
    digest: str

    @property
    def interval_count(self) -> int:
        """The number of intervals: those of cases, averages and groups."""
        deployments = len(self.deployments) + (self.versus is not None)
        means = sum(1 + len(average.groups) for average in self.averages)
        return len(self.cases) + deployments * means

    def build_query(self, case: Case) -> CheckedQuery:
        """Build a case's query with its quantifiers."""
        names = sorted(case.query.variables - {STEP})
        quantifiers = {
            name: self.quantifiers.create(name, case.settings.get(name)) for name in names
        }
        return CheckedQuery(case.query, quantifiers, case.length)


@dataclass(frozen=True)
class _Demand:
    """A requirement or an average of an entry, as in the suite file.

    Attributes:
        key: the key, for messages.
        label: its name.
        entry: the query as text, or an assertion.
        mean_threshold: for an average, its requirement, or None.
        is_average: whether it is an average.
    """

    key: str
    label: str
    entry: str | Mapping[str, Any]
    mean_threshold: Threshold | None = None
    is_average: bool = False


class CaseBuilder:
    """A builder of the cases of a suite's entries.

    Args:
        quantifiers: the quantifiers of the suite.
        length: the horizon of entries without one.
        budget: the budget of entries without one.
        folder: folder of the suite file.
    """

    def __init__(
        self, quantifiers: QuantifierPool, length: int, budget: BudgetKeys, folder: Path
    ) -> None:
        self._quantifiers = quantifiers
        self._length = length
        self._budget = budget
        self._folder = folder

    def build(
        self, number: int, keys: CaseKeys, deployments: Sequence[Deployment]
    ) -> tuple[list[Case], list[Average]]:
        """Build the cases of an entry for each deployment, and its averages.

        Raises:
            ConfigError: a key is invalid; the message begins with the key.
        """
        place = f"cases[{number}]"
        entry = keys.name or f"case {number + 1}"
        demands = list(_iter_demands(place, keys))
        if not demands:
            raise ConfigError(f"{place}: there is no requirement; add `require` or `average`")
        _check_labels(demands)
        table = self._read_table(place, keys)
        rows: Sequence[tuple[str, Row]] = [(entry, {})]
        if table is not None:
            rows = [(f"{entry}, row {i}", row) for i, row in enumerate(table.rows, 1)]
        cases = []
        for index, (name, row) in enumerate(rows):
            where = place if table is None else f"{place}.prompts: {table.name}, row {index + 1}"
            with prefix_errors(where):
                prompt = _build_prompt(keys, row, has_table=table is not None)
            for demand in demands:
                with prefix_errors(
                    demand.key if table is None else f"{demand.key}: row {index + 1}"
                ):
                    case = self._build_case(demand, name, entry, row, keys, deployments[0], prompt)
                # a system prompt differs between deployments
                with prefix_errors(where):
                    cases += [
                        replace(
                            case,
                            deployment=d,
                            start=_add_system(prompt, d.system),
                            row=0 if table is None else index + 1,
                        )
                        for d in deployments
                    ]
        return cases, _build_averages(entry, demands, rows, keys.by)

    def _read_table(self, place: str, keys: CaseKeys) -> PromptTable | None:
        if keys.prompts is None:
            # averages and groups are about rows
            for name in ("average", "by"):
                if getattr(keys, name) is not None:
                    raise ConfigError(f"{place}.{name}: it needs rows; add `prompts`")
            return None
        with prefix_errors(f"{place}.prompts"):
            table = read_prompt_table(keys.prompts, self._folder)
        if keys.by is not None and keys.by not in table.columns:
            raise ConfigError(
                f"{place}.by: {table.name} has no column {keys.by!r}; it has "
                f"{', '.join(table.columns)}"
            )
        return table

    def _build_case(
        self,
        demand: _Demand,
        name: str,
        entry: str,
        row: Row,
        keys: CaseKeys,
        deployment: Deployment,
        prompt: Start,
    ) -> Case:
        """Build the case of a demand for one deployment, without its system prompt."""
        settings: dict[str, Mapping[str, Any]] = {}
        if isinstance(demand.entry, str):
            text = demand.entry
        else:
            text, assertion = parse_assertion(
                insert_columns(demand.entry, row) if keys.prompts is not None else demand.entry
            )
            settings |= assertion.properties
        query = _parse(text)
        _check_kind(query, demand.is_average)
        length = keys.length or self._length
        query.check_references(self._quantifiers.names | set(settings), length)
        for variable in sorted(query.variables - {STEP}):
            if variable not in settings and variable in self._quantifiers.properties:
                with prefix_errors(f"property {variable}"):
                    settings[variable] = insert_columns(self._quantifiers.properties[variable], row)
            self._quantifiers.create(variable, settings.get(variable))
        return Case(
            name=f"{name}: {demand.label}",
            entry=entry,
            label=demand.label,
            deployment=deployment,
            start=prompt,
            query=query,
            settings=settings,
            length=length,
            budget=keys.budget or self._budget,
            threshold=_find_threshold(query),
            is_measured=demand.is_average,
        )


def _iter_demands(place: str, keys: CaseKeys) -> Iterator[_Demand]:
    """Yield the requirements and averages of an entry."""
    require = keys.require
    # a single requirement needs no list
    if isinstance(require, str) or _is_assertion(require):
        require = [require]
    if isinstance(require, list | tuple):
        for index, entry in enumerate(require):
            key = f"{place}.require[{index}]"
            yield _Demand(key, _label(key, entry), entry)
    elif isinstance(require, Mapping):
        for label, entry in require.items():
            key = f"{place}.require.{label}"
            _label(key, entry)
            yield _Demand(key, label, entry)
    elif require is not None:
        raise ConfigError(
            f"{place}.require: {require!r} is neither a list nor a mapping; write one"
        )
    for label, text in (keys.average or {}).items():
        key = f"{place}.average.{label}"
        match = _MEAN.fullmatch(text)
        if match is None:
            raise ConfigError(f"{key}: {text!r} is no mean; write mean P=? [ … ] >= 0.7")
        with prefix_errors(key):
            threshold = parse_threshold(match[2]) if match[2].strip() else None
        yield _Demand(key, label, match[1], threshold, is_average=True)


def _is_assertion(entry: Any) -> bool:
    return isinstance(entry, Mapping) and bool({AT_LEAST, AT_MOST} & entry.keys())


def _label(key: str, entry: Any) -> str:
    """Return the label of a requirement without a name."""
    if isinstance(entry, str):
        return " ".join(entry.split())
    if not isinstance(entry, Mapping):
        raise ConfigError(
            f"{key}: {entry!r} is no requirement; write P>=0.95 [ … ] or an assertion"
        )
    # the assertion before its probability, in any order of the file
    names = sorted(entry, key=lambda name: name in (AT_LEAST, AT_MOST))
    return ", ".join(f"{name.replace('_', ' ')} {_format_value(entry[name])}" for name in names)


def _format_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _check_labels(demands: Sequence[_Demand]) -> None:
    """Check that no two requirements of an entry have the same name."""
    keys: dict[str, str] = {}
    for demand in demands:
        if keys.setdefault(demand.label, demand.key) != demand.key:
            raise ConfigError(
                f"{demand.key}: {demand.label!r} is also {keys[demand.label]}; rename one"
            )


def _check_kind(query: Query, is_average: bool) -> None:
    """Check that a requirement has a threshold, and that an average has none."""
    if is_average and not (isinstance(query.root, Probability) and query.is_numeric):
        raise ConfigError(f"{query.text!r}: no probability to average; write mean P=? [ … ] >= 0.7")
    if not is_average and query.is_numeric:
        raise ConfigError(
            f"{query.text!r}: no threshold; write P>=0.95 [ … ], or use `average` for a mean"
        )


def _find_threshold(query: Query) -> Threshold | None:
    """Return the threshold of a single probability; None for other queries."""
    root = query.root
    if isinstance(root, Probability) and root.threshold is not None:
        return Threshold(root.comparison, root.threshold)
    return None


def _build_prompt(keys: CaseKeys, row: Row, *, has_table: bool) -> Start:
    """Build the prompt of a row, without the system prompt."""
    forms = [name for name in ("user", "start", "messages") if getattr(keys, name) is not None]
    # columns serve only where the entry itself has no prompt
    columns = [name for name in ("user", "start") if name in row] if not forms else []
    names = [*forms, *columns]
    if len(names) != 1:
        count = " and ".join(names) if names else "no prompt"
        raise ConfigError(f"prompt: there is {count}; give exactly one of user, start and messages")
    (name,) = names
    if name == "messages":
        messages = [message.explicit_keys for message in keys.messages or ()]
        return Chat.from_messages(insert_columns(messages, row) if has_table else messages)
    text = row[name] if name in columns else getattr(keys, name)
    text = insert_columns(text, row) if has_table and name not in columns else text
    if not text.strip():
        raise ConfigError(f"{name}: the text is empty; write a prompt")
    if len(text) > _MAX_PROMPT_CHARACTERS:
        raise ConfigError(
            f"{name}: it has {len(text):,} characters; shorten it to {_MAX_PROMPT_CHARACTERS:,}"
        )
    return text if name == "start" else Chat((("user", text),))


def _add_system(prompt: Start, system: str | None) -> Start:
    """Return a prompt with the system prompt of a deployment before it."""
    if system is None:
        return prompt
    if isinstance(prompt, str):
        raise ConfigError("system: a system prompt belongs to a chat; use user in place of start")
    if prompt.messages[0][0] == "system":
        raise ConfigError("messages: a system prompt is given, and the suite has one; remove one")
    return Chat((("system", system), *prompt.messages))


def _build_averages(
    entry: str, demands: Sequence[_Demand], rows: Sequence[tuple[str, Row]], by: str | None
) -> list[Average]:
    averages = []
    for demand in demands:
        if not demand.is_average:
            continue
        groups: dict[str, list[str]] = {}
        for name, row in rows if by is not None else ():
            groups.setdefault(row[by], []).append(f"{name}: {demand.label}")
        averages.append(
            Average(
                name=f"{entry}: {demand.label}",
                label=demand.label,
                cases=tuple(f"{name}: {demand.label}" for name, _ in rows),
                threshold=demand.mean_threshold,
                groups={value: tuple(names) for value, names in sorted(groups.items())},
            )
        )
    return averages
