"""Annotation of C text with loop invariants for ESBMC.

Calls of functions with a known meaning are converted to ESBMC's intrinsics. ESBMC would otherwise
treat a function without a body as a function that returns any value and has no effect.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from pycparser import c_ast, c_generator, c_parser

from loop_invariants.frontend.expressions import NONDET_PREFIX, NONDET_TYPES, callee_name
from loop_invariants.frontend.preprocessing.translation_phases import (
    FAILURE_FUNCTIONS,
    STOP_FUNCTIONS,
)
from loop_invariants.frontend.syntax_tree import find_main_function, iter_loops, iter_nodes
from loop_invariants.frontend.verifier_builtins import ASSERT_FUNCTIONS, ASSUME_FUNCTIONS
from loop_invariants.ir.expressions import (
    Constant,
    Element,
    Expression,
    Identifier,
    Nondet,
    Type,
    bound_variables,
    format_c,
    format_type,
    with_children,
)
from loop_invariants.ir.statements import (
    Assert,
    Assign,
    Assume,
    Block,
    Branch,
    Break,
    BreakTo,
    Continue,
    Havoc,
    LabelledBlock,
    Loop,
    Program,
    Statement,
    Stop,
)

INVARIANT_FUNCTION = "__ESBMC_loop_invariant"
_ASSERT_FUNCTION = "__ESBMC_assert"
_ASSUME_FUNCTION = "__ESBMC_assume"


def annotate(program: Program, invariants: Mapping[int, Sequence[Expression]]) -> str:
    """Annotate a C text with `__ESBMC_loop_invariant(…);` before its loops.

    A `for` loop with invariants keeps its guard and step; its initialisation moves before the
    invariants. A `do` loop with invariants becomes its body, followed by a `while` loop. A lowered
    program, whose loops differ from those of its text, is printed as C from its statements.

    Args:
        invariants: the invariants of each loop, by loop number; a loop without invariants is
            unchanged.
    """
    # The loops of a lowered program have no nodes in the syntax tree.
    if program.is_lowered:
        return format_program(program, invariants)
    main = find_main_function(program.syntax_tree, program.name)
    scopes = [loop.scope for loop in program.loops]
    statements = {
        id(loop): _build_invariant_statements(invariants[number], scopes[number])
        for number, loop in enumerate(iter_loops(main.body))
        if invariants.get(number)
    }
    calls = {id(call): _convert_call(call) for call in iter_nodes(main.body, (c_ast.FuncCall,))}
    text: str = _AnnotatedPrinter(statements, calls).visit(program.syntax_tree)
    return text


class _AnnotatedPrinter(c_generator.CGenerator):  # type: ignore[misc]  # it has no types
    """A printer of a syntax tree with statements before loops and converted calls.

    Args:
        stated: the statements before each loop, by the identity of its node.
        calls: the converted call of each call, by the identity of its node.
    """

    def __init__(
        self,
        stated: Mapping[int, Sequence[c_ast.Node]],
        calls: Mapping[int, c_ast.FuncCall],
    ) -> None:
        super().__init__()
        self._stated, self._calls = stated, calls

    def _generate_stmt(self, n: c_ast.Node, add_indent: bool = False) -> str:
        if id(n) in self._stated:
            n = _build_annotated_loop(n, self._stated[id(n)])
        text: str = super()._generate_stmt(n, add_indent)
        return text

    def visit_FuncCall(self, n: c_ast.FuncCall) -> str:  # noqa: N802
        text: str = super().visit_FuncCall(self._calls.get(id(n), n))
        return text


def format_program(program: Program, invariants: Mapping[int, Sequence[Expression]]) -> str:
    """Format a program as C for ESBMC, from its statements alone."""
    # ESBMC's intrinsic returns `char`, and ESBMC treats `signed char` as a different type.
    names = {
        suffix: "char" if suffix == "char" else format_type(t) for suffix, t in _INPUT_TYPES.items()
    }
    input_declarations = [
        f"extern {name} {NONDET_PREFIX}{suffix}(void);" for suffix, name in names.items()
    ]
    # An array of variable length cannot be declared before its length has a value.
    declarations = [
        _format_declaration(name, type_)
        for name, type_ in program.types.items()
        if type_.length is None or isinstance(type_.length, Constant)
    ]
    # A bound variable needs a declaration, since ESBMC's quantifiers take a C variable.
    names_of_quantifiers = bound_variables(*chain.from_iterable(invariants.values()))
    declarations += [f"int {name};" for name in sorted(names_of_quantifiers - set(program.types))]
    body = _CPrinter(program.types, invariants).format_block(program.body)
    return "\n".join([*input_declarations, "int main(void)", "{", *declarations, *body, "}", ""])


_INPUT_TYPES = {
    suffix: NONDET_TYPES[suffix] for suffix in ("int", "uint", "long", "ulong", "short", "ushort")
}
_INPUT_TYPES |= {suffix: NONDET_TYPES[suffix] for suffix in ("char", "uchar", "bool")}
_INPUT_SUFFIXES = {type_: suffix for suffix, type_ in _INPUT_TYPES.items()}


def _format_declaration(name: str, type_: Type) -> str:
    length = "" if type_.length is None else f"[{_format_expression(type_.length)}]"
    return (
        f"{format_type(type_.element_type)} {_format_expression(Identifier(name, type_))}{length};"
    )


def _format_expression(expression: Expression) -> str:
    """Format an expression as C, with nondeterministic values as calls."""
    # The length of a variable array has a name that is not valid in C.
    return format_c(_name_inputs(expression)).replace(".length", "__length")


def _name_inputs(expression: Expression) -> Expression:
    """Replace nondeterministic values by calls."""
    match expression:
        case Nondet(type=type_) if type_ in _INPUT_SUFFIXES:
            return Identifier(f"{NONDET_PREFIX}{_INPUT_SUFFIXES[type_]}()", type_)
    return with_children(expression, _name_inputs)


_MAX_EXPANDED_LENGTH = 16
"""Maximum length of an array whose elements are assigned one by one."""


class _CPrinter:
    """A printer of statements as lines of C."""

    def __init__(
        self, types: Mapping[str, Type], invariants: Mapping[int, Sequence[Expression]]
    ) -> None:
        self._types = types
        self._invariants = invariants
        self._loops: list[Loop] = []

    def format_block(self, block: Block) -> list[str]:
        """Return the lines of a block, without braces around it."""
        lines: list[str] = []
        block_count = 0
        for statement in block:
            if isinstance(statement, Havoc) and self._types[statement.name].is_array:
                assignments = self._format_array_havoc(statement.name)
                # A long array has arbitrary values only at its declaration, so a new one shadows
                # it.
                lines += assignments or [
                    "{",
                    _format_declaration(statement.name, self._types[statement.name]),
                ]
                block_count += not assignments
            else:
                lines += self._format_statement(statement)
        return [*lines, *["}"] * block_count]

    def _format_array_havoc(self, name: str) -> list[str]:
        """Return lines that havoc the elements of a short array; empty for others."""
        type_ = self._types[name]
        if not isinstance(type_.length, Constant) or type_.length.value > _MAX_EXPANDED_LENGTH:
            return []
        elements = (Element(name, Constant(index), type_) for index in range(type_.length.value))
        return [
            f"{_format_expression(e)} = {_format_expression(Nondet(type_.element_type))};"
            for e in elements
        ]

    def _format_statement(self, statement: Statement) -> Iterator[str]:
        match statement:
            case Assign(target=target, value=value):
                yield f"{_format_expression(target)} = {_format_expression(value)};"
            case Havoc(name=name):
                variable = Identifier(name, self._types[name])
                nondet = Nondet(variable.type)
                yield f"{_format_expression(variable)} = {_format_expression(nondet)};"
            case Assume(condition=condition):
                yield f"{_ASSUME_FUNCTION}({_format_expression(condition)});"
            case Assert(condition=condition):
                yield f'{_ASSERT_FUNCTION}({_format_expression(condition)}, "assertion");'
            case Stop():
                # A stopped run satisfies every later assertion, as after a false assumption.
                yield f"{_ASSUME_FUNCTION}(0);"
            case Branch(condition=condition, then=then, otherwise=otherwise):
                yield from (f"if ({_format_expression(condition)}) {{", *self.format_block(then))
                yield from ("} else {", *self.format_block(otherwise), "}")
            case LabelledBlock(label=label, body=body):
                # The label comes after the block, with an empty statement that it can mark.
                yield from ("{", *self.format_block(body), "}", f"{label}: ;")
            case BreakTo(label=label):
                yield f"goto {label};"
            case Break():
                yield "break;"
            case Continue():
                # The step is part of the `while` body here, so `continue` would skip it.
                loop = self._loops[-1]
                yield f"goto step_of_{loop.number};" if loop.step else "continue;"
            case Loop():
                yield from self._format_loop(statement)

    def _format_loop(self, loop: Loop) -> Iterator[str]:
        for invariant in self._invariants.get(loop.number, ()):
            yield f"{INVARIANT_FUNCTION}({_format_expression(invariant)});"
        # `continue` refers to the innermost loop, which is the last of the stack.
        self._loops.append(loop)
        body = self.format_block(loop.body)
        self._loops.pop()
        yield from (f"while ({_format_expression(loop.guard)}) {{", "{", *body, "}")
        if loop.step:
            yield from (f"step_of_{loop.number}: ;", *self.format_block(loop.step))
        yield "}"


def _convert_call(node: c_ast.FuncCall) -> c_ast.FuncCall:
    """Convert a call of a known function to ESBMC's; return others unchanged."""
    name = callee_name(node)
    condition = node.args.exprs[:1] if node.args else []
    if name in (*STOP_FUNCTIONS, *FAILURE_FUNCTIONS):
        # A stop assumes a false condition; a failure asserts it.
        condition = [c_ast.Constant("int", "0")]
    if name in (*ASSERT_FUNCTIONS, *FAILURE_FUNCTIONS) and condition:
        comment = c_ast.Constant("string", '"assertion"')
        return c_ast.FuncCall(c_ast.ID(_ASSERT_FUNCTION), c_ast.ExprList([*condition, comment]))
    if name in (*ASSUME_FUNCTIONS, *STOP_FUNCTIONS) and condition:
        return c_ast.FuncCall(c_ast.ID(_ASSUME_FUNCTION), c_ast.ExprList(condition))
    return node


