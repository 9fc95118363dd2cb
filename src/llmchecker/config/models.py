"""Language models of a configuration: sources, settings and decodings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from llmchecker.config import paths
from llmchecker.config.registry_keys import AdapterKeys, DecodingKeys, ModelKeys, PriceKeys
from llmchecker.errors import ConfigError, name_arguments, prefix_errors
from llmchecker.models.application import Application
from llmchecker.models.decoding.answer_reader import (
    WHOLE_OUTPUT,
    AnswerReader,
    build_reader,
)
from llmchecker.models.decoding.chat_template import Chat, Start
from llmchecker.models.decoding.settings import (
    AS_PUBLISHED,
    Decoding,
    DecodingChoice,
    decoding_as_json,
    parse_decoding,
)
from llmchecker.models.decoding.template_settings import NO_SETTINGS, TemplateSettings
from llmchecker.models.servers.providers import expand_provider
from llmchecker.models.servers.settings import (
    SERVER_KEYS,
    TEXT_SETTINGS,
    ServerSource,
    parse_server_source,
)
from llmchecker.models.servers.spending import Prices, parse_price
from llmchecker.models.sources.adapters import AdapterSource
from llmchecker.models.sources.checkpoints import ModelSource
from llmchecker.models.sources.source_spec import Source, parse_source
from llmchecker.utils.section import parse_section

if TYPE_CHECKING:
    from llmchecker.properties.property import Property

_KeysT = TypeVar("_KeysT", bound=ModelKeys)

_REQUEST_SETTINGS = ("requests", "seconds", "key_from", "servers")
"""Settings of a server that determine no answer."""
_TREES_MARK_SUFFIX = Path(paths.trees_mark("model")).suffix


@dataclass(frozen=True)
class ModelConfig:
    """A language model of a configuration: its source and settings.

    Attributes:
        name: the name in the configuration and in paths.
        label: the name in tables and figures.
        source: the source of the weights, the server, or the application.
        kind, dtype, device: as in `load_model`; for a server, the kind is `served`, or `texts` for
            one that returns texts alone, as an application does.
        mem_mb: memory of a job with the model, in MB.
        gpu_mem_mb: GPU memory of a job with the model, in MB.
        decoding: the choice of next tokens.
        reader: what is read of the model's answers.
        given_directory: the directory that a user names, which is the model itself; else None.
        cached_directory: the directory in the user's cache folder of a model that a user names by
            its source; None for a model of the configuration, whose directory is in the project.
        prices: the prices of a provider's tokens; None if they are unknown.
        template: settings of the chat template.
    """

    name: str
    label: str
    source: ModelSource | ServerSource | Application
    kind: str
    dtype: str
    device: str
    mem_mb: int
    gpu_mem_mb: int
    decoding: DecodingChoice = None
    reader: AnswerReader = WHOLE_OUTPUT
    given_directory: Path | None = None
    cached_directory: Path | None = None
    prices: Prices | None = None
    template: TemplateSettings = NO_SETTINGS

    @property
    def directory(self) -> Path:
        """The directory of the model, which is absent until the model is fetched."""
        named = self.given_directory or self.cached_directory
        return named or Path(paths.model_directory(self.name))

    @property
    def is_text_only(self) -> bool:
        """Whether the model returns texts alone, without next-token distributions."""
        return self.kind == "texts"

    @property
    def origin(self) -> Source:
        """The source of the weights, or the address of the server; no application has one."""
        assert not isinstance(self.source, Application)
        return self.source.source

    def takes_column(self, name: str) -> bool:
        """Return whether an application gets a column of its prompts."""
        if isinstance(self.source, Application):
            return self.source.takes_column(name)
        return isinstance(self.source, ServerSource) and name in self.source.columns

    @property
    def source_record(self) -> dict[str, Any]:
        """The source with all that determines the answers, as JSON."""
        record = self.source.record.items()
        return {name: value for name, value in record if name not in _REQUEST_SETTINGS}

    @property
    def answer_settings(self) -> dict[str, Any]:
        """All that determines the answers to messages, as JSON."""
        return {
            **self.source_record,
            "kind": self.kind,
            "dtype": self.dtype,
            "decoding": decoding_as_json(self.decoding),
            **self.reader.as_json,
            **({"template": self.template.as_json} if self.template else {}),
        }

    @property
    def load_settings(self) -> dict[str, Any]:
        """The arguments of `load_model` that describe the model, except its directory."""
        return {"kind": self.kind, "dtype": self.dtype, "device": self.device}

    @property
    def job_resources(self) -> dict[str, int]:
        """The memory in MB and GPUs of a job with the model, by Snakemake name."""
        gpus = int(self.device.startswith("cuda"))
        return {"mem_mb": self.mem_mb, "gpu": gpus, "gpu_mem_mb": gpus * self.gpu_mem_mb}

    def display_name(self, decoding: DecodingChoice = None) -> str:
        """Return the name in tables and answers: the label, and the decoding, if any.

        Args:
            decoding: the decoding of an experiment; None for that of the model.
        """
        words = self.describe_decoding(decoding)
        return ", ".join(filter(None, (self.label, words, str(self.template))))

    def describe_decoding(self, decoding: DecodingChoice = None) -> str:
        """Describe the decoding in words; empty without one. The argument is as above."""
        run_decoding = self.decoding if decoding is None else decoding
        words = "" if run_decoding is None else str(run_decoding)
        words = "as published" if run_decoding == AS_PUBLISHED else words
        return ", ".join(filter(None, (words, str(self.reader))))


def expand_keys(keys: _KeysT) -> _KeysT:
    """Return the keys of a model whose source is no short name of a provider's model.

    Raises:
        ConfigError: a key contradicts the short name.
    """
    expanded = expand_provider(keys.explicit_keys)
    return keys if expanded["source"] == keys.source else parse_section(type(keys), expanded)


def parse_model(name: str, keys: ModelKeys, place: str | None = None) -> ModelConfig:
    """Parse a model.

    Args:
        name: the name in the configuration and in paths.
        keys: its keys.
        place: the beginning of messages; by default the key of the model in the configuration.

    Raises:
        ConfigError: a key is invalid; the message contains the key, its value and the fix.
    """
    place = place or f"models.{name}"
    with prefix_errors(place):
        keys = expand_keys(keys)
        parsed_source = parse_source(keys.source)
        if parsed_source.scheme == "server":
            server = parse_server_source(parsed_source, keys.explicit_keys)
            # A server has its own number format and device.
            run_settings = ("texts" if server.is_text_only else "served", "as served", "server")
            source: ModelSource | ServerSource = server
        else:
            source = _parse_model_source(parsed_source, keys)
            run_settings = (keys.kind, keys.dtype, keys.device)
        prices = None if keys.prices is None else _parse_prices(source, keys.prices)
    model = ModelConfig(
        name,
        keys.label,
        source,
        *run_settings,
        keys.mem_mb,
        keys.gpu_mem_mb,
        prices=prices,
    )
    decoding = select_decoding(f"{place}.decoding", keys.explicit_keys, model)
    template = select_template(f"{place}.template", keys.template, model)
    reader = select_reader(f"{place}.", keys.explicit_keys, model)
    return replace(model, decoding=decoding, template=template, reader=reader)


def describe_directory(name: str, directory: Path) -> ModelConfig:
    """Describe the model in a directory that a user names.

    Args:
        name: the name in paths of trees.
        directory: the absolute path.
    """
    keys = ModelKeys(label=directory.name or str(directory), source=f"path:{directory}")
    return replace(parse_model(name, keys), given_directory=directory)


def describe_application(application: Application) -> ModelConfig:
    """Describe an application of Python as a model."""
    return ModelConfig(
        *(application.name, application.name, application, "texts", "as served", "server"), 0, 0
    )


def select_decoding(
    key: str, entry: Mapping[str, Any], model: ModelConfig, folder: Path | None = None
) -> DecodingChoice:
    """Return the decoding of an entry, or else of the model.

    Args:
        key: the key of the decoding, for messages.
        entry: the keys of the entry, with or without `decoding`.
        model: the model to decode.
        folder: the folder to which paths are relative; by default the current one.

    Raises:
        ConfigError: the value is invalid, or the model does not support a decoding.
    """
    if "decoding" not in entry:
        return model.decoding
    if isinstance(model.source, Application):
        raise ConfigError(f"{key}: {model.name} has its own decoding; remove the key")
    if model.is_text_only:
        return _parse_text_decoding(key, entry["decoding"], model, folder)
    # Servers and masked models do not support the decodings of `generate`.
    if model.kind != "causal":
        raise ConfigError(
            f"{key}: {model.name} is a {model.kind} model; only local causal models have a decoding"
        )
    with prefix_errors(key):
        return read_decoding(entry["decoding"], folder)


def read_decoding(
    entry: str | Mapping[str, Any] | Decoding, folder: Path | None = None
) -> DecodingChoice:
    """Return the decoding of a value of the key `decoding`; None if it has no effect.

    Args:
        entry: a name, keys of a decoding, or a decoding.
        folder: the folder to which paths are relative; by default the current one.

    Raises:
        ConfigError: a key is unknown or a value is invalid.
    """
    if isinstance(entry, Mapping):
        entry = parse_section(DecodingKeys, entry, "").explicit_keys
    return parse_decoding(entry, folder)


def select_template(key: str, entry: Any, model: ModelConfig) -> TemplateSettings:
    """Return the settings of the chat template of an entry, or else of the model.

    Args:
        key: the key of the settings, for messages.
        entry: the settings; None for those of the model.
        model: the model.

    Raises:
        ConfigError: a setting is invalid, or the model's API has none.
    """
    if entry is None:
        return model.template
    with prefix_errors(key):
        settings = TemplateSettings.parse(entry)
    if settings and isinstance(model.source, Application):
        raise ConfigError(f"{key}: {model.name} has its own template; remove the key")
    if settings and model.is_text_only:
        assert isinstance(model.source, ServerSource)
        if model.source.api != "openai-chat":
            raise ConfigError(f"{key}: the api {model.source.api} has no such setting; remove it")
        if settings.date is not None:
            raise ConfigError(f"{key}.date: a server writes its own date; remove it")
    return settings


def select_reader(prefix: str, entry: Mapping[str, Any], model: ModelConfig) -> AnswerReader:
    """Return what is read of answers by the keys of an entry, or else of the model.

    Args:
        prefix: the beginning of the names of the keys in messages, such as `models.m.` or `--`.
        entry: its keys, with or without `stop`, `include_stop`, `max_tokens` and `thought`.
        model: the model.

    Raises:
        ConfigError: a value is invalid, or the model's answers do not contain it.
    """
    with name_arguments(prefix):
        reader = build_reader(entry, model.reader)
        if reader != WHOLE_OUTPUT and isinstance(model.source, Application):
            name = "max_tokens" if reader == AnswerReader(max_tokens=reader.max_tokens) else "stop"
            raise ConfigError(f"{name}: {model.name} returns its answers alone; remove the keys")
        if reader.include_stop and model.is_text_only:
            raise ConfigError(
                "include_stop: providers return texts without the stop; remove the key"
            )
    return reader


def _parse_text_decoding(
    key: str, entry: Any, model: ModelConfig, folder: Path | None
) -> DecodingChoice:
    """Parse the decoding of a provider, which has few settings."""
    assert isinstance(model.source, ServerSource)
    known = TEXT_SETTINGS[model.source.api]
    with prefix_errors(key):
        decoding = read_decoding(entry, folder)
        unknown = set(decoding.settings) - known if isinstance(decoding, Decoding) else set()
        if unknown:
            named = ", ".join(sorted(known - {"do_sample"})) or "its own decoding alone"
            raise ConfigError(
                f"{min(unknown)}: the api {model.source.api} has no such setting; it has {named}"
            )
    return decoding


def select_decoding_override(
    key: str, entry: Mapping[str, Any], model: ModelConfig
) -> DecodingChoice:
    """Return the decoding of an entry if it differs from the model's, else None.

    An override with temperature 1 and all tokens is a `Decoding` without settings.

    Raises:
        ConfigError: as in `select_decoding`.
    """
    decoding = select_decoding(key, entry, model)
    if decoding_as_json(decoding) == decoding_as_json(model.decoding):
        return None
    # None means the decoding of the model, so no decoding needs another value.
    return Decoding() if decoding is None else decoding


def check_models(models: Mapping[str, ModelConfig]) -> None:
    """Check what the models of a configuration require of each other and of its files.

    Raises:
        ConfigError: a name is reserved for a file, a wheel has no checksum, so that results cannot
            be repeated, or two models have one label, which is all that tables contain.
    """
    labelled: dict[str, str] = {}
    for name, model in models.items():
        source = model.source
        # the directory of its trees would have the path of another model's mark
        if name.endswith(_TREES_MARK_SUFFIX):
            raise ConfigError(
                f"models.{name}: a name that ends in {_TREES_MARK_SUFFIX} is reserved for "
                "files; rename the model"
            )
        if isinstance(source, ModelSource) and source.is_whole_wheel:
            raise ConfigError(
                f"models.{name}: {source.source}: file and sha256 are missing; add the name of the "
                "weight file and its checksum"
            )
        if labelled.setdefault(model.label, name) != name:
            raise ConfigError(
                f"models.{name}.label: {model.label!r} is also the label of "
                f"models.{labelled[model.label]}; make them differ"
            )


def check_has_distributions(key: str, model: ModelConfig) -> None:
    """Check that a model has next-token distributions.

    Args:
        key: the key or the command-line option with the name of the model.
        model: the model.

    Raises:
        ConfigError: the model returns texts alone.
    """
    if model.is_text_only:
        raise ConfigError(
            f"{key}: the interface of {model.name} returns only texts; a tree needs "
            "distributions, as of vLLM or llama.cpp"
        )


def check_listed_tokens(key: str, k: int, model: ModelConfig) -> None:
    """Check that k is at most the number of tokens that a server reports.

    Args:
        key: the key or the command-line option with k.
        k: maximum number of selected tokens.
        model: the model; a local model reports all tokens.

    Raises:
        ConfigError: k is larger.
    """
    source = model.source
    if isinstance(source, ServerSource) and k > source.tokens:
        raise ConfigError(
            f"{key}: {k} exceeds models.{model.name}.tokens, {source.tokens}, the number of "
            "requested tokens; raise that (and vLLM's --max-logprobs), or lower this"
        )


def _parse_prices(source: ModelSource | ServerSource, keys: PriceKeys) -> Prices:
    if not (isinstance(source, ServerSource) and source.is_text_only):
        raise ConfigError("prices: only a model of texts alone has prices; remove the key")
    return Prices(
        input=parse_price("prices.input", keys.input),
        output=parse_price("prices.output", keys.output),
    )


def _parse_model_source(source: Source, keys: ModelKeys) -> ModelSource:
    # A key for servers would be ignored without a word.
    if server_keys := [key for key in SERVER_KEYS if key in keys.explicit_keys]:
        raise ConfigError(f"{server_keys[0]}: {source} is not a server; remove the key")
    return ModelSource(
        source=source,
        file=keys.file,
        parts=tuple((parse_source(part.source), part.file) for part in keys.parts or ()),
        sha256=keys.sha256,
        adapters=tuple(
            AdapterSource(
                parse_adapter_source(adapter.source), float(adapter.scale), adapter.subfolder or ""
            )
            for adapter in read_adapter_keys(keys.adapter)
        ),
        subfolder=keys.subfolder or "",
    )


def read_adapter_keys(entry: str | Sequence[str | AdapterKeys] | None) -> list[AdapterKeys]:
    """Return the adapters of a value of the key `adapter`."""
    entries = [entry] if isinstance(entry, str) else entry or ()
    return [AdapterKeys(source=e) if isinstance(e, str) else e for e in entries]


def parse_adapter_source(text: str) -> Source:
    """Parse the source of an adapter; a path needs no `path:`."""
    return parse_source(text if text.startswith(("hf:", "path:")) else f"path:{text}")


def check_prompt_form(model: ModelConfig, prompt: Start) -> None:
    """Check that a model accepts the form of a prompt; one with probabilities always does.

    Raises:
        ConfigError: its API does not.
    """
    if model.is_text_only:
        assert not isinstance(model.source, ModelSource)
        model.source.check_prompt(prompt, model.name)
    elif isinstance(prompt, Chat) and prompt.columns:
        raise ConfigError(f"columns: {model.name} is no application; remove the key")


def check_query_form(model: ModelConfig, asked: "Property") -> None:
    """Check that a query is about a model, and that the answers of the model decide it.

    Raises:
        InvalidQuery: it is about a tree of alpha and k, or whole answers do not decide it.
    """
    if not model.is_text_only:
        asked.query.check_without_tree()
        return
    # imported here: a question to another model needs no numpy
    from llmchecker.checking.anytime.answer_monitor import check_decidable

    check_decidable(asked)


def check_prices(key: str, models: Iterable[ModelConfig], max_dollars: float | None) -> None:
    """Check that all models that return texts alone have prices if money is limited.

    Args:
        key: the key or the option of the limit, for messages.
        models: the models.
        max_dollars: the limit; None for none.

    Raises:
        ConfigError: one has none.
    """
    for model in models:
        if max_dollars is not None and model.is_text_only and model.prices is None:
            raise ConfigError(
                f"{key}: {model.label} has no prices; add `prices` to the model, or limit tokens"
            )
