"""Model directories of served models: creation on fetch, check on connection.

Such a directory has no weights. It contains the tokenizer and the server's description of itself
and its model. Before any other request the server must return the same description. Its tokenizer
must give the same tokens for probe texts as the one in the directory.
"""

import shutil
from collections.abc import Coroutine, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from llmchecker.errors import ConfigError, UnusableModel
from llmchecker.models.decoding.settings import parse_end_tokens
from llmchecker.models.servers.apis import (
    LlamaCpp,
    ServedModelInfo,
    ServerApi,
    Vllm,
    check_unchanged,
)
from llmchecker.models.servers.http_client import RequestLimits, ServerClient, ServerSession
from llmchecker.models.servers.schema import quote
from llmchecker.models.servers.settings import SERVER_FILE, ServerSource
from llmchecker.models.servers.text_apis import TEXT_APIS
from llmchecker.models.servers.text_client import TEXT_LIMITS, TextClient, read_key
from llmchecker.models.sources.checkpoints import check_record
from llmchecker.models.sources.checksums import check_checksums
from llmchecker.models.sources.local_files import check_same, describe_local_files, is_outdated
from llmchecker.models.sources.model_directory import (
    MODEL_CONFIG,
    PROVENANCE,
    TOKENIZER_FILES,
    find_tokenizer_files,
)
from llmchecker.models.sources.source_spec import Source
from llmchecker.models.transformers.tokenizer import format_loading_error, load_tokenizer
from llmchecker.utils.atomic_files import compute_sha256, partial_prefix, read_json, write_json
from llmchecker.utils.file_state import compute_checksums

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from llmchecker.models.servers.served_model import ServedModel

_GENERATION_CONFIG = "generation_config.json"

_LIMITS = RequestLimits()
"""Limits of requests to servers with distributions."""

_TOKENIZER_PROBES = (
    "The player won because",
    " 1234.5 +  67\n\tdef f(x):\n",
    "Grüße aus Łódź, ça va? Добрый день 你好 🦜🏽",
)
"""Texts for which the server and the tokenizer must give the same tokens."""


def ensure_served_model(source: ServerSource, directory: str | Path) -> None:
    """Create the directory of a served model, also after a change of its tokenizer.

    The record of a directory that is current is checked.

    Raises:
        SourceError: the directory is absent or outdated, and the server cannot be used.
        ChecksumMismatch: the tokenizer changed during a run of the workflow.
        ConfigError: the directory contains another model, or one with other settings.
        DamagedFile: the record of the model's source is damaged.
    """
    directory = Path(directory)
    if directory.exists():
        check_record(source.record, directory)
        if not is_outdated(directory, str(source.tokenizer), source.local_files):
            return
    fetch_served_model(source, directory)


def fetch_served_model(
    source: ServerSource, directory: str | Path, limits: RequestLimits = _LIMITS
) -> None:
    """Create the directory of a served model: tokenizer and server description.

    A failure leaves no partial directory, and an existing directory stays unchanged.

    Args:
        source: the served model.
        directory: path of the new directory.
        limits: limits of the requests.

    Raises:
        ConfigError: the source's directory has no tokenizer, the environment has no key, or the
            server returns fewer tokens than requested.
        SourceUnavailable: the server does not answer.
        UnusableModel: the tokenizer is not that of the server's model.
    """
    directory = Path(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=directory.parent, prefix=partial_prefix()) as scratch:
        model_directory = Path(scratch, "model")
        model_directory.mkdir()
        client = _build_client(source, limits)
        # a text-only server lists no tokens, so no tokenizer is needed
        tokenizer: PreTrainedTokenizerBase | None = None
        api: ServerApi | None = None
        if source.tokenizer is None:
            find_model = TEXT_APIS[source.api].find_model
            name = client.run(partial(find_model, name=source.served_as)).name
            info = ServedModelInfo(name, "", None, None)
        else:
            local_files = compute_checksums(source.local_files)
            _copy_tokenizer(source.tokenizer, model_directory)
            check_same(str(source.tokenizer), local_files, describe_local_files(source.local_files))
            tokenizer = load_tokenizer(model_directory)
            api = _select_api(source, tokenizer)
            # not from several servers, which may be of several versions
            first = _build_client(source.select_server(source.address), limits)
            info = first.run(partial(api.read_model_info, served_as=source.served_as))
            _check_servers(source, source.addresses[1:], limits, api, info)
        # only settings that affect a tree, so without concurrency or time limits
        settings = {key: source.record[key] for key in ("source", "api", "tokens")}
        write_json(settings | asdict(info), model_directory / SERVER_FILE)
        files = {path.name: compute_sha256(path) for path in sorted(model_directory.iterdir())}
        versions = {source.api: info.version}
        record = {
            "serving": asdict(info),
            "versions": versions,
            "files": files,
            **describe_local_files(source.local_files),
        }
        write_json(source.record | record, model_directory / PROVENANCE)
        if tokenizer is not None and api is not None:
            _probe_server(
                _build_served_model(model_directory, source, tokenizer, client, api, info)
            )
        if directory.exists():
            # a directory cannot replace a non-empty one: move the old one away first
            directory.rename(Path(scratch, "replaced"))
        model_directory.rename(directory)


