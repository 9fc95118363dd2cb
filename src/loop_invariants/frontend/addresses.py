"""Addresses and types with several meanings in C, which are obstacles to a proof by a verifier.

    struct node { struct node *next; };     a + n == b     union { float f; int n; }

Where an object is, and what is next to it, differs between compilers, and a verifier models
neither. So a text with a pointer, an address, or an array as a value has an obstacle. The test
knows names and no types: one name for an array and for another variable is an obstacle too.
"""

from collections import defaultdict
from collections.abc import Iterator

from pycparser import c_ast

from loop_invariants.frontend.expressions import callee_name
from loop_invariants.frontend.syntax_tree import LOOP_NODES, iter_nodes, parse_type_words
from loop_invariants.frontend.text_facts import (
    MODELLED_FUNCTIONS,
    TextFacts,
    find_undeclared_calls,
)
from loop_invariants.frontend.verifier_builtins import list_parameters

_NUMBER_FUNCTIONS = frozenset(("abs", "labs", "llabs"))
_OUTPUT_FUNCTIONS = frozenset(("printf", "puts", "putchar"))

_UNTRUSTED_FUNCTIONS = MODELLED_FUNCTIONS - _NUMBER_FUNCTIONS - _OUTPUT_FUNCTIONS
"""Functions of the C library that return, copy or free memory."""

_INTEGERS = (["int"], ["signed"], ["unsigned"], ["signed", "int"], ["unsigned", "int"])
"""Types of bit-fields that compilers convert alike (C11 6.3.1.1p2)."""

_OPERATORS = {"&": "the address of an object", "*": "a pointer"}

_Found = tuple[str, c_ast.Node]
"""A construct and its node."""


def format_construct(construct: str, node: c_ast.Node) -> str:
    """Add the line of a node to the name of a construct."""
    # Nodes of lists have no coordinates, but their items have.
    while getattr(node, "coord", None) is None and (children := node.children()):
        node = children[0][1]
    return f"{construct} in line {node.coord.line}" if node.coord else construct


def find_address(facts: TextFacts) -> _Found | None:
    """Find an address, or a type with several meanings, that `main` may reach."""
    nodes = _find_reached_nodes(facts)
    checks = (_iter_types, _iter_operators, _iter_calls, _iter_values)
    return next((found for check in checks for found in check(facts, nodes)), None)


def _find_reached_nodes(facts: TextFacts) -> list[c_ast.Node]:
    """Return the reached functions, the variables outside of functions, and their types."""
    definitions: dict[str, list[c_ast.Node]] = defaultdict(list)
    for node in iter_nodes(facts.unit, (c_ast.Typedef, c_ast.Struct, c_ast.Union)):
        if isinstance(node, c_ast.Typedef) or node.decls is not None:
            definitions[node.name].append(node)
    reached: dict[int, c_ast.Node] = {}
    pending: list[c_ast.Node] = [facts.functions[name] for name in sorted(facts.reached_functions)]
    pending += [
        node
        for node in facts.unit.ext
        if isinstance(node, c_ast.Decl) and node.name and not isinstance(node.type, c_ast.FuncDecl)
    ]
    while pending:
        node = pending.pop(0)
        if id(node) in reached:
            continue
        reached[id(node)] = node
        kinds = (c_ast.IdentifierType, c_ast.Struct, c_ast.Union)
        for use in iter_nodes(node, kinds):
            names = use.names if isinstance(use, c_ast.IdentifierType) else [use.name]
            pending += [definition for name in names for definition in definitions[name]]
    return list(reached.values())


def _iter_parts(nodes: list[c_ast.Node], *kinds: type[c_ast.Node]) -> Iterator[c_ast.Node]:
    for node in nodes:
        yield from iter_nodes(node, kinds)


