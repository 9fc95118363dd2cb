"""Chats as start strings: messages, and the chat template that encodes them."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any

from llmchecker.errors import ConfigError, UnusableText, did_you_mean, prefix_errors
from llmchecker.models.decoding.answer_format import AnswerFormat
from llmchecker.models.decoding.call_formats import Schemas, ToolCall
from llmchecker.models.decoding.control_tokens import RenderedChat, read_control_tokens
from llmchecker.models.decoding.template_settings import NO_SETTINGS, TemplateSettings
from llmchecker.models.decoding.tools import Tool
from llmchecker.utils.printable_text import quote_value

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_ROLES = ("system", "user", "assistant", "tool")
"""Roles of messages."""

_FIXED_DATE = date(2024, 7, 26)
"""Fixed date for chat templates with the current date, so that answers do not change.

It is the default of Llama's own templates.
"""

_DATE_CALL = "strftime_now("
_DATE_VARIABLE = "date_string"
"""The variable that Llama's templates write as the date."""
_DATE_MARK = "\ue000"
"""A private character, which a template writes in place of a date."""
_DATE_PATTERN = re.compile(r"""strftime_now\(\s*(["'])([^"'\\]*)\1\s*\)""")

THOUGHT_KEYS = ("reasoning_content", "reasoning", "thinking")
"""The keys of thoughts in messages for chat templates."""

_QUESTION = {"role": "user", "content": "Is it so?"}
_PROBE_CHATS = (
    [_QUESTION],
    [{"role": "system", "content": "Answer."}, _QUESTION],
    [
        _QUESTION,
        {"role": "assistant", "content": "Yes.", "reasoning_content": "Why not?"},
        _QUESTION,
    ],
)
"""Chats in which a template may read settings."""


