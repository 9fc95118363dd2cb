"""Trees of served models: those of the same model in process, or none."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.fake_server import (
    Cut,
    FakeServer,
    Status,
    heads_changed,
    raising,
    running,
    slow,
    times,
)
from helpers.random_tables import END, START
from helpers.served_models import (
    DIALECTS,
    QUICK,
    TOLD,
    assert_same,
    connected,
    fake,
    states,
    text_source,
)

from llmchecker.errors import InvalidBound, InvalidDistribution, LLMCheckerError, SourceUnavailable
from llmchecker.models.servers.http_client import ServerClient
from llmchecker.models.servers.schema import ModelList
from llmchecker.trees.distribution_cache import DistributionCache
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import Truncation

LENGTH = 3
SINGLE = replace(QUICK, texts=1)
"""A text in each request, so that there are many."""


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("truncation", [(0.7, 2), (1.0, TOLD), (1.0, END + 1)])
def test_a_served_tree_is_that_of_the_table(tmp_path, dialect, truncation):
    """A server that answers rightly gives the tree that its table gives in process."""
    truncation = Truncation(*truncation, LENGTH)
    for seed in range(4):
        server = fake(tmp_path, dialect, seed)
        with running(server) as address:
            model = connected(tmp_path, server, address, tokens=max(TOLD, truncation.k))
            tree = build_tree(model, START, truncation)
        assert_same(tree, build_tree(server.model, START, truncation))


HARMLESS = {
    "429": raising(lambda: Status(429, Retry_After="0")),
    "500": raising(lambda: Status(500, {"error": {"message": "out of memory"}})),
    "503": raising(lambda: Status(503, b"loading")),
    "cut": raising(Cut),
    "slow": slow(0.8),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", HARMLESS)
def test_what_may_be_retried_changes_no_tree(tmp_path, dialect, name):
    """A server that is busy, fails, hangs up or is too slow at first gives the right tree."""
    server = fake(tmp_path, dialect)
    server.fault = times(3, HARMLESS[name])
    with running(server) as address:
        model = connected(tmp_path, server, address)
        tree = build_tree(model, START, Truncation(1.0, TOLD, LENGTH))
    assert_same(tree, build_tree(server.model, START, Truncation(1.0, TOLD, LENGTH)))


WRONG = {
    "more than 1": heads_changed(lambda head: [[t, 0.0] for t, _ in head]),
    "above 1": heads_changed(lambda head: [[head[0][0], 0.7], *head[1:]]),
    "NaN": heads_changed(lambda head: [*head[:-1], [head[-1][0], math.nan]]),
    "text": heads_changed(lambda head: [*head[:-1], [head[-1][0], "low"]]),
    "out of range": heads_changed(lambda head: [*head[:-1], [END + 1, head[-1][1]]]),
    "repeated": heads_changed(lambda head: [*head[:-1], head[0]]),
    "too few": heads_changed(lambda head: head[:-1]),
    "too many": heads_changed(lambda head: [*head, [END, -50.0]] * 2),
    "not JSON": lambda server, answer: b"<html>",
    "a list": lambda server, answer: [1, 2],
    "null": lambda server, answer: None,
    "redirect": raising(lambda: Status(307, Location="http://example.org/v1/completions")),
    "gone": raising(lambda: Status(404, {"error": {"message": "no such model"}})),
    "too long": raising(lambda: Status(400, {"error": {"message": "exceeds the context"}})),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_gives_no_tree(tmp_path, dialect, name):
    """An answer that is no head of a distribution is refused, naming the server and the text."""
    server = fake(tmp_path, dialect)
    with running(server) as address:
        model = connected(tmp_path, server, address)
        server.fault = WRONG[name]
        with pytest.raises((InvalidDistribution, SourceUnavailable)) as caught:
            build_tree(model, START, Truncation(1.0, TOLD, LENGTH))
    assert address in str(caught.value)
    assert "after 'a'" in str(caught.value)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_about_another_text_is_refused(tmp_path, dialect):
    """A server that cuts a text, or puts a token before it, is found out by how many it read."""

    def longer(server: FakeServer, answer):
        if dialect == "vllm":
            answer["usage"]["prompt_tokens"] += 1
        else:
            answer["tokens_evaluated"] += 1
        return answer

    def truncated(server: FakeServer, answer):
        return answer | {"truncated": True}

    server = fake(tmp_path, dialect)
    with running(server) as address:
        model = connected(tmp_path, server, address)
        for fault in [longer] if dialect == "vllm" else [longer, truncated]:
            server.fault = fault
            with pytest.raises(InvalidDistribution):
                build_tree(model, START, Truncation(1.0, TOLD, 1))


def test_a_server_that_goes_on_failing_is_given_up(tmp_path):
    """After the last attempt one message says what the server did, and nothing goes on."""
    server = fake(tmp_path, "vllm")
    with running(server) as address:
        model = connected(tmp_path, server, address)
        server.fault = raising(lambda: Status(503, {"error": {"message": "overloaded"}}))
        with pytest.raises(SourceUnavailable, match=r"6 attempts.*status 503.*overloaded"):
            build_tree(model, START, Truncation(1.0, TOLD, 1))


def test_a_server_that_is_not_there_is_named():
    """Where nothing listens one message says so after the last attempt."""
    nowhere = ServerClient(text_source("http://127.0.0.1:1", seconds=0.5), None, QUICK)
    with pytest.raises(SourceUnavailable, match=r"127\.0\.0\.1:1\b.*6 attempts.*Cannot connect"):
        nowhere.run(lambda session: session.request(ModelList, "/v1/models"))


def test_what_was_answered_before_a_server_stops_is_not_asked_again(tmp_path):
    """The next run asks about the other texts alone, and grows the same tree."""
    server = fake(tmp_path, "vllm")
    truncation = Truncation(1.0, TOLD, 4)
    store = DistributionCache(tmp_path / "store", 2**30)
    with running(server) as address:
        model = connected(tmp_path, server, address, SINGLE, requests=1)
        prompt = model.encode(START)
        left = iter(range(12))

        def stops(server: FakeServer, answer):
            if next(left, None) is None:
                raise Status(404, b"stopped")
            return answer

        server.fault = stops
        with pytest.raises(LLMCheckerError, match="stopped"):
            build_tree(
                model,
                START,
                truncation,
                distributions=store.open_distributions("model", prompt, 0.0),
            )
        server.fault, first, server.asked = None, server.asked, []
        tree = build_tree(
            model, START, truncation, distributions=store.open_distributions("model", prompt, 0.0)
        )
        again = set(first) & set(server.asked)
        assert len(first) == 12
        assert len(again) <= 2  # answers that were under way
        server.asked = []
        build_tree(
            model, START, truncation, distributions=store.open_distributions("model", prompt, 0.0)
        )
        assert server.asked == []
    assert_same(tree, build_tree(server.model, START, truncation))


def test_requests_run_side_by_side_but_not_too_many(tmp_path):
    """As many requests are under way as the settings say, and no more."""
    server = fake(tmp_path, "llama.cpp")
    with running(server) as address:
        model = connected(tmp_path, server, address, SINGLE, requests=3, seconds=5)
        server.fault, server.most_under_way = slow(0.05), 0
        build_tree(model, START, Truncation(1.0, TOLD, LENGTH))
    assert server.most_under_way == 3


def test_more_tokens_than_are_told_are_refused(tmp_path):
    """A k above what the server is asked for is refused by name instead of cut."""
    server = fake(tmp_path, "vllm")
    with running(server) as address:
        model = connected(tmp_path, server, address)
        with pytest.raises(InvalidBound, match="`tokens`"):
            build_tree(model, START, Truncation(0.5, TOLD + 1, 1))


def test_a_text_that_is_too_long_is_refused_before_it_is_sent(tmp_path):
    """A prompt that leaves no room on the server is refused with both lengths."""
    server = fake(tmp_path, "vllm")
    with running(server) as address:
        model = connected(tmp_path, server, address)
        with pytest.raises(LLMCheckerError, match=r"at most 64 tokens.*67"):
            build_tree(model, "a" * 63, Truncation(1.0, TOLD, 4))
    assert server.asked == []


def test_a_head_that_adds_up_to_1_but_for_rounding_leaves_no_negative_rest(tmp_path):
    """Logarithms that are rounded to float32 give probabilities that add up to 1 at most."""

    def rounded(head):
        return [[t, float(np.float32(p) + np.float32(1e-6))] for t, p in head]

    server = fake(tmp_path, "llama.cpp")
    with running(server) as address:
        model = connected(tmp_path, server, address, tokens=END + 1)
        server.fault = heads_changed(rounded)
        tree = build_tree(model, START, Truncation(1.0, END + 1, 2))
    expected = states(build_tree(server.model, START, Truncation(1.0, END + 1, 2)))
    found = states(tree)
    assert found.keys() == expected.keys()
    assert all(abs(found[path][0] - expected[path][0]) < 1e-6 for path in expected)


def test_the_record_of_a_served_model_names_model_and_version(tmp_path):
    """What is kept of a server says which model of which version answered."""
    server = fake(tmp_path, "vllm")
    with running(server) as address:
        connected(tmp_path, server, address)
    record = json.loads((tmp_path / "table/source.json").read_text(encoding="utf-8"))
    assert record["source"] == f"server:{address}"
    assert record["serving"]["model"] == "table"
    assert record["versions"] == {"vllm": "1.2.3"}
