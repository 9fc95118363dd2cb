"""The cases of a suite's entries: one for each prompt, requirement and deployment.

Cases are named at once, since names and numbers of cases are those of the whole suite. What a case
asks is built when it is needed.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmchecker.checking.budget import Budget, build_budget
from llmchecker.checking.conversations.turn_query import (
    TURN,
    ask_about_whole_answers,
    check_turn_query,
)
from llmchecker.checking.measurement import find_threshold
from llmchecker.checking.question import Question
from llmchecker.config.deployment import Deployment
from llmchecker.config.judges import add_judge_notes
from llmchecker.config.models import ModelConfig, check_prompt_form, check_query_form
from llmchecker.config.prompt import check_content, parse_messages, parse_prompt
from llmchecker.errors import ConfigError, prefix_errors
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.decoding.tools import Tool
from llmchecker.properties.assertions import parse_assertion
from llmchecker.properties.definitions import PROBABILITY_KEYS, REPEAT_KEYS
from llmchecker.properties.logic.ast import STEP
from llmchecker.properties.logic.continuation import ask_about_whole_texts
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.suites.cases import Average, Case, CaseContent
from llmchecker.suites.chat_cells import read_chat
from llmchecker.suites.conversations import (
    add_user_notes,
    build_conversation,
    parse_turn_assertion,
)
from llmchecker.suites.demands import Demand, format_label, list_demands
from llmchecker.suites.deployments import RowDeployments
from llmchecker.suites.matrix import Alternative, list_alternatives
from llmchecker.suites.prompt_rows import PromptTable, read_prompt_table
from llmchecker.suites.quantifier_pool import QuantifierPool
from llmchecker.suites.requirement_wording import describe_requirement
from llmchecker.suites.suite_file import CaseKeys, SuiteKeys
from llmchecker.suites.templates import (
    Row,
    insert_cells,
    insert_columns,
    insert_into_assertion,
    insert_into_query,
    list_columns,
    locate_errors,
    normalize_name,
    parse_numbers,
)
from llmchecker.suites.tools import add_tools, parse_suite_tools
from llmchecker.utils.interval import PROBABILITIES
from llmchecker.utils.section import parse_end

_MAX_PROMPT_CHARACTERS = 100_000
"""Maximum number of characters of a prompt."""
_PROMPT_KEYS = ("user", "start", "messages", "turns")
"""Keys of an entry's prompt, of which it has one."""

_KEYS_OF_KIND = (
    *("type", "model", "function", "file", "directory"),
    *PROBABILITY_KEYS,
    *REPEAT_KEYS,
)
"""Keys of assertions and quantifiers that decide the type, the files or the threshold."""
_MAX_RECENT = 10_000
"""Number of cases whose questions are in memory, about 5 KB each."""