@dataclass(frozen=True)
class Chat:
    """Messages for a model to answer.

    Attributes:
        messages: (role, content) pairs in order; the last role is `user`, or `tool` for the result
            of the call that the message before it makes.
        tools: the functions that the model may call.
        answer_format: the format of the model's calls.
        thoughts: the number and the thought of each message that has one, for chat templates.
        columns: names and JSON of further values for an application, which are part of no message.

    Raises:
        ConfigError: no messages, an unknown role, a content that is not text, a last message
            that is not the user's, or a result that no single call precedes.
    """

    messages: tuple[tuple[str, str], ...]
    tools: tuple[Tool, ...] = ()
    answer_format: AnswerFormat = field(default=AnswerFormat(), compare=False, repr=False)
    thoughts: tuple[tuple[int, str], ...] = ()
    columns: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for number, (role, content) in enumerate(self.messages):
            if role not in _ROLES:
                hint = did_you_mean(str(role), _ROLES) or ";"
                raise ConfigError(
                    f"[{number}]: the role {quote_value(role)} is unknown{hint} use "
                    f"{', '.join(_ROLES)}"
                )
            if not isinstance(content, str):
                raise ConfigError(f"[{number}].{role}: {quote_value(content)} is not a text")
            if role == "system" and number > 0:
                raise ConfigError(
                    f"[{number}]: a system prompt follows another message; put it first"
                )
            if role == "tool" and self._find_called_tool(number) is None:
                raise ConfigError(
                    f"[{number}].tool: the message before it is no single call of one of `tools`; "
                    "write the call"
                )
        if not self.messages or self.messages[-1][0] not in ("user", "tool"):
            raise ConfigError("last message: not the user's; end with a user message")

    @classmethod
    def from_messages(
        cls, messages: "Sequence[Mapping[str, str]] | Chat", tools: tuple[Tool, ...] = ()
    ) -> "Chat":
        """Parse messages: `{"role": …, "content": …}` or, shorter, `{"user": …}`.

        The result of a tool may also have its `name`, as in `as_json`.

        Args:
            messages: the messages.
            tools: the functions that the model may call.

        Raises:
            ConfigError: a message has another form, or `Chat` rejects the messages.
        """
        if isinstance(messages, Chat):
            return messages
        parsed = (_parse_message(number, entry) for number, entry in enumerate(messages))
        chat = cls(tuple(parsed), tools)
        for number, (entry, message) in enumerate(zip(messages, chat.as_json, strict=True)):
            if entry.get("name", message.get("name")) != message.get("name"):
                raise ConfigError(
                    f"[{number}].name: {quote_value(entry['name'])} is not the tool of the call "
                    "before it; remove the name"
                )
        return chat

    def add_columns(self, values: Mapping[str, Any]) -> "Chat":
        """Return the chat with values for an application by name.

        Raises:
            ConfigError: a value is no JSON.
        """
        columns = []
        for name, value in sorted(values.items()):
            try:
                columns.append((name, json.dumps(value, ensure_ascii=False, allow_nan=False)))
            except (TypeError, ValueError) as error:
                raise ConfigError(
                    f"columns.{name}: {quote_value(value)} is no JSON; give a text or a list"
                ) from error
        return replace(self, columns=tuple(columns))

    @property
    def column_values(self) -> dict[str, Any]:
        """The further values for an application by name."""
        return {name: json.loads(value) for name, value in self.columns}

    @property
    def as_json(self) -> list[dict[str, str]]:
        """Messages as chat templates receive them; the result of a tool has its name."""
        return self.replace_contents([content for _, content in self.messages])

    def replace_contents(self, contents: Sequence[str]) -> list[dict[str, str]]:
        """Return messages as in `as_json`, with other contents and the same names of tools."""
        messages = []
        for number, ((role, _), content) in enumerate(zip(self.messages, contents, strict=True)):
            name = self._find_called_tool(number) if role == "tool" else None
            messages.append(
                {"role": role, **({} if name is None else {"name": name}), "content": content}
            )
        return messages

    def write_calls(self, contents: Sequence[str], *, as_text: bool) -> list[dict[str, Any]]:
        """Return messages as in `replace_contents`, in which calls with a result are structured.

        Args:
            contents: the contents.
            as_text: whether arguments are the text of their JSON.
        """
        messages: list[dict[str, Any]] = list(self.replace_contents(contents))
        schemas = {tool.name: tool.parameters for tool in self.tools}
        for number, (role, _) in enumerate(self.messages):
            call = self._find_call(contents[number - 1], schemas) if role == "tool" else None
            if call is None:
                continue
            arguments = json.dumps(call.arguments) if as_text else call.arguments
            function = {"name": call.name, "arguments": arguments}
            # Mistral's templates need an id of nine letters
            name = f"call{number:05}"
            messages[number - 1] = {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"type": "function", "id": name, "function": function}],
            }
            messages[number]["tool_call_id"] = name
        return messages

    def _find_called_tool(self, number: int) -> str | None:
        """Return the name of the tool that the message before one calls; None for other texts."""
        role, content = self.messages[number - 1] if number else ("", "")
        call = self._find_call(content, {}) if role == "assistant" else None
        return None if call is None else call.name

    def _find_call(self, content: str, schemas: Schemas) -> ToolCall | None:
        """Return the single call of a message; None for another text."""
        # a message that the model did not write may be in any format
        for answer_format in (self.answer_format, AnswerFormat()):
            calls = answer_format.read_calls(content, schemas)
            if len(calls) == 1 and calls[0].name in {tool.name for tool in self.tools}:
                return calls[0]
        return None

    def __str__(self) -> str:
        return "\n".join(f"{role}: {content}" for role, content in self.messages)

    @property
    def as_text(self) -> str:
        """The messages as the start string that quantifiers read.

            system: Answer by one word.
            user: Is Paris in France?

        It depends on no template, which a model that returns texts alone does not show. It ends
        with a line break, so that an answer continues no word of the messages.
        """
        return f"{self}\n"


Start = str | Chat
"""Start of a text: a string to continue, or messages to answer."""


