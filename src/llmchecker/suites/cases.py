"""Suites and their cases: a prompt with a requirement each."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path

from llmchecker.checking.measurement import Threshold
from llmchecker.checking.question import Question
from llmchecker.config.deployment import Deployment
from llmchecker.config.registry_keys import ExpansionConfig
from llmchecker.properties.logic.ast import Probability
from llmchecker.properties.logic.query import Query
from llmchecker.suites.judge_errors import ERROR_KINDS
from llmchecker.suites.multiple_testing import split_confidence
from llmchecker.suites.statistic import Statistic
from llmchecker.utils.file_state import check_unchanged

CaseKey = tuple[str, str]
"""The names of a deployment and of one of its cases."""


@dataclass(frozen=True)
class CaseContent:
    """What a case asks.

    Attributes:
        question: the question, whose query has a threshold for a requirement. Its quantifiers are
            created on access.
        threshold: the threshold of the query; None for a query without one.
        requirement: the content of the requirement in words, without its threshold.
    """

    question: Question
    threshold: Threshold | None
    requirement: str


@dataclass(frozen=True, slots=True)
class Case:
    """A prompt with a query, for one deployment.

    A table may have a hundred thousand rows. So a case has only its names in memory, and builds
    what it asks on access.

    Attributes:
        name: its name, unique in its deployment.
        entry: the name of its entry in the suite file.
        label: the name of its requirement or average in the suite file.
        deployment: its deployment.
        build: builds what it asks.
        is_measured: whether the query is a member of an average, without a verdict of its own.
        row: the number of the prompt's row, from 1 on; 0 without a table.
        subject: the name without that of the requirement.
        title: the name of the requirement in the suite file, with the cells of the row; empty
            without one.
        line: the line of the requirement or average in the suite file.
        given_names: the names that the suite file gives to the prompt and to the requirement, with
            the cells of the row; empty texts without these.
        differs: whether the rows of its requirement may differ in the types, files and ranges of
            quantifiers, or in thresholds.
    """

    name: str
    entry: str
    label: str
    deployment: Deployment
    build: Callable[[], CaseContent] = field(repr=False, compare=False)
    is_measured: bool = False
    row: int = 0
    subject: str = ""
    title: str = ""
    given_names: tuple[str, str] = ("", "")
    line: int = 1
    differs: bool = False

    @property
    def question(self) -> Question:
        """The question.

        Raises:
            LLMCheckerError: a key or a cell of the row is invalid.
        """
        return self.build().question

    @property
    def threshold(self) -> Threshold | None:
        """The threshold of the query; None for a query without one."""
        return self.build().threshold

    @property
    def requirement(self) -> str:
        """The content of the requirement in words, without its threshold."""
        return self.build().requirement

    @property
    def key(self) -> CaseKey:
        """The names of its deployment and of the case."""
        return self.deployment.name, self.name

    @property
    def lasting_key(self) -> tuple[str, str, str]:
        """The names of its deployment, prompt and requirement, without any threshold."""
        return self.deployment.name, self.subject, self.title or self.requirement

    @property
    def prompt_key(self) -> tuple[str, str]:
        """What the requirements of one prompt share: the names of its deployment and subject."""
        return self.deployment.name, self.subject or self.name

    @property
    def prompt(self) -> str:
        """The last message, the text to continue, or the user's messages of a conversation."""
        prompt, conversation = self.question.prompt, self.question.conversation
        if conversation is not None:
            first = conversation.chat.messages[-1][1]
            return " → ".join([first, *conversation.turn_texts])
        return prompt if isinstance(prompt, str) else prompt.messages[-1][1]

    def measure(self) -> "Case":
        """Return the case with `P=?` in place of its threshold, and without a limit.

        The case itself is returned if it has neither.
        """
        content = self.build()
        asked, root = content.question.asked, content.question.query.root
        if asked.limit is not None:
            asked = replace(asked, limit=None)
        elif content.threshold is not None and isinstance(root, Probability):
            numeric = replace(root, comparison="=", threshold=None)
            asked = replace(asked, query=Query(f"P=? [{asked.query.path_text}]", numeric))
        else:
            return self
        question = replace(content.question, asked=asked)
        measured = replace(content, question=question)
        return replace(self, build=lambda: measured)


@dataclass(frozen=True)
class Average:
    """A mean of probabilities or scores over the rows of an entry.

    Attributes:
        name: its name.
        label: its name in the suite file.
        cases: names of its cases.
        threshold: its requirement; None if it is only reported.
        groups: names of cases by the values of a column; empty without groups.
        statistic: what it reports of its rows.
        line: its line in the suite file.
    """

    name: str
    label: str
    cases: tuple[str, ...]
    threshold: Threshold | None
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    statistic: Statistic = field(default_factory=Statistic)
    line: int = 1


@dataclass(frozen=True)
class Suite:
    """A validated suite.

    Attributes:
        name: name of the suite, that of its file.
        path: the suite file.
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
        digest: sha256 of everything that determines the results, but for files of quantifiers.
        model_files: sha256 of the files of all local models when the suite was loaded, by path.
        quantifier_files: likewise, those of quantifiers and judges.
        weights: sha256 of the files and settings of each deployment in this process, by its name.
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
    digest: str
    max_tokens: int | None = None
    max_dollars: float | None = None
    model_files: Mapping[Path, str] = field(default_factory=dict)
    quantifier_files: Mapping[Path, str] = field(default_factory=dict)
    weights: Mapping[str, str] = field(default_factory=dict)
    path: Path = Path("suite.yaml")

    def check_files(self) -> None:
        """Check that no file of a model or quantifier changed since the suite was loaded.

        Raises:
            ChecksumMismatch: a file has changed.
        """
        check_unchanged({**self.model_files, **self.quantifier_files})

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
    def all_deployments(self) -> tuple[Deployment, ...]:
        """The deployments, and any deployment to compare with."""
        return self.deployments if self.versus is None else (*self.deployments, self.versus)

    @property
    def representatives(self) -> tuple[Case, ...]:
        """The first case of each requirement, and the others of one whose rows may differ.

        They have all types and files of quantifiers, and all thresholds, of the suite.
        """
        found: set[tuple[str, str, str]] = set()
        cases = []
        for case in self.cases:
            key = case.deployment.name, case.entry, case.label
            if case.differs or key not in found:
                found.add(key)
                cases.append(case)
        return tuple(cases)

    @property
    def prompt_count(self) -> int:
        """The number of prompts, each once for every deployment."""
        return len({case.prompt_key for case in self.cases})

    @property
    def interval_count(self) -> int:
        """The number of intervals: those of cases, averages, groups and errors of judges."""
        return len(self.cases) + self._mean_count

    @property
    def _mean_count(self) -> int:
        means = sum(1 + len(average.groups) for average in self.averages)
        judges = {each.statistic.truth.name for each in self.averages if each.statistic.truth}
        return len(self.all_deployments) * means + ERROR_KINDS * len(judges)

    @property
    def case_confidence(self) -> float:
        """The confidence of the interval of a case.

        Raises:
            ConfigError: the suite has too many intervals for its confidence.
        """
        share = 0.5 if self._mean_count else 1.0
        return split_confidence(self.confidence, len(self.cases), share)

    @property
    def mean_confidence(self) -> float:
        """The confidence of the interval of an average or a group, or of errors of a judge."""
        return split_confidence(self.confidence, self._mean_count, 0.5)