@dataclass(frozen=True, slots=True)
class _PromptPlan:
    """The prompt of a row in one of its forms, which is not inserted yet.

    Attributes:
        place: the key of the entry.
        keys: the entry.
        form: the form of the prompt.
        row: the row; None for an entry without a table.
        tools: the tools of the entry.
    """

    place: str
    keys: CaseKeys
    form: Alternative
    row: Row | None
    tools: tuple[Tool, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _ContentPlan:
    """What a case asks, which is built on access.

    Attributes:
        builder: the builder of the suite.
        prompt: the prompt.
        demand: the requirement or average.
        variants: the deployments of one name.
        deployment: the deployment of the row.
    """

    builder: "CaseBuilder"
    prompt: _PromptPlan
    demand: Demand
    variants: RowDeployments
    deployment: Deployment

    def __call__(self) -> CaseContent:
        return self.builder.build_content(self)


class CaseBuilder:
    """A builder of the cases of a suite's entries.

    Args:
        quantifiers: the quantifiers of the suite.
        keys: the keys of the suite.
        folder: folder of the suite file.
        find_line: returns the line of a key in the suite file.

    Attributes:
        confidence: the confidence of an interval, set when the intervals of the suite are counted,
            before any question is built.
        row_digests: sha256 of each entry with a table, with its rows.
    """

    def __init__(
        self,
        quantifiers: QuantifierPool,
        keys: SuiteKeys,
        folder: Path,
        find_line: Callable[[str], int],
    ) -> None:
        self.confidence = keys.confidence
        self.row_digests: list[str] = []
        self._find_line = find_line
        self._quantifiers = quantifiers
        self._suite = keys
        self._folder = folder
        self._tools = parse_suite_tools("tools", keys.tools)
        # with a table of prompts, the texts of the whole suite are templates
        self._shared_row = Row() if keys.has_tables else None
        self._recent: dict[_ContentPlan, CaseContent] = {}
        self._checked_truths: dict[tuple[str, str], Mapping[str, Quantifier]] = {}
        self._last_prompt: tuple[_PromptPlan, Start] | None = None

    def build(
        self, number: int, keys: CaseKeys, deployments: Sequence[RowDeployments]
    ) -> tuple[list[Case], list[Average]]:
        """Name the cases of an entry for each deployment, and its averages.

        What a case asks is built, and so checked, on access.

        Raises:
            ConfigError: a key is invalid; the message begins with the key.
        """
        place = f"cases[{number}]"
        demands = list_demands(place, keys, self._folder)
        table = self._read_table(place, keys)
        # the texts of an entry without a table are no templates
        rows: Sequence[Row | None] = (None,) if table is None else table.rows
        entry = keys.name or f"case {number + 1}"
        # a name with columns is one of rows
        if table is not None and keys.name is not None:
            with prefix_errors(f"{place}.name"):
                columns = list_columns(keys.name)
                entry = f"case {number + 1}" if columns else insert_columns(keys.name, Row())
        if table is not None:
            self.row_digests.append(_hash_rows(keys, table))
        tools = parse_suite_tools(f"{place}.tools", keys.tools) or self._tools
        differing = {demand.key for demand in demands if self._differs_by_row(demand, keys, table)}
        fixed = {each.key for each in demands if each.has_name and not set("{}") & set(each.label)}
        cases: list[Case] = []
        averages: list[Average] = []
        for form in _list_forms(place, keys):
            name = f"{entry}{_format_suffix(form)}"
            form_cases = [
                case
                for row in rows
                for case in self._name_cases(
                    _PromptPlan(place, keys, form, row, tools),
                    demands,
                    name,
                    deployments,
                    differing,
                    fixed,
                )
            ]
            cases += form_cases
            is_whole = parse_end(keys.length or self._suite.length)[1]
            averages += _build_averages(place, name, demands, form_cases, rows, keys.by, is_whole)
        return cases, averages

    def _differs_by_row(self, demand: Demand, keys: CaseKeys, table: PromptTable | None) -> bool:
        """Return whether the types of quantifiers, files or thresholds may differ between rows."""
        properties = self._suite.properties or {}
        has_users = any(turn.simulated_user is not None for turn in keys.turns or ())
        columns = list_columns(demand.entry)
        # a list of acceptable answers may be read by another quantifier than one answer
        rows: Sequence[Row] = () if table is None else table.rows
        has_lists = any(column in row.values for row in rows for column in columns)
        # the range of a mean score may depend on the settings
        has_own_range = demand.is_score and list_columns(list(properties.values()))
        return bool(
            has_users
            or has_lists
            or (isinstance(demand.entry, str) and columns)
            or has_own_range
            or any(map(_has_own_kind, (demand.entry, *properties.values())))
        )

    def _name_cases(
        self,
        prompt: _PromptPlan,
        demands: Sequence[Demand],
        entry: str,
        deployments: Sequence[RowDeployments],
        differing: Collection[str],
        fixed: Collection[str],
    ) -> Iterator[Case]:
        """Yield the cases of a form of the prompt with a row.

        Args:
            prompt: the prompt.
            demands: the requirements and averages.
            entry: name of the entry.
            deployments: the deployments.
            differing: keys of the demands for which `_differs_by_row`.
            fixed: keys of the demands whose names have no columns.
        """
        place, keys, form, row = prompt.place, prompt.keys, prompt.form, prompt.row
        subject, given_name = entry, keys.name or ""
        if row is not None:
            if keys.name is not None and list_columns(keys.name):
                with prefix_errors(f"{place}.name"):
                    given_name = insert_columns(keys.name, row)
                subject = f"{given_name}{_format_suffix(form)}"
            subject += f", row {row.number}"
        given_name = ", ".join(filter(None, (given_name, form.given_name)))
        number = 0 if row is None else row.number
        names: dict[str, int] = {}
        for demand in demands:
            title = demand.label if demand.key in fixed else _insert_label(demand, row)
            name = f"{subject}: {title}"
            names[name] = names.get(name, 0) + 1
            # two requirements may be the same in a row
            if names[name] > 1:
                name += f" ({names[name]})"
            # a system prompt and a decoding differ between deployments
            for variants in deployments:
                deployment = variants.select(place, row or self._shared_row or Row())
                yield Case(
                    name=name,
                    entry=entry,
                    label=demand.label,
                    deployment=deployment,
                    build=_ContentPlan(self, prompt, demand, variants, deployment),
                    is_measured=demand.is_average,
                    row=number,
                    subject=subject,
                    title=title if demand.has_name else "",
                    line=self._find_line(demand.key),
                    given_names=(given_name, title if demand.has_name else ""),
                    differs=demand.key in differing,
                )

    def build_content(self, plan: _ContentPlan) -> CaseContent:
        """Build what a case asks, and keep that of recent cases.

        Raises:
            LLMCheckerError: a key or a cell is invalid; the message begins with the key.
        """
        if (content := self._recent.get(plan)) is None:
            content = self._build_content(plan)
            # the first is the oldest
            if len(self._recent) >= _MAX_RECENT:
                del self._recent[next(iter(self._recent))]
            self._recent[plan] = content
        return content

    def _build_content(self, plan: _ContentPlan) -> CaseContent:
        prompt, demand, variants = plan.prompt, plan.demand, plan.variants
        place, keys, row, model = prompt.place, prompt.keys, prompt.row, plan.deployment.model
        # before the query: a prompt without its column is the plainer mistake
        text = self._build_prompt(prompt)
        requirement, asked = self._build_query(demand, row, keys, prompt.tools)
        full_prompt = variants.add_system(place, text, row or self._shared_row)
        full_prompt = _add_columns(place, keys, full_prompt, row, model)
        conversation = None
        if keys.turns is not None:
            find = self._quantifiers.find_deployment
            conversation = build_conversation(
                prompt.form.key, keys.turns, full_prompt, row, model, find
            )
        else:
            with prefix_errors(demand.key):
                check_prompt_form(model, full_prompt)
                check_query_form(model, asked)
        is_measured = demand.statistic.truth is not None
        asked = add_judge_notes(asked, model, is_measured=is_measured)
        question = Question(
            model=model,
            prompt=full_prompt,
            conversation=conversation,
            asked=add_user_notes(asked, conversation),
            budget=self._build_budget(keys, 0 if row is None else row.number),
        )
        return CaseContent(question, find_threshold(asked.query), requirement)

    def _build_prompt(self, plan: _PromptPlan) -> Start:
        """Build a prompt without the system prompt; the cases of a row follow each other."""
        if self._last_prompt is None or self._last_prompt[0] is not plan:
            self._last_prompt = plan, _build_prompt(plan)
        return self._last_prompt[1]

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
        """Build the budget of a row's cases."""
        limits = keys.budget or self._suite.budget
        budget = build_budget(**limits.explicit_keys, seed=_choose_seed(self._suite.seed, row))
        return budget.model_copy(update={"confidence": self.confidence})

    def _build_query(
        self, demand: Demand, row: Row | None, keys: CaseKeys, tools: tuple[Tool, ...]
    ) -> tuple[str, Property]:
        """Build the content in words and the query of a demand for a row."""
        settings: dict[str, Mapping[str, Any]] = {}
        inserted = _insert_entry(demand, row)
        turn_count = len(keys.turns or ())
        if demand.is_score and turn_count:
            raise ConfigError(f"{demand.key}: a mean score is about one answer; remove `turns`")
        if demand.statistic.truth is not None and (demand.is_score or turn_count):
            raise ConfigError(
                f"{demand.key}.truth: it corrects the probability of a grade of one answer; write "
                "of: P=? [ F (G polite = 1) ], without `turns`"
            )
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
            query = parse(text)
            demand.check_kind(query)
            plain_query, query = query, demand.add_threshold(query)
            known = self._quantifiers.names | set(settings)
            if turn_count:
                check_turn_query(query, known, turn_count)
                if is_whole:
                    query = ask_about_whole_answers(query, demand.find_comparison(query))
                names = sorted(query.variables - {TURN})
            else:
                if is_whole:
                    query = ask_about_whole_texts(query, length, demand.find_comparison(query))
                query.check_references(known, length)
                names = sorted(query.variables - {STEP})
            for name in names:
                if name not in settings and name in self._quantifiers.properties:
                    settings[name] = self._insert_property(name, row)
                if tools and self._quantifiers.needs_tools(name, settings.get(name)):
                    settings[name] = add_tools(settings.get(name), tools)
                self._quantifiers.create(name, settings.get(name))
        quantifiers = self._quantifiers.select({name: settings.get(name) for name in names})
        entry = None if isinstance(inserted, str) else inserted
        limit = demand.find_limit()
        asked = Property(query, quantifiers, length, assertion=entry, limit=limit)
        if demand.is_score and (obstacle := asked.estimation_obstacle) is not None:
            raise ConfigError(f"{demand.key}: {obstacle}; use a quantifier with a range")
        self._check_truth(demand, replace(asked, query=plain_query))
        if demand.statistic.figure is not None and asked.value_range != PROBABILITIES:
            raise ConfigError(
                f"{demand.key}: repeats and shares of rows are those of a probability; write of: "
                "P=? [ … ]"
            )
        requirement = describe_requirement(inserted, query, settings)
        return requirement, asked

    def _check_truth(self, demand: Demand, asked: Property) -> None:
        """Check that a query is about the judge whose errors a demand names, if it names some."""
        # most rows have the same query and judge, whose description reads the states of its files
        key = demand.key, asked.query.text
        truth, quantifiers = demand.statistic.truth, asked.quantifiers
        if truth is None or self._checked_truths.get(key) == quantifiers:
            return
        with prefix_errors(f"{demand.key}.truth"):
            truth.check_asked(asked)
        self._checked_truths[key] = quantifiers

    def _insert_property(self, name: str, row: Row | None) -> Mapping[str, Any]:
        """Return the settings of a property of the suite for a row."""
        with prefix_errors(f"property {name}"):
            inserted: Mapping[str, Any] = insert_columns(
                self._quantifiers.properties[name], row or self._shared_row
            )
        return inserted


def _has_own_kind(value: Any) -> bool:
    """Return whether columns decide the type, the files or the threshold of a quantifier."""
    if not isinstance(value, Mapping):
        return False
    return any(
        list_columns(key) or (key in _KEYS_OF_KIND and list_columns(item)) or _has_own_kind(item)
        for key, item in value.items()
    )


def _insert_entry(demand: Demand, row: Row | None) -> Any:
    """Return the query or the assertion of a demand with the cells of a row."""
    if row is None:
        return demand.entry
    with prefix_errors(demand.key):
        if isinstance(demand.entry, str):
            return insert_into_query(demand.entry, row)
        return insert_into_assertion(demand.entry, row)


def _insert_label(demand: Demand, row: Row | None) -> str:
    """Return the name of a demand with the cells of a row."""
    if row is None:
        return demand.label
    with prefix_errors(demand.key):
        if demand.has_name:
            label: str = insert_columns(demand.label, row)
            return label
        return format_label(demand.key, _insert_entry(demand, row))


def _hash_rows(keys: CaseKeys, table: PromptTable) -> str:
    """Return the sha256 of an entry and its rows, any cell of which an application may get."""
    entry = keys.model_dump(mode="json", exclude={"prompts"}, exclude_unset=True)
    digest = hashlib.sha256(json.dumps(entry, sort_keys=True, default=str).encode())
    for row in table.rows:
        content = [dict(row.cells), row.unusable, row.values, row.has_types]
        digest.update(json.dumps(content, default=str).encode() + b"\n")
    return digest.hexdigest()


def _choose_seed(seed: int, row: int) -> int:
    """Return the seed of a row's samples.

    The samples of different rows are independent, as an average needs. Those of all requirements of
    one row are the same, so that they visit the same texts.
    """
    if row == 0:
        return seed
    digest = hashlib.sha256(f"{seed} {row}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _format_suffix(form: Alternative) -> str:
    """Return the end of the names of the cases of a form."""
    return f", {form.name}" if form.name else ""


def _find_prompt_key(place: str, keys: CaseKeys) -> str | None:
    """Return the key of an entry's prompt; None for a column of its table.

    Raises:
        ConfigError: the entry has several.
    """
    names = [name for name in _PROMPT_KEYS if getattr(keys, name) is not None]
    if len(names) > 1:
        raise _build_prompt_error(place, names)
    return names[0] if names else None


def _list_forms(place: str, keys: CaseKeys) -> Sequence[Alternative]:
    """List the forms of an entry's prompt: texts, messages or the turns of a conversation."""
    name = _find_prompt_key(place, keys)
    if name is None:
        return [Alternative(f"{place}.prompts", "", None)]
    key, value = f"{place}.{name}", getattr(keys, name)
    if name == "messages":
        return [Alternative(key, "", [message.explicit_keys for message in value])]
    if name == "turns":
        return [Alternative(key, "", value)]
    return list_alternatives(key, value, "prompt")


def _build_prompt_error(where: str, names: Sequence[str], columns: str = "") -> ConfigError:
    count = " and ".join(names) if names else "no prompt"
    return ConfigError(
        f"{where}: there is {count}{columns}; give exactly one of user, start, messages and turns"
    )


def _build_prompt(plan: _PromptPlan) -> Start:
    """Build the prompt of a row in one of its forms, without the system prompt."""
    place, keys, form, row, tools = plan.place, plan.keys, plan.form, plan.row, plan.tools
    name, key, value = _find_prompt_key(place, keys), form.key, form.content
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
            insert = _insert_messages if name == "messages" else insert_columns
            inserted = insert(value, row)
    # the cell of a column is no template
    with locate_errors(key, value, row or Row()):
        if name == "messages":
            return parse_messages(inserted, tools)
        check_content(inserted)
        if len(inserted) > _MAX_PROMPT_CHARACTERS:
            raise ConfigError(
                f"it has {len(inserted):,} characters; shorten it to {_MAX_PROMPT_CHARACTERS:,}"
            )
        return parse_prompt({name: inserted, "tools": [tool.description for tool in tools] or None})


def _insert_messages(messages: Sequence[Mapping[str, str]], row: Row | None) -> list[Any]:
    """Insert columns into messages, and the chats of columns between them."""
    inserted: list[Any] = []
    for number, message in enumerate(messages):
        if (text := message.get("chat")) is None:
            inserted.append(insert_columns(message, row))
            continue
        with prefix_errors(f"[{number}]"):
            if row is None or len(list_columns(text)) != 1:
                raise ConfigError(
                    f"chat: {text!r} is no column; write {{input}}, and add `prompts`"
                )
            with prefix_errors(f"{row.place}, column {list_columns(text)[0]}"):
                inserted += read_chat(insert_cells(text, row))
    return inserted


def _add_columns(
    place: str, keys: CaseKeys, prompt: Start, row: Row | None, model: ModelConfig
) -> Start:
    """Return a prompt with the columns that its application gets.

    Those of the table count where the application has them, and the given ones always.
    """
    with prefix_errors(f"{place}.columns"):
        given: dict[str, Any] = parse_numbers(insert_cells(keys.columns or {}, row))
        cells = {
            name: parse_numbers(row.read_value(name))
            for name in (row.columns if row else ())
            if row and model.takes_column(name)
        }
    if not given and not cells:
        return prompt
    if isinstance(prompt, str):
        raise ConfigError(f"{place}.columns: they belong to a chat; use user in place of start")
    return prompt.add_columns(cells | given)


def _build_averages(
    place: str,
    entry: str,
    demands: Sequence[Demand],
    cases: Sequence[Case],
    rows: Sequence[Row | None],
    by: str | None,
    is_whole: bool,
) -> list[Average]:
    """Build the averages of an entry.

    Args:
        place: key of the entry.
        entry: name of the entry.
        demands: its requirements and averages.
        cases: its cases.
        rows: the rows of its table.
        by: the column of groups; None for none.
        is_whole: whether it is about whole answers.
    """
    averages = []
    for demand in demands:
        if not demand.is_average:
            continue
        # each deployment has a case of the name
        members = {case.name: rows[case.row - 1] for case in cases if case.label == demand.label}
        groups: dict[str, list[str]] = {}
        with prefix_errors(f"{place}.by"):
            for name, row in members.items():
                if by is not None and row is not None:
                    groups.setdefault(row.read(normalize_name(by)), []).append(name)
        clusters = _read_clusters(demand, members)
        truth = demand.statistic.truth
        truth = truth.count_whole() if truth is not None and is_whole else truth
        averages.append(
            Average(
                name=f"{entry}: {insert_columns(demand.label, Row())}",
                label=demand.label,
                cases=tuple(members),
                threshold=demand.mean_threshold,
                line=next(case.line for case in cases if case.label == demand.label),
                groups={value: tuple(names) for value, names in sorted(groups.items())},
                statistic=replace(demand.statistic, clusters=clusters, truth=truth),
            )
        )
    return averages


def _read_clusters(demand: Demand, members: Mapping[str, Row | None]) -> dict[str, str]:
    """Return the cluster of each case of an average; empty without clusters.

    Raises:
        ConfigError: there is no such column, all rows are one cluster, or each row is its own.
    """
    column = demand.statistic.column
    if column is None:
        return {}
    with prefix_errors(f"{demand.key}.clusters"):
        clusters = {}
        for name, row in members.items():
            if row is None or not row.has_column(normalize_name(column)):
                columns = "" if row is None else f"; it has {row.format_columns()}"
                raise ConfigError(f"{column!r}: the table has no such column{columns}")
            clusters[name] = row.read(normalize_name(column))
        count = len(set(clusters.values()))
        if count == 1:
            raise ConfigError(
                f"{column!r}: all rows have the same value; a population needs several clusters"
            )
        if count == len(members):
            raise ConfigError(f"{column!r}: each row has a value of its own; remove clusters")
    return clusters