def connect_model(directory: str | Path, limits: RequestLimits = _LIMITS) -> "ServedModel":
    """Return the served model of a directory, after a check of its server.

    Args:
        directory: path of the model directory.
        limits: limits of the requests.

    Raises:
        ChecksumMismatch: a file of the directory has changed.
        ConfigError: the server is text-only, or the environment has no key.
        SourceUnavailable: the server does not answer, or its model has changed.
        UnusableModel: the tokenizer is not that of the server's model.
    """
    directory = Path(directory)
    source, recorded_info = _read_record(directory)
    if source.is_text_only:
        raise ConfigError(
            f"{directory.name}: {source.api} returns only texts; a tree needs "
            "distributions, as of vLLM or llama.cpp"
        )
    client, tokenizer = _build_client(source, limits), load_tokenizer(directory)
    api = _select_api(source, tokenizer)
    _check_servers(source, source.addresses, limits, api, recorded_info)
    return _build_served_model(directory, source, tokenizer, client, api, recorded_info)


def _check_servers(
    source: ServerSource,
    addresses: Sequence[str],
    limits: RequestLimits,
    api: ServerApi,
    info: ServedModelInfo,
) -> None:
    """Check that servers have the recorded model, version and limits.

    Raises:
        SourceUnavailable: a server does not answer, or has another model.
    """
    for address in addresses:
        client = _build_client(source.select_server(address), limits)
        found = client.run(partial(api.read_model_info, served_as=source.served_as))
        check_unchanged(info, found, address)


def connect_text_client(
    directory: str | Path, folder: Path, limits: RequestLimits = TEXT_LIMITS
) -> TextClient:
    """Return the client of a directory's model, which returns texts alone.

    Args:
        directory: path of the model directory.
        folder: the folder of stored answers.
        limits: limits of the requests.

    Raises:
        ChecksumMismatch: a file of the directory has changed.
    """
    source, info = _read_record(Path(directory))
    source = replace(source, served_as=info.model)
    return TextClient(Path(directory).name, source, folder, limits=limits)


def _read_record(directory: Path) -> tuple[ServerSource, ServedModelInfo]:
    """Return the source of a directory's model, and the server's description on fetch."""
    check_checksums(directory)
    record = read_json(directory / PROVENANCE)
    return ServerSource.from_record(record), ServedModelInfo(**record["serving"])


def _build_client(source: ServerSource, limits: RequestLimits) -> ServerClient:
    """Build the HTTP client of a source's server.

    Raises:
        ConfigError: the environment variable of the key is not set or contains no valid key.
    """
    return ServerClient(source, read_key(source), limits)


