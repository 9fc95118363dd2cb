"""Applications behind HTTP: a body with placeholders, and pointers to the answer."""

from typing import Any

import pytest
import yaml
from helpers.fake_provider import FakeProvider, share
from helpers.fake_server import Status, running

import llmchecker as lc
from llmchecker.errors import ConfigError, InterruptedCheck, LLMCheckerError
from llmchecker.models.servers import text_client
from llmchecker.models.servers.http_client import RequestLimits
from llmchecker.suites.load import load_suite
from llmchecker.suites.session import run_suite
from llmchecker.suites.verdicts import Status as CaseStatus

BODY = {"question": "Please: {prompt}", "history": "{messages}", "limit": "{max_tokens}"}
KEYS = {"api": "json", "body": BODY, "answer": "/reply/text"}


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    """Repeat failed requests at once, and store answers in an empty folder."""
    options = text_client.TextClient.__init__.__kwdefaults__
    limits = RequestLimits(attempts=3, first_pause_seconds=0.001, max_bytes=10_000)
    monkeypatch.setitem(options, "limits", limits)
    monkeypatch.chdir(tmp_path)


def ask(address: str, answers: int = 60, **keys: Any) -> lc.Answer:
    """The probability that the application says yes."""
    model = lc.load({"source": f"{address}/ask", **KEYS, **keys})
    query = {"equals": "yes"}
    return lc.ask(query, model, user="Is it so?", system="Be brief.", length=9, answers=answers)


def test_the_body_has_the_values_of_a_request():
    """Each placeholder is replaced where it stands, headers are sent, and the answer is read."""
    provider = FakeProvider("json", share(0.5))
    with running(provider) as address:
        answer = ask(address)
    assert {path for path, _ in provider.questions} == {"/ask"}
    assert provider.questions[0][1] == {
        "question": "Please: Is it so?",
        "history": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Is it so?"},
        ],
        "limit": 9,
    }
    assert answer.low < 0.5 < answer.high
    assert answer.endings.counted == (0, 60)


def test_what_replaces_a_placeholder_is_data():
    """Braces of a prompt are no placeholders, and a key of the body is none."""
    provider = FakeProvider("json", share(0.5))
    with running(provider) as address:
        model = lc.load(
            {"source": f"{address}/ask", **KEYS, "body": {"{prompt}": "{prompt}{system}", "n": [1]}}
        )
        lc.ask({"equals": "yes"}, model, user="{system} {seed}", system="{prompt}", answers=1)
    assert provider.questions[0][1] == {"{prompt}": "{system} {seed}{prompt}", "n": [1]}


def test_the_reason_of_an_end_counts():
    """A pointer to the reason finds answers that are cut."""
    provider = FakeProvider("json", lambda drawn: ("yes", drawn.random() < 0.5))
    with running(provider) as address:
        answer = ask(address, finish="/reply/end")
    cut, count = answer.endings.counted
    assert 0 < cut < count == 60


def test_a_suite_gates_an_application(tmp_path):
    """A suite whose model is an application has verdicts, and a second run asks nothing."""
    provider = FakeProvider("json", share(1.0))
    case = {"user": "Is it so?", "require": [{"equals": "yes", "at_least": 0.5}]}
    with running(provider) as address:
        model = {"source": f"{address}/ask", **KEYS, "headers": {"X-Tenant": "a"}}
        path = tmp_path / "suite.yaml"
        path.write_text(yaml.safe_dump({"model": model, "length": 9, "cases": [case]}))
        results = [run_suite(load_suite(path)) for _ in range(2)]
    assert [result.results[0].status for result in results] == [CaseStatus.HOLDS] * 2
    assert len(provider.questions) < 40
    # another body would ask for other answers
    assert len({request[1]["question"] for request in provider.questions}) == 1


def test_another_pointer_reads_another_answer():
    """Stored answers are those of the pointers: a changed one asks the application again."""
    provider = FakeProvider("json", share(1.0))
    with running(provider) as address:
        assert ask(address, answers=9).low > 0.5
        assert ask(address, answers=9, answer="/reply/end").high < 0.5
        ask(address, answers=9, finish="/reply/end")
    assert len(provider.questions) == 27


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ({"reply": {}}, "answer: the response has nothing at '/reply/text'"),
        ({"reply": {"text": ["yes"]}}, r"answer: .* at '/reply/text' is no text"),
        ([], "answer: the response has nothing at '/reply/text'"),
    ],
)
def test_a_response_without_the_answer_is_named(reply, message):
    """A pointer that leads to nothing, or to no text, is an error, never the answer ""."""
    provider = FakeProvider("json", share(0.5))
    provider.fault = lambda server, right: reply
    with running(provider) as address, pytest.raises(LLMCheckerError, match=message):
        ask(address)


def test_an_application_that_fails_later_leaves_the_answer_so_far():
    """Its status is the error, and the answers before it are kept."""
    provider = FakeProvider("json", share(0.5))

    def fail(server, right):
        if len(server.questions) > 30:
            raise Status(418, {"error": {"message": "the index is gone"}})
        return right

    provider.fault = fail
    with (
        running(provider) as address,
        pytest.raises(InterruptedCheck, match="the index is gone") as caught,
    ):
        ask(address)
    assert caught.value.result.samples > 8


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"body": {"question": "who?"}}, "body: no place for the messages"),
        ({"answer": "reply"}, "answer: 'reply' is no JSON pointer; write /reply/text"),
        ({"finish": "/~2"}, "finish: '/~2' is no JSON pointer"),
        ({"api": "openai-chat", "served_as": "m"}, "body: only the api json has it"),
        ({"served_as": "m"}, "served_as: the api json returns only texts"),
        ({"decoding": {"temperature": 0.5}}, "temperature: the api json has no such setting"),
    ],
)
def test_keys_without_a_meaning_are_refused(keys, message):
    """Each key that cannot work is named before a request."""
    with pytest.raises(ConfigError, match=message):
        lc.load({"source": "http://127.0.0.1:1/ask", **KEYS, **keys})


@pytest.mark.parametrize("key", ["body", "answer"])
def test_missing_keys_are_named(key):
    """The body and the place of the answer are required."""
    keys = {name: value for name, value in KEYS.items() if name != key}
    with pytest.raises(ConfigError, match=f"the key '{key}' is missing; the api json needs it"):
        lc.load({"source": "http://127.0.0.1:1/ask", **keys})
