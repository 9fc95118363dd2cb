"""Calls of tools are read as the chat template of a model writes them."""

import itertools
import json
import random
import re
from pathlib import Path

import pytest
from helpers.call_templates import CALL_WRITERS, build_template
from helpers.chat_tokenizers import build_tokenizer
from helpers.project import ROOT

from llmchecker.errors import UnusableText
from llmchecker.models.decoding import template_format
from llmchecker.models.decoding.answer_format import AnswerFormat, ThoughtMarks
from llmchecker.models.decoding.call_formats import (
    CALL_FORMATS,
    INVALID_CALL,
    ToolCall,
    read_any_calls,
)
from llmchecker.models.decoding.chat_template import Chat, ChatTemplate
from llmchecker.models.decoding.template_format import read_answer_format, read_template_format
from llmchecker.models.decoding.tools import parse_tools

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "whole": {"type": "integer"},
        "number": {"type": "number"},
        "yes": {"type": "boolean"},
        "object": {"type": "object"},
        "list": {"type": "array"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
}
TOOLS = parse_tools(
    "tools", [{"name": "weather", "parameters": SCHEMA}, {"name": "now", "parameters": {}}]
)
SCHEMAS = {tool.name: tool.parameters for tool in TOOLS}
TEXTS = ("Ulm", "", "3", "true", "null", "two words", "naïve ☃", "{}", "a: b, c")
VALUES = {
    "text": TEXTS,
    "whole": (0, -3, 12),
    "number": (1.5, -2),
    "yes": (True, False),
    "object": ({}, {"a": {"b": [1, "2"]}}),
    "list": ([], ["a", 1]),
    "maybe": ("3", "word"),
}
SINGLE_CALL = ("GigaChat 3.1", "Llama 3")
"""Formats whose models write one call in an answer."""


def draw_calls(chance, most) -> list[ToolCall]:
    """Draw calls with arguments of all types."""
    calls = []
    for _ in range(chance.randint(1, most)):
        names = chance.sample(sorted(VALUES), chance.randint(0, 4))
        arguments = {name: chance.choice(VALUES[name]) for name in names}
        calls.append(ToolCall("weather", arguments) if names else ToolCall("now", {}))
    return calls


def render_answer(template, calls, content="") -> str:
    """Return the answer with calls, as a template writes it."""
    listed = [
        {"type": "function", "id": f"call0000{i}", "function": vars(call)}
        for i, call in enumerate(calls)
    ]
    messages = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": content, "tool_calls": listed},
    ]
    text = template.render(messages, add_generation_prompt=False)
    return text.rpartition("<|im_start|>assistant\n")[2].removesuffix("<|im_end|>\n")


@pytest.mark.parametrize("name", CALL_WRITERS)
def test_calls_are_read_as_the_template_writes_them(name):
    """Of every known format random calls of all types, alone and together, are read back."""
    template = ChatTemplate(build_tokenizer(build_template(CALL_WRITERS[name])), "model", TOOLS)
    answer_format = read_template_format(template)
    assert answer_format.calls is not None
    assert answer_format.calls.name == name
    chance = random.Random(name)
    for _ in range(200):
        calls = draw_calls(chance, 1 if name in SINGLE_CALL else 3)
        text = render_answer(template, calls)
        assert answer_format.read_calls(text, SCHEMAS) == calls, text
        # calls in a known form are not missed where the form of the model is unknown
        assert AnswerFormat().read_calls(text, SCHEMAS) == calls, text


@pytest.mark.parametrize("name", CALL_WRITERS)
def test_no_call_is_missed_because_it_is_cut(name):
    """A text with the mark of a call has a call, whole or not, and other texts have none."""
    template = ChatTemplate(build_tokenizer(build_template(CALL_WRITERS[name])), "model", TOOLS)
    answer_format = read_template_format(template)
    assert answer_format.calls is not None
    call = ToolCall("weather", {"text": "Ulm", "whole": 3})
    text = render_answer(template, [call])
    mark = answer_format.calls.begin or '{"name":'
    for length in range(len(text)):
        beginning = text[:length]
        calls = answer_format.read_calls(beginning, SCHEMAS)
        has_mark = mark in beginning and (name != "gpt-oss" or " to=f" in beginning)
        assert bool(calls) == has_mark, beginning
        assert [each for each in calls if each.arguments is not None] in ([], [call]), beginning
    assert answer_format.read_calls('It is {"warm": true} [in Ulm].') == []


def test_every_format_has_a_template_in_these_tests():
    """Only formats that are variants of tested ones have no template here."""
    variants = {"DeepSeek-V4", "OLMo 3", "Granite 20B", "Llama 3.1, built-in tools"}
    assert {each.name for each in CALL_FORMATS} - set(CALL_WRITERS) == variants


def test_a_call_in_another_form_is_invalid():
    """A model whose server reads one form makes no valid call in another, and not none."""
    template = ChatTemplate(
        build_tokenizer(build_template(CALL_WRITERS["Qwen3-Coder, Nemotron 3"])), "model", TOOLS
    )
    answer_format = read_template_format(template)
    call = '{"name": "now", "arguments": {}}'
    for text in (f"<tool_call>{call}</tool_call>", call, f"[TOOL_CALLS]{call}"):
        assert answer_format.read_calls(text) == [INVALID_CALL]


