"""C text as a syntax tree of pycparser, and questions to such a tree that several modules ask."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from pycparser import c_ast, c_parser

from llmchecker.errors import UnreadableProgram, UnsupportedProgram
from llmchecker.programs.expressions import Type
from llmchecker.translating.translation import translated

_OWN_BOOL = re.compile(r"\btypedef\s+_Bool\s+bool\s*;")

LOOPS = (c_ast.While, c_ast.For, c_ast.DoWhile)

_DEEP = 20
"""Parentheses and braces that people nest."""

_WIDTHS = {"char": 8, "short": 16, "int": 32, "long": 64}


def _named_type(words: list[str]) -> Type | None:
    """The integer type that some words name, in any order (C11 6.7.2p2).

    `long` has 64 bits, as on every 64-bit Unix.
    """
    if words == ["_Bool"]:
        return Type(1, False)
    names = [word for word in words if word in _WIDTHS]
    signs = [word for word in words if word in ("signed", "unsigned")]
    if not words or len(names) + len(signs) != len(words) or len(signs) > 1:
        return None
    kinds = sorted(set(names) - {"int"})
    once = names.count("int") <= 1 and names.count("long") <= 2
    if len(kinds) > 1 or not once or any(names.count(k) > 1 for k in ("char", "short")):
        return None
    if kinds == ["char"] and "int" in names:
        return None
    return Type(_WIDTHS[kinds[0] if kinds else "int"], "unsigned" not in signs)


def parse_c(
    source: str, file: str, beside: Mapping[str, str] = MappingProxyType({})
) -> c_ast.FileAST:
    """The syntax tree of a C file, in which `bool` means `_Bool` unless the file says otherwise.

    Args:
        source: the C text.
        file: the file's name in messages.
        beside: the texts of the headers that lie beside it, by name.

    Raises:
        UnreadableProgram: the text is not C.
        UnsupportedProgram: a compiler may read the text otherwise than the parser does.
    """
    text = translated(source, file, beside)
    text = _OWN_BOOL.sub("", text)
    if not re.search(r"\btypedef\b[^;]*\bbool\s*;", text):
        text = re.sub(r"(?<![\w.>])bool\b", "_Bool", text)
    try:
        return c_parser.CParser().parse(text, file)
    except RecursionError as error:
        if text.count("{") == text.count("}") and text.count("(") == text.count(")"):
            place = f"{file}{_deep_line(text)}"
            raise UnsupportedProgram(f"{place}: such deep nesting is not supported") from error
        raise UnreadableProgram(f"{file} is not C that can be parsed: {error}") from error
    except (c_parser.ParseError, ValueError, AssertionError) as error:
        raise UnreadableProgram(f"{file} is not C that can be parsed: {error}") from error


def _deep_line(text: str) -> str:
    """The line in which parentheses and braces are nested deepest, as messages name it."""
    depth, deepest, line, found = 0, 0, 1, 1
    for character in text:
        line += character == "\n"
        depth += (character in "({[") - (character in ")}]")
        if depth > deepest:
            deepest, found = depth, line
    return f":{found}" if deepest > _DEEP else ""


def main_function(unit: c_ast.FileAST, file: str) -> c_ast.FuncDef:
    """The definition of `main`; raises UnreadableProgram if there is none."""
    for part in unit.ext:
        if isinstance(part, c_ast.FuncDef) and part.decl.name == "main":
            return part
    raise UnreadableProgram(f"{file} has no function main")


def integer_type(node: c_ast.Node) -> Type | None:
    """The integer type that a declaration names; None if it names another type."""
    if isinstance(node, c_ast.TypeDecl) and isinstance(node.type, c_ast.IdentifierType):
        return _named_type(node.type.names)
    return None


def is_void(node: c_ast.Node) -> bool:
    """Whether a type is `void`."""
    inner = getattr(node, "type", None)
    return isinstance(inner, c_ast.IdentifierType) and inner.names == ["void"]


def loops_in(node: c_ast.Node) -> Iterator[c_ast.Node]:
    """Yield all loops in the order of the text."""
    yield from nodes_in(node, LOOPS)


def nodes_in(node: c_ast.Node, kinds: tuple[type, ...]) -> Iterator[c_ast.Node]:
    """Yield the node and all nodes below it that are of some kinds, in the order of the text."""
    if isinstance(node, kinds):
        yield node
    for _, child in node.children():
        yield from nodes_in(child, kinds)
