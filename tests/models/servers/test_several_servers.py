"""Several servers with one model share its requests."""

from dataclasses import replace

import pytest
from helpers.fake_server import FakeServer, Status, raising, running
from helpers.served_models import QUICK, TOLD, connected, fake

from llmchecker.errors import ConfigError, SourceUnavailable
from llmchecker.models.servers.connection import connect_model
from llmchecker.models.servers.http_client import ServerClient
from llmchecker.models.servers.settings import ServerSource
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import Truncation

TRUNCATION = Truncation(1.0, TOLD, 3)


def copy(server: FakeServer) -> FakeServer:
    """Another server of the same model."""
    return FakeServer(server.model, server.tokenizer, server.dialect)


@pytest.mark.parametrize("fault", [None, raising(lambda: Status(503, {"error": "busy"}))])
def test_servers_share_the_texts_and_one_that_fails_loses_none(tmp_path, fault):
    """The tree is that of one server; texts of a failing server go to the other."""
    first = fake(tmp_path, "vllm")
    second = copy(first)
    with running(first) as address, running(second) as other:
        model = connected(tmp_path, first, address, servers=(other,), requests=2)
        assert model.client.source.concurrency == 4
        second.fault = fault
        tree = build_tree(model, "ab", TRUNCATION)
    (tmp_path / "alone").mkdir()
    server = fake(tmp_path / "alone", "vllm")
    with running(server) as alone:
        expected = build_tree(connected(tmp_path / "alone", server, alone), "ab", TRUNCATION)
    assert tree.probability.tolist() == expected.probability.tolist()
    assert tree.token.tolist() == expected.token.tolist()
    assert first.asked
    if fault is None:
        assert second.asked


def test_each_server_must_have_the_model(tmp_path):
    """A server of another version is refused by its own address, on fetch and before a run."""
    first = fake(tmp_path, "vllm")
    second = copy(first)
    with running(first) as address, running(second) as other:
        second.version = "9"
        with pytest.raises(SourceUnavailable, match=f"{other}: version was '1.2.3' and is '9'"):
            connected(tmp_path, first, address, servers=(other,))
        second.version = first.version
        connected(tmp_path, first, address, servers=(other,))
        second.version = "9"
        with pytest.raises(SourceUnavailable, match=f"{other}: version was"):
            connect_model(tmp_path / "table", replace(QUICK, attempts=1))


@pytest.mark.parametrize("servers", [("host:8000",), ("http://a/",), ("http://b", "http://b")])
def test_addresses_are_those_of_different_servers(servers):
    """An address without a scheme, and one that is given twice, are refused by the key."""
    with pytest.raises(ConfigError, match=r"servers: .* is not a list of http"):
        ServerSource(
            parse_source("server:http://a"), "vllm", parse_source("path:t"), servers=servers
        )


def test_a_record_has_the_servers(tmp_path):
    """A source is the same after its record is read, and that of one server has no such key."""
    tokenizer = parse_source("path:t")
    source = ServerSource(parse_source("server:http://a"), "vllm", tokenizer, servers=("http://b",))
    assert ServerSource.from_record(source.record) == source
    assert "servers" not in replace(source, servers=()).record
    assert source.select_server("http://b").address == "http://b"


def test_the_text_of_a_client_has_no_key():
    """Nothing that writes a client, such as a traceback with its variables, contains the key."""
    source = ServerSource(parse_source("server:http://127.0.0.1:9"), "openai-chat")
    assert "a secret" not in repr(ServerClient(source, "a secret"))
