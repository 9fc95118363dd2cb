"""Side effects of C expressions, as statements before a pure value.

`x + f(y++)` becomes statements that assign and call, and an expression for the value after them. C
does not specify the order of evaluation for most operands (C11 6.5p3). An expression whose value
could depend on that order is rejected, so every order is correct.
"""

from collections.abc import Callable, Sequence

from pycparser import c_ast

from loop_invariants.frontend.expressions import (
    QUANTIFIER_FUNCTIONS,
    ExpressionReader,
    callee_name,
    nondet_type,
)
from loop_invariants.frontend.sequence_points import Evaluation, find_conflict
from loop_invariants.frontend.symbol_table import MultiArray, Structure, SymbolTable
from loop_invariants.frontend.syntax_tree import is_void
from loop_invariants.ir.expressions import (
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
    has_nondet,
    is_boolean,
    is_partial,
    promote,
)
from loop_invariants.ir.statements import Assign, Block, Branch, Statement, find_modified_variables

_UNSIGNED_LONG = Type(64, False)

INCREMENTS = ("p++", "++", "p--", "--")


_ReadCall = Callable[[c_ast.FuncCall, bool], Expression | None]
"""Reader of impure calls, which adds their side effects to the reader.

The second argument states whether the value is used. The result is the value, or None without one.
"""


