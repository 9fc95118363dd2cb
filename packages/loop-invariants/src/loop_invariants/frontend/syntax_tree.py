"""C text as a syntax tree of pycparser, and searches in such a tree."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from pycparser import c_ast, c_parser

from llmchecker.errors import UnreadableProgram, UnsupportedProgram
from loop_invariants.frontend.preprocessing.translation_phases import translate
from loop_invariants.ir.expressions import Type

# The file may define `bool` itself, as `<stdbool.h>` would.
_BOOL_TYPEDEF = re.compile(r"\btypedef\s+_Bool\s+bool\s*;")

_LOOP_NODES = (c_ast.While, c_ast.For, c_ast.DoWhile)

_MAX_USUAL_NESTING = 20
"""Depth of parentheses and braces that is usual in human-written code."""

_TYPE_BITS = {"char": 8, "short": 16, "int": 32, "long": 64}


def _parse_type_words(words: list[str]) -> Type | None:
    """Return the integer type named by type specifiers in any order (C11 6.7.2p2).

    `long` has 64 bits, as on every 64-bit Unix.
    """
    if words == ["_Bool"]:
        return Type(1, False)
    names = [word for word in words if word in _TYPE_BITS]
    signs = [word for word in words if word in ("signed", "unsigned")]
    # At most one sign word, and only known words.
    if not words or len(names) + len(signs) != len(words) or len(signs) > 1:
        return None
    # `int` adds nothing to the other words.
    kinds = sorted(set(names) - {"int"})
    has_valid_lengths = names.count("int") <= 1 and names.count("long") <= 2
    if (
        len(kinds) > 1
        or not has_valid_lengths
        or any(names.count(k) > 1 for k in ("char", "short"))
    ):
        return None
    # `char int` is not a type of C.
    if kinds == ["char"] and "int" in names:
        return None
    return Type(_TYPE_BITS[kinds[0] if kinds else "int"], "unsigned" not in signs)


def parse_c(
    source: str, file: str, sibling_files: Mapping[str, str] = MappingProxyType({})
) -> c_ast.FileAST:
    """Parse a C file; `bool` means `_Bool` unless the file defines it otherwise.

    Args:
        source: C text.
        file: name of the file in messages.
        sibling_files: texts of the headers in the same folder, by name.

    Raises:
        UnreadableProgram: the text is not C.
        UnsupportedProgram: a compiler may interpret the text differently from the parser.
    """
    try:
        text = translate(source, file, sibling_files)
    except UnsupportedProgram:
        # C has letters beyond ASCII in identifiers, and prose has them anywhere
        if not source.isascii():
            with contextlib.suppress(UnsupportedProgram):
                parse_c(re.sub(r"[^\x00-\x7f]", "x", source), file, sibling_files)
        raise
    text = _BOOL_TYPEDEF.sub("", text)
    # pycparser has no `bool`, and C11 has it only as a macro.
    if not re.search(r"\btypedef\b[^;]*\bbool\s*;", text):
        text = re.sub(r"(?<![\w.>])bool\b", "_Bool", text)
    try:
        return c_parser.CParser().parse(text, file)
    except RecursionError as error:
        # Unbalanced text is not C, whatever its nesting.
        if text.count("{") == text.count("}") and text.count("(") == text.count(")"):
            location = f"{file}{_format_deepest_line(text)}"
            raise UnsupportedProgram(
                f"{location}: such deep nesting is not supported; split it"
            ) from error
        raise UnreadableProgram(
            f"{file}: the text is not C that can be parsed: {error}; correct it"
        ) from error
    # pycparser raises the last two errors for text that is not C.
    except (c_parser.ParseError, ValueError, AssertionError) as error:
        raise UnreadableProgram(
            f"{file}: the text is not C that can be parsed: {error}; correct it"
        ) from error


def _format_deepest_line(text: str) -> str:
    """Format the line with the deepest nesting of brackets for messages."""
    depth, max_depth, line, deepest_line = 0, 0, 1, 1
    for character in text:
        line += character == "\n"
        depth += (character in "({[") - (character in ")}]")
        if depth > max_depth:
            max_depth, deepest_line = depth, line
    # Ordinary nesting is not the reason for the error.
    return f":{deepest_line}" if max_depth > _MAX_USUAL_NESTING else ""


def find_definitions(unit: c_ast.FileAST) -> dict[str, c_ast.FuncDef]:
    """Return the definitions of functions, by name."""
    return {node.decl.name: node for node in unit.ext if isinstance(node, c_ast.FuncDef)}


def find_prototypes(unit: c_ast.FileAST) -> dict[str, c_ast.Decl]:
    """Return the declarations of functions, also those of definitions, by name."""
    declarations = iter_nodes(unit, (c_ast.Decl,))
    return {node.name: node for node in declarations if isinstance(node.type, c_ast.FuncDecl)}


def find_main_function(unit: c_ast.FileAST, file: str) -> c_ast.FuncDef:
    """Return the definition of `main`; raise UnreadableProgram without one."""
    for definition in unit.ext:
        if isinstance(definition, c_ast.FuncDef) and definition.decl.name == "main":
            return definition
    raise UnreadableProgram(f"{file}: the text has no function main; add one")


def parse_integer_type(node: c_ast.Node) -> Type | None:
    """Return the integer type of a declaration; None for another type."""
    if isinstance(node, c_ast.TypeDecl) and isinstance(node.type, c_ast.IdentifierType):
        return _parse_type_words(node.type.names)
    return None


def is_void(node: c_ast.Node) -> bool:
    """Check that a type is `void`."""
    type_name = getattr(node, "type", None)
    return isinstance(type_name, c_ast.IdentifierType) and type_name.names == ["void"]


def iter_loops(node: c_ast.Node) -> Iterator[c_ast.Node]:
    """Yield all loops in the order of the text."""
    yield from iter_nodes(node, _LOOP_NODES)


def iter_nodes(node: c_ast.Node, kinds: tuple[type, ...]) -> Iterator[c_ast.Node]:
    """Yield the node and all its descendants of the given kinds, in text order."""
    if isinstance(node, kinds):
        yield node
    for _, child in node.children():
        yield from iter_nodes(child, kinds)
