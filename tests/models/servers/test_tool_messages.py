"""Tools in the APIs of chats: descriptions, calls and results are those of each API."""

from pathlib import Path

import pytest
import yaml
from helpers.fake_provider import FakeProvider, share
from helpers.fake_server import running

import llmchecker as lc
from llmchecker.config.prompt import parse_prompt
from llmchecker.models.decoding.answer_format import AnswerFormat
from llmchecker.models.decoding.call_formats import INVALID_CALL, ToolCall
from llmchecker.models.servers.schema import parse_response
from llmchecker.models.servers.text_apis import TEXT_APIS, TextRequest
from llmchecker.models.servers.tool_messages import write_calls
from llmchecker.models.text_answer import Finish

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "weather", "description": "The weather.", "parameters": SCHEMA}
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Ulm"}}</tool_call>'
CHAT = parse_prompt(
    {
        "messages": [{"user": "Is it warm?"}, {"assistant": f"Let me see.{CALL}"}, {"tool": "21"}],
        "tools": [FUNCTION],
    }
)
OPENAI_CALL = {
    "id": "call_2",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Ulm"}'},
}
EXPECTED = {
    "openai-chat": {
        "tools": [{"type": "function", "function": FUNCTION}],
        "messages": [
            {"role": "user", "content": "Is it warm?"},
            {"role": "assistant", "content": "Let me see.", "tool_calls": [OPENAI_CALL]},
            {"role": "tool", "tool_call_id": "call_2", "content": "21"},
        ],
    },
    "ollama": {
        "tools": [{"type": "function", "function": FUNCTION}],
        "messages": [
            {"role": "user", "content": "Is it warm?"},
            {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Ulm"}}}],
            },
            {"role": "tool", "tool_name": "weather", "content": "21"},
        ],
    },
    "anthropic": {
        "tools": [{"name": "weather", "description": "The weather.", "input_schema": SCHEMA}],
        "messages": [
            {"role": "user", "content": "Is it warm?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Let me see."},
                    {
                        "type": "tool_use",
                        "id": "call_2",
                        "name": "weather",
                        "input": {"city": "Ulm"},
                    },
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "call_2", "content": "21"}],
            },
        ],
    },
}


@pytest.mark.parametrize("api", EXPECTED)
def test_requests_have_tools_calls_and_results_of_the_api(api):
    """Descriptions, a call and its result are in the form of each API's documentation."""
    payload = TEXT_APIS[api].build_payload("m", TextRequest(CHAT, 20, 0))
    assert {key: payload[key] for key in ("tools", "messages")} == EXPECTED[api]
    plain = TEXT_APIS[api].build_payload("m", TextRequest(parse_prompt([{"user": "Hi"}]), 20, 0))
    assert "tools" not in plain


def openai_reply(reason="tool_calls", content=None, calls=(OPENAI_CALL,)):
    message = {"content": content, "tool_calls": list(calls)}
    return "openai-chat", {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def anthropic_reply(*content):
    return "anthropic", {"content": list(content), "stop_reason": "tool_use"}


def ollama_reply(calls):
    message = {"content": "", "tool_calls": calls}
    return "ollama", {"message": message, "done": True, "done_reason": "stop"}


VALID = ToolCall("weather", {"city": "Ulm"})
USE = {"type": "tool_use", "id": "t", "name": "weather", "input": {"city": "Ulm"}}
TEXT = {"type": "text", "text": "I look."}
CUT = {"function": {"name": "weather", "arguments": '{"city": "U'}}
READ = {
    "a call": (openai_reply(), "", [VALID], Finish.ENDED),
    "a text and two": (
        openai_reply(content="I look.", calls=(OPENAI_CALL, OPENAI_CALL)),
        "I look.",
        [VALID, VALID],
        Finish.ENDED,
    ),
    "a cut call": (
        openai_reply("length", calls=(CUT,)),
        "",
        [ToolCall("weather", None)],
        Finish.TRUNCATED,
    ),
    "no call": (openai_reply(calls=({"id": "x"},)), "", [INVALID_CALL], Finish.ENDED),
    "malformed": (
        openai_reply("MALFORMED_FUNCTION_CALL", calls=()),
        "",
        [INVALID_CALL],
        Finish.ENDED,
    ),
    "a use": (anthropic_reply(TEXT, USE), "I look.", [VALID], Finish.ENDED),
    "Ollama's": (
        ollama_reply([{"function": {"name": "weather", "arguments": {"city": "Ulm"}}}]),
        "",
        [VALID],
        Finish.ENDED,
    ),
}


@pytest.mark.parametrize("name", READ)
def test_calls_of_the_chats_own_tools_are_a_part_of_the_text(name):
    """A call with null content is a call and no empty text, whether it can be read or not."""
    (api, reply), content, calls, finish = READ[name]
    response = parse_response(TEXT_APIS[api].shape, reply)
    answer = TEXT_APIS[api].read_answer(response, 20, reads_calls=True)
    assert answer.finish is finish
    assert answer.text.partition("<tool_call>")[0] == content
    assert AnswerFormat().read_calls(answer.text) == calls


def test_no_text_of_an_argument_is_a_mark():
    """Arguments of every text are read back."""
    for text in ("</tool_call>", "<tool_call>", "<think>", '"\\', "naïve"):
        written = write_calls([{"name": "f", "arguments": {"x": text}}])
        assert AnswerFormat().read_calls(written) == [ToolCall("f", {"x": text})]


def test_a_suite_checks_calls_of_a_provider(tmp_path, monkeypatch):
    """A call is answered by the result of its tool, and counted as valid."""
    provider = FakeProvider("openai-chat", share(1.0, "It is 21."))

    def call_first(provider, reply):
        (_, question) = provider.questions[-1]
        if question["messages"][-1]["role"] == "user":
            reply["choices"][0]["message"] = {"content": None, "tool_calls": [OPENAI_CALL]}
            reply["choices"][0]["finish_reason"] = "tool_calls"
        return reply

    provider.fault = call_first
    monkeypatch.chdir(tmp_path)
    with running(provider) as address:
        suite = {
            "model": {"source": address, "api": "openai-chat", "requests": 1},
            "length": 20,
            "budget": {"answers": 60},
            "confidence": 0.8,
            "tools": [FUNCTION],
            "cases": [
                {
                    "turns": [
                        {"user": "Is it warm?"},
                        {"tool": {"name": "weather", "content": "21 degrees"}},
                    ],
                    "require": ["P>=0.5 [ F calls = 2 ]", {"contains": "21", "at_least": 0.5}],
                }
            ],
        }
        Path("suite.yaml").write_text(yaml.safe_dump(suite), encoding="utf-8")
        report = lc.suite("suite.yaml").run()
    assert "2 hold" in str(report)
    roles = {tuple(m["role"] for m in q["messages"]) for _, q in provider.questions}
    assert roles == {("user",), ("user", "assistant", "tool")}
