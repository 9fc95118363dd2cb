"""Lying servers: their answers end in the right tree or in an error that names the server."""

import gzip
import random
import signal
import socket
import threading
import time
import tracemalloc
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from helpers.fake_server import FakeServer, Raw, Status, heads_changed, raising, running
from helpers.random_tables import END, START
from helpers.served_models import (
    DIALECTS,
    QUICK,
    TOLD,
    assert_same,
    connected,
    continue_texts,
    fake,
    text_source,
)

import llmchecker as lc
from llmchecker.errors import LLMCheckerError, SourceUnavailable
from llmchecker.models.continuation import ContinuationTask
from llmchecker.models.servers.apis import ServedModelInfo, check_sampled_token, check_unchanged
from llmchecker.models.servers.http_client import ServerClient
from llmchecker.models.servers.schema import ModelList
from llmchecker.models.servers.top_logprobs import TopLogprobs
from llmchecker.models.table_model import TableModel
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import Truncation

TRUNCATION = Truncation(1.0, TOLD, 2)
SWAPPED = [None, True, -1, 0.5, "1", [], {}, 10**400, -(10**400), "\x1b[31m", "\ud800", [[[]]]]
QUERY = "P=? [ F b > 0 ]"
ONCE = replace(QUICK, attempts=1)


def request_models(address: str, seconds: float) -> ModelList:
    """The models of a server, from one attempt."""
    client = ServerClient(text_source(address, requests=1, seconds=seconds), None, ONCE)
    return client.run(lambda session: session.request(ModelList, "/v1/models"))


def b(start: str, continuation: str) -> int:
    return continuation.count("b")


def chance_of_b(model: TableModel, tokens: tuple[int, ...], length: int) -> float:
    """The probability that one of the next tokens is b, added up over all texts."""
    if length == 0:
        return 0.0
    probabilities = list(model.distribution(tokens))
    letter = model.vocabulary.index("b")
    others = (token for token in range(END) if token != letter)
    return probabilities[letter] + sum(
        probabilities[token] * chance_of_b(model, (*tokens, token), length - 1) for token in others
    )


def check_message(said: str, address: str) -> None:
    """Demand that a message names the server, is one short line and controls no terminal."""
    if address not in said or not said.isprintable() or len(said.split()) > 45:
        pytest.fail(said)


def _numbered(indices):
    def fault(server: FakeServer, answer):
        entries = answer["choices"] if server.dialect == "vllm" else answer
        for entry, index in zip(
            entries if isinstance(entries, list) else [entries], indices, strict=False
        ):
            entry["index"] = index
        return answer

    return fault


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "indices", [(0, 0, 0), (-3, -2, -1), ("0", "1", "2"), (0, 0.5, 2), (2, 1, 0), (0.0, 1, 2)]
)
def test_answers_must_be_numbered_in_order(tmp_path, dialect, indices):
    """Indices other than 0 to n - 1 in order are refused, and the server is named."""
    server = fake(tmp_path, dialect)
    with running(server) as address:
        model = connected(tmp_path, server, address)
        server.fault = _numbered(indices)
        suffixes = np.array([[0], [1], [2]])
        with pytest.raises(LLMCheckerError, match=address):
            list(
                model.open_prefix(model.encode(START)).map_next(lambda _, part: len(part), suffixes)
            )


def test_a_head_of_the_whole_vocabulary_chooses_by_inversion():
    """A whole head chooses tokens in their order, in proportion to their probabilities."""
    head = TopLogprobs(np.array([[2, 0, 1]]), np.array([[0.5, 0.25, 0.25]]), 3)
    numbers = np.array([0.0, 0.3, 0.6, 0.99])
    assert head.sample_by_inversion(0, numbers).tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("tokens", [TOLD, END + 1])
