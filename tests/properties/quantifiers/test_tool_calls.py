"""Calls of tools in the forms that chat models write: valid, invalid, or none."""

import json
import random

import pytest

from llmchecker.errors import ConfigError
from llmchecker.properties.quantifiers.tool_calls import ToolCalls
from llmchecker.properties.registry import create_quantifier

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = {"weather": CITY, "stop": {"type": "object", "maxProperties": 0}}
CALLS = ToolCalls(TOOLS)

FORMS = {
    "tagged": lambda name, args: (
        f"<tool_call>\n{json.dumps({'name': name, 'arguments': args})}\n</tool_call>"
    ),
    "tagged, ended by a token": lambda name, args: (
        f"<tool_call>{json.dumps({'name': name, 'arguments': args})}"
    ),
    "a marked list": lambda name, args: (
        f"[TOOL_CALLS] {json.dumps([{'name': name, 'arguments': args}])}"
    ),
    "a python tag": lambda name, args: (
        f"<|python_tag|>{json.dumps({'name': name, 'parameters': args})}"
    ),
    "a function tag": lambda name, args: f"<function={name}>{json.dumps(args)}</function>",
    "the whole text": lambda name, args: f" {json.dumps({'name': name, 'parameters': args})}\n",
    "a list": lambda name, args: json.dumps([{"name": name, "arguments": args}]),
    "as in an API": lambda name, args: json.dumps(
        {"type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_call_is_valid_by_its_name_and_arguments(form):
    """In every form a call is valid only for a known tool with arguments of its schema."""
    write = FORMS[form]
    assert CALLS("", write("weather", {"city": "Ulm"})) == 2
    assert CALLS("", write("stop", {})) == 2
    assert CALLS("", write("weather", {"city": 3})) == 1
    assert CALLS("", write("weather", {})) == 1
    assert CALLS("", write("stop", {"city": "Ulm"})) == 1
    assert CALLS("", write("delete", {"city": "Ulm"})) == 1
    assert CALLS("", write("weather", ["Ulm"])) == 1


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("", 0),
        ("The weather is fine.", 0),
        ('{"city": "Ulm"}', 0),
        ('{"name": "Ada"}', 0),
        ("[]", 0),
        ("3", 0),
        ('{"name": "weather", "arguments": {"city": "Ul', 1),
        ('{"name": "weather", "arguments": {"city": NaN}}', 1),
        ('I call it: {"name": "weather", "arguments": {"city": "Ulm"}}', 0),
        ("<tool_call>", 1),
        ("<tool_call></tool_call>", 1),
        ("<tool_call>[]</tool_call>", 1),
        ("<tool_call>weather(Ulm)</tool_call>", 1),
        ('<tool_call>{"name": "weather"}</tool_call>', 1),
        ('<tool_call>{"name": 1, "arguments": {}}</tool_call>', 1),
        ('<tool_call>{"name": "stop", "arguments": "no JSON"}</tool_call>', 1),
        ("<function=stop>{}</function> and <function=weather>{}</function>", 1),
        ("<function=stop>" + "[" * 10_000, 1),
        ('<function=weather>{"city": "Ulm"}', 2),
    ],
)
def test_other_texts(text, score):
    """Text that calls nothing scores 0; a call that a program could not run scores 1."""
    assert CALLS("", text) == score


def test_all_calls_of_a_text_count():
    """Of several calls in any forms a text has 2 only if each is valid, wherever they are."""
    chance = random.Random(5)
    marked = [FORMS[name] for name in ("tagged", "a function tag")]
    for _ in range(200):
        valid = [chance.random() < 0.7 for _ in range(chance.randint(1, 4))]
        calls = [
            chance.choice(marked)("weather", {"city": "Ulm" if is_valid else None})
            for is_valid in valid
        ]
        text = chance.choice(["", "Well. "]) + " then ".join(calls) + chance.choice(["", " Done."])
        assert CALLS("<tool_call>{}</tool_call>", text) == (2 if all(valid) else 1)


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        ({}, "no tools"),
        (["weather"], "no tools"),
        ({"": {}}, "no name of a tool"),
        ({"weather": {"requird": ["city"]}}, "tools: weather.*requird"),
    ],
)
def test_unusable_tools_are_refused(tools, problem):
    """Settings without a tool, or with an unusable schema, are an error with its place."""
    with pytest.raises(ConfigError, match=problem):
        create_quantifier("calls", {"tools": tools})
