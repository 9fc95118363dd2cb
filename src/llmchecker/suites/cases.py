"""Suites and their cases: a prompt with a requirement each.

An entry of a suite file becomes a case for each prompt, requirement and deployment. Everything is
checked before a model is loaded.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from llmchecker.checking.anytime.budget import Budget
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.conversations.turn_query import TURN, check_turn_query
from llmchecker.checking.interval import PROBABILITIES, Interval
from llmchecker.checking.measurement import Threshold, find_threshold
from llmchecker.config.deployment import Deployment, DeploymentName, resolve_deployment
from llmchecker.config.judges import add_judge_notes, create_quantifier_or_judge
from llmchecker.config.models import ModelConfig, check_prompt_form, check_query_form
from llmchecker.config.prompt import check_text, parse_messages, parse_prompt
from llmchecker.config.question import Question, build_budget
from llmchecker.config.registry import Registry
from llmchecker.config.registry_keys import ExpansionConfig
from llmchecker.config.section import parse_end
from llmchecker.errors import ConfigError, prefix_errors
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.decoding.tools import Tool
from llmchecker.properties.logic.ast import STEP, Expectation, Probability
from llmchecker.properties.logic.continuation import ask_about_whole_texts
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.properties.quantifiers.interface import JudgesAnswers, Quantifier
from llmchecker.properties.registry import BUILTIN_TYPES
from llmchecker.suites.assertions import (
    check_names,
    check_query_text,
    is_assertion,
    parse_assertion,
)
from llmchecker.suites.conversations import (
    add_user_notes,
    ask_about_whole_answers,
    build_conversation,
    parse_turn_assertion,
)
from llmchecker.suites.deployments import RowDeployments
from llmchecker.suites.matrix import list_alternatives
from llmchecker.suites.prompt_rows import PromptTable, read_prompt_table
from llmchecker.suites.requirement_wording import describe_requirement, format_assertion
from llmchecker.suites.suite_file import DEFAULT_PASSES, CaseKeys, SuiteKeys
from llmchecker.suites.templates import (
    Row,
    insert_columns,
    insert_into_query,
    list_columns,
    locate_errors,
    normalize_name,
)
from llmchecker.suites.tools import add_tools, needs_tools, parse_suite_tools
from llmchecker.suites.verdicts import parse_threshold
from llmchecker.trees.text_tree import Horizon
from llmchecker.utils.printable_text import quote_value

_MAX_PROMPT_CHARACTERS = 100_000
"""Maximum number of characters of a prompt."""
_PATH_KEYS = ("file", "directory")
"""Settings of quantifiers that are paths, relative to the suite file."""
_PROMPT_KEYS = ("user", "start", "messages", "turns")
"""Keys of an entry's prompt, of which it has one."""
_MEAN = re.compile(
    r"\s*mean\s+(?:(P\s*=\s*\?\s*\[.*\])(.*)|([A-Za-z_][A-Za-z0-9_]*)\s*([<>].*)?)", re.DOTALL
)
"""An average of probabilities, or of the scores of a quantifier, and any threshold."""


# the rows of a table mostly have the same query
_parse = lru_cache(maxsize=256)(parse)


CaseKey = tuple[str, str]
"""The names of a deployment and of one of its cases."""


@dataclass(frozen=True)
class Case:
    """A prompt with a query, for one deployment.

    Attributes:
        name: its name, unique in its deployment.
        entry: the name of its entry in the suite file.
        label: the name of its requirement or average in the suite file.
        deployment: its deployment.
        question: the question, whose query has a threshold for a requirement. Its quantifiers are
            created on access, so that thousands of waiting cases have none in memory.
        threshold: the threshold of the query; None for a query without one.
        is_measured: whether the query is a member of an average, without a verdict of its own.
        row: the number of the prompt's row, from 1 on; 0 without a table.
        subject: the name without that of the requirement.
        title: the name of the requirement in the suite file, with the cells of the row; empty
            without one.
        requirement: the content of the requirement in words, without its threshold.
    """

    name: str
    entry: str
    label: str
    deployment: Deployment
    question: Question
    threshold: Threshold | None = None
    is_measured: bool = False
    row: int = 0
    subject: str = ""
    title: str = ""
    requirement: str = ""

    @property
    def key(self) -> CaseKey:
        """The names of its deployment and of the case."""
        return self.deployment.name, self.name

    @property
    def prompt(self) -> str:
        """The last message, the text to continue, or the user's messages of a conversation."""
        prompt, conversation = self.question.prompt, self.question.conversation
        if conversation is not None:
            first = conversation.chat.messages[-1][1]
            return " → ".join([first, *conversation.turn_texts])
        return prompt if isinstance(prompt, str) else prompt.messages[-1][1]

    @property
    def values(self) -> Interval:
        """All possible values of the number of its query: probabilities, or scores."""
        root = self.question.query.root
        if not isinstance(root, Expectation):
            return PROBABILITIES
        low, high = self.question.checked_query.ranges[root.quantifier][:2]
        # a score without a range is refused
        assert low is not None
        assert high is not None
        return Interval(float(low), float(high))

    def measure(self) -> "Case":
        """Return the case with `P=?` in place of its threshold.

        The case itself is returned if its query has no threshold.
        """
        checked, root = self.question.checked_query, self.question.query.root
        if self.threshold is None or not isinstance(root, Probability):
            return self
        numeric = replace(root, comparison="=", threshold=None)
        text = "P=? " + checked.query.text[checked.query.text.index("[") :]
        changes = {"checked_query": replace(checked, query=Query(text, numeric))}
        return replace(self, question=self.question.model_copy(update=changes))


