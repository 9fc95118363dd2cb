"""Formats in which chat models write calls of tools, and their readers.

    <tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>              Hermes, Qwen, SmolLM3
    <tool_call><function=f><parameter=x>1</parameter></function></tool_call> Qwen3-Coder, Nemotron 3
    <tool_call>f<arg_key>x</arg_key><arg_value>1</arg_value></tool_call>     GLM
    [TOOL_CALLS]f[ARGS]{"x": 1}                                              Mistral
    <|tool_call_start|>[f(x=1)]<|tool_call_end|>                             LFM2

Each format is a reader: all that follows its mark is read as calls, and what cannot be read is an
invalid call, so that no call is taken for a text.
"""

import ast
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

Schemas = Mapping[str, Any]
"""The JSON Schema of the arguments of each tool, by name."""

_NAMES, _ARGUMENTS = ("name", "tool_name"), ("arguments", "parameters")
"""The keys of the name and of the arguments of a call in JSON."""

_PYTHON_NAMES = {"true": True, "false": False, "null": None}
"""The names in arguments of Python calls that are constants of JSON."""

_JSON_TYPES: Mapping[type, tuple[str, ...]] = {
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number", "integer"),
    list: ("array",),
    dict: ("object",),
    type(None): ("null",),
}


@dataclass(frozen=True)
class ToolCall:
    """A call in a text.

    Attributes:
        name: the name of the tool; empty for a call that cannot be read, since no tool has it.
        arguments: the arguments, of which an object alone is valid; None for those that are no
            JSON.
    """

    name: str
    arguments: Any


INVALID_CALL = ToolCall("", None)
"""A call that cannot be read."""


@dataclass(frozen=True)
class CallFormat(ABC):
    """A format of calls, with marks around them.

    Attributes:
        name: the models that write it, for messages.
        begin: the mark before calls.
        end: the mark after them, in place of which the text may end; empty for calls that extend to
            the next mark, or to the end of the text.
        inner_marks: the literal texts in a call.
        must_end: whether a text may not end in place of the end mark.
    """

    name: str
    begin: str
    end: str
    inner_marks: tuple[str, ...] = field(default=(), kw_only=True)
    must_end: bool = field(default=False, kw_only=True)

    @property
    def marks(self) -> tuple[str, ...]:
        """The literal texts of the format, which may be special tokens of a tokenizer."""
        return tuple(mark for mark in (self.begin, self.end, *self.inner_marks) if mark)

    @abstractmethod
    def read(self, text: str, schemas: Schemas) -> Iterator[ToolCall]:
        """Yield the calls of a text, readable or not; text around the marks is none.

        Args:
            text: the text.
            schemas: the tools, by which formats without quotes distinguish numbers from texts.
        """

    def remove(self, text: str) -> str:
        """Return what remains of a text without its calls: nothing if it may be one."""
        del text
        return ""


class _MarkedCalls(CallFormat):
    """Calls between marks."""

    def read(self, text: str, schemas: Schemas) -> Iterator[ToolCall]:
        for index, part in enumerate(self._split(text)):
            # a mark without a call calls nothing that a program could run
            if index % 2:
                yield from list(self.read_section(part, schemas)) or [INVALID_CALL]

    def remove(self, text: str) -> str:
        return "\n".join(self._split(text)[::2])

    def _split(self, text: str) -> list[str]:
        """Return the parts of a text outside of marks and between them, in turn."""
        parts, last = [], 0
        while (position := text.find(self.begin, last)) >= 0:
            first = position + len(self.begin)
            end = text.find(self.end or self.begin, first)
            if end >= 0:
                parts += [text[last:position], text[first:end]]
                last = end + len(self.end)
            else:
                # without its end, a call that does not end by itself cannot be read
                parts += [text[last:position], "" if self.must_end else text[first:]]
                last = len(text)
        return [*parts, text[last:]]

    @abstractmethod
    def read_section(self, text: str, schemas: Schemas) -> Iterator[ToolCall]:
        """Yield the calls of the text between two marks."""


