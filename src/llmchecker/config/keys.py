"""The keys of the workflow's plan: experiments, figures, statistics, suites and programs.

`registry_keys` has the others. Each key has its type, limits, default and description.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, WithJsonSchema, model_validator

from llmchecker.checking.anytime.budget import CONFIDENCE_RANGE, AnswerBudget
from llmchecker.config.registry_keys import RENAMED_KEYS, DecodingEntry, ModelKeys, RegistryKeys
from llmchecker.config.section import (
    Distinct,
    Items,
    Length,
    Name,
    NonEmpty,
    OptionalKey,
    OrFalse,
    OrText,
    Section,
    Seed,
    Sha256,
    build_error,
)
from llmchecker.models.sources.datasets import DatasetSource
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.programs.ir.expressions import Semantics
from llmchecker.programs.proposals.settings import ProposalSettings, RepairSettings
from llmchecker.programs.sources import ProgramSource, parse_program_source
from llmchecker.trees.text_tree import Truncation

_Alpha = Annotated[
    float,
    Field(
        ge=0, le=1, description="The probability that the selected tokens of a state hold together."
    ),
]
_K = Annotated[
    int,
    Field(ge=1, le=1_000_000, description="The largest number of selected tokens of a state."),
]
# not strict: a file holds the name of the value
_SemanticsName = Annotated[
    Semantics,
    Field(strict=False),
    WithJsonSchema({"type": "string", "enum": [s.value for s in Semantics]}),
]


_LIMITS = ("passes", "width", "seconds")
"""The keys of an answer that end its computation."""


class AnswerKeys(Section):
    """The section `answer`."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": [name]} for name in _LIMITS]}
    )

    passes: OptionalKey[int] = Field(default=None, ge=1, le=1_000_000_000)
    """The largest number of texts to evaluate for a query. Seed and passes alone determine the
    answer."""
    width: OptionalKey[float] = Field(default=None, gt=0, le=1)
    """The sufficient width of the interval. Combine it with passes, because few queries
    become narrow soon."""
    seconds: OptionalKey[float] = Field(default=None, gt=0, le=1_000_000)
    """The time limit of a query in seconds. The answer then depends on the machine's speed."""
    confidence: float = Field(
        default=AnswerBudget.confidence, ge=CONFIDENCE_RANGE[0], le=CONFIDENCE_RANGE[1]
    )
    """The confidence of the interval."""
    seed: Seed = AnswerBudget.seed
    """The seed of the samples."""

    @model_validator(mode="after")
    def _check_limits(self) -> "AnswerKeys":
        # Without a limit, the computation ends only when every text is decided.
        if not set(_LIMITS) & set(self.explicit_keys):
            raise build_error("no limit ends the work; name passes, width or seconds")
        return self

    @property
    def budget(self) -> AnswerBudget:
        """The limits of an answer, and its confidence."""
        return AnswerBudget(**self.model_dump(exclude_none=True))


_AnswerEntry = OptionalKey[Annotated[Literal[False] | AnswerKeys, OrFalse()]]


class PromptsConfig(Section):
    """The prompts of the top-k statistics."""

    source: str
    """hf:owner/name@commit, hf:owner/name (see models) or path:file.csv."""
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

    renamed_keys: ClassVar[dict[str, str]] = RENAMED_KEYS

    label: str = Field(min_length=1)
    """The experiment's name in tables, which also selects the published row to compare."""
    interest: str = Field(min_length=1)
    """The subject of the query in Table II."""
    start: str
    """The name of a start string."""
    alpha: OptionalKey[_Alpha] = None
    k: OptionalKey[_K] = None
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

    renamed_keys: ClassVar[dict[str, str]] = RENAMED_KEYS

    starts: Distinct[str]
    """Names of start strings, the nouns of the figure."""
    alpha: OptionalKey[_Alpha] = None
    k: OptionalKey[_K] = None
    L: Length
    answer: _AnswerEntry = None
    """As at the top level, for this figure."""
    query: str
    """The query, in PRISM's syntax."""


class ProgramKeys(Section):
    """The origin of programs."""

    source: str
    """path:directory, or archive: with the https address or path of a .tar.gz or .zip file."""
    folder: OptionalKey[str] = None
    """For an archive, the folder of the C files, without its single top directory."""
    sha256: OptionalKey[Sha256] = None
    """Checksum of the programs and the files that they include, required for an archive. `LC_ALL=C;
    sha256sum * | sha256sum` prints it in a directory with these files alone."""


class RepairKeys(Section):
    """The section `repair`."""

    rounds: int = Field(default=0, ge=0, le=1_000)
    """The largest number of rounds for a program. Fewer if it is verified, its time is used
    up, or a loop has enough candidates."""
    answers: int = Field(default=5, ge=1, le=30)
    """Answers for each loop in a round."""


