"""Applications behind HTTP: a body with placeholders, and pointers to the answer."""

import json
from typing import Any

import pytest
import yaml
from helpers.fake_provider import FakeProvider, share
from helpers.fake_server import Raw, Status, running

import llmchecker as lc
from llmchecker.errors import ConfigError, InterruptedCheck, LLMCheckerError
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.servers import text_client
from llmchecker.models.servers.http_client import RequestLimits
from llmchecker.models.text_answer import TextStream
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


def reply(body: str, content_type: str, *headers: str, length: bool = True) -> Raw:
    """A response of another type than JSON."""
    data = body.encode()
    lines = ["HTTP/1.1 200 OK", f"Content-Type: {content_type}", "Connection: close", *headers]
    lines += [f"Content-Length: {len(data)}"] if length else []
    return Raw(["\r\n".join([*lines, "", ""]).encode(), data])


def read_text(raised: Exception, **keys: Any) -> str:
    """The answer that one response gives."""
    provider = FakeProvider("json", share(0.5))

    def fault(server, right):
        raise raised

    provider.fault = fault
    with running(provider) as address:
        model = lc.load({"source": f"{address}/ask", **KEYS, **keys})
        items = iter([(TextStream(Chat((("user", "Is it so?"),)), 9, 0), 0)])
        ((_, answer),) = model.iter_answers(lambda: next(items, None))
    if isinstance(answer, LLMCheckerError):
        raise answer
    return f"{answer.text}, {answer.finish}"


def stream(*events: str) -> str:
    return "".join(f"{event}\n\n" for event in events)


PIECES = [f'data: {{"reply": {{"text": "{each}"}}}}' for each in ("y", "e", "s")]


@pytest.mark.parametrize(
    ("body", "keys", "length", "answer"),
    [
        (stream(*PIECES), {}, True, "yes, ended"),
        (stream(*PIECES, "data: [DONE]"), {}, False, "yes, ended"),
        # comments, other events, carriage returns, and data in two lines
        (": hi\r\n\r\nevent: x\r\ndata: {}\r\n\r\n" + PIECES[0], {}, True, "y, ended"),
        ('data: {"reply":\ndata: {"text": "no"}}\n\n', {}, True, "no, ended"),
        (
            stream('data: {"reply": {"text": null}}', *PIECES, 'data: {"end": "length"}'),
            {"finish": "/end"},
            False,
            "yes, truncated",
        ),
        # the data themselves are the text
        (stream("data: y", "data:  es", "data: [DONE]"), {"answer": ""}, False, "y es, ended"),
    ],
)
def test_a_stream_is_the_text_of_its_events(body, keys, length, answer):
    """The texts at the pointer are joined, and an event or the length shows their end."""
    assert read_text(reply(body, "text/event-stream", length=length), **keys) == answer


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (stream(*PIECES), "the stream may be cut"),
        (stream(*PIECES, "event: error\ndata: {}"), "the stream reports an error"),
        (stream(*PIECES) + 'data: {"repl', "not JSON"),
        (stream("data: {}", "data: [DONE]"), "the response has nothing at '/reply/text'"),
    ],
)
def test_a_stream_that_may_be_cut_is_no_answer(body, message):
    """A stream without its end, and one that reports an error, lose the answer."""
    with pytest.raises(LLMCheckerError, match=message):
        read_text(reply(body, "text/event-stream", length=False))


def test_a_reason_in_each_event_does_not_show_the_end():
    """Only one reason, in the last event, shows that a stream without a length is whole."""
    event = 'data: {"reply": {"text": "y"}, "end": "stop"}'
    last = 'data: {"end": "stop"}'
    for events, length in (([event, event], True), ([*PIECES, last, "data: [DONE]"], False)):
        body = reply(stream(*events), "text/event-stream", length=length)
        assert read_text(body, finish="/end").endswith(", ended")
    for events in ([event, event], [last, *PIECES]):
        body = reply(stream(*events), "text/event-stream", length=False)
        with pytest.raises(LLMCheckerError, match="finish: the stream may be cut"):
            read_text(body, finish="/end")


def test_plain_text_is_an_answer_at_the_empty_pointer():
    """A text with a known length is read whole, and any other type than JSON is named."""
    assert read_text(reply("Oui, ça va", "text/plain; charset=utf-8"), answer="") == (
        "Oui, ça va, ended"
    )
    with pytest.raises(LLMCheckerError, match="nothing at '/reply/text'"):
        read_text(reply("yes", "text/plain"))
    with pytest.raises(LLMCheckerError, match="without a length may be cut"):
        read_text(reply("yes", "text/plain", length=False), answer="")
    with pytest.raises(LLMCheckerError, match="charset is 'latin-1'"):
        read_text(reply("yes", "text/plain; charset=latin-1"), answer="")
    with pytest.raises(LLMCheckerError, match="not JSON"):
        read_text(reply("<p>yes</p>", "text/html"), answer="")