def _build_served_model(
    directory: Path,
    source: ServerSource,
    tokenizer: "PreTrainedTokenizerBase",
    client: ServerClient,
    api: ServerApi,
    info: ServedModelInfo,
) -> "ServedModel":
    """Build the served model of a directory, after a comparison of the tokenizers.

    Raises:
        UnusableModel: the tokenizer is not that of the server's model.
    """

    def tokenize(session: ServerSession, text: str) -> Coroutine[Any, Any, list[int]]:
        return api.tokenize(session, info.model, text)

    # all answers at once: an error below must not leave requests open
    server_answers = list(client.map_concurrently(tokenize, _TOKENIZER_PROBES))
    for probe, server_tokens in zip(_TOKENIZER_PROBES, server_answers, strict=True):
        local_tokens = tokenizer(probe, add_special_tokens=False, split_special_tokens=True)[
            "input_ids"
        ]
        if local_tokens != server_tokens:
            raise UnusableModel(
                f"{source.address}: {info.model} reads {probe!r} as "
                f"{quote(str(server_tokens), 30)}, unlike {source.tokenizer}; name its own "
                "tokenizer"
            )
    # served_model imports torch and transformers, which takes seconds
    from llmchecker.models.servers.served_model import ServedModel

    size = read_vocabulary_size(directory, tokenizer)
    # vLLM does not report a vocabulary size
    if info.vocabulary_size not in (None, size):
        raise UnusableModel(
            f"{source.address}: {info.model} has n_vocab {info.vocabulary_size}, but "
            f"{source.tokenizer} has {size} tokens; name the model's own tokenizer"
        )
    return ServedModel(
        name=directory.name,
        tokenizer=tokenizer,
        end_tokens=_read_end_tokens(directory, tokenizer),
        vocabulary_size=size,
        listed_tokens=source.tokens,
        client=client,
        api=api,
        info=info,
        files=check_checksums(directory),
    )


def _probe_server(model: "ServedModel") -> None:
    """Request one distribution: a server that lists too few tokens fails at once."""
    import numpy as np

    tokens = model.encode(_TOKENIZER_PROBES[0])
    empty_continuation = np.empty((1, 0), dtype=np.int64)
    list(model.open_prefix(tokens).map_next(lambda _, part: len(part), empty_continuation))


def _copy_tokenizer(source: Source, directory: Path) -> None:
    source_directory = source.path
    if not any((source_directory / name).is_file() for name in TOKENIZER_FILES):
        raise ConfigError(
            f"tokenizer {source}: {source_directory} holds no tokenizer; add one "
            f"of {', '.join(TOKENIZER_FILES)}"
        )
    for file in find_tokenizer_files(source_directory):
        shutil.copyfile(file, directory / file.name)


def _select_api(source: ServerSource, tokenizer: "PreTrainedTokenizerBase") -> ServerApi:
    if source.api == "vllm":
        return Vllm()
    # the letter a is a whole character, as `LlamaCpp` requires
    return LlamaCpp(tokenizer("a", add_special_tokens=False)["input_ids"][0])


def read_vocabulary_size(directory: Path, tokenizer: "PreTrainedTokenizerBase") -> int:
    """Return the network's number of tokens, which may exceed the tokenizer's.

    Raises:
        UnusableModel: transformers cannot read the network's configuration.
    """
    if not (directory / MODEL_CONFIG).is_file():
        return len(tokenizer)
    from transformers import AutoConfig

    load_options = {"local_files_only": True, "trust_remote_code": False}
    try:
        config = AutoConfig.from_pretrained(directory, **load_options)
    except Exception as error:  # transformers documents no exceptions and raises many kinds
        reason = format_loading_error(error)
        raise UnusableModel(f"{directory / MODEL_CONFIG}: does not load: {reason}") from error
    size: int = config.get_text_config().vocab_size
    return size


def _read_end_tokens(directory: Path, tokenizer: "PreTrainedTokenizerBase") -> frozenset[int]:
    """Return the tokens that end a text, from the configuration or else the tokenizer."""
    candidates = []
    for name in (_GENERATION_CONFIG, MODEL_CONFIG):
        if (directory / name).is_file():
            candidates.append(read_json(directory / name).get("eos_token_id"))
    candidates += [tokenizer.eos_token_id, tokenizer.sep_token_id]
    parsed_tokens = map(parse_end_tokens, candidates)
    return next((tokens for tokens in parsed_tokens if tokens is not None), frozenset())