@dataclass(frozen=True)
class _JsonCalls(_MarkedCalls):
    """Calls as one JSON object, or a list of objects.

    Attributes:
        opening: the end of the mark, if it is the beginning of the JSON.
    """

    opening: str = field(default="", kw_only=True)

    def read_section(self, text: str, schemas: Schemas) -> Iterator[ToolCall]:
        """Yield a call for each entry, each of which must be one."""
        value = _parse_json(self.opening + text)
        for entry in value if isinstance(value, list) else [value]:
            yield _read_json_call(entry) or INVALID_CALL


class _KeyedCalls(_MarkedCalls):
    """Calls as a list of JSON objects, whose key is the name: Apertus."""

    def read_section(self, text: str, schemas: Schemas) -> Iterator[ToolCall]:
        value = _parse_json(text)
        for entry in value if isinstance(value, list) else [value]:
            if isinstance(entry, dict) and len(entry) == 1:
                yield ToolCall(*next(iter(entry.items())))
            else:
                yield INVALID_CALL


@dataclass(frozen=True)
class _PatternCalls(_MarkedCalls):
    """Calls that a pattern finds, with nothing but white space between them.

    Attributes:
        call: the pattern of a call, with the groups `name` and `arguments`.
    """

    call: re.Pattern[str]

    def read_section(self, text: str, schemas: Schemas) -> Iterator[ToolCall]:
        for match in _match_all(self.call, text):
            if match is None:
                yield INVALID_CALL
            else:
                name = match["name"].strip()
                yield ToolCall(name, self.read_arguments(match["arguments"], schemas.get(name)))

    def read_arguments(self, text: str, schema: Any) -> Any:
        """Return the arguments of a call; None for those that cannot be read."""
        del schema
        return _parse_json(text)


@dataclass(frozen=True)
class _TaggedCalls(_PatternCalls):
    """Calls whose arguments are texts between tags.

    Attributes:
        argument: the pattern of an argument, with the groups `key` and `value`, and maybe `type`,
            which is `true` for a text and `false` for JSON.
    """

    argument: re.Pattern[str]

    def read_arguments(self, text: str, schema: Any) -> Any:
        arguments: dict[str, Any] = {}
        for match in _match_all(self.argument, text):
            if match is None or match["key"].strip() in arguments:
                return None
            key = match["key"].strip()
            value = match["value"]
            if match.groupdict().get("type") == "true":
                arguments[key] = value
            elif match.groupdict().get("type") == "false":
                arguments[key] = _parse_json(value)
            else:
                arguments[key] = _read_value(value, _find_property(schema, key))
        return arguments


@dataclass(frozen=True)
class _GemmaCalls(_PatternCalls):
    """Calls whose arguments are JSON with bare keys and texts between marks.

    Attributes:
        quote: the mark before and after a text.
    """

    quote: str

    def read_arguments(self, text: str, schema: Any) -> Any:
        # pieces outside and inside of quotes alternate
        pieces = f"{{{text}}}".split(self.quote)
        if len(pieces) % 2 == 0:
            return None
        for index, piece in enumerate(pieces):
            if index % 2:
                pieces[index] = json.dumps(piece)
            elif '"' in piece:
                return None
            else:
                pieces[index] = re.sub(r"(?<=[{,])\s*([^\s{}\[\],:]+)\s*:", r'"\1":', piece)
        return _parse_json("".join(pieces))


class _PythonCalls(_MarkedCalls):
    """Calls as a list of Python calls with keywords."""

    def read_section(self, text: str, schemas: Schemas) -> Iterator[ToolCall]:
        try:
            tree = ast.parse(text.strip(), mode="eval").body
            nodes = tree.elts if isinstance(tree, ast.List) else [tree]
            yield from [_read_python_call(node) for node in nodes]
        # text that is no Python, or deeper than Python reads it
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            yield INVALID_CALL


class HarmonyCalls(CallFormat):
    """Calls as messages to functions: gpt-oss."""

    MESSAGE = re.compile(
        r"(?P<header>.*?)<\|message\|>(?P<content>.*?)(?:<\|(?:end|call|return)\|>|\Z)", re.DOTALL
    )
    RECIPIENT = re.compile(r"\bto=(?P<name>[^\s<]+)")

    def read(self, text: str, schemas: Schemas) -> Iterator[ToolCall]:
        """Yield the calls of a text, whose first header begins in the prompt."""
        for part in text.split("<|start|>"):
            message = self.MESSAGE.match(part)
            # a text may end within a header, or have none
            is_header = message is not None or re.match(r"\s*(to=|<\|channel\|>)", part)
            header = message["header"] if message else part
            recipient = self.RECIPIENT.search(header) if is_header else None
            if recipient is None:
                continue
            name = recipient["name"]
            if message is not None and name.startswith("functions."):
                yield ToolCall(name.removeprefix("functions."), _parse_json(message["content"]))
            else:
                yield INVALID_CALL