class EffectReader(ExpressionReader):
    """Reader of the expressions of a program.

    Args:
        source: name of the file in messages.
        symbols: symbol table; looked up at every expression.
        read_function_call: reads the calls of functions.
        read_type: reads the integer type of a type name in a cast or after `sizeof`.
    """

    def __init__(
        self,
        source: str,
        symbols: SymbolTable,
        read_function_call: _ReadCall,
        read_type: Callable[[c_ast.Node], Type],
    ) -> None:
        super().__init__(source, (), symbols.types)
        self._symbols = symbols
        self._read_function_call = read_function_call
        self._read_type = read_type
        self._effects: list[Statement] = []

    def evaluate(self, node: c_ast.Node) -> Evaluation:
        """Evaluate an expression: its side effects and its value."""
        return self._collect_effects(lambda: self.read(node))

    def read_effects(self, node: c_ast.Node) -> Block:
        """Return the statements of an expression whose value is not used."""
        match node:
            case c_ast.ExprList():
                return tuple(s for expression in node.exprs for s in self.read_effects(expression))
            case c_ast.Cast(expr=operand) if is_void(node.to_type.type):
                return self.read_effects(operand)
            case c_ast.TernaryOp(cond=cond, iftrue=then, iffalse=otherwise):
                return self._build_branch(
                    cond, self._read_optional_effects(then), self._read_optional_effects(otherwise)
                )
            case c_ast.BinaryOp(op="&&", left=left, right=right):
                return self._build_branch(left, self._read_optional_effects(right), ())
            case c_ast.BinaryOp(op="||", left=left, right=right):
                return self._build_branch(left, (), self._read_optional_effects(right))
            case c_ast.Assignment():
                return self._collect_effects(
                    lambda: self._read_assignment(node, is_used=False)
                ).effects
            case c_ast.UnaryOp(op=op) if op in INCREMENTS:
                return self._collect_effects(
                    lambda: self._read_increment(node, is_used=False)
                ).effects
            case c_ast.FuncCall() if not _is_pure_call(node):
                evaluation = self._collect_effects(
                    lambda: self._read_function_call(node, False) or Constant(0)
                )
                return evaluation.effects
        evaluation = self.evaluate(node)
        # An unused value is also evaluated: it may divide by zero.
        final_check = (Branch(evaluation.value, (), ()),) if is_partial(evaluation.value) else ()
        return (*evaluation.effects, *final_check)

    def build_truth_test(self, node: c_ast.Node) -> c_ast.Node:
        """Return the expression that is nonzero if and only if a condition is true."""
        return node

    def evaluate_condition(self, node: c_ast.Node) -> Evaluation:
        """Evaluate a condition: its side effects, and a value that is 0 if it is false."""
        return self.evaluate(self.build_truth_test(node))

    def _read_optional_effects(self, node: c_ast.Node) -> Block:
        with self._symbols.optional_region():
            return self.read_effects(node)

    def evaluate_all(self, nodes: Sequence[c_ast.Node]) -> list[Expression]:
        """Evaluate expressions in an unspecified order; add their side effects."""
        return self.combine_unordered(nodes, [self.evaluate(node) for node in nodes])

    def collect_values(self, nodes: Sequence[c_ast.Node]) -> tuple[Block, list[Expression]]:
        """Evaluate expressions in an unspecified order; return side effects and values."""
        values: list[Expression] = []

        def read() -> Expression:
            values.extend(self.evaluate_all(nodes))
            return Constant(0)

        return self._collect_effects(read).effects, values

    def combine_unordered(
        self, nodes: Sequence[c_ast.Node], evaluations: Sequence[Evaluation]
    ) -> list[Expression]:
        """Combine evaluations in an unspecified order; add their side effects."""
        for index, later_evaluation in enumerate(evaluations):
            # Every pair is checked, since any two may be evaluated in either order.
            for earlier_evaluation in evaluations[:index]:
                self._check_conflict(nodes[index], earlier_evaluation, later_evaluation)
            self.add(later_evaluation.effects)
        return [evaluation.value for evaluation in evaluations]

    def add(self, block: Block) -> None:
        """Add statements to the side effects of the current expression."""
        self._effects += block

    def _collect_effects(self, read: Callable[[], Expression]) -> Evaluation:
        outer, self._effects = self._effects, []
        try:
            value = read()
            return Evaluation(tuple(self._effects), value)
        # An error must not leave the effects of an inner expression to the outer one.
        finally:
            self._effects = outer

    def _build_branch(self, cond: c_ast.Node, then: Block, otherwise: Block) -> Block:
        condition = self.evaluate_condition(cond)
        return (*condition.effects, Branch(condition.value, then, otherwise))

    def _check_conflict(self, node: c_ast.Node, first: Evaluation, second: Evaluation) -> None:
        """Raise an error for two evaluations whose unspecified order matters."""
        problem = find_conflict(first, second, self._symbols.collect_live_variables())
        if problem:
            raise self.build_error(node, problem)

    def _build_readers(self) -> dict[type, Callable[..., Expression]]:
        return super()._build_readers() | {
            c_ast.Cast: self._read_cast,
            c_ast.Assignment: lambda node: self._read_assignment(node, is_used=True),
            c_ast.ExprList: self._read_comma,
        }

    def _read_quantified(self, node: c_ast.FuncCall) -> Expression:
        """Read a quantified condition, in which no statement can be added.

        It uses the variables that have the same name in the program.
        """
        scope = {
            name
            for name in self._symbols.collect_visible_variables()
            if self._symbols.look_up(name) == Identifier(name, INT)
        }
        return ExpressionReader(self._source, scope, self._symbols.types).read(node)

    def _build_constant(self, node: c_ast.Constant, constant: Constant, type_: Type) -> Expression:
        # The IR infers the type of a constant from its value, so others need a cast.
        return constant if constant.type == type_ else Cast(type_, constant)

    def _read_variable(self, node: c_ast.ID) -> Expression:
        match self._symbols.look_up(node.name):
            case Constant() as constant:
                return constant
            case Identifier(type=type_) as variable if not type_.is_array:
                return variable
            case Identifier():
                # The array as a whole is not an integer value.
                raise self.build_error(node, f"the array {node.name!r} without an index")
            case Structure():
                raise self.build_error(node, f"the structure {node.name!r} as a value")
        if node.name in ("true", "false"):
            return Constant(int(node.name == "true"))
        raise self.build_error(node, f"{node.name!r}, which is not a variable in scope,")

    def _read_unary(self, node: c_ast.UnaryOp) -> Expression:
        if node.op in INCREMENTS:
            return self._read_increment(node, is_used=True)
        if node.op == "sizeof":
            return self._read_sizeof(node)
        if node.op == "+":
            operand = self.read(node.expr)
            type_ = operand.type
            # The cast makes the promotion of a narrow type explicit.
            return operand if promote(type_) == type_ else Cast(INT, operand)
        if node.op == "~":
            return Unary("~", self.read(node.expr))
        return super()._read_unary(node)

    def _read_sizeof(self, node: c_ast.UnaryOp) -> Expression:
        if isinstance(node.expr, c_ast.Typename):
            type_ = self._read_type(node.expr.type)
        else:
            type_ = self._find_sizeof_type(node)
        count = type_.length.value if isinstance(type_.length, Constant) else 1
        return Cast(_UNSIGNED_LONG, Constant(max(1, type_.bits // 8) * count))

    def _find_sizeof_type(self, node: c_ast.UnaryOp) -> Type:
        """Return the type of `sizeof`'s operand, which is not evaluated (C11 6.5.3.4)."""
        # Here an array is not converted to a pointer to its first element.
        if isinstance(node.expr, c_ast.ID):
            symbol = self._symbols.look_up(node.expr.name)
            array = symbol.array if isinstance(symbol, MultiArray) else symbol
            if isinstance(array, Identifier) and array.type.is_array:
                if not isinstance(array.type.length, Constant):
                    raise self.build_error(node, "the size of an array of an open length")
                return array.type
        evaluation = self.evaluate(node.expr)
        if evaluation.effects:
            raise self.build_error(node, "the size of an expression that changes something")
        return evaluation.value.type

    def _read_binary(self, node: c_ast.BinaryOp) -> Expression:
        if node.op in CONNECTIVES:
            return self._read_connective(node)
        if node.op not in self._operators | {*BITWISE, *SHIFTS}:
            raise self.build_error(node, f"the operator {node.op}")
        return Binary(node.op, *self.evaluate_all((node.left, node.right)))

    def _read_connective(self, node: c_ast.BinaryOp) -> Expression:
        left = self.read(self.build_truth_test(node.left))
        with self._symbols.optional_region():
            right = self.evaluate_condition(node.right)
        if not right.effects:
            return Binary(node.op, left, right.value)
        # The right operand is evaluated only if the left operand does not decide.
        truth = self._symbols.create_temporary(INT, "truth")
        decided_block = (Assign(truth, Constant(int(node.op == "||"))),)
        value = right.value
        if not is_boolean(value):
            value = Binary("!=", value, Constant(0))
        open_block = (*right.effects, Assign(truth, value))
        blocks = (open_block, decided_block) if node.op == "&&" else (decided_block, open_block)
        self.add((Branch(left, *blocks),))
        return Binary("!=", truth, Constant(0))

    def _read_conditional(self, node: c_ast.TernaryOp) -> Expression:
        condition = self.read(self.build_truth_test(node.cond))
        with self._symbols.optional_region():
            then = self.evaluate(node.iftrue)
        with self._symbols.optional_region():
            otherwise = self.evaluate(node.iffalse)
        # Without side effects the operator itself selects the operand.
        if not then.effects and not otherwise.effects:
            return Ternary(condition, then.value, otherwise.value)
        types = (evaluation.value.type for evaluation in (then, otherwise))
        result = self._symbols.create_temporary(common_type(*types), "chosen")
        then_block = (*then.effects, Assign(result, then.value))
        else_block = (*otherwise.effects, Assign(result, otherwise.value))
        self.add((Branch(condition, then_block, else_block),))
        return result

    def _read_cast(self, node: c_ast.Cast) -> Expression:
        type_ = self._read_type(node.to_type.type)
        operand = self.read(node.expr)
        return operand if operand.type == type_ else Cast(type_, operand)

    def _read_comma(self, node: c_ast.ExprList) -> Expression:
        *expressions, last_expression = node.exprs
        for expression in expressions:
            self.add(self.read_effects(expression))
        return self.read(last_expression)

    def _read_call(self, node: c_ast.FuncCall) -> Expression:
        if callee_name(node) in QUANTIFIER_FUNCTIONS:
            return self._read_quantified(node)
        if _is_pure_call(node):
            return super()._read_call(node)
        value = self._read_function_call(node, True)
        if value is None:
            raise self.build_error(node, f"the call of {callee_name(node)} in an expression")
        return value

    def _read_target(self, node: c_ast.Node) -> tuple[Block, Identifier | Element]:
        """Return the side effects of a target, such as those of its index, and the target."""
        evaluation = self.evaluate(node)
        if isinstance(evaluation.value, Identifier | Element):
            return evaluation.effects, evaluation.value
        raise self.build_error(node, "an assignment to neither a variable nor an element")

    def _read_assignment(self, node: c_ast.Assignment, is_used: bool) -> Expression:
        if node.op != "=" and node.op[:-1] not in self._operators | {*BITWISE, *SHIFTS}:
            raise self.build_error(node, f"the operator {node.op}")
        effects, target = self._read_target(node.lvalue)
        right = self.evaluate(node.rvalue)
        # An assignment reads the index of its target, but not the target itself.
        index = target.index if isinstance(target, Element) else Constant(0)
        accessed_expression = index if node.op == "=" else target
        self._check_conflict(node, Evaluation(effects, accessed_expression), right)
        self._check_single_change(node, target, right)
        self.add((*effects, *right.effects))
        value = right.value
        if node.op != "=":
            self._check_fixed_target(target, node)
            value = Binary(node.op[:-1], target, value)
        return self._store(target, value, is_used)

    def _check_single_change(
        self, node: c_ast.Assignment, target: Identifier | Element, right: Evaluation
    ) -> None:
        """Reject a right side that changes the target, except for a call.

        A call is complete before the assignment (C11 6.5.2.2p10).
        """
        name = target.name if isinstance(target, Identifier) else target.array
        if name in find_modified_variables(right.effects) and not (
            node.op == "=" and isinstance(node.rvalue, c_ast.FuncCall)
        ):
            raise self.build_error(node, f"an assignment that changes {name} twice")

    def _read_increment(self, node: c_ast.UnaryOp, is_used: bool) -> Expression:
        effects, operand = self._read_target(node.expr)
        self.add(effects)
        self._check_fixed_target(operand, node)
        operator = node.op.strip("p")[0]
        new_value = Binary(operator, operand, Constant(1))
        if not is_used or node.op in ("++", "--"):
            return self._store(operand, new_value, is_used)
        type_ = operand.type
        if isinstance(operand, Identifier) and promote(type_) == type_:
            # The type is not promoted, so the old value can be computed from the new one.
            self.add((Assign(operand, new_value),))
            return Binary("-" if operator == "+" else "+", operand, Constant(1))
        old_value = self._symbols.create_temporary(type_, "old")
        self.add(
            (
                Assign(old_value, operand),
                Assign(operand, Binary(operator, old_value, Constant(1))),
            )
        )
        return old_value

    def _store(self, target: Identifier | Element, value: Expression, is_used: bool) -> Expression:
        """Store a value; the result is the target's new value (C11 6.5.16p3)."""
        if not is_used or isinstance(target, Identifier):
            self.add((Assign(target, value),))
            return target
        # An index may have changed by then, so the value is kept in a variable.
        stored_value = self._symbols.create_temporary(target.type, "stored")
        self.add((Assign(stored_value, value), Assign(target, stored_value)))
        return stored_value

    def _check_fixed_target(self, target: Expression, node: c_ast.Node) -> None:
        """Reject a compound assignment to an element at a nondeterministic index."""
        # Reading and writing would draw two different indices.
        if has_nondet(target):
            raise self.build_error(node, "changing an element at an open index")


def _is_pure_call(node: c_ast.FuncCall) -> bool:
    return callee_name(node) in QUANTIFIER_FUNCTIONS or nondet_type(callee_name(node)) is not None
