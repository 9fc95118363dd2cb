"""Tools of chats: templates receive them as transformers does, and bad descriptions are named."""

import json
from dataclasses import replace

import pytest
from helpers.chat_tokenizers import build_tokenizer

from llmchecker.config.prompt import change_prompt, parse_prompt
from llmchecker.errors import ConfigError, UnusableText
from llmchecker.models.decoding.answer_format import AnswerFormat
from llmchecker.models.decoding.call_formats import ToolCall
from llmchecker.models.decoding.chat_template import Chat, encode_chat, start_as_json
from llmchecker.models.decoding.tools import parse_tools

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city, in °C.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Ulm"}}</tool_call>'
MESSAGES = [{"user": "Is it warm?"}, {"assistant": CALL}, {"tool": "21 degrees"}]
TURNS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}{% if m.name is defined %} {{ m.name }}"
    "{% endif %}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
TEMPLATE = (
    "{% if tools %}<|im_start|>system\n<tools>{% for tool in tools %}{{ tool | tojson }}\n"
    "{% endfor %}</tools><|im_end|>\n{% endif %}" + TURNS
)


def build_chat(**changes) -> Chat:
    return parse_prompt({"messages": MESSAGES, "tools": [WEATHER], **changes})


def test_tokens_are_those_of_transformers_with_the_same_tools():
    """A result has the name of its tool, and descriptions reach the template as they are."""
    tokenizer = build_tokenizer(TEMPLATE)
    messages = [
        {"role": "user", "content": "Is it warm?"},
        {"role": "assistant", "content": CALL},
        {"role": "tool", "name": "weather", "content": "21 degrees"},
    ]
    expected = tokenizer.apply_chat_template(
        messages, tools=[WEATHER], add_generation_prompt=True, return_dict=False
    )
    assert encode_chat(tokenizer, build_chat(), "model") == tuple(expected)


def test_a_description_may_leave_out_the_outer_keys():
    """The function alone is the same tool."""
    assert build_chat(tools=[WEATHER["function"]]) == build_chat()


def test_a_template_without_tools_is_rejected():
    """A template whose text does not change with tools describes none to the model."""
    with pytest.raises(UnusableText, match="tools: the chat template of model has no tools"):
        encode_chat(build_tokenizer(TURNS), build_chat(), "model")


def test_a_template_of_its_own_for_tools_is_used():
    """Of several templates, `tool_use` is that of chats with tools, and `default` of others."""
    tokenizer = build_tokenizer({"default": TURNS, "tool_use": TEMPLATE})
    text = tokenizer.decode(encode_chat(tokenizer, build_chat(), "model"))
    plain = tokenizer.decode(encode_chat(tokenizer, parse_prompt([{"user": "Hi"}]), "model"))
    assert "<tools>" in text
    assert "<tools>" not in plain


def test_what_is_typed_in_a_chat_with_tools_stays_text():
    """A control token in a result is text, and one in a description is rejected."""
    tokenizer = build_tokenizer(TEMPLATE)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    plain = encode_chat(tokenizer, build_chat(), "model")
    messages = [*MESSAGES[:2], {"tool": "21 <|im_end|>degrees"}]
    typed = encode_chat(tokenizer, build_chat(messages=messages), "model")
    assert typed.count(end) == plain.count(end)
    tools = [{"name": "weather", "description": "<|im_end|>"}]
    with pytest.raises(UnusableText, match="weather contains the control token"):
        encode_chat(tokenizer, build_chat(tools=tools), "model")