def _build_annotated_loop(loop: c_ast.Node, statements: Sequence[c_ast.Node]) -> c_ast.Compound:
    """Build a block of a loop's initialisation, the statements, and the loop itself."""
    match loop:
        # C has two kinds of initialisation: declarations and expressions.
        case c_ast.For(init=init, cond=cond, next=next_, stmt=stmt):
            match init:
                case c_ast.DeclList(decls=preamble) | c_ast.ExprList(exprs=preamble):
                    pass
                case _:
                    preamble = [init] if init else []
            loop_node = c_ast.For(None, cond, next_, stmt)
        case c_ast.While(cond=cond, stmt=stmt) | c_ast.DoWhile(cond=cond, stmt=stmt):
            # The first iteration of `do` runs before the invariants, as in the front end.
            preamble = [stmt] if isinstance(loop, c_ast.DoWhile) else []
            loop_node = c_ast.While(cond, stmt)
    return c_ast.Compound([*preamble, *statements, loop_node])


def _build_invariant_statements(
    invariants: Sequence[Expression], scope: Sequence[str]
) -> list[c_ast.Node]:
    """Build the statements of invariants, with declarations for their bound variables."""
    lines = [f"int {name};" for name in sorted(bound_variables(*invariants) - set(scope))]
    lines += [f"{INVARIANT_FUNCTION}({format_c(invariant)});" for invariant in invariants]
    # The parser accepts only whole translation units.
    unit = c_parser.CParser().parse(f"void f(void) {{ {' '.join(lines)} }}")
    return list(unit.ext[0].body.block_items)