@dataclass(frozen=True)
class Average:
    """A mean of probabilities or scores over the rows of an entry.

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

    Attributes:
        judges: the judges among the quantifiers that were created.
    """

    def __init__(
        self, config: Registry | None, properties: Mapping[str, Mapping[str, Any]], folder: Path
    ) -> None:
        self._registry = Registry() if config is None else config
        self._config_quantifiers = self._registry.quantifiers
        self._folder = folder
        self._recent: dict[str, Quantifier] = {}
        self.judges: list[Quantifier] = []
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
            return self._keep_judge(self._config_quantifiers[name])
        key = json.dumps([name, settings], sort_keys=True, default=str)
        if key not in self._recent:
            # cases in a row mostly share quantifiers, and a few are enough
            if len(self._recent) >= 64:
                self._recent.clear()
            self._recent[key] = create_quantifier_or_judge(
                name,
                self._resolve_paths(settings or {}),
                self._find_judge,
                self._registry.expansion,
            )
            self._keep_judge(self._recent[key])
        return self._recent[key]

    def needs_tools(self, name: str, settings: Mapping[str, Any] | None) -> bool:
        """Return whether a quantifier reads the calls of the case's own tools."""
        return name not in self._config_quantifiers and needs_tools(name, settings)

    def _keep_judge(self, quantifier: Quantifier) -> Quantifier:
        """Return a quantifier, and keep it if it is a judge."""
        if isinstance(quantifier, JudgesAnswers) and quantifier not in self.judges:
            self.judges.append(quantifier)
        return quantifier

    def _find_judge(self, name: DeploymentName) -> ModelConfig:
        """Find the model of a judge by any name of a model."""
        return self.find_deployment(name).model

    def find_deployment(self, name: DeploymentName, **options: Any) -> Deployment:
        """Find another model than the suite's, as of a judge, by any name of a model.

        Args:
            name, options: as in `resolve_deployment`.
        """
        return resolve_deployment("model", name, self._registry, folder=self._folder, **options)

    def _resolve_paths(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {
            key: str(self._folder / value)
            if key in _PATH_KEYS and isinstance(value, str)
            else value
            for key, value in settings.items()
        }


class _PooledQuantifiers(Mapping[str, Quantifier]):
    """The quantifiers of a query, each created on access.

    Args:
        pool: the pool that creates them.
        settings: the settings of each, as in `QuantifierPool.create`.
    """

    def __init__(
        self, pool: QuantifierPool, settings: Mapping[str, Mapping[str, Any] | None]
    ) -> None:
        self._pool = pool
        self._settings = settings

    def __getitem__(self, name: str) -> Quantifier:
        return self._pool.create(name, self._settings[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)


@dataclass(frozen=True)
class Suite:
    """A validated suite.

    Attributes:
        name: name of the suite, that of its file.
        project: folder of the configuration, to which its paths are relative.
        expansion: the settings of trees.
        deployments: the deployments whose verdicts count.
        versus: the deployment to compare with; None without a comparison.
        cases: the cases of all deployments, `versus` last.
        averages: the averages, the same for each deployment.
        differences: requirements of differences, by the label of an average or requirement.
        confidence: confidence of all verdicts together.
        seed: seed of the samples.
        max_tokens, max_dollars: limits of the whole run for models that return texts alone; None
            for no limit.
        quantifiers: the quantifiers.
        digest: sha256 of everything that determines the results.
    """

    name: str
    project: Path
    expansion: ExpansionConfig
    deployments: tuple[Deployment, ...]
    versus: Deployment | None
    cases: tuple[Case, ...]
    averages: tuple[Average, ...]
    differences: Mapping[str, Threshold]
    confidence: float
    seed: int
    quantifiers: QuantifierPool
    digest: str
    max_tokens: int | None = None
    max_dollars: float | None = None

    def select(self, keys: AbstractSet[CaseKey]) -> "Suite":
        """Return the part of the suite with these cases, and the averages over them.

        The budgets of the cases keep their share of the confidence of the whole suite.
        """
        cases = tuple(case for case in self.cases if case.key in keys)
        names = {case.deployment.name for case in cases}
        deployments = tuple(each for each in self.deployments if each.name in names)
        averages = tuple(
            average
            for average in self.averages
            if any(keys >= {(name, case) for case in average.cases} for name in names)
        )
        labels = {average.label for average in averages} | {case.label for case in cases}
        differences = {name: self.differences[name] for name in self.differences if name in labels}
        return replace(
            self,
            deployments=deployments,
            cases=cases,
            averages=averages,
            differences=differences,
        )

    @property
    def interval_count(self) -> int:
        """The number of intervals: those of cases, averages and groups."""
        deployments = len(self.deployments) + (self.versus is not None)
        means = sum(1 + len(average.groups) for average in self.averages)
        return len(self.cases) + deployments * means


@dataclass(frozen=True)
class _Demand:
    """A requirement or an average of an entry, as in the suite file.

    Attributes:
        key: the key, for messages.
        label: its name.
        entry: the query as text, or an assertion.
        has_name: whether the suite file gives it the name.
        mean_threshold: for an average, its requirement, or None.
        is_average: whether it is an average.
        is_score: whether it is an average of the scores of a quantifier, whose name is the entry.
    """

    key: str
    label: str
    entry: str | Mapping[str, Any]
    has_name: bool = False
    mean_threshold: Threshold | None = None
    is_average: bool = False
    is_score: bool = False


class CaseBuilder:
    """A builder of the cases of a suite's entries.

    Args:
        quantifiers: the quantifiers of the suite.
        keys: the keys of the suite.
        folder: folder of the suite file.
    """

    def __init__(self, quantifiers: QuantifierPool, keys: SuiteKeys, folder: Path) -> None:
        self._quantifiers = quantifiers
        self._suite = keys
        self._folder = folder
        self._tools = parse_suite_tools("tools", keys.tools)
        # with a table of prompts, the texts of the whole suite are templates
        self._shared_row = Row() if keys.has_tables else None

    def build(
        self, number: int, keys: CaseKeys, deployments: Sequence[RowDeployments]
    ) -> tuple[list[Case], list[Average]]:
        """Build the cases of an entry for each deployment, and its averages.

        Raises:
            ConfigError: a key is invalid; the message begins with the key.
        """
        place = f"cases[{number}]"
        demands = list(_iter_demands(place, keys))
        if not demands:
            raise ConfigError(f"{place}: there is no requirement; add `require` or `average`")
        _check_labels(demands)
        table = self._read_table(place, keys)
        # the texts of an entry without a table are no templates
        rows = (None,) if table is None else table.rows
        entry = keys.name or f"case {number + 1}"
        # a name with columns is one of rows
        if table is not None and keys.name is not None:
            with prefix_errors(f"{place}.name"):
                columns = list_columns(keys.name)
                entry = f"case {number + 1}" if columns else insert_columns(keys.name, Row())
        cases: list[Case] = []
        averages: list[Average] = []
        for form in _list_forms(place, keys):
            name = f"{entry}{form.suffix}"
            form_cases = [
                case
                for row in rows
                for case in self._build_row(place, keys, form, demands, row, name, deployments)
            ]
            cases += form_cases
            with prefix_errors(f"{place}.by"):
                averages += _build_averages(name, demands, form_cases, rows, keys.by)
        return cases, averages

    def _build_row(
        self,
        place: str,
        keys: CaseKeys,
        form: "_PromptForm",
        demands: Sequence[_Demand],
        row: Row | None,
        entry: str,
        deployments: Sequence[RowDeployments],
    ) -> Iterator[Case]:
        """Yield the cases of a form of the prompt with a row."""
        tools = parse_suite_tools(f"{place}.tools", keys.tools) or self._tools
        prompt = _build_prompt(place, form, row, tools)
        subject = entry
        if row is not None:
            if keys.name is not None and list_columns(keys.name):
                with prefix_errors(f"{place}.name"):
                    subject = f"{insert_columns(keys.name, row)}{form.suffix}"
            subject += f", row {row.number}"
        number = 0 if row is None else row.number
        budget = self._build_budget(keys, number)
        names: dict[str, int] = {}
        for demand in demands:
            title, requirement, checked_query = self._build_query(demand, row, keys, tools)
            name = f"{subject}: {title}"
            names[name] = names.get(name, 0) + 1
            # two requirements may be the same in a row
            if names[name] > 1:
                name += f" ({names[name]})"
            # a system prompt and a decoding differ between deployments
            for variants in deployments:
                deployment = variants.select(place, row or self._shared_row or Row())
                full_prompt = variants.add_system(place, prompt, row or self._shared_row)
                conversation = None
                if form.name == "turns":
                    find = self._quantifiers.find_deployment
                    conversation = build_conversation(
                        form.key, form.value, full_prompt, row, deployment.model, find
                    )
                else:
                    with prefix_errors(demand.key):
                        check_prompt_form(deployment.model, full_prompt)
                        check_query_form(deployment.model, checked_query)
                question = Question(
                    model=deployment.model,
                    prompt=full_prompt,
                    conversation=conversation,
                    truncation=Horizon(checked_query.length),
                    checked_query=add_user_notes(
                        add_judge_notes(checked_query, deployment.model), conversation
                    ),
                    budget=budget,
                )
                yield Case(
                    name=name,
                    entry=entry,
                    label=demand.label,
                    deployment=deployment,
                    question=question,
                    threshold=find_threshold(checked_query.query),
                    is_measured=demand.is_average,
                    row=number,
                    subject=subject,
                    title=title if demand.has_name else "",
                    requirement=requirement,
                )

    def _read_table(self, place: str, keys: CaseKeys) -> PromptTable | None:
        if keys.prompts is None:
            # averages and groups are about rows
            for name in ("average", "by"):
                if getattr(keys, name) is not None:
                    raise ConfigError(f"{place}.{name}: it needs rows; add `prompts`")
            return None
        with prefix_errors(f"{place}.prompts"):
            table = read_prompt_table(keys.prompts, self._folder)
        if keys.by is not None and normalize_name(keys.by) not in table.columns:
            raise ConfigError(
                f"{place}.by: {table.name} has no column {keys.by!r}; it has "
                f"{', '.join(table.columns)}"
            )
        return table

    def _build_budget(self, keys: CaseKeys, row: int) -> Budget:
        """Build the budget of a row's cases, before the intervals of the suite are counted."""
        limits = keys.budget or self._suite.budget
        has_passes = limits.passes is not None or limits.seconds is not None
        answers = Budget.answers if limits.answers is None else limits.answers
        return build_budget(
            passes=limits.passes if has_passes else DEFAULT_PASSES,
            seconds=limits.seconds,
            seed=_choose_seed(self._suite.seed, row),
            answers=answers,
        )

    def _build_query(
        self, demand: _Demand, row: Row | None, keys: CaseKeys, tools: tuple[Tool, ...]
    ) -> tuple[str, str, CheckedQuery]:
        """Build the name, the content in words and the query of a demand for a row."""
        settings: dict[str, Mapping[str, Any]] = {}
        inserted, label = demand.entry, demand.label
        if row is not None:
            with prefix_errors(demand.key):
                inserted = (
                    insert_into_query(inserted, row)
                    if isinstance(inserted, str)
                    else insert_columns(inserted, row)
                )
                label = (
                    insert_columns(label, row)
                    if demand.has_name
                    else _format_label(demand.key, inserted)
                )
        turn_count = len(keys.turns or ())
        if demand.is_score and turn_count:
            raise ConfigError(f"{demand.key}: a mean score is about one answer; remove `turns`")
        with locate_errors(demand.key, demand.entry, row or Row()):
            length, is_whole = parse_end(keys.length or self._suite.length)
            if demand.is_score:
                text = f'R{{"{inserted}"}}=? [ I={length} ]'
            elif isinstance(inserted, str):
                text = inserted
            elif turn_count:
                text, properties = parse_turn_assertion(inserted, turn_count)
                settings |= properties
            else:
                text, assertion = parse_assertion(inserted)
                settings |= assertion.properties
            query = _parse(text)
            _check_kind(query, demand.is_average)
            known = self._quantifiers.names | set(settings)
            if turn_count:
                check_turn_query(query, known, turn_count)
                if is_whole:
                    query = ask_about_whole_answers(query, _find_comparison(demand, query))
                names = sorted(query.variables - {TURN})
            else:
                if is_whole:
                    query = ask_about_whole_texts(query, length, _find_comparison(demand, query))
                query.check_references(known, length)
                names = sorted(query.variables - {STEP})
            for name in names:
                if name not in settings and name in self._quantifiers.properties:
                    settings[name] = self._insert_property(name, row)
                if tools and self._quantifiers.needs_tools(name, settings.get(name)):
                    settings[name] = add_tools(settings.get(name), tools)
                self._quantifiers.create(name, settings.get(name))
        pooled = _PooledQuantifiers(self._quantifiers, {name: settings.get(name) for name in names})
        checked_query = CheckedQuery(query, pooled, length)
        if demand.is_score and (obstacle := checked_query.estimation_obstacle) is not None:
            raise ConfigError(f"{demand.key}: {obstacle}; use a quantifier with a range")
        requirement = describe_requirement(inserted, query, settings)
        return label, requirement, checked_query

    def _insert_property(self, name: str, row: Row | None) -> Mapping[str, Any]:
        """Return the settings of a property of the suite for a row."""
        with prefix_errors(f"property {name}"):
            inserted: Mapping[str, Any] = insert_columns(
                self._quantifiers.properties[name], row or self._shared_row
            )
        return inserted


def _find_comparison(demand: _Demand, query: Query) -> str:
    """Return the comparison of a demand; that of an average is outside of its query."""
    threshold = find_threshold(query) or demand.mean_threshold
    # a mean that is only reported is that of ended answers
    return ">=" if threshold is None else threshold.comparison


def _iter_demands(place: str, keys: CaseKeys) -> Iterator[_Demand]:
    """Yield the requirements and averages of an entry."""
    require = keys.require
    # a single requirement needs no list
    if isinstance(require, str) or is_assertion(require):
        require = [require]
    if isinstance(require, list | tuple):
        for index, entry in enumerate(require):
            key = f"{place}.require[{index}]"
            yield _Demand(key, _format_label(key, entry), entry)
    elif isinstance(require, Mapping):
        with prefix_errors(f"{place}.require"):
            check_names(require)
        for label, entry in require.items():
            key = f"{place}.require.{label}"
            _format_label(key, entry)
            yield _Demand(key, label, entry, has_name=True)
    elif require is not None:
        raise ConfigError(
            f"{place}.require: {quote_value(require)} is neither a list nor a mapping; write one"
        )
    for label, text in (keys.average or {}).items():
        key = f"{place}.average.{label}"
        match = _MEAN.fullmatch(text)
        if match is None:
            raise ConfigError(
                f"{key}: {text!r} is no mean; write mean P=? [ … ] >= 0.7, or mean polarity >= 10"
            )
        if keys.prompts is not None and (columns := list_columns(label)):
            raise ConfigError(f"{key}: an average has one name for all rows; remove {columns[0]!r}")
        probability, probability_threshold, score, score_threshold = match.groups(default="")
        threshold_text = probability_threshold + score_threshold
        with prefix_errors(key):
            threshold = parse_threshold(threshold_text) if threshold_text.strip() else None
        yield _Demand(
            key,
            label,
            probability or score,
            has_name=True,
            mean_threshold=threshold,
            is_average=True,
            is_score=bool(score),
        )


def _format_label(key: str, entry: Any) -> str:
    """Return the label of a requirement without a name."""
    if isinstance(entry, str):
        with prefix_errors(key):
            check_query_text(entry)
        return " ".join(entry.split())
    if not isinstance(entry, Mapping):
        raise ConfigError(
            f"{key}: {quote_value(entry)} is no requirement; write P>=0.95 [ … ] or an assertion"
        )
    return format_assertion(entry)


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
    is_mean = isinstance(query.root, Probability | Expectation) and query.is_numeric
    if is_average and not is_mean:
        raise ConfigError(f"{query.text!r}: no probability to average; write mean P=? [ … ] >= 0.7")
    if not is_average and query.is_numeric:
        raise ConfigError(
            f"{query.text!r}: no threshold; write P>=0.95 [ … ], or use `average` for a mean"
        )


def _choose_seed(seed: int, row: int) -> int:
    """Return the seed of a row's samples.

    The samples of different rows are independent, as an average needs. Those of all requirements of
    one row are the same, so that they visit the same texts.
    """
    if row == 0:
        return seed
    digest = hashlib.sha256(f"{seed} {row}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@dataclass(frozen=True)
class _PromptForm:
    """One of the forms of an entry's prompt.

    Attributes:
        name: the key of the prompt: `user`, `start`, `messages`, `turns`; None for a column of the
            table.
        key: the same with the number or name of the form.
        value: a text, messages, or the turns of a conversation.
        suffix: the end of the names of its cases.
    """

    name: str | None
    key: str
    value: Any
    suffix: str = ""


def _list_forms(place: str, keys: CaseKeys) -> list[_PromptForm]:
    """List the forms of the prompt of an entry.

    Raises:
        ConfigError: the entry has several keys of a prompt.
    """
    names = [name for name in _PROMPT_KEYS if getattr(keys, name) is not None]
    if len(names) > 1:
        raise _build_prompt_error(place, names)
    if not names:
        return [_PromptForm(None, f"{place}.prompts", None)]
    (name,) = names
    key, value = f"{place}.{name}", getattr(keys, name)
    if name == "messages":
        return [_PromptForm(name, key, [message.explicit_keys for message in value])]
    if name == "turns":
        return [_PromptForm(name, key, value)]
    return [
        _PromptForm(name, each.key, each.text, f", {each.name}" if each.name else "")
        for each in list_alternatives(key, value, "prompt")
    ]


def _build_prompt_error(where: str, names: Sequence[str], columns: str = "") -> ConfigError:
    count = " and ".join(names) if names else "no prompt"
    return ConfigError(
        f"{where}: there is {count}{columns}; give exactly one of user, start, messages and turns"
    )


def _build_prompt(place: str, form: _PromptForm, row: Row | None, tools: tuple[Tool, ...]) -> Start:
    """Build the prompt of a row, without the system prompt."""
    name, key, value = form.name, form.key, form.value
    # columns serve only where the entry itself has no prompt
    if name is None:
        names = [] if row is None else [n for n in ("user", "start") if row.has_column(n)]
        if row is None or len(names) != 1:
            columns = "" if row is None else f" of columns {row.format_columns()}"
            where = place if row is None else f"{place}.prompts: {row.place}"
            raise _build_prompt_error(where, names, columns)
        (name,) = names
        value = f"{{{name}}}"
        with prefix_errors(key):
            inserted: Any = row.read(name)
    else:
        if name == "turns":
            # the later ones follow the first answer
            name, key, value = "user", f"{key}[0].user", value[0].user
            if value is None:
                raise ConfigError(f"{form.key}[0]: the first turn has no text; write {{user: …}}")
        with prefix_errors(key):
            inserted = insert_columns(value, row)
    # the cell of a column is no template
    with locate_errors(key, value, row or Row()):
        if name == "messages":
            return parse_messages(inserted, tools)
        if not inserted.strip():
            raise ConfigError("the text is empty; write a prompt")
        if len(inserted) > _MAX_PROMPT_CHARACTERS:
            raise ConfigError(
                f"it has {len(inserted):,} characters; shorten it to {_MAX_PROMPT_CHARACTERS:,}"
            )
        check_text(inserted)
        return parse_prompt({name: inserted, "tools": [tool.description for tool in tools] or None})


def _build_averages(
    entry: str,
    demands: Sequence[_Demand],
    cases: Sequence[Case],
    rows: Sequence[Row | None],
    by: str | None,
) -> list[Average]:
    """Build the averages of an entry.

    Args:
        entry: name of the entry.
        demands: its requirements and averages.
        cases: its cases.
        rows: the rows of its table.
        by: the column of groups; None for none.
    """
    averages = []
    for demand in demands:
        if not demand.is_average:
            continue
        # each deployment has a case of the name
        members = {case.name: rows[case.row - 1] for case in cases if case.label == demand.label}
        groups: dict[str, list[str]] = {}
        for name, row in members.items():
            if by is not None and row is not None:
                groups.setdefault(row.read(normalize_name(by)), []).append(name)
        averages.append(
            Average(
                name=f"{entry}: {insert_columns(demand.label, Row())}",
                label=demand.label,
                cases=tuple(members),
                threshold=demand.mean_threshold,
                groups={value: tuple(names) for value, names in sorted(groups.items())},
            )
        )
    return averages
