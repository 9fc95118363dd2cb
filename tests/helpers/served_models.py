"""Served models of random tables behind fake servers, and trees compared with those in process."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from helpers.conversations import ChatTable
from helpers.fake_server import FakeServer, save_tokenizer
from helpers.random_tables import table_model
from tokenizers import normalizers
from transformers import AutoTokenizer

from llmchecker.models.continuation import Continuation, ContinuationTask
from llmchecker.models.interface import TopLogprobsPrefix
from llmchecker.models.servers.connection import connect_model, fetch_served_model
from llmchecker.models.servers.http_client import RequestLimits
from llmchecker.models.servers.served_model import ServedModel
from llmchecker.models.servers.settings import ServerSource
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.trees.text_tree import StateKind, TextTree

DIALECTS = ("vllm", "llama.cpp")
TOLD = 3
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<m>' if m['role'] == 'assistant' else '<u>' }}{{ m['content'] }}"
    "{% endfor %}{% if add_generation_prompt %}<m>{% endif %}"
)
"""The marks of `ChatTable`."""
QUICK = RequestLimits(first_pause_seconds=0.001)
"""The usual limits, without pauses that a test would wait for."""


def fake(tmp_path: Path, dialect: str, seed: int = 0) -> FakeServer:
    """A server of a random table, whose tokenizer is in a directory."""
    model = table_model(seed)
    directory = save_tokenizer(model, tmp_path / "tokenizer")
    return FakeServer(model, AutoTokenizer.from_pretrained(directory), dialect)


def fake_chat(tmp_path: Path, table: ChatTable, dialect: str) -> FakeServer:
    """A server of a table that answers chats, whose tokenizer writes them as the table does."""
    directory = save_tokenizer(table, tmp_path / "tokenizer")
    tokenizer = AutoTokenizer.from_pretrained(directory)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<u>", "<m>"]})
    tokenizer.chat_template = CHAT_TEMPLATE
    # other letters than those of the table have a token too
    others = [normalizers.Replace("A", "c"), normalizers.Replace("B", "a")]
    tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(others)
    tokenizer.save_pretrained(directory)
    return FakeServer(table, AutoTokenizer.from_pretrained(directory), dialect)


def connected(
    tmp_path: Path,
    server: FakeServer,
    address: str,
    limits: RequestLimits = QUICK,
    **settings,
) -> ServedModel:
    """The model of a server, fetched without a fault and then asked."""
    settings = {"tokens": TOLD, "requests": 3, "seconds": 0.5} | settings
    tokenizer = parse_source(f"path:{tmp_path / 'tokenizer'}")
    source = ServerSource(parse_source(f"server:{address}"), server.dialect, tokenizer, **settings)
    fault, server.fault = server.fault, None
    fetch_served_model(source, tmp_path / "table", limits)
    model = connect_model(tmp_path / "table", limits)
    server.fault, server.asked = fault, []
    return model


def text_source(address: str, **settings) -> ServerSource:
    """A server that returns texts alone."""
    return ServerSource(parse_source(f"server:{address}"), "openai-chat", **settings)


def continue_texts(
    prefix: TopLogprobsPrefix, tasks: Sequence[ContinuationTask]
) -> Iterator[Continuation]:
    """The continuations of tasks, by a stream of their own."""
    with prefix.open_stream() as stream:
        yield from stream.continue_texts(tasks)


def states(tree: TextTree) -> dict[tuple, tuple[float, str | None]]:
    """Probability and text of every state by its tokens; a rest of 1e-12 may be rounding."""
    tokens: list[tuple[int, ...]] = []
    for parent, token in zip(tree.parent.tolist(), tree.token.tolist(), strict=True):
        tokens.append((*tokens[parent], token) if parent >= 0 else ())
    return {
        path: (probability, text)
        for path, probability, text, kind in zip(
            tokens, tree.probability.tolist(), tree.text, tree.kind.tolist(), strict=True
        )
        if kind != StateKind.REST or probability > 1e-12
    }


def assert_same(tree: TextTree, expected: TextTree) -> None:
    """Two trees have the same states, with probabilities that differ by rounding of logarithms."""
    found, wanted = states(tree), states(expected)
    assert found.keys() == wanted.keys()
    for path, (probability, text) in wanted.items():
        assert math.isclose(found[path][0], probability, rel_tol=1e-12, abs_tol=1e-12)
        assert found[path][1] == text
