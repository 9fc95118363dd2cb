"""The keys of the workflow's plan: experiments, figures, statistics and suites.

`registry_keys` has the others. Each key has its type, limits, default and description.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from llmchecker.checking.budget import Budget
from llmchecker.config.registry_keys import FORMER_KEYS, DecodingEntry, ModelKeys, RegistryKeys
from llmchecker.models.sources.datasets import DatasetSource
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.trees.text_tree import Alpha, SelectedTokens, Truncation
from llmchecker.utils.section import (
    FALSE_OR_SECTION,
    Distinct,
    Items,
    Length,
    Name,
    NonEmpty,
    OptionalKey,
    Section,
    Sha256,
)


class AnswerKeys(Budget):
    """The section `answer`."""

    refused_keys: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("answers", "tokens", "dollars"),
        "experiments need probabilities, so no model of them returns texts alone; limit passes",
    )


_AnswerEntry = OptionalKey[Annotated[Literal[False] | AnswerKeys, FALSE_OR_SECTION]]


class PromptsConfig(Section):
    """The prompts of the top-k statistics."""

    source: str
    """`hf:owner/name@commit`, `hf:owner/name` (see models) or `path:file.csv`."""
    file: OptionalKey[str] = None
    """For hf, the CSV file inside the data set."""
    column: str
    """The column of the prompts."""
    sha256: OptionalKey[Sha256] = None
    """Checksum of the file."""
    rows: OptionalKey[int] = Field(default=None, ge=1, le=1_000_000_000)
    """The required number of rows, without the header."""
    maximum_k: int = Field(default=50, ge=1, le=10_000)
    """The largest k."""

    @property
    def dataset(self) -> DatasetSource:
        """The origin of the prompts.

        Raises:
            ConfigError: the keys do not name a CSV file.
        """
        return DatasetSource(parse_source(self.source), self.file, self.sha256, self.rows)


class ExperimentKeys(Section):
    """An experiment: rows of Table II."""

    refused_keys: ClassVar[Mapping[str, str]] = FORMER_KEYS

    label: str = Field(min_length=1)
    """The experiment's name in tables, which also selects the published row to compare."""
    interest: str = Field(min_length=1)
    """The subject of the query in Table II."""
    start: str
    """The name of a start string."""
    alpha: OptionalKey[Alpha] = None
    k: OptionalKey[SelectedTokens] = None
    L: Length
    answer: _AnswerEntry = None
    """As at the top level, for this experiment."""
    decoding: DecodingEntry = None
    """As for a model, for this experiment. It replaces the models' decoding; {} draws at
    temperature 1 from all tokens."""
    models: OptionalKey[Distinct[str]] = None
    """Names of models; by default all."""
    shards: int = Field(default=1, ge=1, le=1_000)
    """The number of jobs that share the tree, each with about the same probability."""
    queries: NonEmpty[str]
    """Queries in PRISM's syntax, each a row for each model."""


class FigureKeys(Section):
    """Figure 4: a query for several start strings."""

    refused_keys: ClassVar[Mapping[str, str]] = FORMER_KEYS

    starts: Distinct[str]
    """Names of start strings, the nouns of the figure."""
    alpha: OptionalKey[Alpha] = None
    k: OptionalKey[SelectedTokens] = None
    L: Length
    answer: _AnswerEntry = None
    """As at the top level, for this figure."""
    query: str
    """The query, in PRISM's syntax."""


class TruncationKeys(Section):
    """A truncation."""

    alpha: Alpha
    k: SelectedTokens
    L: Length

    @property
    def truncation(self) -> Truncation:
        """The truncation of these keys."""
        return build_truncation(self.alpha, self.k, self.L)


def build_truncation(alpha: float, k: int, length: int) -> Truncation:
    """Build the truncation of the keys alpha, k and L."""
    # + 0.0 turns -0.0, which would result in a path of its own, into 0.0
    return Truncation(float(alpha) + 0.0, k, length)


class SuiteEntry(Section):
    """A suite of requirements and its models."""

    file: str
    """The suite file, which may use this configuration's quantifiers."""
    models: OptionalKey[Distinct[str]] = None
    """Names of models, in place of the file's; by default all."""
    shards: int = Field(default=1, ge=1, le=1_000)
    """Number of jobs for each model."""


class ConfigKeys(RegistryKeys):
    """The registry of a configuration and the plan of the workflow.

    `extend_keys` adds the sections of installed packages.
    """

    unread_keys: ClassVar[tuple[str, ...]] = ()

    # a run needs a model; a question may name one itself
    models: dict[Name, ModelKeys] = Field(min_length=1)
    """Language models by name."""
    topk: OptionalKey[PromptsConfig] = None
    """Top-k statistics over a data set of prompts (Figure 3)."""
    answer: _AnswerEntry = None
    """Certain bounds and an interval with confidence for the whole model. The first limit ends the
    work; `{}` has the default of 2,000 passes, and `false` means no answer. At the top level it is
    for every experiment and Figure 4 without its own."""
    experiments: Items[ExperimentKeys] = ()
    """The rows of Table II. Each experiment has an answer, or alpha and k for the value of the
    bounded process, or both."""
    figure4: OptionalKey[FigureKeys] = None
    """One query for several start strings (Figure 4)."""
    suites: dict[Name, SuiteEntry] = Field(default={})
    """Suites of requirements by name."""
