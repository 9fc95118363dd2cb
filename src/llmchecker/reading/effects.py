"""C expressions that change variables, as statements and a value without side effects.

`x + f(y++)` becomes statements that assign and call, and an expression for the value afterwards. C
leaves open in which order the operands of most operators are evaluated (C11 6.5p3). An expression
whose value could depend on that order is refused, so any order is the right one.
"""

from collections.abc import Callable, Sequence

from pycparser import c_ast

from llmchecker.programs.expressions import (
    BITWISE,
    CONNECTIVES,
    INT,
    SHIFTS,
    Binary,
    Cast,
    Constant,
    Element,
    Expression,
    Identifier,
    Ternary,
    Type,
    Unary,
    common_type,
    is_open,
    is_partial,
    is_truth,
    promoted,
    type_of,
)
from llmchecker.programs.statements import (
    Assign,
    Block,
    Branch,
    Statement,
    changed,
)
from llmchecker.reading.c_expressions import ESBMC_QUANTIFIERS, ExpressionReader, called, drawn
from llmchecker.reading.scopes import Grid, Names, Structure, Variable
from llmchecker.translating.evaluations import Evaluated, conflict
from llmchecker.translating.syntax import is_void

_UNSIGNED_LONG = Type(64, False)

INCREMENTS = ("p++", "++", "p--", "--")


Call = Callable[[c_ast.FuncCall, bool], Expression | None]
"""Reads the call of a function that is no known expression, and adds what it does to the reader.

It is told whether the value is used and returns it; None if there is none.
"""


