"""Calls of C functions: builtins, functions of the file, undefined functions.

A function of the file is inlined at each of its calls, with its parameters as variables. Recursive
functions cannot be inlined and are rejected.
"""

import re
from collections.abc import Callable, Sequence
from functools import cached_property

from pycparser import c_ast

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.acsl_assertions import check_annotation, widen_condition
from loop_invariants.frontend.declarations import DeclarationReader
from loop_invariants.frontend.error_names import find_known_set
from loop_invariants.frontend.expressions import QUANTIFIER_FUNCTIONS, callee_name
from loop_invariants.frontend.original_text import COMPILED_FUNCTIONS, MODELLED_FUNCTIONS
from loop_invariants.frontend.pointer_binding import PointerValue
from loop_invariants.frontend.pointers import PointerReader
from loop_invariants.frontend.preprocessing.translation_phases import (
    ANNOTATION_FUNCTION,
    ERROR_FUNCTION,
    FAILURE_FUNCTIONS,
    STOP_FUNCTIONS,
)
from loop_invariants.frontend.side_effects import INCREMENTS
from loop_invariants.frontend.symbol_table import Pointer, SymbolTable, root_variable
from loop_invariants.frontend.syntax_tree import (
    find_definitions,
    find_prototypes,
    is_void,
    iter_nodes,
)
from loop_invariants.frontend.verifier_builtins import (
    ASSERT_FUNCTIONS,
    ASSUME_FUNCTIONS,
    INPUT_NAME,
    VERIFIER_BUILTINS,
    BuiltinParameters,
    is_violation,
    list_parameters,
)
from loop_invariants.ir.expressions import Constant, Expression, Identifier, Nondet, is_partial
from loop_invariants.ir.instrumentation import Property
from loop_invariants.ir.statements import (
    Assert,
    Assign,
    Assume,
    Block,
    Branch,
    Havoc,
    Statement,
    Stop,
)

_MAX_CALLS = 300
"""Maximum number of calls of a file's own functions; each copies the body."""

_OUTPUT_FUNCTIONS = frozenset(("printf", "puts", "putchar"))
"""Functions of the C library that only produce output."""

_LIBRARY_FUNCTIONS = (
    MODELLED_FUNCTIONS
    | COMPILED_FUNCTIONS
    | frozenset(
        "_Exit _exit aligned_alloc atof atoll clock close execl execve ffs ffsl ffsll fgetc fgets "
        "fork fscanf getc getchar getenv getpid getppid gets imaxabs isascii isblank isgraph kill "
        "lldiv llround log10 log2 lround main on_exit open perror pthread_create pthread_exit "
        "pthread_join quick_exit rand_r random read scanf sleep strdup strtod strtok strtoll "
        "strtoull syscall system tan time usleep vfork vprintf wait write".split()
    )
)
"""Functions of the C library with side effects, or with restricted results."""

_CLAIM_FUNCTIONS = ("__ESBMC_loop_invariant", "__invariant")
"""Functions whose argument is an invariant of the next loop."""

_NONDET_FUNCTION = re.compile(
    r"__(BLAST|VERIFIER)_(NONDET|nondet)\w*|__llbmc_nondef_\w+|_nondet\w*|_unknown\w*"
)
"""Reserved names of functions that benchmarks use and no library defines."""


_REACH_ERROR_FUNCTIONS = frozenset(("reach_error", "__VERIFIER_error", ERROR_FUNCTION))
"""Functions whose calls are the reachability property of SV-COMP."""