def _iter_types(facts: TextFacts, nodes: list[c_ast.Node]) -> Iterator[_Found]:
    """Yield types that are no integers, arrays and structures of integers."""
    for node in _iter_parts(nodes, c_ast.IdentifierType):
        if {"float", "double"} & set(node.names):
            yield "floating point", node
    for node in _iter_parts(nodes, c_ast.PtrDecl, c_ast.Union, c_ast.Typedef):
        if isinstance(node, c_ast.PtrDecl):
            yield "a pointer", node
        if isinstance(node, c_ast.Union):
            yield "a union", node
        if isinstance(node, c_ast.Typedef) and not isinstance(node.type, c_ast.TypeDecl):
            yield "a type name of a pointer, an array or a function", node
    members = [node for s in _iter_parts(nodes, c_ast.Struct) for node in s.decls or ()]
    parameters = [
        parameter
        for name in sorted(facts.reached_functions)
        for parameter in list_parameters(facts.functions[name].decl)
        if isinstance(parameter, c_ast.Decl)
    ]
    for node in parameters:
        if isinstance(node.type, c_ast.ArrayDecl | c_ast.FuncDecl):
            yield "a pointer", node
    ignored = {id(parameter) for parameter in parameters}
    ignored |= {id(facts.functions[name].decl) for name in facts.reached_functions}
    for node in _iter_parts(nodes, c_ast.Decl):
        is_prototype = isinstance(node.type, c_ast.FuncDecl)
        if id(node) in ignored or is_prototype or node.name is None:
            continue
        words = _find_words(node)
        # Not every byte is a truth value.
        if node.init is None and "_Bool" in words and "static" not in node.storage:
            yield "an uninitialized _Bool", node
        if node.bitsize is not None and words not in _INTEGERS:
            yield "a bit-field of another type than int", node
        if isinstance(node.type, c_ast.ArrayDecl) and node.type.dim is None and node.init is None:
            yield "an array without a length", node
    for node in members:
        if isinstance(node, c_ast.Decl) and node.name is None and node.bitsize is None:
            yield "a member without a name", node


def _find_words(node: c_ast.Decl) -> list[str]:
    """Return the words of the integer type of a variable or an array."""
    type_ = node.type
    while isinstance(type_, c_ast.ArrayDecl | c_ast.TypeDecl):
        type_ = type_.type
    return list(type_.names) if isinstance(type_, c_ast.IdentifierType) else []


def _iter_operators(facts: TextFacts, nodes: list[c_ast.Node]) -> Iterator[_Found]:
    """Yield operators on addresses, and values whose types the test does not know."""
    for node in _iter_parts(nodes, c_ast.UnaryOp, c_ast.StructRef):
        if isinstance(node, c_ast.UnaryOp) and node.op in _OPERATORS:
            yield _OPERATORS[node.op], node
        if isinstance(node, c_ast.StructRef) and node.type == "->":
            yield "a pointer", node
    for node in _iter_parts(nodes, c_ast.CompoundLiteral, c_ast.NamedInitializer, c_ast.Constant):
        if not isinstance(node, c_ast.Constant):
            yield "a designator or a compound literal", node
        elif node.type in ("float", "double", "long double"):
            yield "floating point", node