def test_a_redirect_is_refused_at_once():
    """No other address gets the messages or the key, and the message has the address."""
    provider = FakeProvider("json", share(0.5))

    def fault(server, right):
        raise Status(307, {}, Location="http://elsewhere.example/ask")

    provider.fault = fault
    with running(provider) as address, pytest.raises(LLMCheckerError, match="it redirects to"):
        ask(address)
    assert len(provider.questions) <= 16


def test_the_key_is_where_a_header_has_its_place(monkeypatch):
    """`{key}` in a header is the key, which is then no bearer, and needs `key_from`."""
    provider = FakeProvider("json", share(1.0))
    monkeypatch.setenv("OUR_KEY", "secret")
    for headers, key in (({}, "Bearer secret"), ({"Authorization": "Key {key}"}, "Key secret")):
        with running(provider) as address:
            seen: list[Any] = []
            provider.check_headers = seen.append
            ask(address, answers=1, key_from="OUR_KEY", headers=headers)
        assert {each["Authorization"] for each in seen} == {key}
    with pytest.raises(ConfigError, match="key} needs a key; add key_from"):
        lc.load({"source": "http://127.0.0.1:1/a", **KEYS, "headers": {"X-Key": "{key}"}})


ROWS = """\
{"id": 7, "question": "Who?", "context": ["Ann {id} came.", "Bob left."]}
{"id": 8, "question": "What?", "context": ["Tea."]}
"""


def run(tmp_path, address: str, body: Any, **case: Any):
    """The results of a suite with rows whose application answers `yes`."""
    (tmp_path / "rows.jsonl").write_text(ROWS)
    model = {"source": f"{address}/ask", **KEYS, "body": body}
    case = {"user": "{question}", "require": [{"equals": "yes", "at_least": 0.5}], **case}
    path = tmp_path / "suite.yaml"
    content = {"model": model, "length": 9, "cases": [{"prompts": "rows.jsonl", **case}]}
    path.write_text(yaml.safe_dump(content))
    return run_suite(load_suite(path))


def test_an_application_gets_the_columns_of_its_body(tmp_path):
    """Cells of the table, also lists and numbers, and columns of the case replace placeholders."""
    provider = FakeProvider("json", share(1.0))
    body = {"q": "{prompt}", "context": "{context}", "about": "{{id}} {id}", "user": "{user id}"}
    with running(provider) as address:
        result = run(tmp_path, address, body, columns={"user id": "u{id}"})
        assert [each.status for each in result.results] == [CaseStatus.HOLDS] * 2
        asked = {json.dumps(question, sort_keys=True) for _, question in provider.questions}
        contexts = {"Who?": ["Ann {id} came.", "Bob left."], "What?": ["Tea."]}
        assert [json.loads(each) for each in sorted(asked)] == [
            {"q": question, "context": contexts[question], "about": f"{{id}} {n}", "user": f"u{n}"}
            for n, question in ((7, "Who?"), (8, "What?"))
        ]
        count = len(provider.questions)
        # other columns are other prompts
        run(tmp_path, address, body, columns={"user id": "v{id}"})
        assert len(provider.questions) == 2 * count


@pytest.mark.parametrize(
    ("body", "columns", "message"),
    [
        ({"q": "{prompt}", "u": "{user}"}, {}, r"the body of .* has \{user\}; add the column"),
        ({"q": "{prompt}"}, {"user": "u"}, r"columns: the body of .* has no \{user\}"),
        ({"q": "{prompt} {context}"}, {}, "columns: context is no text"),
        ({"q": "now {messages}"}, {}, r"body: \{messages\} is a list"),
    ],
)
def test_columns_that_do_not_fit_are_refused(tmp_path, body, columns, message):
    """A placeholder without its column, and a column without its place, end no run half-way."""
    with pytest.raises(LLMCheckerError, match=message):
        run(tmp_path, "http://127.0.0.1:1", body, columns=columns)


def test_a_chat_without_the_columns_of_a_body_is_refused():
    """A chat that no suite built, as that of a judge, leaves no placeholder in a request."""
    body = {"q": "{prompt}", "u": "{user}"}
    model = lc.load({"source": "http://127.0.0.1:1/ask", **KEYS, "body": body})
    items = iter([(TextStream(Chat((("user", "Is it so?"),)), 9, 0), 0)])
    with pytest.raises(ConfigError, match=r"the body of the application has \{user\}"):
        list(model.iter_answers(lambda: next(items, None)))


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