class CallReader:
    """A reader of the calls in one file.

    Args:
        unit: syntax tree of the file.
        symbols: symbol table.
        declarations: reads types.
        required_property: property to prove.

    Attributes:
        expression_reader: receives the side effects of calls; must be set before the first use.
        read_body: reads the body of a function, given the variable for its result.
        builtin_parameters: parameter types of the builtins.
        is_lowered: whether a call was replaced.
    """

    expression_reader: PointerReader
    read_body: Callable[[c_ast.Compound, Identifier | Pointer | None], Block]
    builtin_parameters: BuiltinParameters

    def __init__(
        self,
        unit: c_ast.FileAST,
        symbols: SymbolTable,
        declarations: DeclarationReader,
        required_property: Property,
    ) -> None:
        self._symbols = symbols
        self._required_property = required_property
        self._declarations = declarations
        self._definitions = find_definitions(unit)
        self._unit = unit
        self._call_stack: list[str] = []
        self._call_count = 0
        self.is_lowered = False

    @cached_property
    def _undeclared_calls(self) -> frozenset[int]:
        """The calls before any prototype of their function."""
        return _find_undeclared_calls(self._unit)

    @cached_property
    def _external_variables(self) -> list[str]:
        """The variables that functions of other files may change."""
        return [
            node.name
            for node in self._unit.ext
            if isinstance(node, c_ast.Decl)
            and not isinstance(node.type, c_ast.FuncDecl)
            and node.name
            and "static" not in node.storage
            and "const" not in node.quals
        ]

    @cached_property
    def _prototypes(self) -> dict[str, c_ast.Decl]:
        """The declarations of functions, by name."""
        # The nesting of the text is checked only after the constructor.
        return find_prototypes(self._unit)

    def read_call(self, node: c_ast.FuncCall, is_used: bool) -> Expression | None:
        """Add the side effects of a call to the reader; return its value if it has one."""
        name = callee_name(node)
        arguments = node.args.exprs if node.args else []
        if name.startswith(ANNOTATION_FUNCTION) and not is_used:
            self.expression_reader.add(self._read_acsl_assertion(name, node, arguments))
            return None
        # Under this property, the definition in the file is the meaning of the call.
        if name in (ASSERT_FUNCTIONS | FAILURE_FUNCTIONS) and self._is_inlined(name):
            return self._build_value(
                node, self._inline(node, self._definitions[name], arguments), is_used
            )
        if name in VERIFIER_BUILTINS and not is_used:
            self.expression_reader.add(self._read_builtin_call(name, node, arguments))
            return None
        # A claim about a loop, which no proof may trust.
        if name in _CLAIM_FUNCTIONS and not is_used and _is_pure(arguments):
            # ESBMC gets a text without it, which would be another candidate there.
            self.is_lowered = True
            return None
        # Output has no effect on the program, but its arguments may.
        if name in _OUTPUT_FUNCTIONS and not is_used and name not in self._definitions:
            operands = [argument for argument in arguments if not _is_string(argument)]
            values = self.expression_reader.evaluate_all(operands)
            self.expression_reader.add(tuple(s for v in values for s in _keep_evaluation(v)))
            return None
        if name in self._definitions and name not in VERIFIER_BUILTINS and name != "main":
            return self._build_value(
                node, self._inline(node, self._definitions[name], arguments), is_used
            )
        if name == "free" and not is_used and len(arguments) == 1:
            self.expression_reader.read_free(arguments[0])
            return None
        if (
            name not in VERIFIER_BUILTINS
            and name not in _LIBRARY_FUNCTIONS
            and name not in _OUTPUT_FUNCTIONS
        ):
            result = self._read_undefined_call(name, node, arguments)
            if result is not None:
                return result
        context = " in an expression" if is_used else ""
        raise self._build_error(node, f"the call of {name or 'a function'}{context}")

    def read_pointer_call(self, node: c_ast.FuncCall) -> Pointer:
        """Add the side effects of a call; return the pointer that the function returns."""
        arguments = node.args.exprs if node.args else []
        result = self._inline(node, self._definitions[callee_name(node)], arguments)
        if not isinstance(result, Pointer):
            raise self._build_error(node, f"the call of {callee_name(node)}")
        return result

    def _build_value(
        self, node: c_ast.FuncCall, result: Identifier | Pointer | None, is_used: bool
    ) -> Expression | None:
        """Return the result of a call as a value."""
        if isinstance(result, Pointer):
            if is_used:
                raise self._build_error(node, "a pointer as a value")
            return None
        return result

    def _build_error(self, node: c_ast.Node, construct: str) -> UnsupportedProgram:
        return self.expression_reader.build_error(node, construct)

    def _is_inlined(self, name: str) -> bool:
        """Check that an assertion or failure has the meaning of the file's definition."""
        is_reach_error = (
            self._required_property is Property.REACH and name in _REACH_ERROR_FUNCTIONS
        )
        return (
            self._required_property is not Property.ASSERT
            and name in self._definitions
            and not is_reach_error
        )

    def _read_builtin_call(
        self, name: str, node: c_ast.FuncCall, arguments: Sequence[c_ast.Node]
    ) -> Block:
        # `exit` has one argument, `abort` has none.
        if name in STOP_FUNCTIONS and len(arguments) == (name == "exit"):
            return (*(s for a in arguments for s in self.expression_reader.read_effects(a)), Stop())
        if name in FAILURE_FUNCTIONS and all(isinstance(a, c_ast.Constant) for a in arguments):
            return (
                (Assert(Constant(0), node.coord.line), Stop())
                if is_violation(name, self._required_property)
                else (Stop(),)
            )
        if name in ASSERT_FUNCTIONS | ASSUME_FUNCTIONS:
            effects, condition = self._read_condition(name, node, arguments)
            if name in ASSERT_FUNCTIONS and is_violation(name, self._required_property):
                return (*effects, Assert(condition, node.coord.line))
            return (*effects, Assume(condition))
        raise self._build_error(node, f"the call of {name}")

    def _read_acsl_assertion(
        self, name: str, node: c_ast.FuncCall, arguments: Sequence[c_ast.Node]
    ) -> Block:
        """Build the assertion of an ACSL annotation."""
        # The translation of annotations reports a problem as a call without arguments.
        if len(arguments) != 1:
            problem = (
                name.removeprefix(ANNOTATION_FUNCTION).replace("_", " ").strip() or "of nothing"
            )
            raise self._build_error(node, f"an assertion in a remark {problem}")
        self.is_lowered = True

        def build_error(what: str) -> UnsupportedProgram:
            return self._build_error(node, what)

        check_annotation(arguments[0], build_error)
        evaluation = self.expression_reader.evaluate(arguments[0])
        condition = widen_condition(evaluation.value, build_error)
        # The other properties ignore annotations.
        is_asserted = self._required_property is Property.ASSERT
        return (Assert(condition, node.coord.line),) if is_asserted else ()

    def _read_condition(
        self, name: str, node: c_ast.FuncCall, arguments: Sequence[c_ast.Node]
    ) -> tuple[Block, Expression]:
        """Read the condition of an assertion or assumption: its first argument.

        `__ESBMC_assert` may have a message as the second argument.
        """
        message = name == "__ESBMC_assert" and len(arguments) == 2
        if len(arguments) != 1 and not (message and isinstance(arguments[1], c_ast.Constant)):
            raise self._build_error(node, f"the call of {name} with these arguments")
        # The macro compares with zero; a function converts its argument to an integer.
        macro = name == "assert" and name not in self.builtin_parameters.types
        evaluation = (
            self.expression_reader.evaluate_condition if macro else self.expression_reader.evaluate
        )(arguments[0])
        if not self.builtin_parameters.is_lossless(name, evaluation.value):
            raise self._build_error(node, f"the call of {name}, which cuts its argument short,")
        return evaluation.effects, evaluation.value

    def _read_undefined_call(
        self, name: str, node: c_ast.FuncCall, arguments: Sequence[c_ast.Node]
    ) -> Expression | None:
        """Return the value of an undefined function: any value of its type.

        Such a function returns. An input changes nothing; another one is refused where it could.
        """
        prototype = self._prototypes.get(name)
        if prototype is None and (known_set := find_known_set(name)):
            raise UnsupportedProgram(
                f"{node.coord.file}:{node.coord.line}: {name} is a function of {known_set}; "
                f"use --errors {known_set}"
            )
        # Other reserved names may belong to the compiler or its library.
        if not name or (name[0] == "_" and not _NONDET_FUNCTION.fullmatch(name)):
            return None
        # A `static` function without a definition is an error in C.
        if prototype is not None and prototype.storage and prototype.storage != ["extern"]:
            return None
        # C99 has no undeclared functions, so the name may be a misspelt assertion.
        if prototype is None and not INPUT_NAME.fullmatch(name):
            raise UnsupportedProgram(
                f"{node.coord.file}:{node.coord.line}: {name} is not declared; declare it, or "
                "name it by --errors"
            )
        is_input = INPUT_NAME.fullmatch(name) or _NONDET_FUNCTION.fullmatch(name)
        if prototype is not None and not is_input and self._external_variables:
            construct = f"{name}, a function of another file, with {self._external_variables[0]!r},"
            raise self._build_error(node, f"the call of {construct} which it may change,")
        values = self.expression_reader.evaluate_all([a for a in arguments if not _is_string(a)])
        self.expression_reader.add(tuple(s for value in values for s in _keep_evaluation(value)))
        self.is_lowered = True
        # An undeclared input returns an int (C90 3.3.2.2).
        if prototype is None:
            return Nondet()
        result = prototype.type.type
        return Constant(0) if is_void(result) else Nondet(self._declarations.read_type(result))

    def _inline(
        self, node: c_ast.FuncCall, function: c_ast.FuncDef, arguments: Sequence[c_ast.Node]
    ) -> Identifier | Pointer | None:
        """Inline a function of the file; return the variable or pointer of its result."""
        name = function.decl.name
        parameters = list_parameters(function.decl)
        self._check_call(node, function, len(arguments), len(parameters))
        self.is_lowered = True
        result = self._create_result(function)
        values = self.expression_reader.evaluate_arguments(arguments, parameters)
        # From here on, names are those of the function, so arguments are evaluated before.
        self._call_stack.append(name)
        self._symbols.enter_function()
        block: list[Statement] = []
        for parameter, argument, value in zip(parameters, arguments, values, strict=True):
            if isinstance(value, PointerValue):
                block += self.expression_reader.bind_parameter(parameter, value, argument)
                continue
            type_ = self._declarations.read_type(parameter.type)
            variable = self._symbols.declare(parameter.name, type_)
            if "const" in parameter.quals:
                self._symbols.constant_variables.add(root_variable(variable))
            block.append(Assign(variable, value))
        # A run may reach the end of the function without a return.
        if isinstance(result, Identifier):
            block.append(Havoc(result.name))
        block += self.read_body(function.body, result)
        self._symbols.leave_function()
        self._call_stack.pop()
        self.expression_reader.add(tuple(block))
        return result

    def _check_call(
        self,
        node: c_ast.FuncCall,
        function: c_ast.FuncDef,
        argument_count: int,
        parameter_count: int,
    ) -> None:
        """Check for recursion, the number of calls, and the number of arguments."""
        name = function.decl.name
        self._call_count += 1
        if name in self._call_stack:
            raise self._build_error(node, f"recursion of {name}")
        if self._call_count > _MAX_CALLS:
            raise self._build_error(node, f"more than {_MAX_CALLS} calls of functions")
        has_unnamed = any(not isinstance(p, c_ast.Decl) for p in list_parameters(function.decl))
        if argument_count != parameter_count or function.param_decls or has_unnamed:
            raise self._build_error(node, f"the call of {name} with these arguments")
        # Without a prototype, an argument is not converted to the type of its parameter.
        if parameter_count and id(node) in self._undeclared_calls:
            raise self._build_error(node, f"the call of {name} before its declaration")

    def _create_result(self, function: c_ast.FuncDef) -> Identifier | Pointer | None:
        """Create a variable or pointer for the result; None for a function without one."""
        return_type = function.decl.type.type
        if isinstance(return_type, c_ast.PtrDecl):
            pointer, initialization = self.expression_reader.create_result(
                return_type, function.decl.name
            )
            self.expression_reader.add(initialization)
            return pointer
        if is_void(return_type):
            return None
        type_ = self._declarations.read_type(return_type)
        return self._symbols.create_temporary(type_, f"{function.decl.name}_result")