def test_a_chat_with_tools_is_read_from_its_json():
    """What stores a prompt keeps its tools, and a prompt without tools is stored as before."""
    chat = build_chat()
    assert parse_prompt(json.loads(json.dumps(start_as_json(chat)))) == chat
    assert start_as_json(parse_prompt([{"user": "a"}])) == [{"role": "user", "content": "a"}]
    assert change_prompt(chat, {"system": "Be short."}).tools == chat.tools
    thoughtful = replace(chat, thoughts=((1, "Hm."),))
    assert start_as_json(thoughtful) != start_as_json(chat)


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        (
            [{"user": "a"}, {"tool": "b"}],
            r"messages\[1\]\.tool: the message before it is no single",
        ),
        ([{"user": "a"}, {"assistant": "b"}, {"tool": "c"}], r"messages\[2\]\.tool"),
        ([{"user": "a"}, {"assistant": CALL + CALL}, {"tool": "c"}], r"messages\[2\]\.tool"),
        (
            [{"user": "a"}, {"assistant": CALL.replace("weather", "time")}, {"tool": "c"}],
            r"messages\[2\]\.tool",
        ),
        (
            [
                {"user": "a"},
                {"assistant": CALL},
                {"role": "tool", "name": "time", "content": "c"},
            ],
            r"messages\[2\]\.name: 'time' is not the tool",
        ),
        ([{"tool": "a"}], r"messages\[0\]\.tool"),
    ],
)
def test_a_result_without_a_call_is_rejected(messages, problem):
    """A result follows an answer with a single call of one of the tools."""
    with pytest.raises(ConfigError, match=problem):
        build_chat(messages=messages)


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        (3, "tools: 3 is no list of functions"),
        ([], r"tools: \[\] is no list of functions"),
        (["weather"], r"tools\[0\]: tool: 'weather' is no description"),
        ([{"type": "retrieval"}], r"tools\[0\]: type: a tool has type; write"),
        ([{"type": "function", "function": 3}], r"function: 3 is no description"),
        ([{"name": ""}], r"name: '' is no name of a function"),
        ([{"description": "a"}], r"name: null is no name of a function"),
        ([{"name": "a b"}], r"name: 'a b' is no name of a function"),
        ([{"name": "a", "description": 3}], "description: 3 is no text"),
        ([{"name": "a", "parameters": [1]}], r"parameters: \[1\] is no JSON Schema"),
        ([{"name": "a", "parameter": {}}], "parameter: .* did you mean 'parameters'"),
        ([{"name": "a", "parameters": {"x": float("nan")}}], "a: it is no JSON"),
        ([{"name": "a"}, {"name": "a"}], r"tools\[1\]: name: 'a' is also another tool"),
    ],
)
def test_bad_descriptions_are_named(entries, problem):
    """Each error has the index of its tool and the key."""
    with pytest.raises(ConfigError, match=problem):
        parse_tools("tools", entries)


@pytest.mark.parametrize("value", ["<\\/tool_call>", "\\\\", "ü", '\\"'])
def test_a_single_call_is_read(value):
    """The arguments of one call are those of its JSON, and two calls are not a single one."""
    text = f'<tool_call>{{"name": "f", "arguments": {{"x": "{value}"}}}}</tool_call>'
    assert AnswerFormat().find_single_call(text) == ToolCall("f", {"x": json.loads(f'"{value}"')})
    assert AnswerFormat().find_single_call(text + text) is None


def test_a_template_that_needs_structured_calls_gets_them():
    """A template that rejects a result after a text of a call gets the call in its own form."""
    template = TEMPLATE.replace(
        "<|im_start|>{{ m.role }}",
        "{% if m.role == 'tool' and not messages[loop.index0 - 1].tool_calls %}"
        "{{ raise_exception('no call') }}{% endif %}<|im_start|>{{ m.role }}",
    ).replace(
        "{{ m.content }}",
        "{{ m.content }}{% if m.tool_calls %}"
        "<call>{{ m.tool_calls[0].function | tojson }}{% endif %}",
    )
    tokenizer = build_tokenizer(template)
    call = {
        "type": "function",
        "id": "call00002",
        "function": vars(ToolCall("weather", {"city": "Ulm"})),
    }
    messages = [
        {"role": "user", "content": "Is it warm?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "weather", "content": "21 degrees"},
    ]
    expected = tokenizer.apply_chat_template(
        messages, tools=[WEATHER], add_generation_prompt=True, return_dict=False
    )
    assert encode_chat(tokenizer, build_chat(), "model") == tuple(expected)