def test_a_call_in_a_thought_is_none():
    """What a model thinks of calling is not called, and after the thought it is."""
    call = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    for answer_format, text in (
        (AnswerFormat(), f"<think>{call}</think>No."),
        (AnswerFormat(ThoughtMarks("<think>", "</think>", is_open=True)), f"{call}</think>No."),
    ):
        assert answer_format.read_calls(text) == []
        assert answer_format.read_calls(text + call) == [ToolCall("now", {})]


def test_arguments_as_a_text_are_the_same_as_an_object():
    """OpenAI's API and some templates write the arguments as the text of their JSON."""
    for arguments in ({"x": [1, "a"]}, {}):
        text = json.dumps({"name": "f", "arguments": json.dumps(arguments)})
        assert read_any_calls(f"<tool_call>{text}</tool_call>", {}) == [ToolCall("f", arguments)]


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ("<call>{{ m.tool_calls[0].function.name }}</call>", "writes calls in an unknown form"),
        ("{{ raise_exception('no calls') }}", "rejects messages with calls"),
        ("", "has no form of calls"),
    ],
)
def test_unknown_forms_are_refused_by_name(calls, words):
    """A template whose call is not read back is refused, with what it writes."""
    tokenizer = build_tokenizer(build_template(calls))
    answer_format = read_answer_format(tokenizer, Chat((("user", "?"),), TOOLS), "model")
    with pytest.raises(UnusableText, match=f"tools: the chat template {words}"):
        answer_format.check_calls()


def test_a_template_that_only_describes_calls_is_read_by_its_marks():
    """The prompt, or a token of its own, shows the form of calls that no message has."""
    described = build_template("").replace("{% if tools %}", "{% if tools %}Write <|tool_call|>[].")
    for tokenizer, name in (
        (build_tokenizer(described), "Granite 3, Phi-4-mini"),
        (build_tokenizer(build_template(""), special=["<|tool_call_start|>"]), "LFM2"),
    ):
        answer_format = read_template_format(ChatTemplate(tokenizer, "model", TOOLS))
        assert answer_format.calls is not None
        assert answer_format.calls.name == name


def test_transformers_reads_calls_by_a_response_template():
    """A tokenizer's own description of its answers precedes the known forms."""
    tokenizer = build_tokenizer(
        build_template(
            "{% for c in m.tool_calls %}<<{{ c.function.name }}|{{ c.function.arguments | tojson }}"
            ">>{% endfor %}"
        )
    )
    tokenizer.response_template = {
        "defaults": {"role": "assistant"},
        "start_anchor": "<|im_start|>assistant\n",
        "fields": {
            "tool_calls": {
                "open_pattern": r"<<(?P<name>\w+)\|",
                "close": ">>",
                "repeats": True,
                "content": "json",
                "transform": {
                    "type": "function",
                    "function": {"name": "{name}", "arguments": "{content}"},
                },
            },
            "content": {"close": "<|im_end|>", "content": "text"},
        },
    }
    template = ChatTemplate(tokenizer, "model", TOOLS)
    answer_format = read_template_format(template)
    chance = random.Random(3)
    for _ in range(100):
        calls = draw_calls(chance, 3)
        assert answer_format.read_calls(render_answer(template, calls), SCHEMAS) == calls
    assert answer_format.read_calls("<<now|{>>") == [INVALID_CALL]
    assert answer_format.read_calls("No.") == []


def read_table(heading) -> list[list[str]]:
    """Return the rows of the first table under a heading of the reference."""
    text = (ROOT / "docs/reference/answer_formats.md").read_text(encoding="utf-8")
    lines = text.partition(f"## {heading}\n")[2].splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("| ---"))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[first + 1 :])
    return [[c.replace("\\|", "|").strip() for c in re.split(r"(?<!\\)\|", r)[1:-1]] for r in rows]


def test_the_reference_lists_the_formats_with_their_calls():
    """Each row of the reference is a known format, and its call is read in it."""
    rows = read_table("Calls")
    assert [name for name, _ in rows] == [each.name for each in CALL_FORMATS]
    for call_format, (_, cell) in zip(CALL_FORMATS, rows, strict=True):
        text = re.fullmatch(r"(`+)(.*)\1.*", cell)[2].replace("↵", "\n")
        assert list(call_format.read(text, {})) == [ToolCall("f", {"x": 1})]


def test_the_reference_lists_the_marks_of_thoughts():
    """Each row has marks that are found in a template, and no known marks are left out."""
    rows = [[cell.strip("`") for cell in row[:2]] for row in read_table("Thoughts")]
    for begin, end in rows:
        template = build_template("") + f"{{# {begin} {end} #}}"
        found = read_template_format(ChatTemplate(build_tokenizer(template), "model"))
        assert found.thought == ThoughtMarks(begin, end)
    source = Path(template_format.__file__).read_text(encoding="utf-8")
    assert source.count("    ThoughtMarks(") == len(rows)