def test_a_question_about_a_served_model_is_answered_with_the_truth(tmp_path, dialect, tokens):
    """Bounds and estimate about a served model hold the truth of the table behind the server."""
    for seed in range(3):
        server = fake(tmp_path / str(seed), dialect, seed)
        truth = chance_of_b(server.model, tuple(server.model.encode(START)), 4)
        with running(server) as address:
            model = connected(tmp_path / str(seed), server, address, tokens=tokens, seconds=5)
            answer = lc.ask(QUERY, model, START, length=4, passes=60, b=b)
        assert answer.lower - 1e-9 <= truth <= answer.upper + 1e-9
        assert answer.low - 1e-9 <= truth <= answer.high + 1e-9
        # a tree of the whole vocabulary may decide every text
        assert answer.samples > 0 or answer.upper - answer.lower < 1e-9


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_servers_write_for_a_logarithm_of_0_is_probability_0(tmp_path, dialect):
    """The least numbers that vLLM and llama.cpp write stand for 0, and null for no probability."""
    server = fake(tmp_path, dialect)
    text = tuple(server.model.encode(START))
    chances = list(server.model.distribution(text))
    with running(server) as address:
        model = connected(tmp_path, server, address, tokens=END + 1)
        for least in (-9999.0, -3.4028234663852886e38, -9999):
            server.fault = heads_changed(
                lambda head, least=least: [[t, p if p > -50 else least] for t, p in head]
            )
            (heads,) = model.open_prefix(text).map_next(lambda _, part: part, np.empty((1, 0), int))
            assert heads.probabilities()[0].tolist() == pytest.approx(chances, abs=1e-12)
        server.fault = heads_changed(lambda head: [*head[:-1], [head[-1][0], None]])
        with pytest.raises(SourceUnavailable, match="logprob"):
            list(model.open_prefix(text).map_next(lambda _, part: len(part), np.empty((1, 0), int)))


def _mutated(value, generator):
    """A value of JSON with one part of it replaced or left out."""
    if not value or not isinstance(value, dict | list) or generator.random() < 0.1:
        # another logarithm of a probability is a lie that nobody can find
        found = [v for v in SWAPPED if not (isinstance(value, float) and v == -1)]
        return generator.choice(found)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = generator.choice(keys)
    copy = value.copy()
    if generator.random() < 0.2:
        del copy[key]
    else:
        copy[key] = _mutated(value[key], generator)
    return copy


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("seed", range(3))
def test_mutated_answers_give_the_truth_or_name_the_server(tmp_path, dialect, seed):
    """Whatever part of an answer is replaced, tree and bounds are right or an error names it."""
    server = fake(tmp_path, dialect)
    expected = build_tree(server.model, START, TRUNCATION)
    truth = chance_of_b(server.model, tuple(server.model.encode(START)), 2)
    with running(server) as address:
        model = connected(tmp_path, server, address, seconds=5)
        for number in range(20):
            # the same fault of the same answer, in whatever order requests arrive
            server.fault = lambda server, answer, number=number: _mutated(
                answer, random.Random(repr((seed, number, answer)))
            )
            try:
                tree = build_tree(model, START, TRUNCATION)
                answer = lc.ask(QUERY, model, START, length=2, passes=20, certain=True, b=b)
            except LLMCheckerError as error:
                check_message(str(error), address)
            else:
                assert_same(tree, expected)
                assert answer.lower - 1e-9 <= truth <= answer.upper + 1e-9


@pytest.mark.parametrize("dialect", DIALECTS)
def test_mutated_descriptions_connect_or_name_the_server(tmp_path, dialect, monkeypatch):
    """Whatever a server writes about itself, the model connects or an error names the server."""
    server, generator = fake(tmp_path, dialect), random.Random(0)
    got, posted = server.got, server.posted
    with running(server) as address:
        for _ in range(40):
            faulty = generator.choice(["/v1/models", "/version", "/props", "/tokenize"])

            def changed(path, answer, faulty=faulty):
                return _mutated(answer, generator) if path == faulty else answer

            monkeypatch.setattr(server, "got", lambda path, c=changed: c(path, got(path)))
            monkeypatch.setattr(
                server, "posted", lambda path, asked, c=changed: c(path, posted(path, asked))
            )
            try:
                connected(tmp_path, server, address)
            except LLMCheckerError as error:
                check_message(str(error), address)