class TruncationKeys(Section):
    """A truncation."""

    alpha: _Alpha
    k: _K
    L: Length

    @property
    def truncation(self) -> Truncation:
        """The truncation of these keys."""
        return build_truncation(self.alpha, self.k, self.L)


def build_truncation(alpha: float, k: int, length: int) -> Truncation:
    """Build the truncation of the keys alpha, k and L."""
    # + 0.0 turns -0.0, which would result in a path of its own, into 0.0
    return Truncation(float(alpha) + 0.0, k, length)


class InvariantsConfig(Section):
    """Programs to verify, the models that propose invariants, and limits of the work."""

    program_keys: Annotated[str | ProgramKeys, OrText("object")] = Field(alias="programs")
    """The programs: path:directory with C files, or the keys below."""
    models: OptionalKey[Distinct[str]] = None
    """Names of causal models that propose invariants; by default all local ones. The first also
    proposes for the comparison of tools."""
    semantics: Distinct[_SemanticsName] = tuple(Semantics)
    """Mathematical integers (integers), or machine integers that wrap around (int32)."""
    seconds: float = Field(default=60, gt=0, le=1_000_000)
    """Time limit in seconds of one attempt on a program."""
    tool_seconds: float = Field(default=5, gt=0, le=1_000_000)
    """Time limit in seconds of ESBMC for a program without invariants."""
    iterations: int = Field(default=30, ge=1, le=30)
    """Answers of a model to each kind of prompt."""
    nodes: int = Field(default=200, ge=1, le=10_000_000)
    """The largest number of next-token distributions in the search for a loop's conditions."""
    candidates: int = Field(default=100, ge=1, le=1_000_000)
    """The largest number of candidates of each source but sampling, for a loop."""
    seed: Seed = 0
    """Seed of a model's sampled answers and of random candidates."""
    repair: RepairKeys = RepairKeys()
    """Repair by counterexample."""
    provable_keys: TruncationKeys = Field(
        default=TruncationKeys(alpha=0.8, k=4, L=7), alias="provable"
    )
    """Truncation of the trees for the probability of a provable invariant."""

    @property
    def programs(self) -> ProgramSource:
        """The origin of the programs.

        Raises:
            ConfigError: the keys do not name programs.
        """
        keys = self.program_keys
        return parse_program_source(
            # A single text is short for the key `source`.
            **({"source": keys} if isinstance(keys, str) else keys.explicit_keys)
        )

    @property
    def proposal_settings(self) -> ProposalSettings:
        """The settings of proposals.

        The number of candidates also limits every source but sampling, and the seed is also that of
        random candidates.
        """
        return ProposalSettings(self.iterations, self.nodes, self.candidates, self.seed)

    @property
    def attempt_settings(self) -> dict[str, float]:
        """The limits of an attempt on a program, and the seed of random candidates."""
        names = ("seconds", "tool_seconds", "candidates", "seed")
        return {name: getattr(self, name) for name in names}

    @property
    def repair_settings(self) -> RepairSettings:
        """The settings of repair."""
        return RepairSettings(self.repair.rounds, self.repair.answers)

    @property
    def provable_truncation(self) -> Truncation:
        """The truncation of the trees for the table of provable invariants."""
        return self.provable_keys.truncation


class SuiteEntry(Section):
    """A suite of requirements and its models."""

    file: str
    """The suite file, which may use this configuration's quantifiers."""
    models: OptionalKey[Distinct[str]] = None
    """Names of models, in place of the file's; by default all."""
    shards: int = Field(default=1, ge=1, le=1_000)
    """Number of jobs for each model."""


class ConfigKeys(RegistryKeys):
    """All keys of a configuration: its registry and the plan of the workflow."""

    unread_keys: ClassVar[tuple[str, ...]] = ()

    # a run needs a model; a question may name one itself
    models: dict[Name, ModelKeys] = Field(min_length=1)
    """Language models by name."""
    topk: OptionalKey[PromptsConfig] = None
    """Top-k statistics over a data set of prompts (Figure 3)."""
    answer: _AnswerEntry = None
    """Certain bounds and an interval with confidence for the whole model. The first limit ends the
    work; `false` means no answer. At the top level it is for every experiment and Figure 4
    without its own."""
    experiments: Items[ExperimentKeys] = ()
    """The rows of Table II. Each experiment has an answer, or alpha and k for the value of the
    bounded process, or both."""
    figure4: OptionalKey[FigureKeys] = None
    """One query for several start strings (Figure 4)."""
    suites: dict[Name, SuiteEntry] = Field(default={})
    """Suites of requirements by name."""
    invariants: OptionalKey[InvariantsConfig] = None
    """Loop invariants of C programs, for the target `invariants`."""