def _is_pure(nodes: Sequence[c_ast.Node]) -> bool:
    """Check that expressions change nothing and call nothing but quantifiers."""
    effects = (c_ast.Assignment, c_ast.FuncCall, c_ast.UnaryOp)
    return not any(
        node.op in INCREMENTS
        if isinstance(node, c_ast.UnaryOp)
        else not isinstance(node, c_ast.FuncCall) or callee_name(node) not in QUANTIFIER_FUNCTIONS
        for expression in nodes
        for node in iter_nodes(expression, effects)
    )


def _is_string(node: c_ast.Node) -> bool:
    return isinstance(node, c_ast.Constant) and node.type == "string"


def _keep_evaluation(value: Expression) -> Block:
    """Keep the evaluation of an unused value that may fail, as a statement."""
    return (Branch(value, (), ()),) if is_partial(value) else ()


def _find_undeclared_calls(unit: c_ast.FileAST) -> frozenset[int]:
    """Return the identities of the calls before any prototype of their function.

    Such a call does not convert its arguments to the types of the parameters (C90 3.3.2.2).
    """
    declared_names: set[str] = set()
    undeclared_calls: set[int] = set()
    # The order is that of the text, and a definition declares its own name.
    for node in iter_nodes(unit, (c_ast.Decl, c_ast.FuncCall)):
        if isinstance(node, c_ast.FuncCall) and callee_name(node) not in declared_names:
            undeclared_calls.add(id(node))
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl):
            # `int f();` declares no parameters, unless it begins a definition.
            declared_names |= {node.name} if node.type.args is not None else set()
    return frozenset(undeclared_calls)