class EffectReader(ExpressionReader):
    """Reads the expressions of a program.

    Args:
        source: the name of the file, for messages.
        names: what the names of the text stand for; looked up each time an expression is read.
        call: reads the calls of functions.
        type_named: the integer type that a type's name in a cast or after `sizeof` stands for.
    """

    def __init__(
        self,
        source: str,
        names: Names,
        call: Call,
        type_named: Callable[[c_ast.Node], Type],
    ) -> None:
        super().__init__(source, (), names.types)
        self._names = names
        self._called = call
        self._type_named = type_named
        self._before: list[Statement] = []

    def evaluated(self, node: c_ast.Node) -> Evaluated:
        """What an expression does and its value."""
        return self._collected(lambda: self.read(node))

    def performed(self, node: c_ast.Node) -> Block:
        """The statements for an expression whose value nobody uses."""
        match node:
            case c_ast.ExprList():
                return tuple(s for part in node.exprs for s in self.performed(part))
            case c_ast.Cast(expr=operand) if is_void(node.to_type.type):
                return self.performed(operand)
            case c_ast.TernaryOp(cond=cond, iftrue=then, iffalse=otherwise):
                return self._either(cond, self._perhaps(then), self._perhaps(otherwise))
            case c_ast.BinaryOp(op="&&", left=left, right=right):
                return self._either(left, self._perhaps(right), ())
            case c_ast.BinaryOp(op="||", left=left, right=right):
                return self._either(left, (), self._perhaps(right))
            case c_ast.Assignment():
                return self._collected(lambda: self._assigned(node, used=False)).before
            case c_ast.UnaryOp(op=op) if op in INCREMENTS:
                return self._collected(lambda: self._incremented(node, used=False)).before
            case c_ast.FuncCall() if not _is_expression(node):
                done = self._collected(lambda: self._called(node, False) or Constant(0))
                return done.before
        done = self.evaluated(node)
        # A value that nobody uses is evaluated all the same: it may divide by zero.
        kept = (Branch(done.value, (), ()),) if is_partial(done.value) else ()
        return (*done.before, *kept)

    def truth_of(self, node: c_ast.Node) -> c_ast.Node:
        """The expression that tells whether a condition is true."""
        return node

    def condition(self, node: c_ast.Node) -> Evaluated:
        """What the evaluation of a condition does, and a value that is 0 if it is false."""
        return self.evaluated(self.truth_of(node))

    def _perhaps(self, node: c_ast.Node) -> Block:
        with self._names.perhaps():
            return self.performed(node)

    def evaluated_all(self, nodes: Sequence[c_ast.Node]) -> list[Expression]:
        """The values of expressions that C evaluates in any order; what they do is added."""
        return self.in_any_order(nodes, [self.evaluated(node) for node in nodes])

    def evaluated_each(self, nodes: Sequence[c_ast.Node]) -> tuple[Block, list[Expression]]:
        """What expressions do that C evaluates in any order, and their values."""
        values: list[Expression] = []

        def read() -> Expression:
            values.extend(self.evaluated_all(nodes))
            return Constant(0)

        return self._collected(read).before, values

    def in_any_order(
        self, nodes: Sequence[c_ast.Node], done: Sequence[Evaluated]
    ) -> list[Expression]:
        """The values of evaluations that C makes in any order; what they do is added."""
        for last, second in enumerate(done):
            for first in done[:last]:
                self._refuse_conflict(nodes[last], first, second)
            self.add(second.before)
        return [one.value for one in done]

    def add(self, block: Block) -> None:
        """Add statements to what the expression that is being read does."""
        self._before += block

    def _collected(self, read: Callable[[], Expression]) -> Evaluated:
        outer, self._before = self._before, []
        try:
            value = read()
            return Evaluated(tuple(self._before), value)
        finally:
            self._before = outer

    def _either(self, cond: c_ast.Node, then: Block, otherwise: Block) -> Block:
        condition = self.condition(cond)
        return (*condition.before, Branch(condition.value, then, otherwise))

    def _refuse_conflict(self, node: c_ast.Node, first: Evaluated, second: Evaluated) -> None:
        """Refuse two evaluations, in an open order, whose order makes a difference."""
        what = conflict(first, second, self._names.live())
        if what:
            raise self.unsupported(node, what)

    def _readers(self) -> dict[type, Callable[..., Expression]]:
        return super()._readers() | {
            c_ast.Cast: self._cast,
            c_ast.Assignment: lambda node, bound: self._changing(node, bound, self._assigned),
            c_ast.ExprList: self._comma,
        }

    def _changing(self, node: c_ast.Node, bound: frozenset[str], read: Callable) -> Expression:
        if bound:
            raise self.unsupported(node, "a change inside a quantifier")
        return read(node, used=True)

    def _constant(self, node: c_ast.Constant, bound: frozenset[str]) -> Expression:
        return self._typed_constant(node) or super()._constant(node, bound)

    def _variable(self, node: c_ast.ID, bound: frozenset[str]) -> Expression:
        if node.name in bound:
            return Identifier(node.name)
        match self._names.meaning(node.name):
            case Constant() as constant:
                return constant
            case Variable(name=name) if not self._names.types[name].array:
                return Identifier(name)
            case Variable():
                raise self.unsupported(node, f"the array {node.name!r} without an index")
            case Structure():
                raise self.unsupported(node, f"the structure {node.name!r} as a value")
        if node.name in ("true", "false"):
            return Constant(int(node.name == "true"))
        raise self.unsupported(node, f"{node.name!r}, which is not a variable in scope,")

    def _unary(self, node: c_ast.UnaryOp, bound: frozenset[str]) -> Expression:
        if node.op in INCREMENTS:
            return self._changing(node, bound, self._incremented)
        if node.op == "sizeof":
            return self._size(node)
        if node.op == "+":
            operand = self.read(node.expr, bound)
            type_ = type_of(operand, self._names.types)
            return operand if promoted(type_) == type_ else Cast(INT, operand)
        if node.op == "~":
            return Unary("~", self.read(node.expr, bound))
        return super()._unary(node, bound)

    def _size(self, node: c_ast.UnaryOp) -> Expression:
        if isinstance(node.expr, c_ast.Typename):
            type_ = self._type_named(node.expr.type)
        else:
            type_ = self._sized(node)
        count = 1 if type_.length is None else type_.length.value
        return Cast(_UNSIGNED_LONG, Constant(max(1, type_.bits // 8) * count))

    def _sized(self, node: c_ast.UnaryOp) -> Type:
        """The type of the operand of `sizeof`, which is not evaluated (C11 6.5.3.4)."""
        if isinstance(node.expr, c_ast.ID):
            meaning = self._names.meaning(node.expr.name)
            if isinstance(meaning, Variable | Grid) and self._names.types[meaning.name].array:
                type_ = self._names.types[meaning.name]
                if not isinstance(type_.length, Constant):
                    raise self.unsupported(node, "the size of an array of an open length")
                return type_
        done = self.evaluated(node.expr)
        if done.before:
            raise self.unsupported(node, "the size of an expression that changes something")
        return type_of(done.value, self._names.types)

    def _binary(self, node: c_ast.BinaryOp, bound: frozenset[str]) -> Expression:
        if node.op in CONNECTIVES:
            return self._connected(node, bound)
        if node.op not in self._operators | {*BITWISE, *SHIFTS}:
            raise self.unsupported(node, f"the operator {node.op}")
        if bound:
            return Binary(node.op, self.read(node.left, bound), self.read(node.right, bound))
        return Binary(node.op, *self.evaluated_all((node.left, node.right)))

    def _connected(self, node: c_ast.BinaryOp, bound: frozenset[str]) -> Expression:
        left = self.read(self.truth_of(node.left), bound)
        if bound:
            return Binary(node.op, left, self.read(self.truth_of(node.right), bound))
        with self._names.perhaps():
            right = self.condition(node.right)
        if not right.before:
            return Binary(node.op, left, right.value)
        # The right operand is evaluated only where the left one does not decide.
        truth = Identifier(self._names.temporary(INT, "truth"))
        decided = (Assign(truth, Constant(int(node.op == "||"))),)
        value = right.value
        if not is_truth(value):
            value = Binary("!=", value, Constant(0))
        open_ = (*right.before, Assign(truth, value))
        blocks = (open_, decided) if node.op == "&&" else (decided, open_)
        self.add((Branch(left, *blocks),))
        return Binary("!=", truth, Constant(0))

    def _conditional(self, node: c_ast.TernaryOp, bound: frozenset[str]) -> Expression:
        if bound:
            return super()._conditional(node, bound)
        condition = self.read(self.truth_of(node.cond))
        with self._names.perhaps():
            then = self.evaluated(node.iftrue)
        with self._names.perhaps():
            otherwise = self.evaluated(node.iffalse)
        if not then.before and not otherwise.before:
            return Ternary(condition, then.value, otherwise.value)
        types = (type_of(one.value, self._names.types) for one in (then, otherwise))
        chosen = Identifier(self._names.temporary(common_type(*types), "chosen"))
        blocks = ((*one.before, Assign(chosen, one.value)) for one in (then, otherwise))
        self.add((Branch(condition, *blocks),))
        return chosen

    def _cast(self, node: c_ast.Cast, bound: frozenset[str]) -> Expression:
        type_ = self._type_named(node.to_type.type)
        operand = self.read(node.expr, bound)
        return operand if type_of(operand, self._names.types) == type_ else Cast(type_, operand)

    def _comma(self, node: c_ast.ExprList, bound: frozenset[str]) -> Expression:
        if bound:
            raise self.unsupported(node, "the comma operator inside a quantifier")
        *first, last = node.exprs
        for part in first:
            self.add(self.performed(part))
        return self.read(last)

    def _call(self, node: c_ast.FuncCall, bound: frozenset[str]) -> Expression:
        if _is_expression(node) or bound:
            return super()._call(node, bound)
        value = self._called(node, True)
        if value is None:
            raise self.unsupported(node, f"the call of {called(node)} in an expression")
        return value

    def _target(self, node: c_ast.Node) -> Evaluated:
        done = self.evaluated(node)
        if isinstance(done.value, Identifier | Element):
            return done
        raise self.unsupported(node, "an assignment to neither a variable nor an element")

    def _assigned(self, node: c_ast.Assignment, used: bool) -> Expression:
        if node.op != "=" and node.op[:-1] not in self._operators | {*BITWISE, *SHIFTS}:
            raise self.unsupported(node, f"the operator {node.op}")
        target, right = self._target(node.lvalue), self.evaluated(node.rvalue)
        # An assignment does not read its target, but the target's index.
        where = target.value.index if isinstance(target.value, Element) else Constant(0)
        read = where if node.op == "=" else target.value
        self._refuse_conflict(node, Evaluated(target.before, read), right)
        self._refuse_two_changes(node, target.value, right)
        self.add((*target.before, *right.before))
        value = right.value
        if node.op != "=":
            self._refuse_open(target.value, node)
            value = Binary(node.op[:-1], target.value, value)
        return self._stored(target.value, value, used)

    def _refuse_two_changes(self, node: c_ast.Assignment, target: Expression, right: Evaluated):
        """Refuse a right side that changes the target, unless it is a call, which comes first."""
        name = target.name if isinstance(target, Identifier) else target.array
        if name in changed(right.before) and not (
            node.op == "=" and isinstance(node.rvalue, c_ast.FuncCall)
        ):
            raise self.unsupported(node, f"an assignment that changes {name} twice")

    def _incremented(self, node: c_ast.UnaryOp, used: bool) -> Expression:
        target = self._target(node.expr)
        self.add(target.before)
        self._refuse_open(target.value, node)
        operator = node.op.strip("p")[0]
        old = target.value
        new = Binary(operator, old, Constant(1))
        if not used or node.op in ("++", "--"):
            return self._stored(old, new, used)
        type_ = type_of(old, self._names.types)
        if isinstance(old, Identifier) and promoted(type_) == type_:
            # Of a type that is not promoted, the old value can be told from the new one.
            self.add((Assign(old, new),))
            return Binary("-" if operator == "+" else "+", old, Constant(1))
        kept = Identifier(self._names.temporary(type_, "old"))
        self.add((Assign(kept, old), Assign(old, Binary(operator, kept, Constant(1)))))
        return kept

    def _stored(self, target: Expression, value: Expression, used: bool) -> Expression:
        """Store a value; the result is the target's value then (C11 6.5.16p3)."""
        if not used or isinstance(target, Identifier):
            self.add((Assign(target, value),))
            return target
        type_ = type_of(target, self._names.types)
        kept = Identifier(self._names.temporary(type_, "stored"))
        self.add((Assign(kept, value), Assign(target, kept)))
        return kept

    def _refuse_open(self, target: Expression, node: c_ast.Node) -> None:
        """Refuse a target that is read and then written if these could be different elements."""
        if is_open(target):
            raise self.unsupported(node, "changing an element at an open index")


def _is_expression(node: c_ast.FuncCall) -> bool:
    return called(node) in ESBMC_QUANTIFIERS or drawn(called(node)) is not None