BODIES = {
    "gzip": raising(lambda: Status(200, b"{}", Content_Encoding="gzip")),
    "deflate": raising(lambda: Status(200, b"{}", Content_Encoding="deflate")),
    "utf-8": raising(lambda: Status(200, b'{"choices": "\xff"}')),
    "nested": raising(lambda: Status(200, b"[" * 100_000)),
    "NaN": raising(lambda: Status(200, b"NaN")),
    "digits": raising(lambda: Status(200, b"9" * 5000)),
    "twice": raising(lambda: Status(200, b'{"a": 1, "a": 2}')),
    "nowhere": raising(lambda: Status(302)),
    "redirect": raising(lambda: Status(302, Location="http://[")),
    "elsewhere": raising(lambda: Status(308, Location="file:///etc/passwd")),
    "escapes": raising(lambda: Status(400, {"error": {"message": "\x1b[2J\x1c\u202e"}})),
    "pages": raising(lambda: Status(400, {"error": {"message": "word " * 9999}})),
    "wait": raising(lambda: Status(503, b"", Retry_After="-1")),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies_that_are_no_answer_name_the_server(tmp_path, name):
    """A damaged body ends in an error without control characters that names the server."""
    server = fake(tmp_path, "vllm")
    with running(server) as address:
        model = connected(tmp_path, server, address)
        server.fault = BODIES[name]
        with pytest.raises(LLMCheckerError) as caught:
            build_tree(model, START, TRUNCATION)
    check_message(str(caught.value), address)


OK = b"HTTP/1.1 200 OK\r\n"
REPLIES = {
    "a cut chunk": [OK, b"Transfer-Encoding: chunked\r\n\r\nff\r\n{"],
    "no length of a chunk": [OK, b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"],
    "no last chunk": [OK, b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"],
    "too long": [OK, b"Content-Length: 99\r\n\r\n{}"],
    "too short": [OK, b"Content-Length: 1\r\n\r\n{}"],
    "negative": [OK, b"Content-Length: -1\r\n\r\n{}"],
    "two lengths": [OK, b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"],
    "no HTTP": [b"SSH-2.0-OpenSSH\r\n"],
    "nothing": [],
    "no body": [b"HTTP/1.1 204 No Content\r\n\r\n"],
    "another protocol": [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n{}"],
    "a long header": [OK, b"X: " + b"a" * 10**6 + b"\r\n\r\n{}"],
    "a broken header": [OK, b"\x00\x1b: \xff\r\n\r\n{}"],
    "a cookie": [OK, b"Set-Cookie: =;;;\xff\r\nContent-Length: 2\r\n\r\n{}"],
    "a status": [b"HTTP/1.1 999 \x1b[2J\r\n\r\n"],
    "a redirect": [b"HTTP/1.1 302 x\r\nLocation: \x1b[2J\xff\r\nContent-Length: 0\r\n\r\n"],
}


@pytest.mark.parametrize("name", REPLIES)
def test_replies_that_are_no_http_name_the_server(tmp_path, name):
    """Cut chunks, wrong lengths and broken headers end in an error that names the server."""
    server = fake(tmp_path, "vllm")
    with running(server) as address:
        model = connected(tmp_path, server, address, replace(QUICK, attempts=2))
        server.fault = raising(lambda: Raw(REPLIES[name]))
        with pytest.raises(LLMCheckerError) as caught:
            build_tree(model, START, TRUNCATION)
    check_message(str(caught.value), address)


ENDLESS = {
    "a body": ([OK, b"\r\n"], b" " * 1000),
    "chunks": ([OK, b"Transfer-Encoding: chunked\r\n\r\n"], b"1\r\n \r\n" * 100),
    "headers": ([OK], b"X: y\r\n"),
    "first answers": ([], b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_replies_without_end_are_given_up(tmp_path, name):
    """A reply without end ends at a limit of bytes or seconds, in an error about the server."""
    first, part = ENDLESS[name]
    patience = []

    def reply():
        yield from first
        until = time.monotonic() + 20
        while time.monotonic() < until:
            yield part
        patience.append("the client never hung up")

    server = fake(tmp_path, "vllm")
    with running(server) as address:
        model = connected(tmp_path, server, address)
        model.client = replace(model.client, limits=replace(ONCE, max_bytes=100_000))
        server.fault = raising(lambda: Raw(reply()))
        with pytest.raises(SourceUnavailable) as caught:
            build_tree(model, START, TRUNCATION)
    check_message(str(caught.value), address)
    assert patience == []


@pytest.mark.parametrize("codings", [1, 2])
def test_a_small_body_that_inflates_takes_no_memory(tmp_path, codings):
    """A compressed body is refused by the server's name before it fills the memory."""
    body = b" " * 10**8
    for _ in range(codings):
        body = gzip.compress(body)
    server = fake(tmp_path, "vllm")
    with running(server) as address:
        limits = replace(QUICK, max_bytes=10**6)
        model = connected(tmp_path, server, address, limits, requests=1)
        coding = ", ".join(["gzip"] * codings)
        server.fault = raising(lambda: Status(200, body, Content_Encoding=coding))
        tracemalloc.start()
        try:
            with pytest.raises(SourceUnavailable) as caught:
                build_tree(model, START, TRUNCATION)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    check_message(str(caught.value), address)
    assert peak < 10**7


def test_an_echoed_key_is_in_no_message(tmp_path, monkeypatch):
    """A server that repeats the key in a redirect, a coding or an error leaves no trace of it."""
    monkeypatch.setenv("LYING_KEY", "5ecret")
    server = fake(tmp_path, "vllm")
    with running(server) as address:
        model = connected(tmp_path, server, address, key_from="LYING_KEY")
        for told in (
            Status(302, Location="http://5ecret/"),
            Status(200, b"{}", Content_Encoding="5ecret"),
            Status(400, {"error": {"message": "5ecret"}}),
        ):
            server.fault = raising(lambda told=told: told)
            with pytest.raises(LLMCheckerError) as caught:
                build_tree(model, START, TRUNCATION)
            assert "5ecret" not in str(caught.value)
            check_message(str(caught.value), address)


@pytest.mark.parametrize(
    ("dialect", "path", "answer"),
    [
        ("vllm", "/v1/models", {"data": [{"id": "table", "max_model_len": "64"}]}),
        ("vllm", "/v1/models", {"data": [{"id": "\x1b[2J"}]}),
        ("llama.cpp", "/v1/models", {"data": [{"id": "table", "meta": [1]}]}),
        ("vllm", "/tokenize", None),
        ("vllm", "/tokenize", {"tokens": [END] * 9000}),
    ],
)
def test_lies_about_the_model_name_the_server(tmp_path, monkeypatch, dialect, path, answer):
    """A wrong description of the model ends in a short error that names the server."""
    server = fake(tmp_path, dialect)
    kind = "got" if path == "/v1/models" else "posted"
    right = getattr(server, kind)
    monkeypatch.setattr(
        server, kind, lambda asked, *rest: answer if asked == path else right(asked, *rest)
    )
    with running(server) as address:
        with pytest.raises(LLMCheckerError) as caught:
            connected(tmp_path, server, address)
        check_message(str(caught.value), address)


def test_changed_models_are_quoted():
    """Names of a server are short and without control characters in messages."""
    before, after = (
        ServedModelInfo("a", "1", 1, None),
        ServedModelInfo("\x1b[2J" + "b" * 999, "1", 1, None),
    )
    with pytest.raises(LLMCheckerError) as caught:
        check_unchanged(before, after, "http://a")
    check_message(str(caught.value), "http://a")
    assert len(str(caught.value)) < 300


TOKENS = [
    None,
    3,
    "5",
    "a",
    "token_id:",
    "token_id:-1",
    "token_id:01",
    "token_id:1.0",
    "token_id: 1",
    "token_id:\x1b[2J",
    "token_id:" + "9" * 99,
]


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_that_is_not_an_id_is_refused(tmp_path, token):
    """A sampled token of vLLM in any other form than `token_id:5` is an error with the server."""

    def fault(server: FakeServer, answer):
        answer["choices"][0]["logprobs"]["tokens"] = [token]
        return answer

    server = fake(tmp_path, "vllm")
    with running(server) as address:
        model = connected(tmp_path, server, address)
        server.fault = fault
        prefix = model.open_prefix(model.encode(START))
        with pytest.raises(LLMCheckerError, match=r"logprobs\.tokens\.0") as caught:
            list(continue_texts(prefix, [ContinuationTask((), 1, 7, (0,))]))
    check_message(str(caught.value), address)


@pytest.mark.parametrize(("token", "told"), [(END + 1, "is not from 0"), (0, "was sampled")])
def test_a_sampled_token_is_one_of_those_left(token, told):
    """A token outside the vocabulary, or one that the request excludes, is refused."""
    with pytest.raises(LLMCheckerError, match=told):
        check_sampled_token(token, [0], END + 1)


HEADERS_WITHOUT_END = b"HTTP/1.1 200 OK\r\nX: " + b"a" * 60
BODY_WITHOUT_END = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + b" " * 60


@pytest.mark.parametrize("reply", [HEADERS_WITHOUT_END, BODY_WITHOUT_END])
def test_replies_sent_a_byte_at_a_time_do_not_extend_the_deadline(reply):
    """An exchange whose headers or body never end is given up at its deadline."""
    sent = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def trickle():
            connection, _ = listener.accept()
            with connection:
                for byte in reply:
                    try:
                        connection.send(bytes([byte]))
                    except OSError:
                        return
                    sent.append(byte)
                    time.sleep(0.05)

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(SourceUnavailable, match="the answer takes too long"):
            request_models(address, 0.3)
        thread.join()
    assert len(sent) < len(reply)


def test_a_name_that_does_not_resolve_does_not_extend_the_deadline(monkeypatch):
    """An exchange that waits for a name server is given up at its deadline."""
    is_given_up, answers = threading.Event(), []

    def resolve(*arguments, **options):
        answers.append(is_given_up.wait(20))
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(SourceUnavailable, match="the answer takes too long"):
        request_models("http://server.invalid", 0.3)
    assert answers == []
    is_given_up.set()


def test_a_name_that_is_unknown_is_refused(monkeypatch):
    """A name that no name server knows ends in an error with the address."""

    def resolve(*arguments, **options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(SourceUnavailable, match=r"http://server\.invalid/v1/models.*not known"):
        request_models("http://server.invalid", 5)


@pytest.mark.parametrize("is_interrupted", [True, False])
def test_requests_that_are_no_longer_needed_end_at_once(tmp_path, is_interrupted):
    """An interrupt, or a caller that stops early, ends slow requests and their threads."""
    is_over = threading.Event()

    def fault(server: FakeServer, answer):
        is_over.wait(20)
        return answer

    server = fake(tmp_path, "vllm")
    with running(server) as address:
        model = connected(tmp_path, server, address, replace(QUICK, texts=1), seconds=30)
        before = set(threading.enumerate())
        suffixes = np.array([[0], [1], [2], [0]])
        results = model.open_prefix(model.encode(START)).map_next(
            lambda _, part: len(part), suffixes
        )
        next(results)
        server.fault = fault
        results = model.open_prefix(model.encode(START)).map_next(
            lambda _, part: len(part), np.tile(suffixes, (9, 1))
        )
        with pytest.raises(KeyboardInterrupt) if is_interrupted else nullcontext():
            if is_interrupted:
                main = threading.main_thread().ident
                threading.Timer(0.3, signal.pthread_kill, [main, signal.SIGINT]).start()
                next(results)
            else:
                results.close()
        # the server's own threads still wait
        own = set(threading.enumerate()) - before
        assert not [thread for thread in own if "process_request_thread" not in thread.name]
        assert not is_over.is_set()
        is_over.set()
