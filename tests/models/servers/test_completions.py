"""Servers that write texts: what they are asked and what is kept, and wrong answers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.fake_server import Cut, Status, raising, running, slow, times
from helpers.fake_writer import MODEL, FakeWriter
from helpers.invariant_programs import COUNTER

from llmchecker.errors import (
    ConfigError,
    DamagedFile,
    LLMCheckerError,
    RequestRefused,
    SourceUnavailable,
)
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.decoding.settings import AS_PUBLISHED, parse_decoding
from llmchecker.models.servers.connection import (
    TEXT_LIMITS,
    connect_model,
    connect_text_client,
    fetch_served_model,
)
from llmchecker.models.servers.http_client import RequestLimits
from llmchecker.models.servers.schema import ChatResponse, parse_response
from llmchecker.models.servers.settings import ServerSource
from llmchecker.models.servers.text_apis import TEXT_APIS
from llmchecker.models.servers.text_client import TextClient
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.models.text_answer import Finish, ListedToken, TextStream, answer_prompts
from loop_invariants.proposals.prompt_templates import (
    INVARIANT_KEYWORD,
    PromptVariant,
    build_message,
    build_prompt,
)
from loop_invariants.proposals.proposers import load_proposer, propose_for_program
from loop_invariants.proposals.sampling import _MAX_TOKENS
from loop_invariants.proposals.settings import ProposalSettings

APIS = ("openai-completions", "openai-chat")
QUICK = replace(TEXT_LIMITS, first_pause_seconds=0.001)
ASKING = ProposalSettings(iterations=3, seed=7)


def source_of(address: str, api: str, **settings) -> ServerSource:
    settings = {"requests": 3, "seconds": 2.0, "tokens": 50} | settings
    return ServerSource(parse_source(f"server:{address}"), api, **settings)


def connected(
    tmp_path: Path,
    address: str,
    api: str = "openai-completions",
    limits: RequestLimits = QUICK,
    **settings,
) -> TextClient:
    directory = tmp_path / "asked"
    fetch_served_model(source_of(address, api, **settings), directory, limits)
    return again(tmp_path, limits)


def again(tmp_path: Path, limits: RequestLimits = QUICK) -> TextClient:
    """Return the client of a later run."""
    return connect_text_client(tmp_path / "asked", tmp_path / "kept", limits)


def asked(writer: TextClient, *numbers: int) -> list[str]:
    streams = [TextStream("The text", 20, number) for number in numbers]
    return [answer.text for answer in answer_prompts(writer, streams)]


@pytest.mark.parametrize("api", APIS)
def test_a_server_proposes_what_it_writes(api, tmp_path):
    """Every loop and style is asked as often as configured; texts end where invariants do."""
    text = {
        "openai-completions": "x <= n);\nint",
        "openai-chat": f"Sure:\n{INVARIANT_KEYWORD}(x <= n);\nDone.",
    }[api]
    server = FakeWriter(lambda prompt: text)
    with running(server) as address:
        fetch_served_model(source_of(address, api), tmp_path / "asked")
        proposer = load_proposer(tmp_path / "asked", ASKING, tmp_path / "kept", 1, {})
        made = propose_for_program(proposer, COUNTER, ASKING)[0]
    assert {tuple(map(tuple, a)) for a in made.answers.values()} == {(("x <= n",),) * 3}
    shown = [
        build_prompt(COUNTER, COUNTER.loops[0], style)
        for style in (PromptVariant.FULL, PromptVariant.CONSTRAINED)
    ]
    if api == "openai-completions":
        assert {question["prompt"] for _, question in server.questions} == set(shown)
        assert {question["max_tokens"] for _, question in server.questions} == {_MAX_TOKENS}
    else:
        told = {question["messages"][0]["content"] for _, question in server.questions}
        assert told == {build_message(text, 1) for text in shown}
        assert {question["max_tokens"] for _, question in server.questions} == {50}
    assert len({question["seed"] for _, question in server.questions}) == len(server.questions)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("invariant(x <= n);\ninvariant(y == 5);", ("x <= n",)),
        ("The loop keeps `invariant((x) <= n)`.", ("(x) <= n",)),
        ("<think>maybe invariant(x > 9)?</think>invariant(x <= n);", ("x <= n",)),
        ("invariant(x <= n", ("x <= n",)),
        ("I cannot help with that.", ()),
        ("", ()),
        (None, ()),
    ],
)
def test_a_message_is_searched_for_what_it_states(written, expected, tmp_path):
    """Of a message only stated invariants count, as many as were asked for, and no thoughts."""
    with running(FakeWriter(lambda prompt: written)) as address:
        connected(tmp_path, address, "openai-chat")
        proposer = load_proposer(tmp_path / "asked", ASKING, tmp_path / "kept", 1, {})
        assert proposer(f"int main() {{}}\n{INVARIANT_KEYWORD}(", [0]) == [expected]


@pytest.mark.parametrize("api", APIS)
def test_an_answer_is_kept_with_its_question(api, tmp_path):
    """What was answered is not asked again, whatever the server would say now; all else is."""
    texts = iter(map(str, range(9)))
    server = FakeWriter(lambda prompt: next(texts))
    with running(server) as address:
        writer = connected(tmp_path, address, api, requests=1)
        assert asked(writer, 1, 2) == ["0", "1"]
        assert asked(again(tmp_path), 2, 3, 1) == ["1", "2", "0"]
        assert len(server.questions) == 3
        first = sorted((tmp_path / "kept").iterdir())[0]
        first.write_text(first.read_text().replace('"length": 20', '"length": 21'))
        with pytest.raises(DamagedFile):
            asked(again(tmp_path), 1, 2, 3)


def test_a_key_is_sent_and_stands_nowhere(tmp_path, monkeypatch):
    """The key of the environment goes to the server, and into no file, name or message."""
    monkeypatch.setenv("WRITER_KEY", "5ecret")
    server = FakeWriter(lambda prompt: "x")
    server.key = "5ecret"
    with running(server) as address:
        writer = connected(tmp_path, address, key_from="WRITER_KEY")
        assert asked(writer, 1) == ["x"]
        server.key = "other"
        with pytest.raises(RequestRefused, match="key_from") as caught:
            asked(writer, 2)
    assert "5ecret" not in str(caught.value)
    assert not any("5ecret" in file.read_text() for file in tmp_path.rglob("*.json*"))
    monkeypatch.delenv("WRITER_KEY")
    with pytest.raises(ConfigError, match="WRITER_KEY holds no key"):
        asked(again(tmp_path), 2)


def test_no_more_requests_are_under_way_than_configured(tmp_path):
    """Many answers are asked for at once, as many as `requests` says."""
    server = FakeWriter(lambda prompt: "x")
    with running(server) as address:
        writer = connected(tmp_path, address, requests=3)
        server.fault = slow(0.05)
        asked(writer, *range(12))
    assert server.most_under_way == 3


@pytest.mark.parametrize("fault", [raising(lambda: Status(500)), raising(Cut)])
def test_what_fails_for_a_while_is_asked_again(fault, tmp_path):
    """After status 500 or a cut answer the same question is sent again, and then answered."""
    server = FakeWriter(lambda prompt: "x")
    with running(server) as address:
        writer = connected(tmp_path, address)
        server.fault = times(3, fault)
        assert asked(writer, 1) == ["x"]
    assert len(server.questions) == 4


WRONG = {
    "always 500": (raising(lambda: Status(500, {"error": {"message": "no"}})), "status 500"),
    "always cut": (raising(Cut), "no answer in 8 attempts"),
    "refused": (raising(lambda: Status(400, {"error": {"message": "bad words"}})), "bad words"),
    "not JSON": (lambda server, answer: b"<html>hello</html>", "not JSON"),
    "a list": (lambda server, answer: [], "the answer: Input should"),
    "another form": (lambda server, answer: {"choices": [{"message": "x"}]}, r"choices\.0\."),
    "a number": (
        lambda server, answer: {"choices": [{"text": 3, "message": {"content": 3}}]},
        "Input should be a valid string",
    ),
    "too much": (lambda server, answer: b"[" * 20_000, "more than 10000 bytes"),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_answer_is_refused_by_the_address(wrong, api, tmp_path):
    """What cannot be read ends the asking with a message; what was answered before is kept."""
    server = FakeWriter(lambda prompt: "x")
    fault, told = WRONG[wrong]
    with running(server) as address:
        writer = connected(tmp_path, address, api, replace(QUICK, max_bytes=10_000))
        asked(writer, 1)
        server.fault = fault
        with pytest.raises(LLMCheckerError, match=told) as caught:
            asked(writer, 1, 2)
        assert address in str(caught.value)
        server.fault, server.questions = None, []
        assert asked(writer, 1, 2) == ["x", "x"]
    assert len(server.questions) == 1


def test_a_text_without_end_is_cut(tmp_path):
    """Of a long text the beginning is read and kept."""
    text = "".join(map(str, range(10**6)))
    with running(FakeWriter(lambda prompt: text)) as address:
        (answer,) = asked(connected(tmp_path, address), 1)
    assert text.startswith(answer)
    assert 0 < len(answer) < len(text)


def test_a_server_that_has_another_name_for_the_limit_is_asked_by_it(tmp_path):
    """A server that takes `max_completion_tokens` alone is asked again so."""
    server = FakeWriter(lambda prompt: "x")

    def demanding(server: FakeWriter, answer):
        if "max_tokens" in server.questions[-1][1]:
            raise Status(400, {"error": {"message": "use 'max_completion_tokens' instead"}})
        return answer

    with running(server) as address:
        writer = connected(tmp_path, address, "openai-chat")
        server.fault = demanding
        assert asked(writer, 1) == ["x"]
    assert server.questions[-1][1]["max_completion_tokens"] == 20


class _WriterBelowSeed(FakeWriter):
    """A server whose address contains the name of a setting."""

    def got(self, path):
        return super().got(path.removeprefix("/seed"))

    def posted(self, path, question):
        return super().posted(path.removeprefix("/seed"), question)


@pytest.mark.parametrize(("message", "count"), [("bad words", 1), ("no seed, please", 2)])
def test_only_the_message_of_a_server_names_what_it_refuses(message, count, tmp_path):
    """A request is repeated without its seed if the server says so, and not for its address."""
    server = _WriterBelowSeed(lambda prompt: "x")
    with running(server) as address:
        writer = connected(tmp_path, f"{address}/seed")
        server.fault = raising(lambda: Status(400, {"error": {"message": message}}))
        with pytest.raises(RequestRefused, match=message):
            asked(writer, 1)
    assert len(server.questions) == count
    assert [question["seed"] for _, question in server.questions[1:] if "seed" in question] == []


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("length", Finish.TRUNCATED),
        ("max_tokens", Finish.TRUNCATED),
        ("end_turn", Finish.ENDED),
        ("refusal", Finish.FILTERED),
        ("unheard", Finish.MISSING),
        (None, Finish.MISSING),
    ],
)
def test_a_reason_of_any_provider_is_known_of_all(reason, finish):
    """Gateways pass on the reasons of other providers; an unknown one makes no sample."""
    choice = {"index": 0, "message": {"content": "x"}, "finish_reason": reason}
    response = parse_response(ChatResponse, {"choices": [choice]})
    assert TEXT_APIS["openai-chat"].read_answer(response, 20).finish == finish


USAGE = {"prompt_tokens": 5, "completion_tokens": 3}
CALL = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}


def chat_reply(reason: str | None = "stop", **message: Any) -> tuple[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return "openai-chat", {"choices": [choice], "usage": USAGE}


def anthropic_reply(reason: str | None, *content: Any) -> tuple[str, Any]:
    usage = {"input_tokens": 5, "output_tokens": 3}
    return "anthropic", {"content": list(content), "stop_reason": reason, "usage": usage}


def ollama_reply(reason: str | None = "stop", done: bool = True, **message: Any) -> tuple[str, Any]:
    reply = {"message": message, "done": done, "done_reason": reason}
    return "ollama", reply | {"prompt_eval_count": 5, "eval_count": 3}


def completion_reply(text: str | None, reason: str) -> tuple[str, Any]:
    choice = {"index": 0, "text": text, "finish_reason": reason}
    return "openai-completions", {"choices": [choice], "usage": USAGE}


TEXT = {"type": "text", "text": "x"}
THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
USE = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
NOT_GIVEN = {
    "calls": (chat_reply("tool_calls", content=None, tool_calls=CALL), Finish.CALLED),
    "calls and empty": (chat_reply("tool_calls", content="", tool_calls=CALL), Finish.CALLED),
    "calls after a text": (chat_reply("tool_calls", content="x", tool_calls=CALL), Finish.CALLED),
    "calls that stop": (chat_reply(content=None, tool_calls=CALL), Finish.CALLED),
    "calls that are cut": (chat_reply("length", content=None, tool_calls=CALL), Finish.CALLED),
    "function call": (
        chat_reply("function_call", content=None, function_call={"name": "f"}),
        Finish.CALLED,
    ),
    "null": (chat_reply(content=None), Finish.MISSING),
    "no content": (chat_reply(), Finish.MISSING),
    "null, no reason": (chat_reply(None, content=None), Finish.MISSING),
    "thoughts alone": (chat_reply(content=None, reasoning_content="Hm."), Finish.MISSING),
    "no parts": (chat_reply(content=[]), Finish.MISSING),
    "parts of thoughts": (chat_reply(content=[THOUGHT]), Finish.MISSING),
    "filter": (chat_reply("content_filter", content=None), Finish.FILTERED),
    "filter of Gemini": (chat_reply("SAFETY", content=None), Finish.FILTERED),
    "bad call of Gemini": (chat_reply("MALFORMED_FUNCTION_CALL", content=None), Finish.CALLED),
    "error": (chat_reply("error", content="x"), Finish.MISSING),
    "no choice": (("openai-chat", {"choices": [], "usage": USAGE}), Finish.MISSING),
    "use of a tool": (anthropic_reply("tool_use", USE), Finish.CALLED),
    "use after a text": (anthropic_reply("tool_use", TEXT, USE), Finish.CALLED),
    "use that is cut": (anthropic_reply("max_tokens", TEXT, USE), Finish.CALLED),
    "pause": (anthropic_reply("pause_turn", TEXT), Finish.MISSING),
    "no blocks": (anthropic_reply("end_turn"), Finish.MISSING),
    "block of thoughts": (anthropic_reply("end_turn", THINKING), Finish.MISSING),
    "refused stream": (anthropic_reply("refusal"), Finish.FILTERED),
    "calls of Ollama": (ollama_reply(content="", tool_calls=CALL), Finish.CALLED),
    "loaded": (ollama_reply("load", content=""), Finish.MISSING),
    "not done": (ollama_reply(None, done=False, content="x"), Finish.MISSING),
    "null text": (completion_reply(None, "stop"), Finish.MISSING),
    "cut before a text": (completion_reply("", "length"), Finish.MISSING),
}


@pytest.mark.parametrize("name", NOT_GIVEN)
def test_an_answer_that_was_not_given_is_no_empty_text(name):
    """Calls, thoughts, filters, null and missing parts make no sample, whatever their reason."""
    (api, reply), finish = NOT_GIVEN[name]
    answer = TEXT_APIS[api].read_answer(parse_response(TEXT_APIS[api].shape, reply), 20)
    assert (answer.finish, answer.is_sample) == (finish, False)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (chat_reply(content=""), ""),
        (chat_reply(content="x", tool_calls=[]), "x"),
        (chat_reply(content="x", tool_calls=None, refusal=None), "x"),
        (chat_reply(content="", refusal="No."), "No."),
        (chat_reply(content=[THOUGHT, TEXT, TEXT | {"text": "y"}]), "xy"),
        (chat_reply(content=[{"type": "refusal", "refusal": "No."}]), "No."),
        (chat_reply("EOS", content="x"), "x"),
        (anthropic_reply("end_turn", THINKING, TEXT), "x"),
        (anthropic_reply("end_turn", TEXT | {"text": ""}), ""),
        (ollama_reply(content=""), ""),
        (completion_reply("", "stop"), ""),
    ],
    ids=str,
)
def test_an_answer_that_was_given_is_its_text(reply, text):
    """An empty text with a reason is an answer, and thoughts next to a text are no part of it."""
    api, content = reply
    answer = TEXT_APIS[api].read_answer(parse_response(TEXT_APIS[api].shape, content), 20)
    assert (answer.text, answer.finish) == (text, Finish.ENDED)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (chat_reply("length", content="", reasoning="Hm."), ""),
        (chat_reply("length", content=None, reasoning_content="Hm."), ""),
        (chat_reply("length", content="x", thinking="Hm."), "x"),
        (chat_reply("length", content=[THOUGHT, TEXT]), "x"),
        (anthropic_reply("max_tokens", THINKING), ""),
        (ollama_reply("length", content="", thinking="Hm."), ""),
    ],
    ids=str,
)
def test_a_thought_that_is_returned_apart_makes_a_cut_answer_a_sample(reply, text):
    """An answer that was cut within or after a visible thought has begun, and is a sample."""
    api, content = reply
    answer = TEXT_APIS[api].read_answer(parse_response(TEXT_APIS[api].shape, content), 20)
    assert (answer.text, answer.thought, answer.finish) == (text, "Hm.", Finish.TRUNCATED)
    assert answer.is_sample


def test_which_model_is_asked_must_be_known(tmp_path):
    """Of several models one must be named, and what was fetched must still be served."""
    server = FakeWriter(lambda prompt: "x")
    server.serves = [MODEL, "writer-2"]
    with running(server) as address:
        source = source_of(address, "openai-completions")
        with pytest.raises(ConfigError, match=r"no model is named; it serves .*; name one by"):
            fetch_served_model(source, tmp_path / "asked")
        assert not (tmp_path / "asked").exists()
        fetch_served_model(replace(source, served_as=MODEL), tmp_path / "asked")
        server.serves = ["writer-2"]
        with pytest.raises(LLMCheckerError, match=MODEL):
            asked(again(tmp_path), 1)


def test_nothing_can_be_decided_by_a_server_that_only_writes(tmp_path):
    """A tree asks for distributions, which such a server does not tell."""
    with running(FakeWriter(lambda prompt: "x")) as address:
        connected(tmp_path, address)
        with pytest.raises(ConfigError, match="returns only texts"):
            connect_model(tmp_path / "asked")


def test_a_server_that_is_gone_is_told_by_its_address(tmp_path):
    """Without a server nothing is proposed, and the message names its address."""
    with running(FakeWriter(lambda prompt: "x")) as address:
        connected(tmp_path, address)
    with pytest.raises(SourceUnavailable, match=address):
        asked(again(tmp_path), 1)
    files = {path.name for path in (tmp_path / "asked").iterdir()}
    assert files == {"server.json", "source.json"}
    assert json.loads((tmp_path / "asked/server.json").read_text())["model"] == MODEL


def test_listed_log_probabilities_are_requested_and_kept(tmp_path):
    """A chat lists the tokens of an answer, which a later run reads; another form lists none."""
    place = {"token": "no", "logprob": -0.5, "bytes": None}
    content = [{**place, "top_logprobs": [place, {**place, "token": "yes", "logprob": -1}]}]
    forms = [{"content": content}, {"text_offset": [0]}, None, {"content": None}]

    def add(server: FakeWriter, right: Any) -> Any:
        right["choices"][0]["logprobs"] = forms[len(server.questions) - 1]
        return right

    streams = [TextStream(Chat((("user", "A"),)), 20, number) for number in range(len(forms))]
    server = FakeWriter(lambda prompt: "no")
    server.fault = add
    with running(server) as address:
        writer = connected(tmp_path, address, "openai-chat", requests=1, top_logprobs=2)
        answers = answer_prompts(writer, streams)
    question = server.questions[0][1]
    assert (question["logprobs"], question["top_logprobs"]) == (True, 2)
    token = ListedToken("no", -0.5, (("no", -0.5), ("yes", -1.0)))
    assert [each.tokens for each in answers] == [(token,), (), (), ()]
    assert answer_prompts(again(tmp_path), streams) == answers


def test_log_probabilities_of_another_decoding_are_refused(tmp_path):
    """Numbers at temperature 1 are none of another decoding, and other APIs have none."""
    source = source_of("http://localhost:1", "openai-chat", top_logprobs=2)
    TextClient("m", source, tmp_path, decoding=parse_decoding({"temperature": 1.0}))
    for decoding in (AS_PUBLISHED, parse_decoding({"temperature": 0.5})):
        with pytest.raises(ConfigError, match="top_logprobs"):
            TextClient("m", source, tmp_path, decoding=decoding)
    with pytest.raises(ConfigError, match="top_logprobs: 2 is not a key of this api"):
        source_of("http://localhost:1", "anthropic", top_logprobs=2)
