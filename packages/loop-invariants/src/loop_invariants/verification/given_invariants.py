"""Invariants that a person gives: by line, or in the text before a loop.

    line 7: 2*s == i*(i-1)

    __ESBMC_loop_invariant(2*s == i*(i-1));
    while (i < n) ...

They are candidates like all others: each counts only with its proof.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pycparser import c_ast, c_generator

from llmchecker.errors import ConfigError, UnsupportedProgram
from loop_invariants.frontend.expressions import callee_name, parse_candidate
from loop_invariants.frontend.syntax_tree import iter_nodes
from loop_invariants.ir.expressions import Expression
from loop_invariants.ir.statements import Loop, Program

_FORM = re.compile(r"\s*line\s+(\d+)\s*:\s*(\S.*?)\s*", flags=re.DOTALL)
_FUNCTIONS = ("__ESBMC_loop_invariant", "__invariant")


@dataclass(frozen=True)
class GivenInvariant:
    """An invariant that a person gives.

    Attributes:
        line: line of the loop in the text.
        text: the condition.
    """

    line: int
    text: str


def parse_given_invariant(text: str) -> GivenInvariant:
    """Parse `line 7: 2*s == i*(i-1)`.

    Raises:
        ConfigError: the text has another form.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ConfigError(f"invariant {text!r}: it names no line; write 'line 7: 0 <= i && i <= n'")
    return GivenInvariant(int(match[1]), match[2])


def build_given_candidates(
    program: Program, given: Sequence[GivenInvariant]
) -> Mapping[int, Sequence[Expression]]:
    """Return the candidates that a person gives, by number of the loop.

    Those of the text that are no conditions on its variables are left out.

    Raises:
        ConfigError: no loop begins in the line, or the condition is not one on its variables.
    """
    candidates: dict[int, list[Expression]] = {loop.number: [] for loop in program.loops}
    for invariant in given:
        place = f"invariant 'line {invariant.line}: {invariant.text}'"
        loops = [loop for loop in program.loops if loop.line == invariant.line]
        if not loops:
            lines = ", ".join(str(line) for line in sorted({loop.line for loop in program.loops}))
            known = f"name one of the lines {lines}" if lines else "the program has no loop"
            raise ConfigError(f"{place}: no loop begins there; {known}")
        for loop in loops:
            try:
                candidates[loop.number].append(_parse(program, loop, invariant.text))
            except UnsupportedProgram as error:
                raise ConfigError(f"{place}: {error}") from error
    for line, text in _iter_written(program.syntax_tree):
        for loop in program.loops:
            if loop.line == line:
                try:
                    candidates[loop.number].append(_parse(program, loop, text))
                except UnsupportedProgram:
                    continue
    return {number: expressions for number, expressions in candidates.items() if expressions}


def _parse(program: Program, loop: Loop, text: str) -> Expression:
    return parse_candidate(text, loop.scope, program.types)


def _iter_written(unit: object) -> Iterator[tuple[int, str]]:
    """Yield the line of a loop and the text of each invariant written before it."""
    blocks = iter_nodes(unit, (c_ast.Compound,)) if isinstance(unit, c_ast.FileAST) else ()
    for block in blocks:
        texts: list[str] = []
        for item in block.block_items or ():
            if isinstance(item, c_ast.FuncCall) and callee_name(item) in _FUNCTIONS:
                texts.append(c_generator.CGenerator().visit(item.args) if item.args else "")
                continue
            if isinstance(item, c_ast.While | c_ast.For | c_ast.DoWhile):
                yield from ((item.coord.line, text) for text in texts)
            texts = []