def start_as_json(start: Start) -> Any:
    """Return a start string as JSON; different prompts are always different."""
    if isinstance(start, str):
        return start
    tools = [tool.description for tool in start.tools]
    others = {
        "tools": tools,
        "columns": start.column_values,
        "thoughts": [list(thought) for thought in start.thoughts],
    }
    others = {name: value for name, value in others.items() if value}
    return {"messages": start.as_json, **others} if others else start.as_json


@dataclass(frozen=True)
class ChatTemplate:
    """The chat template of a tokenizer for certain tools.

    Attributes:
        tokenizer: the tokenizer.
        name: name of the model, for error messages.
        tools: the functions that the model may call.
        settings: the variables and the date of the template.
        date_text: the text in place of every date; None for the date in its format.
    """

    tokenizer: "PreTrainedTokenizerBase"
    name: str
    tools: tuple[Tool, ...] = ()
    settings: TemplateSettings = NO_SETTINGS
    date_text: str | None = None

    @cached_property
    def source(self) -> str:
        """The program of the template, with a fixed text as the current date.

        A tokenizer may have a template of its own for tools.

        Raises:
            UnusableText: the template is absent, or requests the date in an unknown way.
        """
        return _build_template(
            self.tokenizer, self.name, self._descriptions, self.date_text, self.day
        )

    @property
    def day(self) -> date:
        """The date of prompts, the same in every run."""
        return self.settings.date or _FIXED_DATE

    @property
    def _descriptions(self) -> list[dict[str, Any]] | None:
        return [tool.description for tool in self.tools] or None

    def render(self, messages: Sequence[Mapping[str, Any]], **arguments: Any) -> Any:
        """Return the text of messages, up to the beginning of the model's answer.

        Args:
            messages: the messages, as the template receives them.
            arguments: other arguments of transformers' `apply_chat_template`.

        Raises:
            UnusableText: the template is absent or rejects the messages.
        """
        defaults = {
            "tools": self._descriptions,
            "add_generation_prompt": True,
            "tokenize": False,
            **self.settings.variables,
        }
        if self.settings.date is not None:
            # Llama's templates have a variable next to the call, or in its place
            defaults.setdefault(_DATE_VARIABLE, f"{self.day:%d %b %Y}")
        source = self.source
        try:
            return self.tokenizer.apply_chat_template(
                [dict(each) for each in messages], chat_template=source, **(defaults | arguments)
            )
        except Exception as error:  # a template is a program, which may raise any error
            raise UnusableText(
                f"chat template of {self.name}: it rejects these messages: {error}"
            ) from error

    def render_chat(self, chat: Chat, texts: Sequence[str] | None = None, **arguments: Any) -> Any:
        """Return the text of a chat, as `render` does.

        Calls are in the text of a message. A template that rejects the result of such a call gets
        structured calls instead, without the text around them.

        Args:
            chat: the chat.
            texts: other contents of its messages, and then other thoughts; None for its own.
            arguments: as in `render`.
        """
        if chat.columns:
            raise ConfigError("columns: only applications get them; remove the columns")
        texts = list_texts(chat) if texts is None else texts
        count = len(chat.messages)
        contents, thoughts = texts[:count], texts[count:]

        def render(messages: Sequence[Mapping[str, Any]]) -> Any:
            return self.render(_write_thoughts(messages, chat, thoughts), **arguments)

        try:
            return render(chat.replace_contents(contents))
        except UnusableText:
            if all(role != "tool" for role, _ in chat.messages):
                raise
            try:
                return render(chat.write_calls(contents, as_text=False))
            except UnusableText:
                return render(chat.write_calls(contents, as_text=True))

    def check_settings(self, chat: Chat) -> None:
        """Check that the template reads each of its settings, in a chat or in a simple one.

        Raises:
            UnusableText: the text of the prompt does not depend on a setting.
        """
        chats = [chat.as_json, *_PROBE_CHATS]
        for name in self.settings.as_json:
            others = [replace(self, settings=each) for each in self.settings.list_others(name)]
            if all(self._try(each) == other._try(each) for each in chats for other in others):
                raise UnusableText(
                    f"template.{name}: the chat template of {self.name} does not read it; remove it"
                )

    def _try(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Return the text of messages, or the error of the template."""
        try:
            text: str = self.render(messages)
        except UnusableText as error:
            return str(error)
        return text


def encode_chat(
    tokenizer: "PreTrainedTokenizerBase",
    chat: Chat,
    name: str,
    settings: TemplateSettings = NO_SETTINGS,
    *,
    marks: Sequence[str] = (),
) -> tuple[int, ...]:
    """Return the tokens of a chat, up to the beginning of the model's answer.

    The text is that of transformers' `apply_chat_template`, and so are the tokens, except for
    control tokens that a message contains, such as `<|im_end|>`: they are encoded as text.

    Args:
        tokenizer: the model's tokenizer.
        chat: the messages.
        name: name of the model, for error messages.
        settings: the settings of the template.
        marks: the marks of thoughts and calls, which are control tokens in the model's messages.

    Raises:
        UnusableText: the template is absent, has no tools or rejects the messages, or a message
            contains a control token that cannot be encoded as text.
    """
    template = ChatTemplate(tokenizer, name, chat.tools, settings)
    template.check_settings(chat)

    def render(texts: Sequence[str], **arguments: Any) -> Any:
        return template.render_chat(chat, texts, **arguments)

    contents = list_texts(chat)
    messages = [*chat.messages, *(("assistant", thought) for _, thought in chat.thoughts)]
    text = render(contents)
    if chat.tools:
        _check_tools(tokenizer, chat.tools)
        if render(contents, tools=None) == text:
            raise UnusableText(
                f"tools: the chat template of {name} has no tools; choose a model whose template "
                "has them"
            )
    offsets = {"return_offsets_mapping": tokenizer.is_fast}
    encoding = render(contents, tokenize=True, tokenizer_kwargs=offsets)
    tokens = tuple(encoding["input_ids"])
    with prefix_errors(name):
        if not tokenizer.is_fast:
            _check_control_tokens(tokenizer, contents, text)
            return tokens
        rendered = RenderedChat(tokenizer, text, tokens, tuple(encoding["offset_mapping"]))
        typed_tokens = rendered.find_typed_tokens(messages, render)
        return rendered.encode_as_text(
            {
                token: number
                for token, number in typed_tokens.items()
                if messages[number][0] != "assistant"
                or not any(token.text in mark for mark in marks)
            }
        )


def find_prompt_date(
    tokenizer: "PreTrainedTokenizerBase",
    chat: Chat,
    name: str,
    settings: TemplateSettings = NO_SETTINGS,
) -> str | None:
    """Find the date that a chat template writes into the text of a chat.

    It is the same in every run, and so it is rarely the date of the run.

    Args:
        tokenizer, chat, name, settings: as in `encode_chat`, which accepts them.

    Returns:
        The date as it is written, `26 July 2024` for a part of it; None without a date.
    """
    template = ChatTemplate(tokenizer, name, chat.tools, settings)
    if _DATE_CALL not in template.source and _DATE_VARIABLE not in template.source:
        return None
    text = template.render_chat(chat)
    # the date of a call, and any other default of the variable
    if replace(template, date_text=_DATE_MARK).render_chat(chat) != text:
        return f"{template.day:%d %B %Y}"
    try:
        parts = template.render_chat(chat, **{_DATE_VARIABLE: _DATE_MARK}).split(_DATE_MARK)
    except UnusableText:  # a template that computes with the date rejects the mark
        return None
    # the text before the first mark and after the last one is not the date
    if len(parts) == 1 or _DATE_MARK in text:
        return None
    date_text = text.removeprefix(parts[0]).removesuffix(parts[-1])
    result: str = date_text if len(parts) == 2 else date_text.partition(parts[1])[0]
    return result


def describe_prompt_date(model: object, start: Start) -> tuple[str, ...]:
    """Return a note on the date in a model's prompt, as of `format_date_notes`."""
    # a model of a user has no chat template of its own
    find = getattr(model, "find_prompt_date", None)
    return format_date_notes(None if find is None else find(start))


def format_date_notes(date_text: str | None) -> tuple[str, ...]:
    """Return a note on the date in a prompt, which is rarely that of today; none without a date."""
    if date_text is None:
        return ()
    return (
        f"the chat template writes the date {date_text} into the prompt, whatever the day of the "
        "run",
    )


def list_texts(chat: Chat) -> list[str]:
    """Return the contents of the messages of a chat, and then its thoughts."""
    return [content for _, content in chat.messages] + [thought for _, thought in chat.thoughts]


def _write_thoughts(
    messages: Sequence[Mapping[str, Any]], chat: Chat, thoughts: Sequence[str]
) -> list[dict[str, Any]]:
    """Return messages with thoughts under each key by which templates read them."""
    written = [dict(message) for message in messages]
    for (number, _), thought in zip(chat.thoughts, thoughts, strict=True):
        written[number] |= dict.fromkeys(THOUGHT_KEYS, thought)
    return written


def _check_tools(tokenizer: "PreTrainedTokenizerBase", tools: Sequence[Tool]) -> None:
    """Check that no description of a tool contains a control token.

    Raises:
        UnusableText: one does.
    """
    for control_token in read_control_tokens(tokenizer).values():
        for tool in tools:
            if control_token in tool.text:
                raise UnusableText(
                    f"tools: {tool.name} contains the control token {control_token!r}; rewrite the "
                    "description"
                )


def _check_control_tokens(
    tokenizer: "PreTrainedTokenizerBase", contents: Sequence[str], text: str
) -> None:
    """Check that no control token of a rendered chat may come from a message.

    A slow tokenizer does not report the places of tokens in a text.

    Raises:
        UnusableText: a message contains a control token.
    """
    for number, content in enumerate(contents):
        for control_token in read_control_tokens(tokenizer).values():
            if control_token in content and control_token in text:
                raise UnusableText(
                    f"messages[{number}].content: it contains {control_token!r}, which this "
                    "tokenizer encodes as a control token; rewrite the message"
                )


def _parse_message(number: int, entry: Mapping[str, str]) -> tuple[str, str]:
    if isinstance(entry, Mapping) and entry.keys() - {"name"} == {"role", "content"}:
        return entry["role"], entry["content"]
    if isinstance(entry, Mapping) and len(entry) == 1:
        ((role, content),) = entry.items()
        return role, content
    raise ConfigError(
        f"[{number}]: {quote_value(entry)} is not a message; write it as {{'user': 'Is it so?'}}"
    )


def _build_template(
    tokenizer: "PreTrainedTokenizerBase",
    name: str,
    tools: list[dict[str, Any]] | None,
    date_text: str | None,
    day: date,
) -> str:
    """Return the chat template of a tokenizer, with a fixed text as the current date.

    A tokenizer may have a template of its own for tools.

    Args:
        tokenizer, name: as in `encode_chat`.
        tools: the descriptions of the tools.
        date_text: the text in place of every date; None for the date in its format.

    Raises:
        UnusableText: the template is absent, or requests the date in an unknown way.
    """
    if not tokenizer.chat_template:
        raise UnusableText(f"{name}: no chat template; use a start string, or choose a chat model")
    try:
        template = tokenizer.get_chat_template(tools=tools)
    except ValueError as error:
        raise UnusableText(f"chat template of {name}: {error}") from error
    if _DATE_CALL not in template:
        return template
    formats = [match[2] for match in _DATE_PATTERN.finditer(template)]
    # a format that is not a literal cannot be evaluated beforehand
    if len(formats) < template.count(_DATE_CALL):
        raise UnusableText(
            f"{name}: its chat template computes the format of the date; choose a model "
            "whose template has a literal format"
        )
    cases = (
        f"{{%- if f == {f!r} -%}}{date_text or day.strftime(f)}{{%- endif -%}}"
        for f in set(formats)
    )
    branches = "".join(sorted(cases))
    # transformers' Jinja environment removes the line break after the macro
    return f"{{%- macro strftime_now(f) -%}}{branches}{{%- endmacro %}}\n{template}"
