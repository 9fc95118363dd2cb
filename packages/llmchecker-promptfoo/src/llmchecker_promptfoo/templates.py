"""Nunjucks templates of promptfoo, for values that are known.

Jinja's parser reads the template, as the two languages share their syntax. The nodes are evaluated
here with the values of JavaScript, and every node that differs or may run long is not converted.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jinja2
from jinja2 import nodes

from llmchecker_promptfoo.documents import parse_json
from llmchecker_promptfoo.javascript import (
    UNDEFINED,
    WHITESPACE,
    Undefined,
    format_js_value,
    format_json,
    is_truthy,
)
from llmchecker_promptfoo.report import NotConverted, UnknownTemplate

_ENVIRONMENT = jinja2.Environment(keep_trailing_newline=True, autoescape=False)
"""The parser; it never renders."""
_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_START = re.compile(r"\{\{|\{%|\{#")
_WHITESPACE_CONTROL = re.compile(r"\{[{%#]-|-[}%#]\}")
_PARTIAL_TAG = re.compile(r"(?m)\{%[^%]*$|\{\{[^}]*$|\{#[^#]*$")
_LOOSE_NODES = (nodes.Compare, nodes.Concat, nodes.Test)
"""Nodes that bind looser than `not` in nunjucks, and tighter in Jinja."""
_PARTS = {
    nodes.Assign: "set in a loop",
    nodes.Call: "a call",
    nodes.Compare: "a chain of comparisons",
    nodes.Dict: "a mapping",
    nodes.Getitem: "a slice",
    nodes.List: "a list",
    nodes.Tuple: "a tuple",
}
"""Names of nodes that differ from the words of a template."""
_CARRIAGE_RETURN = "\ue00d"
"""A character for private use in place of line ends that the parser would replace."""
_MAX_CHARACTERS = 200_000
"""Maximum number of characters of a rendered text."""


@dataclass(frozen=True)
class Unusable:
    """A variable without a value; only a template that reads it is not converted.

    Attributes:
        reason: the reason.
    """

    reason: str


def has_template(value: Any) -> bool:
    """Return whether a value contains a text with a tag of a template."""
    if isinstance(value, str):
        return _START.search(value) is not None
    if isinstance(value, Mapping):
        return any(map(has_template, [*value, *value.values()]))
    return isinstance(value, list) and any(map(has_template, value))


def render(text: str, variables: Mapping[str, Any], custom: frozenset[str] = frozenset()) -> str:
    """Render a template.

    Args:
        text: the template.
        variables: the values by name.
        custom: names of filters that the configuration defines by programs.

    Raises:
        NotConverted: a variable has no value, or the template has another form.
    """
    if not has_template(text):
        return text
    renderer = _Renderer(dict(variables), custom)
    return renderer.render(_parse(text)).replace(_CARRIAGE_RETURN, "\r")


@lru_cache(maxsize=1024)
def _parse(text: str) -> nodes.Template:
    if _PARTIAL_TAG.search(text):
        raise UnknownTemplate("a tag of the template is not closed in its line")
    # the two languages read escapes in texts differently
    if any("\\" in tag for tag in _TAG.findall(text)):
        raise UnknownTemplate("a tag of the template has a backslash")
    # the removal of white space would miss the characters in place of line ends
    if "\r" in text and _WHITESPACE_CONTROL.search(text):
        raise UnknownTemplate("the template removes white space between lines that end with \\r")
    try:
        return _ENVIRONMENT.parse(text.replace("\r", _CARRIAGE_RETURN))
    except (jinja2.TemplateSyntaxError, RecursionError) as error:
        raise UnknownTemplate(f"the template cannot be read: {error}") from error


class _Renderer:
    """A renderer of one template.

    Args:
        variables: the values by name; `set` changes them.
        custom: names of filters that have another meaning.
    """

    def __init__(self, variables: dict[str, Any], custom: frozenset[str]) -> None:
        self._variables = variables
        self._custom = custom
        self._loops = 0

    def render(self, template: nodes.Template) -> str:
        parts = []
        length = 0
        for part in self._iter_parts(template.body):
            parts.append(part)
            length += len(part)
            if length > _MAX_CHARACTERS:
                raise NotConverted(f"the text has over {_MAX_CHARACTERS:,} characters")
        return "".join(parts)

    def _iter_parts(self, body: Sequence[nodes.Node]) -> Iterator[str]:
        for node in body:
            match node:
                case nodes.Output():
                    for part in node.nodes:
                        if isinstance(part, nodes.TemplateData):
                            yield part.data
                        else:
                            yield self._format_output(part)
                case nodes.If():
                    branches = [(node.test, node.body)]
                    branches += [(other.test, other.body) for other in node.elif_]
                    chosen = (body for test, body in branches if is_truthy(self._evaluate(test)))
                    yield from self._iter_parts(next(chosen, node.else_))
                case nodes.For():
                    yield from self._iter_loop(node)
                case nodes.Assign(target=nodes.Name(name=name)) if not self._loops:
                    self._variables[name] = self._evaluate(node.node)
                case _:
                    raise _build_error(node)

    def _iter_loop(self, node: nodes.For) -> Iterator[str]:
        items = self._evaluate(node.iter)
        target = node.target
        if (
            not isinstance(target, nodes.Name)
            or node.test is not None
            or node.recursive
            or not isinstance(items, list | Undefined | None)
        ):
            raise NotConverted("a loop of the template is not over a list")
        if not items or isinstance(items, Undefined):
            yield from self._iter_parts(node.else_)
            return
        if self._loops >= 3:
            raise NotConverted("the loops of the template are nested too deep")
        outer = dict(self._variables)
        self._loops += 1
        for index, item in enumerate(items):
            loop = {
                "index": index + 1,
                "index0": index,
                "revindex": len(items) - index,
                "revindex0": len(items) - index - 1,
                "first": index == 0,
                "last": index == len(items) - 1,
                "length": len(items),
            }
            self._variables = outer | {target.name: item, "loop": loop}
            yield from self._iter_parts(node.body)
        self._loops -= 1
        self._variables = outer

    def _format_output(self, node: nodes.Expr) -> str:
        # within an expression, a safe text is an object of JavaScript
        is_plain = "safe" not in self._custom
        if is_plain and isinstance(node, nodes.Filter) and node.name == "safe" and node.node:
            node = node.node
        value = self._evaluate(node)
        # nunjucks prints nothing, and nobody means a prompt or an expected text with a gap
        if isinstance(value, Undefined):
            raise NotConverted(f"the variable {_describe(node)} has no value")
        if value is None:
            return ""
        try:
            return format_js_value(value)
        except NotConverted as error:
            raise NotConverted(f"the variable {_describe(node)}: {error}") from error

    def _evaluate(self, node: nodes.Node) -> Any:
        match node:
            case nodes.Const():
                return node.value
            case nodes.Name():
                return self._get_variable(node.name)
            case nodes.Getattr():
                return _look_up(self._evaluate(node.node), node.attr)
            case nodes.Getitem() if not isinstance(node.arg, nodes.Slice):
                return _look_up(self._evaluate(node.node), self._evaluate(node.arg))
            case nodes.Filter() if node.node is not None:
                return self._filter(node)
            case nodes.Test(name="defined" | "undefined") if not node.args:
                is_defined = not isinstance(self._evaluate(node.node), Undefined)
                return is_defined == (node.name == "defined")
            # `not a == b` has other parentheses in nunjucks
            case nodes.Not() if not isinstance(node.node, _LOOSE_NODES):
                return not is_truthy(self._evaluate(node.node))
            case nodes.And():
                left = self._evaluate(node.left)
                return self._evaluate(node.right) if is_truthy(left) else left
            case nodes.Or():
                left = self._evaluate(node.left)
                return left if is_truthy(left) else self._evaluate(node.right)
            case nodes.CondExpr():
                if is_truthy(self._evaluate(node.test)):
                    return self._evaluate(node.expr1)
                return "" if node.expr2 is None else self._evaluate(node.expr2)
            case nodes.Compare() if len(node.ops) == 1:
                operand = node.ops[0]
                left, right = self._evaluate(node.expr), self._evaluate(operand.expr)
                return _compare(operand.op, left, right)
            case nodes.Concat():
                return "".join(format_js_value(self._evaluate(part)) for part in node.nodes)
        raise _build_error(node)

    def _get_variable(self, name: str) -> Any:
        if name in self._variables:
            value = self._variables[name]
            if isinstance(value, Unusable):
                raise NotConverted(value.reason)
            return value
        if name == "env":
            raise UnknownTemplate("env is the environment of promptfoo; write its value")
        if name == "_conversation":
            raise UnknownTemplate("_conversation contains earlier answers of the model")
        return UNDEFINED

    def _filter(self, node: nodes.Filter) -> Any:
        is_known = node.name in _FILTERS and node.name not in self._custom
        # a filter without an operand is that of a block
        if not is_known or node.kwargs or node.dyn_args or node.node is None:
            raise UnknownTemplate(f"the filter {node.name} of the template has no counterpart")
        arguments = [self._evaluate(argument) for argument in node.args]
        try:
            return _FILTERS[node.name](self._evaluate(node.node), *arguments)
        except TypeError as error:
            raise NotConverted(f"the filter {node.name} has other arguments") from error


def _build_error(node: nodes.Node) -> UnknownTemplate:
    match node:
        case nodes.BinExpr() | nodes.UnaryExpr():
            part = f"the operator {node.operator}"
        case nodes.Test():
            part = f"the test {node.name}"
        case _:
            part = _PARTS.get(type(node), type(node).__name__.lower())
    return UnknownTemplate(f"{part} of the template has no counterpart")


def _describe(node: nodes.Node) -> str:
    """Return the name of the variable that an expression begins with."""
    match node:
        case nodes.Name():
            return node.name
        case nodes.Getattr():
            return f"{_describe(node.node)}.{node.attr}"
        case nodes.Getitem(arg=nodes.Const() as key):
            return f"{_describe(node.node)}[{key.value!r}]"
        case nodes.Filter() if node.node is not None:
            return _describe(node.node)
    return "of the template"


def _look_up(value: Any, key: Any) -> Any:
    if isinstance(value, Mapping):
        return value.get(key, UNDEFINED) if isinstance(key, str) else UNDEFINED
    if isinstance(value, list | str) and key == "length":
        return _measure(value)
    if isinstance(value, list) and type(key) is int:
        return value[key] if 0 <= key < len(value) else UNDEFINED
    if value is None or isinstance(value, Undefined):
        return UNDEFINED
    raise NotConverted(f"the template reads {key!r} of a value that has no keys")


def _compare(operator: str, left: Any, right: Any) -> bool:
    if operator in ("in", "notin"):
        return _is_in(left, right) == (operator == "in")
    kinds = {_kind(left), _kind(right)}
    if operator in ("eq", "ne"):
        # null equals undefined and nothing else; other types convert in ways that nobody means
        if kinds == {"none"}:
            return operator == "eq"
        if "none" in kinds:
            return operator == "ne"
        if len(kinds) == 1 and "other" not in kinds:
            return bool(left == right) == (operator == "eq")
    elif kinds in ({"number"}, {"text"}):
        order: dict[str, bool] = {"lt": left < right, "gt": left > right}
        order |= {"lteq": left <= right, "gteq": left >= right}
        return order[operator]
    raise NotConverted("the template compares values of two types")


def _kind(value: Any) -> str:
    if value is None or isinstance(value, Undefined):
        return "none"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "other"


def _is_in(item: Any, container: Any) -> bool:
    if isinstance(container, str) and isinstance(item, str):
        return item in container
    if isinstance(container, Mapping) and isinstance(item, str):
        return item in container
    if isinstance(container, list):
        return any(_kind(item) == _kind(other) and item == other for other in container)
    raise NotConverted("the template searches a value that is no list or text")


def _text_filter(function: Callable[[str], str]) -> Callable[[Any], str]:
    def apply(value: Any) -> str:
        if value is None or value is False or isinstance(value, Undefined):
            return ""
        if not isinstance(value, str):
            raise NotConverted("a filter of the template is for texts alone")
        return function(value)

    return apply


def _trim(value: Any) -> str:
    if not isinstance(value, str):
        raise NotConverted("the filter trim of the template is for texts alone")
    return value.strip(WHITESPACE)


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:].lower()


def _default(value: Any, default: Any = "", is_for_false: Any = False) -> Any:
    if is_truthy(is_for_false):
        return value if is_truthy(value) else default
    return default if isinstance(value, Undefined) else value


def _measure(value: Any) -> int:
    if isinstance(value, str):
        # JavaScript counts halves of characters beyond U+FFFF
        return len(value.encode("utf-16-le")) // 2
    if isinstance(value, Undefined):
        return 0
    if not isinstance(value, list | Mapping):
        raise NotConverted("the filter length of the template is for texts and lists")
    return len(value)


def _join(value: Any, separator: Any = "") -> str:
    if not isinstance(value, list):
        raise NotConverted("the filter join of the template is for lists")
    return format_js_value(separator).join(
        "" if item is None else format_js_value(item) for item in value
    )


def _pick(index: int) -> Callable[[Any], Any]:
    def pick(value: Any) -> Any:
        if not isinstance(value, list):
            raise NotConverted("the filters first and last of the template are for lists")
        return value[index] if value else UNDEFINED

    return pick


def _replace(value: Any, old: Any, new: Any) -> str:
    if not all(isinstance(text, str) for text in (value, old, new)) or not old:
        raise NotConverted("the filter replace of the template is for texts")
    replaced: str = value.replace(old, new)
    return replaced


def _load(value: Any) -> Any:
    try:
        return parse_json(value)
    except ValueError as error:
        raise NotConverted(f"the filter load of the template: no JSON: {error}") from error


def _dump(value: Any) -> Any:
    return UNDEFINED if isinstance(value, Undefined) else format_json(value)


_FILTERS: Mapping[str, Callable[..., Any]] = {
    "upper": _text_filter(str.upper),
    "lower": _text_filter(str.lower),
    "trim": _trim,
    "capitalize": _text_filter(_capitalize),
    "title": _text_filter(lambda text: " ".join(map(_capitalize, text.split(" ")))),
    "default": _default,
    "d": _default,
    "length": _measure,
    "join": _join,
    "first": _pick(0),
    "last": _pick(-1),
    "replace": _replace,
    "dump": _dump,
    "load": _load,
}
"""Filters with their meaning in nunjucks, and `load` of promptfoo."""
