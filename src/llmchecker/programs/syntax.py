"""C text as a syntax tree of pycparser, and questions to such a tree that several modules ask."""

import re
from collections.abc import Iterator

from pycparser import c_ast, c_parser

from llmchecker.errors import UnreadableProgram
from llmchecker.programs.expressions import Type
from llmchecker.programs.translation import translated

LOOPS = (c_ast.While, c_ast.For, c_ast.DoWhile)

_TYPES = {
    ("_Bool",): Type(1, False),
    ("bool",): Type(1, False),
    ("char",): Type(8),
    ("char", "signed"): Type(8),
    ("char", "unsigned"): Type(8, False),
    ("short",): Type(16),
    ("int", "short"): Type(16),
    ("short", "unsigned"): Type(16, False),
    ("int",): Type(32),
    ("signed",): Type(32),
    ("int", "signed"): Type(32),
    ("unsigned",): Type(32, False),
    ("int", "unsigned"): Type(32, False),
    ("long",): Type(64),
    ("int", "long"): Type(64),
    ("long", "long"): Type(64),
    ("int", "long", "long"): Type(64),
    ("long", "unsigned"): Type(64, False),
    ("int", "long", "unsigned"): Type(64, False),
    ("long", "long", "unsigned"): Type(64, False),
}
"""Types by the sorted words of their names; `long` has 64 bits, as on every 64-bit Unix."""


def parse_c(source: str, file: str) -> c_ast.FileAST:
    """The syntax tree of a C file, in which `bool` means `_Bool`.

    Args:
        source: the C text.
        file: the file's name in messages.

    Raises:
        UnreadableProgram: the text is not C.
        UnsupportedProgram: a compiler may read the text otherwise than the parser does.
    """
    text = translated(source, file)
    if re.search(r"\bbool\b", text):
        # `#include <stdbool.h>` declares nothing here. The declaration stands on the first line,
        # so that every line keeps its number.
        text = f"typedef _Bool bool; {text}"
    try:
        return c_parser.CParser().parse(text, file)
    except (c_parser.ParseError, ValueError, AssertionError, RecursionError) as error:
        raise UnreadableProgram(f"{file} is not C that can be parsed: {error}") from error


def main_function(unit: c_ast.FileAST, file: str) -> c_ast.FuncDef:
    """The definition of `main`; raises UnreadableProgram if there is none."""
    for part in unit.ext:
        if isinstance(part, c_ast.FuncDef) and part.decl.name == "main":
            return part
    raise UnreadableProgram(f"{file} has no function main")


def integer_type(node: c_ast.Node) -> Type | None:
    """The integer type that a declaration names; None if it names another type."""
    if isinstance(node, c_ast.TypeDecl) and isinstance(node.type, c_ast.IdentifierType):
        return _TYPES.get(tuple(sorted(node.type.names)))
    return None


def loops_in(node: c_ast.Node) -> Iterator[c_ast.Node]:
    """Yield all loops in the order of the text."""
    yield from nodes_in(node, LOOPS)


def nodes_in(node: c_ast.Node, kinds: tuple[type, ...]) -> Iterator[c_ast.Node]:
    """Yield the node and all nodes below it that are of some kinds, in the order of the text."""
    if isinstance(node, kinds):
        yield node
    for _, child in node.children():
        yield from nodes_in(child, kinds)
