"""Uses of addresses that have one meaning in C, for every compiler and verifier.

An address has no number in C: where an object is, and what is next to it, differ between compilers,
and a verifier models neither. So all expressions of a text are typed, and an address may only be
copied, dereferenced, moved in its object, freed, and compared with null:

    head = node->next;    p[i] = 0;    if (p) free(p);    for (p = a; p < a + n; p++)

Two addresses are compared or subtracted only if both certainly belong to one object. A conversion
between pointers of different types, and between pointers and integers, is an obstacle; so is one
that loses `const`, which string literals have here.
"""

from collections import defaultdict
from collections.abc import Iterable

from pycparser import c_ast

from loop_invariants.frontend.c_types import (
    CONSTANT_CHAR,
    INT,
    LONG,
    VOID,
    CType,
    Kind,
    Obstacle,
    TypeTable,
    add_const,
    decay,
)
from loop_invariants.frontend.expressions import callee_name
from loop_invariants.frontend.pointer_binding import is_null
from loop_invariants.frontend.pointers import is_pointer
from loop_invariants.frontend.side_effects import INCREMENTS
from loop_invariants.frontend.syntax_tree import EXPRESSION_NODES, iter_nodes
from loop_invariants.frontend.text_facts import (
    MODELLED_FUNCTIONS,
    TextFacts,
    find_undeclared_calls,
)
from loop_invariants.frontend.verifier_builtins import list_parameters

_ALLOCATIONS = frozenset(("malloc", "calloc"))
_NUMBER_FUNCTIONS = frozenset(("abs", "labs", "llabs"))
_OUTPUT_FUNCTIONS = frozenset(("printf", "puts", "putchar"))

_UNTRUSTED_FUNCTIONS = MODELLED_FUNCTIONS - _ALLOCATIONS - _NUMBER_FUNCTIONS - _OUTPUT_FUNCTIONS
"""Functions of the C library that copy bytes of any type, or whose memory has other rules.

`free` is among them, and has a rule of its own.
"""

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")

_MAX_ALLOCATION = 1 << 24
"""Maximum number of elements of an allocation: a machine can always allocate them."""


def check_address_uses(facts: TextFacts) -> None:
    """Check all expressions that `main` may reach.

    Raises:
        Obstacle: an expression whose meaning differs between compilers or verifiers.
    """
    _UseChecker(facts).check()