def _iter_values(facts: TextFacts, nodes: list[c_ast.Node]) -> Iterator[_Found]:
    """Yield arrays, functions and literals that are used as values: these are addresses."""
    depths: dict[str, set[int]] = defaultdict(set)
    for node in _iter_parts(nodes, c_ast.Decl):
        depth, type_ = 0, node.type
        while isinstance(type_, c_ast.ArrayDecl):
            depth, type_ = depth + 1, type_.type
        # A function is no value, but for its calls.
        depths[node.name].add(-1 if isinstance(type_, c_ast.FuncDecl) else depth)
    checked: set[int] = set()
    for node in _iter_parts(nodes, c_ast.UnaryOp, c_ast.FuncCall, c_ast.ArrayRef, *_NAMES):
        if id(node) in checked:
            continue
        if isinstance(node, c_ast.UnaryOp):
            # The operand of `sizeof` is not evaluated.
            if node.op == "sizeof":
                checked |= {id(part) for part in iter_nodes(node, (*_NAMES, c_ast.ArrayRef))}
            continue
        if isinstance(node, c_ast.FuncCall):
            checked.add(id(node.name))
            continue
        base, depth = node, 0
        while isinstance(base, c_ast.ArrayRef):
            base, depth = base.name, depth + 1
            checked.add(id(base))
        if not isinstance(base, _NAMES):
            yield "an index of what is no array", node
            continue
        name = base.field.name if isinstance(base, c_ast.StructRef) else base.name
        if isinstance(base, c_ast.StructRef):
            # The name of a member is no variable.
            checked.add(id(base.field))
        if depths[name] - {depth}:
            yield f"the array or the function {name} as a value", node
    arguments = {
        id(argument)
        for call in _iter_parts(nodes, c_ast.FuncCall)
        if callee_name(call) not in facts.functions
        for argument in (call.args.exprs if call.args else ())
    }
    for node in _iter_parts(nodes, c_ast.Constant):
        if node.type == "string" and id(node) not in arguments:
            yield "a string literal", node


_NAMES = (c_ast.ID, c_ast.StructRef)


def _iter_calls(facts: TextFacts, nodes: list[c_ast.Node]) -> Iterator[_Found]:
    """Yield calls whose arguments or results have several meanings."""
    undeclared_calls = find_undeclared_calls(facts.unit)
    for name in sorted(facts.reached_functions):
        function = facts.functions[name]
        parameters = list_parameters(function.decl)
        if function.param_decls or not all(isinstance(p, c_ast.Decl) for p in parameters):
            yield "a definition without a prototype", function
    others = {
        node.name
        for node in _iter_parts(nodes, c_ast.Decl)
        if parse_type_words(_find_words(node)) is None
    }
    statements = {
        id(child)
        for node in _iter_parts(nodes, *_STATEMENTS)
        for name, child in node.children()
        if name.startswith(("block_items", "iftrue", "iffalse", "stmt"))
    }
    for call in _iter_parts(nodes, c_ast.FuncCall):
        name = callee_name(call)
        arguments = call.args.exprs if call.args else ()
        if name in facts.functions:
            parameters = list_parameters(facts.functions[name].decl)
            has_prototype = id(call) not in undeclared_calls or not parameters
            if not has_prototype or len(arguments) != len(parameters):
                yield f"the call of {name} without a prototype", call
        elif name in _UNTRUSTED_FUNCTIONS:
            yield f"the call of {name}", call
        elif name in _OUTPUT_FUNCTIONS:
            is_text = bool(arguments) and isinstance(arguments[0], c_ast.Constant)
            if name != "putchar" and not (is_text and arguments[0].type == "string"):
                yield f"the call of {name} with a variable text", call
            if not all(
                _is_integer(argument, others) for argument in arguments[name != "putchar" :]
            ):
                yield f"the call of {name} with another value than an integer", call
            # Whether output succeeds is unknown.
            if id(call) not in statements:
                yield f"the result of {name}", call


_STATEMENTS = (c_ast.Compound, c_ast.If, c_ast.Label, c_ast.Case, c_ast.Default, *LOOP_NODES)
"""Nodes with statements among their children."""


def _is_integer(node: c_ast.Node, others: set[str | None]) -> bool:
    """Return whether an argument is certainly an integer.

    Args:
        node: the argument.
        others: names of variables and members of other types.
    """
    match node:
        case c_ast.Constant() | c_ast.BinaryOp() | c_ast.UnaryOp() | c_ast.Cast():
            return True
        case c_ast.ID(name=name) | c_ast.StructRef(field=c_ast.ID(name=name)):
            return name not in others
        case c_ast.ArrayRef(name=base):
            return _is_integer(base, others)
    return False
