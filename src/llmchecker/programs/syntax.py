"""C text as a syntax tree, and the functions whose meaning is known."""

import re
from collections.abc import Iterator

from pycparser import c_ast, c_parser

from llmchecker.errors import UnreadableProgram, UnsupportedProgram

ASSERTS = frozenset(("assert", "__VERIFIER_assert", "__ESBMC_assert"))


ASSUMES = frozenset(("__VERIFIER_assume", "__ESBMC_assume", "assume_abort_if_not"))


STOPS = frozenset(("abort", "exit"))


FAILURES = frozenset(("reach_error", "__VERIFIER_error", "__assert_fail"))


LOOPS = (c_ast.While, c_ast.For, c_ast.DoWhile)


def parse_c(source: str, file: str) -> c_ast.FileAST:
    try:
        return c_parser.CParser().parse(_prepared(source, file), file)
    except (c_parser.ParseError, ValueError, AssertionError, RecursionError) as error:
        raise UnreadableProgram(f"{file} is not C that can be parsed: {error}") from error


def _prepared(source: str, file: str) -> str:
    """Source without comments, includes and attributes, every line where it was."""
    source = _without_comments(source)
    source = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", " ", source)
    lines = source.split("\n")
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("#"):
            if not re.match(r"\s*#\s*include\b", line):
                raise UnsupportedProgram(f"{file}:{number}: {line.strip()!r} is not supported")
            lines[number - 1] = ""
    if re.search(r"\bbool\b", source):
        lines[0] = f"typedef _Bool bool; {lines[0]}"
    return "\n".join(lines)


def _without_comments(source: str) -> str:
    pattern = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*'

    def kept(match: re.Match[str]) -> str:
        found = match.group()
        return found if found[0] in "\"'" else " " + "\n" * found.count("\n")

    return re.sub(pattern, kept, source, flags=re.DOTALL)


def main_function(unit: c_ast.FileAST, file: str) -> c_ast.FuncDef:
    for part in unit.ext:
        if isinstance(part, c_ast.FuncDef) and part.decl.name == "main":
            return part
    raise UnreadableProgram(f"{file} has no function main")


def loops_in(node: c_ast.Node) -> Iterator[c_ast.Node]:
    if isinstance(node, LOOPS):
        yield node
    for _, child in node.children():
        yield from loops_in(child)


def nodes_in(node: c_ast.Node, kinds: tuple[type, ...]) -> Iterator[c_ast.Node]:
    if isinstance(node, kinds):
        yield node
    for _, child in node.children():
        yield from nodes_in(child, kinds)