def read_harmony_analysis(text: str) -> str:
    """Return the contents of messages that call nothing: the thought of gpt-oss."""
    messages = map(HarmonyCalls.MESSAGE.match, text.split("<|start|>"))
    return "\n".join(
        message["content"]
        for message in messages
        if message is not None and HarmonyCalls.RECIPIENT.search(message["header"]) is None
    )


class _BareCalls(CallFormat):
    """Calls in JSON that are the whole text: Llama 3."""

    _BEGINNING = re.compile(r'\s*(?:\[\s*)?\{\s*"(?:name|function)"\s*:')

    def read(self, text: str, schemas: Schemas) -> Iterator[ToolCall]:
        """Yield the calls of a text that begins like a call; other JSON is an answer."""
        value = _parse_json(text)
        entries = value if isinstance(value, list) else [value]
        calls = [_read_json_call(entry) for entry in entries]
        if calls and None not in calls:
            yield from filter(None, calls)
        elif value is None and self._BEGINNING.match(text):
            yield INVALID_CALL


_XML_CALL = re.compile(r"\s*<function=(?P<name>[^>\n]+)>(?P<arguments>.*?)</function>", re.DOTALL)
_XML_ARGUMENT = re.compile(
    r"\s*<parameter=(?P<key>[^>\n]+)>\n?(?P<value>.*?)\n?</parameter>", re.DOTALL
)
_XML_MARKS = ("<function=", "<parameter=")
_GEMMA_CALL = re.compile(r"\s*call:(?P<name>[^{\s]+)\{(?P<arguments>.*)\}", re.DOTALL)

