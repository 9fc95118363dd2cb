"""Tools in the APIs of chats: descriptions, calls and results as each API has them.

An answer with calls is a text, in which each call follows the content:

    <tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llmchecker.models.decoding.answer_format import AnswerFormat
from llmchecker.models.decoding.call_formats import ToolCall
from llmchecker.models.decoding.chat_template import Chat, Start
from llmchecker.models.decoding.tools import Tool

_BEGIN, _END = "<tool_call>", "</tool_call>"

_Messages = list[dict[str, Any]]


def write_calls(entries: Iterable[Any]) -> str:
    """Return calls of an API as a text; one of another form is a call that cannot be read.

    Args:
        entries: the calls, each with `name` and `arguments`, or with these in `function`.
    """
    return "".join(f"{_BEGIN}{_write_call(entry)}{_END}" for entry in entries)


def _write_call(entry: Any) -> str:
    function = entry.get("function", entry) if isinstance(entry, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return ""
    arguments = function.get("arguments")
    call = {"name": function["name"], "arguments": arguments or {}}
    # no text in the arguments is a mark
    return json.dumps(call, ensure_ascii=False).replace("<", "\\u003c")


def describe_openai_tools(prompt: Start) -> dict[str, Any]:
    """Return the part of a request to OpenAI or Ollama with the tools of a chat, if it has any."""
    tools = _list_tools(prompt)
    return {"tools": [tool.description for tool in tools]} if tools else {}


def describe_anthropic_tools(prompt: Start) -> dict[str, Any]:
    """Return the part of a request to Anthropic with the tools of a chat, if it has any."""
    described = []
    for tool in _list_tools(prompt):
        function = tool.description["function"]
        entry = {"name": tool.name, "input_schema": tool.parameters or {"type": "object"}}
        if "description" in function:
            entry["description"] = function["description"]
        described.append(entry)
    return {"tools": described} if described else {}


def _list_tools(prompt: Start) -> Sequence[Tool]:
    return () if isinstance(prompt, str) else prompt.tools


def list_openai_messages(prompt: Start) -> _Messages:
    """Return messages as OpenAI's API has them."""

    def build(content: str, call: ToolCall, number: int, result: str) -> _Messages:
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        calls = [{"id": f"call_{number}", "type": "function", "function": function}]
        return [
            {"role": "assistant", "content": content or None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": result},
        ]

    return _list_messages(prompt, build)


def list_ollama_messages(prompt: Start) -> _Messages:
    """Return messages as Ollama's API has them."""

    def build(content: str, call: ToolCall, number: int, result: str) -> _Messages:
        del number
        calls = [{"function": {"name": call.name, "arguments": call.arguments}}]
        return [
            {"role": "assistant", "content": content, "tool_calls": calls},
            {"role": "tool", "tool_name": call.name, "content": result},
        ]

    return _list_messages(prompt, build)


def list_anthropic_messages(prompt: Start) -> _Messages:
    """Return messages as Anthropic's API has them; the system message is not one of them there."""

    def build(content: str, call: ToolCall, number: int, result: str) -> _Messages:
        name = f"call_{number}"
        text = [{"type": "text", "text": content}] if content else []
        use = {"type": "tool_use", "id": name, "name": call.name, "input": call.arguments}
        answer = {"type": "tool_result", "tool_use_id": name, "content": result}
        return [
            {"role": "assistant", "content": [*text, use]},
            {"role": "user", "content": [answer]},
        ]

    return _list_messages(prompt, build)


def _list_messages(
    prompt: Start, build: Callable[[str, ToolCall, int, str], _Messages]
) -> _Messages:
    """Return messages, of which a call and its result are those of an API.

    Args:
        prompt: the chat, or a text that is one message of the user.
        build: returns the messages of a call and its result: from the content of the answer, the
            call, the number of the result and its text.
    """
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    messages: _Messages = []
    for number, (role, content) in enumerate(prompt.messages):
        if role != "tool":
            messages.append({"role": role, "content": content})
            continue
        said = messages.pop()["content"]
        call = AnswerFormat().find_single_call(said)
        # `Chat` has no result without a call
        assert call is not None
        messages += build(said.partition(_BEGIN)[0].strip(), call, number, content)
    return messages


def reads_calls(prompt: Start) -> bool:
    """Return whether the calls of an answer are those of the chat's own tools."""
    return isinstance(prompt, Chat) and bool(prompt.tools)
