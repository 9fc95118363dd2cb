"""Model directories of served models: made when a model is fetched, read when its server is asked.

Such a directory has no weights. It holds the tokenizer, and what the server said of itself and of
its model. Before a server is asked anything it must still say the same, and its own tokenizer must
read probes as the one in the directory does.
"""

import os
import shutil
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from llmchecker.errors import ConfigError, UnusableModel
from llmchecker.fetching.checksums import checked_checksums
from llmchecker.fetching.model_files import MODEL_CONFIG, PROVENANCE, TOKENIZER_FILES
from llmchecker.fetching.models import ModelSource, fetch_model, require_model, require_recorded
from llmchecker.fetching.sources import parse_source
from llmchecker.files import partial_prefix, read_json, sha256_of, write_json
from llmchecker.loading.tokenizers import load_tokenizer
from llmchecker.serving.client import MOST_BYTES, ServerClient
from llmchecker.serving.dialects import (
    Dialect,
    LlamaCpp,
    Serving,
    Vllm,
    demand_same,
    serving_of_writer,
)
from llmchecker.serving.settings import SERVER, ServerSource
from llmchecker.serving.writing import ServedWriter

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from llmchecker.serving.served import ServedModel

GENERATION = "generation_config.json"

COPIED = (
    MODEL_CONFIG,
    GENERATION,
    "added_tokens.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    *TOKENIZER_FILES,
)
"""Files of a tokenizer's directory that belong to the tokenizer, and what says how texts end."""

MOST_BYTES_OF_TEXT = 2**24
"""Bytes of one answer of a server that writes."""

PROBES = (
    "The player won because",
    " 1234.5 +  67\n\tdef f(x):\n",
    "Grüße aus Łódź, ça va? Добрый день 你好 🦜🏽",
)
"""Texts of which server and tokenizer must make the same tokens."""


def fetch_source(
    source: ModelSource | ServerSource, directory: str | Path, lock: str | Path | None = None
) -> None:
    """Make `directory` the directory of a model, as `fetch_model` or `fetch_server` does."""
    if isinstance(source, ServerSource):
        fetch_server(source, directory)
    else:
        fetch_model(source, directory, lock=lock)


def require_source(
    source: ModelSource | ServerSource, directory: str | Path, lock: str | Path
) -> None:
    """Fetch a model if its directory is absent, and refuse a directory with another model.

    Raises:
        SourceError: the model is absent and cannot be fetched.
        ConfigError: the directory holds another model, or one with other settings.
        DamagedFile: the record of where the model came from is not as it was written.
    """
    if isinstance(source, ModelSource):
        require_model(source, directory, lock)
    elif Path(directory).exists():
        require_recorded(source.about, Path(directory))
    else:
        fetch_server(source, directory)


def fetch_server(source: ServerSource, directory: str | Path) -> None:
    """Make `directory` that of a served model: its tokenizer, and what the server says of itself.

    On failure nothing is left behind, and a directory that was there before stays as it was.

    Raises:
        ConfigError: there is no tokenizer where the source says, or no key in the environment, or
            the server does not tell as many tokens as it is asked for.
        SourceUnavailable: the server does not answer.
        UnusableModel: the tokenizer is not that of the server's model.
    """
    directory = Path(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=directory.parent, prefix=partial_prefix()) as scratch:
        made = Path(scratch, "model")
        made.mkdir()
        client = client_of(source)
        if source.writes_only:
            tokenizer = dialect = None
            serving = serving_of_writer(client, source.served_as)
        else:
            _copy_tokenizer(source, made)
            tokenizer = load_tokenizer(made)
            dialect = _dialect(source, tokenizer)
            serving = dialect.serving(client, source.served_as)
        # what a tree depends on; how many requests are under way is not among it
        asked = {key: source.about[key] for key in ("source", "api", "tokens")}
        write_json(asked | asdict(serving), made / SERVER)
        files = {path.name: sha256_of(path) for path in sorted(made.iterdir())}
        versions = {source.api: serving.version}
        record = {"serving": asdict(serving), "versions": versions, "files": files}
        write_json(source.about | record, made / PROVENANCE)
        if not source.writes_only:
            _ask_once(_served(made, source, tokenizer, client, dialect, serving))
        if directory.exists():
            directory.rename(Path(scratch, "replaced"))
        made.rename(directory)


def connect_model(directory: str | Path) -> "ServedModel":
    """The served model of a directory, if its server still serves it.

    Raises:
        ChecksumMismatch: a file of the directory has changed.
        ConfigError: there is no key in the environment.
        SourceUnavailable: the server does not answer, or serves something else now.
        UnusableModel: the tokenizer is not that of the server's model.
    """
    directory = Path(directory)
    source, fetched = _recorded(directory)
    if source.writes_only:
        raise ConfigError(
            f"{directory.name} is asked by {source.api}, which only writes texts; a tree needs "
            "distributions, as vLLM and llama.cpp tell them"
        )
    client, tokenizer = client_of(source), load_tokenizer(directory)
    dialect = _dialect(source, tokenizer)
    demand_same(fetched, dialect.serving(client, source.served_as), source.address)
    return _served(directory, source, tokenizer, client, dialect, fetched)


