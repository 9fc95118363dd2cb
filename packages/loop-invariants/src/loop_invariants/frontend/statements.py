"""Statements of C: branches, `switch`, jumps, and `while`, `do` and `for` loops."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pycparser import c_ast

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.declarations import DeclarationReader
from loop_invariants.frontend.pointers import PointerReader
from loop_invariants.frontend.sequence_points import Evaluation, fold_constant
from loop_invariants.frontend.structured_jumps import (
    Interval,
    Irreducible,
    build_branch,
    build_labelled_block,
    find_shape,
    set_lines,
)
from loop_invariants.frontend.symbol_table import Pointer, SymbolTable
from loop_invariants.ir.expressions import (
    Binary,
    Constant,
    Expression,
    Identifier,
    has_nondet,
    promote,
    wrap,
)
from loop_invariants.ir.statements import (
    Assign,
    Block,
    Branch,
    Break,
    BreakTo,
    Continue,
    LabelledBlock,
    Loop,
    Statement,
    Stop,
    iter_statements,
)


@dataclass(frozen=True)
class _Exit:
    """The destination of `break` or `continue`.

    Attributes:
        loop: number of the loop whose Break or Continue can be used where it is the innermost loop;
            None without such a loop.
        label: label of the block to leave otherwise.
    """

    loop: int | None
    label: str


@dataclass(frozen=True)
class _Return:
    """The destination of `return`.

    Attributes:
        result: variable or pointer that receives the value; None in a function without one.
        label: label of the block to leave.
    """

    result: Identifier | Pointer | None
    label: str


class StatementReader:
    """A reader of the statements of one file.

    Args:
        symbols: symbol table.
        reader: reads expressions.
        declarations: reads declarations.

    Attributes:
        is_lowered: whether the loops of the program differ from those of the text.
    """

    def __init__(
        self, symbols: SymbolTable, reader: PointerReader, declarations: DeclarationReader
    ) -> None:
        self._symbols = symbols
        self._expression_reader = reader
        self._declarations = declarations
        self._loop_count = 0
        self._label_count = 0
        self._loop_stack = symbols.loop_stack
        self._break_exits: list[_Exit] = []
        self._continue_exits: list[_Exit] = []
        self._goto_blocks: dict[
            str, str
        ] = {}  # label of the block to leave, for every goto label in scope
        self._return_exits: list[_Return] = []
        self.is_lowered = False

    def read_function_body(
        self, node: c_ast.Compound, result: Identifier | Pointer | None
    ) -> Block:
        """Read the body of a called function; `return` stores a value and leaves it."""
        outer = self._break_exits, self._continue_exits, self._goto_blocks
        # Jumps of the function do not leave it.
        self._break_exits, self._continue_exits, self._goto_blocks = [], [], {}
        self._return_exits.append(_Return(result, self._create_label("end")))
        body = self.read_block(node)
        return_exit = self._return_exits.pop()
        self._break_exits, self._continue_exits, self._goto_blocks = outer
        return build_labelled_block(return_exit.label, body)

    def read_block(self, node: c_ast.Node | None) -> Block:
        """Read the statements of a block in a new scope."""
        self._symbols.open_scope()
        items = (node.block_items or ()) if isinstance(node, c_ast.Compound) else (node,)
        block = self._read_items([item for item in items if item is not None])
        self._symbols.close_scope()
        return block

    def _read_items(self, items: Sequence[c_ast.Node]) -> Block:
        try:
            shape = find_shape(items)
        except Irreducible as error:
            raise self._build_error(error.node, error.construct) from error
        return self._read_range(shape.nodes, list(shape.intervals), 0, len(shape.nodes))

    def _read_range(
        self, nodes: Sequence[c_ast.Node], intervals: list[Interval], start: int, end: int
    ) -> Block:
        """Read a range of a block's items and the intervals inside it."""
        block: list[Statement] = []
        position = start
        while position < end:
            if intervals and intervals[0].start == position:
                interval, *remaining_intervals = intervals
                nested = [
                    i
                    for i in remaining_intervals
                    if i.end <= interval.end and i.start < interval.end
                ]
                block += self._read_interval(nodes, interval, nested)
                intervals = remaining_intervals[len(nested) :]
                position = interval.end
            else:
                block += self._read_statement(nodes[position])
                position += 1
        return tuple(block)

    def _read_interval(
        self, nodes: Sequence[c_ast.Node], interval: Interval, inner_intervals: list[Interval]
    ) -> Block:
        """Read an interval: a block that jumps leave, or a loop that they repeat."""
        self.is_lowered = True
        # A label can have two intervals, a forward and a backward one.
        outer_block = self._goto_blocks.get(interval.label)
        label = self._goto_blocks[interval.label] = self._create_label(interval.label)
        number, scope = self._loop_count, self._symbols.collect_visible_variables()
        if interval.is_backward:
            self._loop_count += 1
            self._loop_stack.append(number)
        with self._symbols.optional_region():
            body = self._read_range(nodes, inner_intervals, interval.start, interval.end)
        if interval.is_backward:
            self._loop_stack.pop()
            # A run without a backward jump leaves the loop at the end of its body.
            single_round = (LabelledBlock(label, (*body, Break())),)
            line = nodes[interval.start].coord.line
            body = (Loop(number, line, Constant(1), single_round, (), scope),)
        del self._goto_blocks[interval.label]
        if outer_block is not None:
            self._goto_blocks[interval.label] = outer_block
        return body if interval.is_backward else build_labelled_block(label, body)

    def _read_statement(self, node: c_ast.Node) -> Block:
        return set_lines(self._read_node(node), node.coord.line if node.coord else 0)

    def _read_node(self, node: c_ast.Node) -> Block:
        match node:
            case c_ast.Compound():
                return self.read_block(node)
            case c_ast.Decl():
                return self._declarations.declare(node)
            case c_ast.DeclList():
                return tuple(s for d in node.decls for s in self._declarations.declare(d))
            case c_ast.Typedef():
                self._declarations.read_typedef(node)
                return ()
            case c_ast.Label():
                return self._read_items([node])
            case c_ast.If():
                return self._read_if(node)
            case c_ast.While():
                return self._read_while(node)
            case c_ast.For():
                return self._read_for(node)
            case c_ast.DoWhile():
                return self._read_do_while(node)
            case c_ast.Switch():
                return self._read_switch(node)
            case c_ast.Return():
                return self._read_return(node)
            case c_ast.Break():
                return (self._build_exit(node, self._break_exits, Break()),)
            case c_ast.Continue():
                return (self._build_exit(node, self._continue_exits, Continue()),)
            case c_ast.Goto(name=name):
                # Only jumps to a label in the same or an enclosing block are structured.
                if name not in self._goto_blocks:
                    raise self._build_error(node, f"a goto into a block, to {name!r},")
                return (BreakTo(self._goto_blocks[name]),)
            case c_ast.EmptyStatement():
                return ()
        if type(node) in _UNSUPPORTED_NODES:
            raise self._build_error(node, _UNSUPPORTED_NODES[type(node)])
        return self._expression_reader.read_effects(node)

    def _build_error(self, node: c_ast.Node, construct: str) -> UnsupportedProgram:
        return self._expression_reader.build_error(node, construct)

    def _create_label(self, name: str) -> str:
        self._label_count += 1
        return f"{name}_{self._label_count}"

    def _read_if(self, node: c_ast.If) -> Block:
        condition = self._expression_reader.evaluate_condition(node.cond)
        with self._symbols.optional_region():
            then = self.read_block(node.iftrue)
        with self._symbols.optional_region():
            otherwise = self.read_block(node.iffalse)
        return (*condition.effects, build_branch(condition.value, then, otherwise))

    def _read_return(self, node: c_ast.Return) -> Block:
        if not self._return_exits:
            # In `main`, a return ends the run.
            return (*(self._expression_reader.read_effects(node.expr) if node.expr else ()), Stop())
        return_exit = self._return_exits[-1]
        # The value of a function without a result is evaluated only.
        if return_exit.result is None:
            effects = self._expression_reader.read_effects(node.expr) if node.expr else ()
            return (*effects, BreakTo(return_exit.label))
        if node.expr is None:
            raise self._build_error(node, "a return without a value")
        if isinstance(return_exit.result, Pointer):
            return (
                *self._expression_reader.bind_result(node.expr, return_exit.result),
                BreakTo(return_exit.label),
            )
        evaluation = self._expression_reader.evaluate(node.expr)
        return (
            *evaluation.effects,
            Assign(return_exit.result, evaluation.value),
            BreakTo(return_exit.label),
        )

    def _build_exit(self, node: c_ast.Node, exits: list[_Exit], direct: Statement) -> Statement:
        if not exits:
            raise self._build_error(node, "break or continue outside a loop")
        current_loop = self._loop_stack[-1] if self._loop_stack else None
        target_exit = exits[-1]
        # Break and Continue apply only to the innermost loop.
        if target_exit.loop is not None and target_exit.loop == current_loop:
            return direct
        return BreakTo(target_exit.label)

    @contextmanager
    def _loop_body(self, number: int, on_break: _Exit, on_continue: _Exit) -> Iterator[None]:
        """Enter the body of a loop."""
        self._loop_stack.append(number)
        self._break_exits.append(on_break)
        self._continue_exits.append(on_continue)
        # A run may skip the body, or leave it before its end.
        with self._symbols.optional_region():
            yield
        self._continue_exits.pop()
        self._break_exits.pop()
        self._loop_stack.pop()

    def _read_while(self, node: c_ast.While) -> Block:
        condition = self._expression_reader.evaluate_condition(node.cond)
        return self._read_loop(node, condition, None)

    def _read_for(self, node: c_ast.For) -> Block:
        self._symbols.open_scope()
        initialization: Block = self._read_statement(node.init) if node.init is not None else ()
        # A missing condition is true (C11 6.8.5.3p2).
        condition = Evaluation((), Constant(1))
        if node.cond is not None:
            condition = self._expression_reader.evaluate_condition(node.cond)
        block = (*initialization, *self._read_loop(node, condition, node.next))
        self._symbols.close_scope()
        return block

    def _read_loop(
        self, node: c_ast.Node, condition: Evaluation, next_: c_ast.Node | None
    ) -> Block:
        """Read a loop whose condition is evaluated first.

        Its side effects are executed before the loop and at the end of each iteration.
        """
        number, scope = self._create_loop_number(), self._symbols.collect_visible_variables()
        guard, effects = condition.value, condition.effects
        self.is_lowered = self.is_lowered or bool(effects)
        body_start: Block = ()
        # Copies must not contain loops or blocks, whose numbers and labels are unique: an endless
        # loop then evaluates the condition.
        if any(isinstance(s, Loop | LabelledBlock) for s in iter_statements(effects)):
            guard, body_start = Constant(1), (*effects, Branch(guard, (), (Break(),)))
            effects = ()
        break_exit = _Exit(number, self._create_label("leave"))
        continue_exit = _Exit(number, self._create_label("again"))
        with self._loop_body(number, break_exit, continue_exit):
            body = build_labelled_block(continue_exit.label, self.read_block(node.stmt))
        with self._symbols.optional_region():
            step = () if next_ is None else self._expression_reader.read_effects(next_)
        loop = Loop(number, node.coord.line, guard, (*body_start, *body), (*step, *effects), scope)
        return build_labelled_block(break_exit.label, (*effects, loop))

    def _create_loop_number(self) -> int:
        self._loop_count += 1
        return self._loop_count - 1

    def _read_do_while(self, node: c_ast.DoWhile) -> Block:
        """Read a `do` loop: its body once, then a `while` loop, if the body is simple.

        With loops or jumps in the body, the result is an endless loop with a break.
        """
        if isinstance(node.cond, c_ast.Constant) and node.cond.value == "0":
            return self._read_do_once(node)
        number, scope = self._create_loop_number(), self._symbols.collect_visible_variables()
        break_exit = _Exit(number, self._create_label("leave"))
        continue_exit = _Exit(None, self._create_label("again"))
        with self._loop_body(number, break_exit, continue_exit):
            body = self.read_block(node.stmt)
        with self._symbols.optional_region():  # `break` skips the condition
            condition = self._expression_reader.evaluate_condition(node.cond)
        line = node.coord.line
        iteration = (*body, *condition.effects)
        if not any(isinstance(s, _JUMPS) for s in iter_statements(iteration)):
            self.is_lowered = self.is_lowered or bool(condition.effects)
            return (*iteration, Loop(number, line, condition.value, iteration, (), scope))
        self.is_lowered = True
        body = build_labelled_block(continue_exit.label, body)
        exit_branch = Branch(condition.value, (), (Break(),))
        loop = Loop(number, line, Constant(1), (*body, *condition.effects, exit_branch), (), scope)
        return build_labelled_block(break_exit.label, (loop,))

    def _read_do_once(self, node: c_ast.DoWhile) -> Block:
        """Read `do … while (0)`, which macros use as a block."""
        self.is_lowered = True
        block_exit = _Exit(None, self._create_label("leave"))
        self._break_exits.append(block_exit)
        self._continue_exits.append(block_exit)
        with self._symbols.optional_region():
            body = self.read_block(node.stmt)
        self._continue_exits.pop()
        self._break_exits.pop()
        return build_labelled_block(block_exit.label, body)

    def _read_switch(self, node: c_ast.Switch) -> Block:
        """Read a `switch`: jumps out of nested blocks, each followed by a case."""
        evaluation = self._expression_reader.evaluate(node.cond)
        value, effects = evaluation.value, evaluation.effects
        if has_nondet(value):
            # Every case compares the same value, so it is drawn once.
            temporary = self._symbols.create_temporary(value.type, "case")
            effects, value = (*effects, Assign(temporary, value)), temporary
        cases = node.stmt.block_items or () if isinstance(node.stmt, c_ast.Compound) else ()
        switch_exit = _Exit(None, self._create_label("leave"))
        self._break_exits.append(switch_exit)
        self._symbols.open_scope()
        labels = [self._create_label("case") for _ in cases]
        block = self._build_dispatch(cases, labels, value, switch_exit)
        # A case continues with the items of the next one unless it breaks.
        for case, label in zip(cases, labels, strict=True):
            with self._symbols.optional_region():
                items = self._read_items(case.stmts or ())
            block = (LabelledBlock(label, block), *items)
        self._symbols.close_scope()
        self._break_exits.pop()
        return (*effects, *build_labelled_block(switch_exit.label, block))

    def _build_dispatch(
        self, cases: Sequence[c_ast.Node], labels: Sequence[str], value: Expression, end: _Exit
    ) -> Block:
        """Build the jumps of a `switch` to its cases."""
        type_ = promote(value.type)
        branches: list[Statement] = []
        otherwise, case_numbers = BreakTo(end.label), set()
        for case, label in zip(cases, labels, strict=True):
            # The default case is taken only after all comparisons, wherever it is written.
            if isinstance(case, c_ast.Default):
                otherwise = BreakTo(label)
                continue
            if not isinstance(case, c_ast.Case):
                raise self._build_error(case, "a statement before the cases of a switch")
            number = fold_constant(self._expression_reader.read(case.expr))
            # Two cases with the same number after conversion are an error in C (C11 6.8.4.2p3).
            if number is None or wrap(number, type_) in case_numbers:
                raise self._build_error(case, "this case of a switch")
            case_numbers.add(wrap(number, type_))
            is_equal = Binary("==", value, Constant(wrap(number, type_)))
            branches.append(Branch(is_equal, (BreakTo(label),), ()))
        return (*branches, otherwise)


_JUMPS = (Loop, LabelledBlock, BreakTo, Break, Continue)

_UNSUPPORTED_NODES = {
    c_ast.Pragma: "a pragma",
    c_ast.Case: "a case inside a block of a switch",
    c_ast.Default: "a case inside a block of a switch",
    c_ast.FuncDef: "a function inside a function",
}