CALL_FORMATS: tuple[CallFormat, ...] = (
    _JsonCalls("Hermes, Qwen", "<tool_call>", "</tool_call>"),
    _TaggedCalls(
        "Qwen3-Coder, Nemotron 3",
        "<tool_call>",
        "</tool_call>",
        _XML_CALL,
        _XML_ARGUMENT,
        inner_marks=_XML_MARKS,
    ),
    _TaggedCalls(
        "GLM",
        "<tool_call>",
        "</tool_call>",
        re.compile(r"\s*(?P<name>[\w.-]+)\s*(?P<arguments>(?:<arg_key>.*)?)", re.DOTALL),
        re.compile(
            r"\s*<arg_key>(?P<key>.*?)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>", re.DOTALL
        ),
        inner_marks=("<arg_key>", "<arg_value>"),
        must_end=True,
    ),
    _TaggedCalls(
        "Seed-OSS",
        "<seed:tool_call>",
        "</seed:tool_call>",
        _XML_CALL,
        re.compile(r"\s*<parameter=(?P<key>[^>\n]+)>(?P<value>.*?)</parameter>", re.DOTALL),
        inner_marks=_XML_MARKS,
    ),
    _TaggedCalls(
        "MiniMax-M2",
        "<minimax:tool_call>",
        "</minimax:tool_call>",
        re.compile(r'\s*<invoke name="(?P<name>[^"]+)">(?P<arguments>.*?)</invoke>', re.DOTALL),
        re.compile(r'\s*<parameter name="(?P<key>[^"]+)">(?P<value>.*?)</parameter>', re.DOTALL),
    ),
    *(
        _TaggedCalls(
            name,
            f"<｜DSML｜{section}>",
            f"</｜DSML｜{section}>",
            re.compile(
                r'\s*<｜DSML｜invoke name="(?P<name>[^"]+)">(?P<arguments>.*?)</｜DSML｜invoke>',
                re.DOTALL,
            ),
            re.compile(
                r'\s*<｜DSML｜parameter name="(?P<key>[^"]+)" string="(?P<type>true|false)">'
                r"(?P<value>.*?)</｜DSML｜parameter>",
                re.DOTALL,
            ),
            inner_marks=("｜DSML｜",),
        )
        for name, section in (("DeepSeek-V3.2", "function_calls"), ("DeepSeek-V4", "tool_calls"))
    ),
    _JsonCalls("Mistral", "[TOOL_CALLS]", ""),
    _PatternCalls(
        "Mistral Small 3.2, Devstral",
        "[TOOL_CALLS]",
        "",
        re.compile(
            r"\s*(?P<name>[\w.-]+)(?:\[CALL_ID\][^\s\[]*)?\[ARGS\](?P<arguments>.*)", re.DOTALL
        ),
        inner_marks=("[CALL_ID]", "[ARGS]"),
    ),
    _PatternCalls(
        "Kimi-K2",
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        re.compile(
            r"\s*<\|tool_call_begin\|>\s*(?:functions\.)?(?P<name>[\w.-]+):\d+\s*"
            r"<\|tool_call_argument_begin\|>(?P<arguments>.*?)<\|tool_call_end\|>",
            re.DOTALL,
        ),
        inner_marks=("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
    ),
    _PatternCalls(
        "DeepSeek-V3, R1",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        re.compile(
            r"\s*<｜tool▁call▁begin｜>function<｜tool▁sep｜>(?P<name>[\w.-]+)\s*"
            r"```json\n(?P<arguments>.*?)\n```<｜tool▁call▁end｜>",
            re.DOTALL,
        ),
        inner_marks=("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
    ),
    _PatternCalls(
        "DeepSeek-V3.1",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        re.compile(
            r"\s*<｜tool▁call▁begin｜>(?P<name>[\w.-]+)<｜tool▁sep｜>"
            r"(?P<arguments>.*?)<｜tool▁call▁end｜>",
            re.DOTALL,
        ),
        inner_marks=("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
    ),
    _GemmaCalls(
        "Gemma 4", "<|tool_call>", "<tool_call|>", _GEMMA_CALL, '<|"|>', inner_marks=('<|"|>',)
    ),
    _GemmaCalls(
        "FunctionGemma",
        "<start_function_call>",
        "<end_function_call>",
        _GEMMA_CALL,
        "<escape>",
        inner_marks=("<escape>",),
    ),
    _PythonCalls("LFM2", "<|tool_call_start|>", "<|tool_call_end|>"),
    _PythonCalls("OLMo 3", "<function_calls>", "</function_calls>"),
    HarmonyCalls(
        "gpt-oss",
        "<|channel|>",
        "",
        inner_marks=tuple(
            f"<|{name}|>" for name in ("start", "message", "constrain", "end", "call", "return")
        ),
    ),
    _JsonCalls("Granite 3, Phi-4-mini", "<|tool_call|>", "<|/tool_call|>"),
    _JsonCalls("Granite 20B", "<function_call>", "\n"),
    _JsonCalls("Apriel", "<tool_calls>", "</tool_calls>"),
    _JsonCalls("Command R7B", "<|START_ACTION|>", "<|END_ACTION|>"),
    _JsonCalls("InternLM 2", "<|action_start|><|plugin|>", "<|action_end|>"),
    _JsonCalls("GigaChat 3.1", "<|function_call|>", ""),
    _JsonCalls("GigaChat 3", "function call<|role_sep|>", "<|message_sep|>"),
    _JsonCalls("Nemotron Nano 2", "<TOOLCALL>", "</TOOLCALL>"),
    # without the bracket, a word of Python code would be a mark
    _JsonCalls("Phi-4-mini, functools", "functools[", "", opening="["),
    _KeyedCalls("Apertus", "<|tools_prefix|>", "<|tools_suffix|>"),
    _PatternCalls(
        "Functionary 3.1",
        "<function=",
        "</function>",
        re.compile("(?P<name>[^>]*)>(?P<arguments>.*)", re.DOTALL),
    ),
    _JsonCalls("Llama 3.1, built-in tools", "<|python_tag|>", ""),
    _BareCalls("Llama 3", "", ""),
)
"""The known formats. Of several that read the same, the first one is that of a model."""


def read_any_calls(text: str, schemas: Schemas) -> list[ToolCall]:
    """Return the calls of a text in any known formats, those in the format of the first mark first.

    Of several formats with the mark, it is the first one that reads all calls.
    """
    formats = [each for each in CALL_FORMATS if each.begin in text]
    formats.sort(key=lambda each: text.find(each.begin) if each.begin else len(text))
    readings = [(each, list(each.read(text, schemas))) for each in formats]
    readings = [(each, calls) for each, calls in readings if calls]
    if not readings:
        return []
    readable = (reading for reading in readings if INVALID_CALL not in reading[1])
    call_format, calls = next(readable, readings[0])
    return [*calls, *read_any_calls(call_format.remove(text), schemas)]


def _read_json_call(value: Any) -> ToolCall | None:
    """Return the call that is a JSON object; None for another value.

    Arguments that are a text are the JSON of the arguments, as in OpenAI's API.
    """
    content = value.get("function", value) if isinstance(value, dict) else None
    if not isinstance(content, dict):
        return None
    name = next((content[key] for key in _NAMES if key in content), None)
    key = next((key for key in _ARGUMENTS if key in content), None)
    if not isinstance(name, str) or key is None:
        return None
    return ToolCall(name, read_arguments(content[key]))


def read_arguments(value: Any) -> Any:
    """Return arguments that are given as JSON, or as its text; None for another text."""
    return _parse_json(value) if isinstance(value, str) else value


def _parse_json(text: str) -> Any:
    """Return the JSON value of a text; None for other texts."""
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return None


def _reject_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def _match_all(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str] | None]:
    """Yield the matches of a pattern, one after another; None, at last, for what is no match."""
    position = 0
    while text[position:].strip():
        match = pattern.match(text, position)
        yield match
        if match is None or match.end() == position:
            return
        position = match.end()


def _read_value(text: str, schema: Any) -> Any:
    """Return the value of an argument without quotes: a text where the schema has it so.

    Values other than texts are JSON, or constants and literals of Python, as templates write them.
    """
    types = _list_types(schema)
    if types == {"string"}:
        return text
    value = _parse_json(text)
    if value is None and text.strip() != "null":
        try:
            value = ast.literal_eval(text.strip())
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return text
    # quotes that JSON would need are a part of the text
    if type(value) not in _JSON_TYPES or isinstance(value, str):
        return text
    is_text = "string" in types and types.isdisjoint(_JSON_TYPES[type(value)])
    return text if is_text else value


def _find_property(schema: Any, key: str) -> Any:
    """Return the schema of an argument; None for an unknown one."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return properties.get(key) if isinstance(properties, Mapping) else None


def _list_types(schema: Any) -> set[str]:
    """Return the types of JSON Schema that a value may have; empty if they are unknown."""
    if not isinstance(schema, Mapping):
        return set()
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared}
    if isinstance(declared, list):
        return {each for each in declared if isinstance(each, str)}
    values = [schema["const"]] if "const" in schema else schema.get("enum", [])
    if values:
        return {name for value in values for name in _JSON_TYPES.get(type(value), ())}
    choices = [*schema.get("anyOf", []), *schema.get("oneOf", [])]
    listed = [_list_types(choice) for choice in choices]
    return set().union(*listed) if all(listed) else set()


def _read_python_call(node: ast.expr) -> ToolCall:
    """Return the call that is a Python expression.

    Raises:
        ValueError: it is another expression.
    """
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("no call with keywords")
    arguments = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError("arguments that are no keywords")
        arguments[keyword.arg] = _read_python_value(keyword.value)
    return ToolCall(ast.unparse(node.func), arguments)


def _read_python_value(node: ast.expr) -> Any:
    """Return the value of a literal, in which constants of JSON may be names."""
    match node:
        case ast.Name(id=name) if name in _PYTHON_NAMES:
            return _PYTHON_NAMES[name]
        case ast.List(elts=entries) | ast.Tuple(elts=entries):
            return [_read_python_value(entry) for entry in entries]
        case ast.Dict(keys=keys, values=values):
            names = [None if key is None else _read_python_value(key) for key in keys]
            if not all(isinstance(name, str) for name in names):
                raise ValueError("a key is no text")
            return dict(zip(names, map(_read_python_value, values), strict=True))
        case _:
            value = ast.literal_eval(node)
            if type(value) not in (str, bool, int, float, type(None)):
                raise ValueError("a value that JSON does not have")
            return value