class _UseChecker:
    """A checker of one text.

    Args:
        facts: the facts about the text.
    """

    def __init__(self, facts: TextFacts) -> None:
        self._facts = facts
        self._types = TypeTable(facts.unit)
        self._enumerators = {n.name for n in iter_nodes(facts.unit, (c_ast.Enumerator,))}
        self._undeclared_calls = find_undeclared_calls(facts.unit)
        self._frees = "free" in facts.called_functions
        self._globals = [node for node in facts.unit.ext if isinstance(node, c_ast.Decl)]
        self._result: CType = VOID
        self._parameters: frozenset[int] = frozenset()
        # By the type of the target: addresses of parts of objects, addresses that are computed, and
        # those of local variables in functions that return such a pointer.
        self._parts: dict[CType, c_ast.Node] = {}
        self._computed: dict[CType, c_ast.Node] = {}
        self._local: dict[CType, c_ast.Node] = {}
        # Types of the targets of pointers that move, and that are compared with null.
        self._moved: set[CType] = set()
        self._null_tested: set[CType] = set()
        self._enter([])

    def check(self) -> None:
        for declaration in self._globals:
            self._check_declaration(declaration)
        for name in sorted(self._facts.reached_functions):
            self._check_function(self._facts.functions[name])
        for nodes, types, construct in (
            # Within its object, such a pointer could reach the neighbours of the part.
            (self._parts, self._moved, "the address of a part of an object, with moving pointers,"),
            # Only a null pointer itself is null for every compiler, not an address next to it.
            (self._computed, self._null_tested, "a computed address, with null tests,"),
            # gcc replaces such an address by null, where a function returns it.
            (self._local, self._null_tested, "the address of a local variable, with null tests,"),
        ):
            for type_ in nodes.keys() & types:
                raise Obstacle(construct, nodes[type_])

    def _enter(self, declarations: Iterable[c_ast.Decl]) -> None:
        """Enter the scope of a function's declarations; all of its blocks count as one."""
        self._declarations: dict[str, list[c_ast.Decl]] = defaultdict(list)
        for node in (*self._globals, *declarations):
            if node.name is not None:
                self._declarations[node.name].append(node)
        self._roots: dict[str, str] = {}
        self._read_types: dict[int, CType] = {}

    def _check_function(self, function: c_ast.FuncDef) -> None:
        if function.param_decls:
            raise Obstacle("a definition without a prototype", function)
        parameters = [p for p in list_parameters(function.decl) if isinstance(p, c_ast.Decl)]
        local = list(iter_nodes(function.body, (c_ast.Decl,)))
        self._parameters = frozenset(map(id, parameters))
        self._enter((*parameters, *local))
        for parameter in parameters:
            self._types.resolve_parameter(parameter)
        self._find_roots(function, (*parameters, *local))
        self._result = self._types.resolve(function.decl.type.type)
        self._check_statement(function.body)

    # Statements and initial values.

    def _check_statement(self, node: c_ast.Node) -> None:
        match node:
            case c_ast.Decl():
                self._check_declaration(node)
                return
            case c_ast.Return(expr=value) if value is not None and self._result != VOID:
                self._check_conversion(value, self._result)
                return
            case c_ast.Switch(cond=condition):
                self._read_number(condition)
            case c_ast.If() | c_ast.While() | c_ast.DoWhile() | c_ast.For():
                # `for (;;)` has no condition.
                if node.cond is not None:
                    self._read_condition(node.cond)
        for name, child in node.children():
            if name == "cond":
                continue
            if isinstance(child, EXPRESSION_NODES):
                self._read(child)
            else:
                self._check_statement(child)

    def _check_declaration(self, node: c_ast.Decl) -> None:
        # The declaration of a structure has no name, and a prototype counts at its calls.
        if node.name is None or isinstance(node.type, c_ast.FuncDecl):
            return
        type_ = self._types.resolve(node.type)
        if node.init is not None:
            self._check_initialization(node.init, type_)
        elif "static" not in node.storage and not any(node is other for other in self._globals):
            self._check_uninitialized(node, type_)

    def _check_uninitialized(self, node: c_ast.Node, type_: CType) -> None:
        """Check that memory without a value has a value of its type, whatever its bytes."""
        names = {part.name for part in self._types.iter_scalars(type_, node)}
        if "_Bool" in names:
            raise Obstacle("an uninitialized _Bool", node)

    def _check_initialization(self, node: c_ast.Node, type_: CType) -> None:
        if isinstance(node, c_ast.InitList):
            for item, item_type in self._list_items(node, type_):
                self._check_initialization(item, item_type)
        elif type_.kind is Kind.ARRAY and _is_string(node):
            # The characters are copied.
            if type_.target.name.split()[-1:] != ["char"]:
                raise Obstacle("a string literal", node)
        elif type_.kind in (Kind.STRUCTURE, Kind.UNION, Kind.ARRAY) and not self._fits(node, type_):
            # The braces of an inner list may be left out (C11 6.7.9p20).
            kinds = {part.kind for part in self._types.iter_scalars(type_, node)}
            if not is_null(node):
                self._read_number(node)
                if kinds != {Kind.NUMBER}:
                    raise Obstacle("an initial value without its braces", node)
        else:
            self._check_conversion(node, type_)

    def _fits(self, node: c_ast.Node, type_: CType) -> bool:
        """Return whether an initial value has the type of a structure or union itself."""
        is_value = not isinstance(node, c_ast.Constant) and type_.kind is not Kind.ARRAY
        return is_value and self._read(node).unqualified == type_.unqualified

    def _list_items(self, node: c_ast.InitList, type_: CType) -> list[tuple[c_ast.Node, CType]]:
        """Return the items of a list with the types of what they initialize."""
        if type_.kind in (Kind.STRUCTURE, Kind.UNION):
            members = self._types.find_members(type_, node)
            types = {name: self._types.resolve(member) for name, member in members.items()}
        else:
            types = {}
        names = list(types)
        position, items = 0, []
        for item in node.exprs or ():
            if isinstance(item, c_ast.NamedInitializer):
                designator, item_value = item.name[0], item.expr
                if len(item.name) > 1:
                    raise Obstacle("a designator of several parts", item)
                if types and designator.name not in types:
                    raise Obstacle("a designator of no member", item)
                if types:
                    position = names.index(designator.name)
            else:
                item_value = item
            if types and position >= len(names):
                # Further items belong to members whose braces are left out.
                kinds = {part.kind for part in self._types.iter_scalars(type_, node)}
                if kinds != {Kind.NUMBER}:
                    raise Obstacle("an initial value without its braces", item)
                items.append((item_value, INT))
                continue
            is_aggregate = type_.kind is Kind.ARRAY
            items.append(
                (item_value, types[names[position]])
                if types
                else (item_value, type_.target if is_aggregate else type_)
            )
            position += 1
        return items

    # Expressions.

    def _read_value(self, node: c_ast.Node) -> CType:
        """Return the type of an expression's value; an array is a pointer then."""
        type_ = self._read(node)
        # The first element of a whole array is no part: the array has no neighbours.
        if type_.kind is Kind.ARRAY and not isinstance(node, c_ast.ID | c_ast.Constant):
            self._parts.setdefault(type_.target.unqualified, node)
        if type_.kind is Kind.ARRAY:
            self._record_object(node, type_.target)
        return decay(type_)

    def _record_object(self, node: c_ast.Node, target: CType) -> None:
        """Record the address of a local variable that the function may return.

        The address of a member of a union is an obstacle: another member with another type may be
        at the same place (C11 6.5p7).
        """
        while isinstance(node, c_ast.StructRef | c_ast.ArrayRef):
            node = node.name
            base = self._read(node)
            if Kind.UNION in (base.kind, base.target and base.target.kind):
                raise Obstacle("the address of a member of a union", node)
        if self._is_local(node) and self._may_return(target):
            self._local.setdefault(target.unqualified, node)

    def _is_local(self, node: c_ast.Node) -> bool:
        """Return whether an object may end with its block: a variable or a compound literal."""
        declarations = self._declarations.get(node.name, ()) if isinstance(node, c_ast.ID) else ()
        return isinstance(node, c_ast.CompoundLiteral) or any(
            not any(d is other for other in self._globals) and "static" not in d.storage
            for d in declarations
        )

    def _may_return(self, target: CType) -> bool:
        """Return whether the function's result has a pointer to this type."""
        if self._result.kind in (Kind.VOID, Kind.NUMBER):
            return False
        pointers = self._types.iter_scalars(self._result, None)
        return any(
            p.kind is Kind.POINTER and p.target.unqualified == target.unqualified for p in pointers
        )

    def _read_number(self, node: c_ast.Node) -> CType:
        type_ = self._read_value(node)
        if type_.kind is Kind.POINTER:
            raise Obstacle("an address as a number", node)
        if type_.kind is not Kind.NUMBER:
            raise Obstacle(f"a {type_.kind} as a number", node)
        return type_

    def _read_pointer(self, node: c_ast.Node) -> CType:
        type_ = self._read_value(node)
        if type_.kind is not Kind.POINTER:
            raise Obstacle("a number as an address", node)
        return type_

    def _read_condition(self, node: c_ast.Node) -> None:
        """Check a truth test: a pointer is compared with null there."""
        type_ = self._read_value(node)
        if type_.kind is Kind.POINTER:
            self._null_tested.add(type_.target.unqualified)
        elif type_.kind is not Kind.NUMBER:
            raise Obstacle("a condition that is no number", node)

    def _move(self, type_: CType, node: c_ast.Node) -> CType:
        """Return the type of a pointer that moves."""
        self._moved.add(type_.target.unqualified)
        self._computed.setdefault(type_.target.unqualified, node)
        return type_

    def _check_conversion(self, node: c_ast.Node, type_: CType) -> None:
        """Check an expression whose value is converted to a type."""
        to_pointer = type_.kind is Kind.POINTER
        match node:
            case _ if to_pointer and is_null(node):
                return
            case c_ast.TernaryOp(cond=condition, iftrue=first, iffalse=second):
                self._read_condition(condition)
                self._check_conversion(first, type_)
                self._check_conversion(second, type_)
                return
            # New memory has no type before its first assignment (C11 6.5p6).
            case c_ast.FuncCall() if to_pointer and self._is_allocation(node):
                self._read(node)
                # `calloc` sets all bytes to zero.
                if callee_name(node) == "malloc":
                    self._check_uninitialized(node, type_.target)
                return
        value_type = self._read_value(node)
        if type_.unqualified == value_type.unqualified:
            return
        match value_type.kind, type_.kind:
            case Kind.NUMBER, Kind.NUMBER:
                return
            case Kind.POINTER, Kind.NUMBER:
                raise Obstacle("an address as a number", node)
            case Kind.NUMBER, Kind.POINTER:
                raise Obstacle("a number as an address", node)
            case Kind.POINTER, Kind.POINTER if value_type.target.unqualified == (
                type_.target.unqualified
            ):
                if value_type.target.is_constant and not type_.target.is_constant:
                    raise Obstacle("the address of a constant, without const,", node)
                return
        raise Obstacle("a conversion to another type", node)

    def _read(self, node: c_ast.Node) -> CType:
        """Return the type of an expression, and check all of its parts."""
        if id(node) not in self._read_types:
            self._read_types[id(node)] = self._read_new(node)
        return self._read_types[id(node)]

    def _read_new(self, node: c_ast.Node) -> CType:
        match node:
            case c_ast.Constant():
                return self._read_constant(node)
            case c_ast.ID(name=name):
                return self._read_name(node, name)
            case c_ast.UnaryOp():
                return self._read_unary(node)
            case c_ast.BinaryOp():
                return self._read_binary(node)
            case c_ast.Assignment():
                return self._read_assignment(node)
            case c_ast.ArrayRef():
                return self._read_element(node)
            case c_ast.StructRef():
                return self._read_member(node)
            case c_ast.FuncCall():
                return self._read_call(node)
            case c_ast.Cast(to_type=to_type, expr=operand):
                type_ = self._types.resolve(to_type)
                if type_ == VOID:
                    self._read(operand)
                else:
                    self._check_conversion(operand, type_)
                return type_
            case c_ast.TernaryOp(cond=condition, iftrue=first, iffalse=second):
                self._read_condition(condition)
                return self._join(node, first, second)
            case c_ast.ExprList(exprs=expressions):
                return [self._read(expression) for expression in expressions][-1]
            case c_ast.CompoundLiteral(type=type_name, init=init):
                type_ = self._types.resolve(type_name)
                self._check_initialization(init, type_)
                return type_
        raise Obstacle("an expression that is not known", node)

    def _join(self, node: c_ast.Node, first: c_ast.Node, second: c_ast.Node) -> CType:
        """Return the type of two operands, of which one is the value."""
        if is_null(first) and is_null(second):
            return self._read(first)
        for operand, other in ((first, second), (second, first)):
            other_type = self._read_value(other)
            if is_null(operand) and other_type.kind is Kind.POINTER:
                return other_type
        types = {self._read_value(first), self._read_value(second)}
        if {type_.kind for type_ in types} == {Kind.NUMBER}:
            return LONG if LONG in map(_promote, types) else INT
        if len(types) > 1:
            raise Obstacle("operands of different types", node)
        return types.pop()

    def _read_constant(self, node: c_ast.Constant) -> CType:
        if _is_string(node):
            return CType(Kind.ARRAY, target=CONSTANT_CHAR)
        if node.type in ("float", "double", "long double"):
            raise Obstacle("floating point", node)
        return LONG if "long" in node.type else INT

    def _read_name(self, node: c_ast.ID, name: str) -> CType:
        if name in self._enumerators and name not in self._declarations:
            return INT
        declarations = self._declarations.get(name, ())
        if name in self._enumerators or (not declarations and name not in self._facts.functions):
            raise Obstacle(f"the name {name}", node)
        types = {
            self._types.resolve_parameter(declaration)
            if id(declaration) in self._parameters
            else self._types.resolve(declaration)
            for declaration in declarations or [self._facts.functions[name].decl]
        }
        # Blocks may declare the name with several types.
        if len(types) > 1:
            raise Obstacle(f"the name {name} with several types", node)
        return types.pop()

    def _read_unary(self, node: c_ast.UnaryOp) -> CType:
        operand = node.expr
        match node.op:
            case "sizeof":
                # The operand is not evaluated.
                return LONG
            case "&":
                type_ = self._read(operand)
                self._record_object(operand, type_)
                if self._is_part(operand):
                    self._parts.setdefault(type_.unqualified, node)
                # `&p->f` and `&p[i]` add to a pointer.
                if isinstance(operand, c_ast.StructRef | c_ast.ArrayRef):
                    self._computed.setdefault(type_.unqualified, node)
                return CType(Kind.POINTER, target=type_)
            case "*":
                return self._dereference(node, operand)
            case "!":
                self._read_condition(operand)
                return INT
            case op if op in INCREMENTS:
                type_ = self._read_value(operand)
                if type_.kind is Kind.POINTER:
                    return self._move(type_, node)
                return self._read_number(operand)
            case "+" | "-" | "~":
                return self._read_number(operand)
        raise Obstacle(f"the operator {node.op}", node)

    def _is_part(self, node: c_ast.Node) -> bool:
        """Return whether an lvalue is a part of an object that is no element of a whole array."""
        match node:
            case c_ast.StructRef():
                return True
            case c_ast.ArrayRef(name=base):
                is_array = self._read(base).kind is Kind.ARRAY
                return is_array and not isinstance(base, c_ast.ID | c_ast.Constant)
        return False

    def _read_binary(self, node: c_ast.BinaryOp) -> CType:
        left, right = node.left, node.right
        if node.op in ("&&", "||"):
            self._read_condition(left)
            self._read_condition(right)
            return INT
        if node.op in _COMPARISONS or node.op == "-":
            for null, other in ((left, right), (right, left)):
                is_test = node.op in ("==", "!=") and is_null(null)
                if is_test and self._read_value(other).kind is Kind.POINTER:
                    self._read_condition(other)
                    return INT
            if all(self._read_value(side).kind is Kind.POINTER for side in (left, right)):
                root = self._find_root(left)
                if not root or root != self._find_root(right):
                    construct = "a difference" if node.op == "-" else "a comparison"
                    raise Obstacle(f"{construct} of addresses", node)
                return LONG if node.op == "-" else INT
        if node.op in ("+", "-"):
            pointer, number = (left, right) if node.op == "-" else self._order_operands(left, right)
            type_ = self._read_value(pointer)
            if type_.kind is Kind.POINTER:
                self._read_number(number)
                return self._move(type_, node)
        types = [_promote(self._read_number(side)) for side in (left, right)]
        return INT if node.op in _COMPARISONS or LONG not in types else LONG

    def _order_operands(self, left: c_ast.Node, right: c_ast.Node) -> tuple[c_ast.Node, c_ast.Node]:
        """Return the operands of a sum, the pointer first."""
        is_right = self._read_value(right).kind is Kind.POINTER
        return (right, left) if is_right else (left, right)

    def _read_assignment(self, node: c_ast.Assignment) -> CType:
        type_ = self._read(node.lvalue)
        if node.op == "=":
            self._check_conversion(node.rvalue, type_)
        elif node.op in ("+=", "-=") and type_.kind is Kind.POINTER:
            self._read_number(node.rvalue)
            self._move(type_, node)
        else:
            self._read_number(node.lvalue)
            self._read_number(node.rvalue)
        return type_.unqualified

    def _read_element(self, node: c_ast.ArrayRef) -> CType:
        self._read_number(node.subscript)
        type_ = self._read(node.name)
        if type_.kind is Kind.ARRAY:
            return type_.target
        target = self._dereference(node, node.name)
        # `p[0]` is `*p`.
        if not is_null(node.subscript):
            self._moved.add(target.unqualified)
        return target

    def _dereference(self, node: c_ast.Node, pointer: c_ast.Node) -> CType:
        target = self._read_pointer(pointer).target
        # ESBMC does not check an index in a row that a pointer reaches.
        if target.kind is Kind.ARRAY:
            raise Obstacle("a pointer to an array", node)
        return target

    def _read_member(self, node: c_ast.StructRef) -> CType:
        type_ = self._read(node.name)
        if node.type == "->":
            type_ = self._read_pointer(node.name).target
        if type_.kind not in (Kind.STRUCTURE, Kind.UNION):
            raise Obstacle("a member of what is no structure", node)
        member = self._types.find_members(type_, node).get(node.field.name)
        if member is None:
            raise Obstacle(f"the member {node.field.name}", node)
        member_type = self._types.resolve(member)
        # Compilers differ in the conversions of wide bit-fields (C11 6.3.1.1p2), and in ESBMC
        # `flag += 1` sets a `_Bool` of one bit to 0.
        is_plain = member_type.unqualified.name in ("int", "unsigned int")
        if member.bitsize is not None and not is_plain:
            raise Obstacle("a bit-field of another type than int", node)
        # A member at the end of a structure may have any length.
        if isinstance(member.type, c_ast.ArrayDecl) and member.type.dim is None:
            raise Obstacle("an array without a length", node)
        if type_.kind is Kind.UNION:
            self._types.check_union(type_, node)
        # A member of a constant is constant too (C11 6.5.2.3p3).
        return add_const(member_type) if type_.is_constant else member_type

    # Calls.

    def _read_call(self, node: c_ast.FuncCall) -> CType:
        name, arguments = callee_name(node), list(node.args.exprs if node.args else ())
        definition = self._facts.functions.get(name)
        if definition is not None:
            return self._read_own_call(node, definition, arguments)
        if name == "free" and len(arguments) == 1:
            if not is_null(arguments[0]):
                self._read_pointer(arguments[0])
            return VOID
        if name in _OUTPUT_FUNCTIONS:
            self._check_output(node, name, arguments)
            # Whether output succeeds is unknown, so that its result is no number here.
            return VOID
        if name in _ALLOCATIONS:
            self._check_allocation(node, arguments)
            return CType(Kind.POINTER, target=VOID)
        if not name or name in _UNTRUSTED_FUNCTIONS:
            raise Obstacle(f"the call of {name or 'a pointer'}", node)
        # The macro `assert` tests the truth of its operand.
        is_macro = name == "assert" and name not in self._declarations
        for argument in arguments:
            if is_macro:
                self._read_condition(argument)
            elif not _is_string(argument):
                self._read_number(argument)
        type_ = self._facts.inputs.get(name)
        is_long = name in ("labs", "llabs") or (type_ is not None and type_.bits > 32)
        return LONG if is_long else INT

    def _read_own_call(
        self, node: c_ast.FuncCall, definition: c_ast.FuncDef, arguments: list[c_ast.Node]
    ) -> CType:
        parameters = list_parameters(definition.decl)
        has_types = id(node) not in self._undeclared_calls or not parameters
        # `...` is a parameter without a type.
        has_types = has_types and all(isinstance(p, c_ast.Decl) for p in parameters)
        if not has_types or len(arguments) != len(parameters):
            raise Obstacle(f"the call of {callee_name(node)} without a prototype", node)
        for argument, parameter in zip(arguments, parameters, strict=True):
            self._check_conversion(argument, self._types.resolve_parameter(parameter))
        return self._types.resolve(definition.decl.type.type)

    def _is_allocation(self, node: c_ast.FuncCall) -> bool:
        name = callee_name(node)
        return name in _ALLOCATIONS and name not in self._facts.functions

    def _check_allocation(self, node: c_ast.FuncCall, arguments: list[c_ast.Node]) -> None:
        """Check that a machine can allocate the memory, so that the pointer is not null."""
        count = 1
        for argument in arguments:
            count *= _find_count(argument)
        if not 0 < count <= _MAX_ALLOCATION:
            raise Obstacle("an allocation of variable size", node)

    def _check_output(self, node: c_ast.FuncCall, name: str, arguments: list[c_ast.Node]) -> None:
        """Check that a function of output prints a literal text and integers."""
        if name != "putchar":
            # Another text may have no end.
            if not arguments or not _is_string(arguments[0]):
                raise Obstacle(f"the call of {name} with a variable text", node)
            arguments = arguments[1:]
        for argument in arguments:
            self._read_number(argument)

    # Objects to which addresses belong.

    def _find_roots(self, function: c_ast.FuncDef, declarations: Iterable[c_ast.Decl]) -> None:
        """Find the variables whose addresses belong to one object for their whole life.

        These are arrays, and pointers that only move from their initial value. Such a pointer is
        declared where its object exists, so that it does not outlive it.
        """
        changed = {
            node.lvalue.name
            for node in iter_nodes(function.body, (c_ast.Assignment,))
            if isinstance(node.lvalue, c_ast.ID)
            and not (node.op in ("+=", "-=") and self._is_narrow(node.rvalue))
        }
        # A pointer to the variable may change it too.
        changed |= {
            part.name
            for node in iter_nodes(function.body, (c_ast.UnaryOp,))
            if node.op == "&"
            for part in iter_nodes(node.expr, (c_ast.ID,))
        }
        for node in declarations:
            is_parameter = id(node) in self._parameters
            is_array = isinstance(node.type, c_ast.ArrayDecl) and not is_parameter
            has_value = is_array or is_parameter or node.init is not None
            # Another block may declare the name again.
            if not has_value or node.storage or len(self._declarations[node.name]) > 1:
                continue
            if is_array:
                self._roots[node.name] = node.name
            elif is_pointer(node.type) and node.name not in changed:
                root = "" if is_parameter else self._find_root(node.init)
                # Other memory may be free already.
                if root or not self._frees:
                    self._roots[node.name] = root or node.name

    def _find_root(self, node: c_ast.Node) -> str:
        """Return the name of the object to which an address certainly belongs; else empty."""
        match node:
            case c_ast.ID(name=name):
                declarations = self._declarations.get(name, ())
                is_global_array = len(declarations) == 1 and any(
                    declaration is declarations[0] and isinstance(declaration.type, c_ast.ArrayDecl)
                    for declaration in self._globals
                )
                return name if is_global_array else self._roots.get(name, "")
            case c_ast.UnaryOp(op="&", expr=c_ast.ArrayRef(name=base, subscript=number)):
                return self._find_root(base) if self._is_narrow(number) else ""
            case c_ast.UnaryOp(op=op, expr=operand) if op in INCREMENTS:
                return self._find_root(operand)
            case c_ast.BinaryOp(op="+" | "-", left=left, right=right):
                return self._find_root(left) if self._is_narrow(right) else ""
        return ""

    def _is_narrow(self, node: c_ast.Node) -> bool:
        """Return whether a pointer that moves by this number does not wrap around."""
        try:
            return _promote(self._read_value(node)) == INT
        except Obstacle:
            return False


def _promote(type_: CType) -> CType:
    """Return LONG for a type of 64 bits, and INT for other numbers."""
    if type_.kind is not Kind.NUMBER:
        return type_
    return LONG if "long" in type_.name else INT


def _is_string(node: c_ast.Node) -> bool:
    return isinstance(node, c_ast.Constant) and node.type == "string"


def _find_count(node: c_ast.Node) -> int:
    """Return the number of elements in the size of an allocation; 0 if it is not constant."""
    match node:
        case c_ast.Constant(type="int", value=digits) if digits.isdecimal() and digits[0] != "0":
            return int(digits)
        case c_ast.UnaryOp(op="sizeof"):
            return 1
        case c_ast.BinaryOp(op="*", left=left, right=right):
            return _find_count(left) * _find_count(right)
    return 0
