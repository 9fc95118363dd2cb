"""The format of a model's answers, found by what its chat template writes.

A message with a thought is rendered, and the known marks around the thought are its marks. A
template that leaves thoughts out still contains the mark where it cuts them off. Likewise a message
with a call is rendered, and the format of calls is that which reads the same call. A tokenizer with
a `response_template` of its own is read by it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from llmchecker.errors import UnusableText
from llmchecker.models.decoding.answer_format import AnswerFormat, ThoughtMarks
from llmchecker.models.decoding.call_formats import (
    CALL_FORMATS,
    INVALID_CALL,
    CallFormat,
    Schemas,
    ToolCall,
    read_arguments,
)
from llmchecker.models.decoding.chat_template import (
    THOUGHT_KEYS,
    Chat,
    ChatTemplate,
    list_texts,
)
from llmchecker.models.decoding.template_settings import NO_SETTINGS, TemplateSettings
from llmchecker.models.decoding.tools import Tool

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_QUESTION, _THOUGHT, _ANSWER = "\ue001", "\ue002", "\ue003"
"""Private characters as contents of rendered messages, which no template changes."""

_KNOWN_THOUGHTS = (
    ThoughtMarks("<think>", "</think>"),
    # gpt-oss: all channels before the final one
    ThoughtMarks("<|channel|>", "final<|message|>"),
    ThoughtMarks("<|channel>thought", "<channel|>"),
    ThoughtMarks("[THINK]", "[/THINK]"),
    ThoughtMarks("<seed:think>", "</seed:think>"),
    ThoughtMarks("<|START_THINKING|>", "<|END_THINKING|>"),
    ThoughtMarks("<|inner_prefix|>", "<|inner_suffix|>"),
    ThoughtMarks("<longcat_think>", "</longcat_think>"),
    ThoughtMarks("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
)
"""The marks of thoughts of known models."""

_EXAMPLES: Mapping[str, Any] = {
    "string": "some text",
    "integer": 3,
    "number": 1.5,
    "boolean": True,
    "array": ["some text", 3],
    "object": {"key": ["some text"], "number": 3},
    "null": None,
}
"""A value of each type of JSON Schema, for rendered calls."""

_PROBE_TOOL = Tool.parse(
    {
        "name": "find_places",
        "description": "Find places.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city."},
                "number": {"type": "integer", "description": "The number of places."},
                "open": {"type": "boolean", "description": "Whether they are open."},
            },
            "required": ["city"],
        },
    }
)
"""The tool of a rendered call in a chat without tools."""


def read_answer_format(
    tokenizer: "PreTrainedTokenizerBase",
    chat: Chat,
    name: str,
    settings: TemplateSettings = NO_SETTINGS,
) -> AnswerFormat:
    """Find the format of the answers to a chat, by what the chat template writes.

    Args:
        tokenizer, chat, name, settings: as in `encode_chat`, which accepts them.
    """
    template = ChatTemplate(tokenizer, name, chat.tools, settings)
    answer_format = read_template_format(template)
    assert answer_format.thought is not None
    is_open = _is_open(answer_format.thought, template, chat)
    thought = replace(answer_format.thought, is_open=is_open)
    # without tools in the template, only the messages describe a form of calls
    return replace(answer_format, thought=thought) if chat.tools else AnswerFormat(thought)


def read_template_format(template: ChatTemplate) -> AnswerFormat:
    """Find the format of the answers to any chat, of which none begins in the prompt."""
    thought = _find_thought_marks(template)
    tools = template.tools or (_PROBE_TOOL,)
    rendered = [_render_calls(template, tool) for tool in tools]
    calls = [_build_call(tool) for tool in tools]
    own_format = _ResponseTemplateCalls.from_tokenizer(template.tokenizer)
    for call_format in CALL_FORMATS if own_format is None else (own_format, *CALL_FORMATS):
        if all(
            any(list(call_format.read(text, _list_schemas(tools))) == [call] for text in texts)
            for call, texts in zip(calls, rendered, strict=True)
        ):
            return AnswerFormat(thought, call_format)
    written = [text for texts in rendered for text in texts]
    if any(call.name in text for call in calls for text in written):
        return AnswerFormat(thought, None, f"writes calls in an unknown form: {written[0].strip()}")
    if not written:
        return AnswerFormat(thought, None, "rejects messages with calls")
    described = _find_described_calls(template)
    unread = "" if described or not template.tools else "has no form of calls"
    return AnswerFormat(thought, described, unread)


def _list_schemas(tools: Sequence[Tool]) -> Schemas:
    return {tool.name: tool.parameters for tool in tools}


def _render_calls(template: ChatTemplate, tool: Tool) -> list[str]:
    """Return the texts of an answer that calls a tool, as the template writes it.

    Templates differ in what they accept: arguments as an object or as its text, an empty content or
    none. The texts with the call are the first.
    """
    template = replace(template, tools=template.tools or (tool,))
    question = {"role": "user", "content": _QUESTION}
    header, footer = _render_frame(template, question)
    call = _build_call(tool)
    texts = []
    for arguments in (call.arguments, json.dumps(call.arguments)):
        for content in ("", None):
            function = {"name": call.name, "arguments": arguments}
            # Mistral's templates need an id of nine letters
            calls = [{"type": "function", "id": "call00000", "function": function}]
            message = {"role": "assistant", "content": content, "tool_calls": calls}
            try:
                text = template.render([question, message], add_generation_prompt=False)
            except UnusableText:  # of this form of a message
                continue
            answer = text.rpartition(_QUESTION)[2].removeprefix(header).removesuffix(footer)
            texts.append(answer)
    return sorted(texts, key=lambda text: call.name not in text)


def _render_frame(template: ChatTemplate, question: Mapping[str, Any]) -> tuple[str, str]:
    """Return the texts of a template before and after an answer."""
    answer = {"role": "assistant", "content": _ANSWER}
    try:
        text = template.render([question, answer], add_generation_prompt=False)
    except UnusableText:
        return "", ""
    header, _, footer = text.rpartition(_QUESTION)[2].partition(_ANSWER)
    return header, footer


def _build_call(tool: Tool) -> ToolCall:
    """Return a call of a tool with an argument of each property, as its schema has it."""
    properties = tool.parameters.get("properties")
    entries = properties.items() if isinstance(properties, Mapping) else ()
    return ToolCall(tool.name, {str(key): _build_value(schema) for key, schema in entries})


def _build_value(schema: Any) -> Any:
    """Return a value of the type of a schema, or a text."""
    if not isinstance(schema, Mapping):
        return "some text"
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and values:
        return values[0]
    declared = schema.get("type")
    declared = declared[0] if isinstance(declared, list) and declared else declared
    return _EXAMPLES.get(declared, "some text") if isinstance(declared, str) else "some text"


def _find_described_calls(template: ChatTemplate) -> CallFormat | None:
    """Return the format whose marks a template describes, or its tokenizer has; None without one.

    Some templates write no calls, and only describe them to the model.
    """
    tokens = "\n".join(template.tokenizer.get_added_vocab())
    for evidence in (template.source, template.source + tokens):
        described = [
            each
            for each in CALL_FORMATS
            if each.begin and all(mark in evidence for mark in (each.begin, *each.inner_marks))
        ]
        # formats with marks inside of calls share their outer marks with others
        described.sort(key=lambda each: -len(each.inner_marks))
        if described:
            return described[0]
    return None


@dataclass(frozen=True)
class _ResponseTemplateCalls(CallFormat):
    """Calls that transformers reads by a tokenizer's own `response_template`.

    Attributes:
        source: the template as JSON.
    """

    source: str

    @classmethod
    def from_tokenizer(cls, tokenizer: "PreTrainedTokenizerBase") -> "CallFormat | None":
        """Return the format of a tokenizer; None for one without a template of calls."""
        source = getattr(tokenizer, "response_template", None)
        if not isinstance(source, dict) or "tool_calls" not in source.get("fields", {}):
            return None
        return cls("its response template", "", "", json.dumps(source))

    @property
    def marks(self) -> tuple[str, ...]:
        """All texts of the template, of which patterns have their escapes removed."""
        return (json.dumps(json.loads(self.source), ensure_ascii=False).replace("\\", ""),)

    def read(self, text: str, schemas: Schemas) -> Iterator[ToolCall]:
        """Yield the calls that transformers finds; a text that it rejects is an invalid call."""
        from transformers.utils.chat_parsing import parse_response

        tools: list[Any] = [
            {"type": "function", "function": {"name": name, "parameters": schema}}
            for name, schema in schemas.items()
        ]
        try:
            message = parse_response(text, json.loads(self.source), prefix="", tools=tools)
            for entry in message.get("tool_calls", []):
                function = entry["function"]
                yield ToolCall(str(function["name"]), read_arguments(function["arguments"]))
        except Exception:  # the parsers of a template raise errors of many kinds
            yield INVALID_CALL


def _find_thought_marks(template: ChatTemplate) -> ThoughtMarks:
    """Return the marks that the template writes around a thought, or else contains."""
    message: dict[str, Any] = {"role": "assistant", "content": _ANSWER}
    message |= dict.fromkeys(THOUGHT_KEYS, _THOUGHT)
    question = {"role": "user", "content": _QUESTION}
    try:
        text = template.render([question, message], add_generation_prompt=False)
    except UnusableText:  # a template may accept no message with a thought
        text = ""
    before, _, after = text.rpartition(_QUESTION)[2].partition(_THOUGHT)
    for marks in _KNOWN_THOUGHTS:
        if marks.begin in before and marks.end in after.partition(_ANSWER)[0]:
            return marks
    written = (marks for marks in _KNOWN_THOUGHTS if marks.end in template.source)
    return next(written, _KNOWN_THOUGHTS[0])


def _is_open(marks: ThoughtMarks, template: ChatTemplate, chat: Chat) -> bool:
    """Return whether the template begins a thought after the last message, and does not end it."""
    texts = list_texts(chat)
    texts[len(chat.messages) - 1] = _QUESTION
    text = template.render_chat(chat, texts)
    beginning = text.rpartition(_QUESTION)[2]
    is_open: bool = beginning.rfind(marks.begin) > beginning.rfind(marks.end)
    return is_open