def connect_writer(directory: str | Path) -> ServedWriter:
    """What writes the texts of a directory's served model, if its server still serves it.

    Raises:
        ChecksumMismatch: a file of the directory has changed.
        ConfigError: there is no key in the environment, or the server serves another model now.
        SourceUnavailable: the server does not answer.
    """
    directory = Path(directory)
    source, fetched = _recorded(directory)
    client = client_of(source, MOST_BYTES_OF_TEXT)
    serving = serving_of_writer(client, source.served_as)
    if serving.model != fetched.model:
        demand_same(fetched, serving, source.address)
    return ServedWriter(directory.name, client, fetched.model, source.api, source.tokens)


def is_served(directory: str | Path) -> bool:
    """Whether a model directory is that of a served model."""
    return (Path(directory) / SERVER).is_file()


def _recorded(directory: Path) -> tuple[ServerSource, Serving]:
    """Where a directory's model is served, and what the server said when it was fetched."""
    checked_checksums(directory)
    record = read_json(directory / PROVENANCE)
    tokenizer = record["tokenizer"]
    source = ServerSource(
        parse_source(record["source"]),
        tokenizer=None if tokenizer is None else parse_source(tokenizer),
        **{key: record[key] for key in ("api", "tokens", "served_as", "key_from")},
        **{key: record[key] for key in ("requests", "seconds")},
    )
    return source, Serving(**record["serving"])


def client_of(source: ServerSource, most_bytes: int = MOST_BYTES) -> ServerClient:
    """What asks the server of a source; `most_bytes` are those of one answer.

    Raises:
        ConfigError: the environment variable that should hold the key is not set.
    """
    key = None
    if source.key_from is not None:
        key = os.environ.get(source.key_from)
        if not key or not key.isascii() or not key.isprintable():
            raise ConfigError(
                f"key_from is {source.key_from}, but the environment variable {source.key_from} "
                "holds no key: set it to the key for the server"
            )
    return ServerClient(source.address, key, source.requests, source.seconds, most_bytes)


def _served(
    directory: Path,
    source: ServerSource,
    tokenizer: "PreTrainedTokenizerBase",
    client: ServerClient,
    dialect: Dialect,
    serving: Serving,
) -> "ServedModel":
    """The served model of a directory, after the tokenizer was probed."""
    for probe in PROBES:
        own = tokenizer(probe, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        theirs = dialect.tokens_of(client, serving.model, probe)
        if own != theirs:
            raise UnusableModel(
                f"the tokenizer in {source.tokenizer} is not that of {serving.model} at "
                f"{source.address}: it reads {probe!r} as {own}, and the server as {theirs}"
            )
    from llmchecker.serving.served import ServedModel

    size = _vocabulary_size(directory, tokenizer)
    if serving.vocabulary_size not in (None, size):
        raise UnusableModel(
            f"{serving.model} at {source.address} has {serving.vocabulary_size} tokens, and what "
            f"is in {source.tokenizer} is of a model with {size}"
        )
    return ServedModel(
        name=directory.name,
        tokenizer=tokenizer,
        end_tokens=_end_tokens(directory, tokenizer),
        vocabulary_size=size,
        told=source.tokens,
        client=client,
        dialect=dialect,
        serving=serving,
        files=checked_checksums(directory),
    )


def _ask_once(model: "ServedModel") -> None:
    """Ask about one text, so that a server that tells too few tokens is refused at once."""
    import numpy as np

    tokens = model.encode(PROBES[0])
    list(model.continuations(tokens).map(len, np.empty((1, 0), dtype=np.int64)))


def _copy_tokenizer(source: ServerSource, made: Path) -> None:
    place = source.tokenizer.path
    if not any((place / name).is_file() for name in TOKENIZER_FILES):
        raise ConfigError(
            f"tokenizer is {source.tokenizer}, but {place} holds no tokenizer; one of "
            f"{', '.join(TOKENIZER_FILES)} must be there"
        )
    for name in COPIED:
        if (place / name).is_file():
            shutil.copyfile(place / name, made / name)


def _dialect(source: ServerSource, tokenizer: "PreTrainedTokenizerBase") -> Dialect:
    if source.api == "vllm":
        return Vllm()
    return LlamaCpp(tokenizer("a", add_special_tokens=False)["input_ids"][0])


def _vocabulary_size(directory: Path, tokenizer: "PreTrainedTokenizerBase") -> int:
    """The tokens of the network, whose table may be larger than that of the tokenizer."""
    if not (directory / MODEL_CONFIG).is_file():
        return len(tokenizer)
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    return config.get_text_config().vocab_size


def _end_tokens(directory: Path, tokenizer: "PreTrainedTokenizerBase") -> frozenset[int]:
    """The tokens that end a text: those of the model's configuration, or else the tokenizer's."""
    candidates = []
    for name in (GENERATION, MODEL_CONFIG):
        if (directory / name).is_file():
            candidates.append(read_json(directory / name).get("eos_token_id"))
    candidates += [tokenizer.eos_token_id, tokenizer.sep_token_id]
    chosen = next((tokens for tokens in candidates if tokens is not None), [])
    return frozenset(chosen if isinstance(chosen, list) else [chosen])
