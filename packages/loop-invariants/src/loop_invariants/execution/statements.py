"""Statements, functions and initial values of C as code of the machine."""

from collections.abc import Callable, Sequence
from typing import Any

from pycparser import c_ast

from loop_invariants.execution.c_types import (
    INT,
    Array,
    CType,
    Field,
    FunctionType,
    Integer,
    Record,
    UnsupportedC,
    Void,
)
from loop_invariants.execution.code_writer import Label
from loop_invariants.execution.expressions import ExpressionCompiler
from loop_invariants.execution.machine import Code, State
from loop_invariants.execution.places import Place, parse_characters
from loop_invariants.execution.scopes import FunctionName, Scope, TypeName, Variable
from loop_invariants.execution.stack_operations import begin_group, end_group, next_operand
from loop_invariants.execution.values import Address, build_operation
from loop_invariants.frontend.syntax_tree import iter_nodes

_Part = tuple[int, CType, Field | None, c_ast.Node]
"""An initialized part: offset, type, bit-field, expression."""

_MAX_PARTS = 1 << 16


class StatementCompiler(ExpressionCompiler):
    """A compiler of statements, one function at a time."""

    def start_function(self, code: Code, result: CType) -> None:
        """Begin the code of a function."""
        self._function, self._result = code, result
        self.code, self.lines = code.operations, code.lines
        self._breaks: list[tuple[Label, Scope]] = []
        self._continues: list[tuple[Label, Scope]] = []
        self._cases: list[list[tuple[c_ast.Node, Label, Scope]]] = []
        self._labels: dict[str, tuple[Label, Scope]] = {}
        self._gotos: list[tuple[str, Scope, list[Callable[[State], None]]]] = []
        self._has_names = False
        self._union_members: dict[tuple[int, int], str] = {}

    def finish_function(self) -> None:
        """Resolve the jumps of the function."""
        for name, source, actions in self._gotos:
            if name not in self._labels:
                raise UnsupportedC(f"a goto to {name!r}")
            label, target = self._labels[name]
            actions += self._list_moves(source, target)

            def jump(state: State, label: Label = label) -> None:
                state.pc = label.pc

            actions.append(jump)

    def new_slot(self) -> int:
        """Create a variable of the function."""
        self._function.slots += 1
        return self._function.slots - 1

    # -- scopes ----------------------------------------------------------------------------

    def open_scope(self, has_variables: bool = True) -> Scope:
        """Open a scope, and emit the beginning of its variables."""
        self.scope = scope = Scope(self.scope)
        scope.has_variables = has_variables
        if has_variables:
            self.emit(self._build_enter(scope))
        return scope

    def close_scope(self) -> None:
        """Emit the end of the innermost scope's variables, and close it."""
        if self.scope.has_variables:
            self.emit(self._build_leave(self.scope))
        assert self.scope.parent is not None
        self.scope = self.scope.parent

    def _build_enter(self, scope: Scope) -> Callable[[State], None]:
        machine, slots, late_slots = self.machine, scope.slots, scope.late_slots

        def enter(state: State) -> None:
            for slot, size in slots:
                state.slots[slot] = machine.create_object(state, size, None, "auto")
            for slot in late_slots:
                state.slots[slot] = 0

        return enter

    def _build_leave(self, scope: Scope) -> Callable[[State], None]:
        slots, late_slots = scope.slots, scope.late_slots

        def leave(state: State) -> None:
            for slot, _ in slots:
                state.objects.pop(state.slots[slot], None)
            for slot in late_slots:
                state.objects.pop(state.slots[slot], None)

        return leave

    def _list_moves(self, source: Scope, target: Scope) -> list[Callable[[State], None]]:
        """Return the ends and beginnings of scopes on a jump."""
        sources, targets = source.list_ancestors(), target.list_ancestors()
        left = [scope for scope in sources if scope not in targets]
        entered = [scope for scope in targets if scope not in sources]
        if any(scope.late_slots for scope in entered):
            raise UnsupportedC("a jump over a variable array")
        moves = [self._build_leave(scope) for scope in left if scope.has_variables]
        entered = [scope for scope in reversed(entered) if scope.has_variables]
        return moves + [self._build_enter(scope) for scope in entered]

    def _jump_to(self, label: Label, target: Scope) -> None:
        for move in self._list_moves(self.scope, target):
            self.emit(move)
        self.jump(label)

    # -- statements ------------------------------------------------------------------------

    def statement(self, node: c_ast.Node | None) -> None:
        """Compile a statement; one without a meaning is an error where a run reaches it."""
        if node is None:
            return
        size, scope = len(self.code), self.scope
        stacks: tuple[list[Any], ...] = (self._breaks, self._continues, self._cases)
        depths = [len(stack) for stack in stacks]
        line = node.coord.line if node.coord else self.line
        self.line = line
        try:
            self._statement(node)
        except UnsupportedC as error:
            # Labels inside it would have no code.
            if any(iter_nodes(node, (c_ast.Label, c_ast.Case, c_ast.Default))):
                raise
            del self.code[size:], self.lines[size:]
            self.scope = scope
            for stack, depth in zip(stacks, depths, strict=True):
                del stack[depth:]
            self.line = line
            # A jump over the declaration must not reach an outer name.
            for declaration in node.decls if isinstance(node, c_ast.DeclList) else (node,):
                if isinstance(declaration, c_ast.Decl | c_ast.Typedef) and declaration.name:
                    scope.symbols[declaration.name] = None
            construct = str(error)

            def fail(state: State) -> None:
                raise UnsupportedC(construct)

            self.emit(fail)

    def _statement(self, node: c_ast.Node) -> None:
        match node:
            case c_ast.Compound():
                self.block(node)
            case c_ast.Decl():
                self.declare(node)
            case c_ast.DeclList():
                for declaration in node.decls:
                    self.declare(declaration)
            case c_ast.Typedef():
                self.scope.symbols[node.name] = TypeName(self.read_type(node))
            case c_ast.If():
                self._if(node)
            case c_ast.While():
                self._while(node)
            case c_ast.DoWhile():
                self._do_while(node)
            case c_ast.For():
                self._for(node)
            case c_ast.Switch():
                self._switch(node)
            case c_ast.Case() | c_ast.Default():
                self._case(node)
            case c_ast.Label():
                label = Label()
                self.mark(label)
                self._labels[node.name] = (label, self.scope)
                self.statement(node.stmt)
            case c_ast.Goto():
                self._goto(node)
            case c_ast.Break():
                self._jump_to(*self._breaks[-1])
            case c_ast.Continue():
                self._jump_to(*self._continues[-1])
            case c_ast.Return():
                self._return(node)
            case c_ast.EmptyStatement():
                return
            case c_ast.StaticAssert():
                if not self.fold_constant(node.cond):
                    raise UnsupportedC("this static assertion")
            case c_ast.Pragma():
                raise UnsupportedC("a pragma")
            case _:
                self.effects(node)

    def block(self, node: c_ast.Compound) -> None:
        """Compile a block."""
        items = node.block_items or ()
        self.open_scope(any(map(_has_declaration, items)) or _has_literal(node))
        for item in items:
            self.statement(item)
        self.close_scope()

    def _body(self, node: c_ast.Node) -> None:
        if isinstance(node, c_ast.Compound):
            self.statement(node)
            return
        self.open_scope(_has_literal(node))
        self.statement(node)
        self.close_scope()

    def _if(self, node: c_ast.If) -> None:
        other, end = Label(), Label()
        self.truth(node.cond)
        self.jump_if(other, False)
        self._body(node.iftrue)
        if node.iffalse is not None:
            self.jump(end)
        self.mark(other)
        if node.iffalse is not None:
            self._body(node.iffalse)
        self.mark(end)

    def _loop_body(self, node: c_ast.Node, end: Label, again: Label) -> None:
        self._breaks.append((end, self.scope))
        self._continues.append((again, self.scope))
        self._body(node)
        self._continues.pop()
        self._breaks.pop()

    def _while(self, node: c_ast.While) -> None:
        start, end = Label(), Label()
        self.mark(start)
        self.truth(node.cond)
        self.jump_if(end, False)
        self._loop_body(node.stmt, end, start)
        self.jump(start)
        self.mark(end)

    def _do_while(self, node: c_ast.DoWhile) -> None:
        start, again, end = Label(), Label(), Label()
        self.mark(start)
        self._loop_body(node.stmt, end, again)
        self.mark(again)
        self.truth(node.cond)
        self.jump_if(start, True)
        self.mark(end)

    def _for(self, node: c_ast.For) -> None:
        start, again, end = Label(), Label(), Label()
        self.open_scope()
        self.statement(node.init)
        self.mark(start)
        if node.cond is not None:
            self.truth(node.cond)
            self.jump_if(end, False)
        self._loop_body(node.stmt, end, again)
        self.mark(again)
        if node.next is not None:
            self.effects(node.next)
        self.jump(start)
        self.mark(end)
        self.close_scope()

    def _switch(self, node: c_ast.Switch) -> None:
        end, dispatch = Label(), Label()
        type_ = self.number(node.cond)
        self.cast_to(type_, type_ if type_.bits >= 32 else INT)
        type_ = type_ if type_.bits >= 32 else INT
        self.jump(dispatch)
        self._cases.append([])
        self._breaks.append((end, self.scope))
        self._body(node.stmt)
        self.jump(end)
        self._breaks.pop()
        cases = self._cases.pop()
        self.mark(dispatch)
        exits: list[tuple[Label, Label, Scope]] = []
        default: Label | None = None
        equal, split = build_operation("==", type_), self.machine.split
        for case, label, scope in cases:
            entry = Label()
            exits.append((entry, label, scope))
            if isinstance(case, c_ast.Default):
                default = entry
                continue
            number = self.fold_constant(case.expr)
            if number is None:
                raise UnsupportedC("this case of a switch")

            def test(
                state: State, number: int = type_.wrap(number), entry: Label = entry
            ) -> list[State] | None:
                truth, other = split(state, equal(state.stack[-1], number))
                for item, holds in ((state, truth), (other, not truth)):
                    if item is not None and holds:
                        item.stack.pop()
                        item.pc = entry.pc
                return None if other is None else [other]

            self.emit(test)
        self.pop()
        self.jump(default or end)
        for entry, label, scope in exits:
            self.mark(entry)
            self._jump_to(label, scope)
        self.mark(end)

    def _case(self, node: c_ast.Case | c_ast.Default) -> None:
        label = Label()
        self.mark(label)
        self._cases[-1].append((node, label, self.scope))
        for statement in node.stmts or ():
            self.statement(statement)

    def _goto(self, node: c_ast.Goto) -> None:
        actions: list[Callable[[State], None]] = []
        self._gotos.append((node.name, self.scope, actions))

        def goto(state: State) -> None:
            for action in actions:
                action(state)

        self.emit(goto)

    def _return(self, node: c_ast.Return) -> None:
        if node.expr is not None:
            type_ = self.value(node.expr)
            if isinstance(self._result, Void):
                if not isinstance(type_, Void):
                    self.pop()
            else:
                self.cast_to(type_, self._result)
        elif not isinstance(self._result, Void):
            raise UnsupportedC("a return without a value")
        self.emit(return_to_caller)

    # -- declarations ----------------------------------------------------------------------

    def declare(self, node: c_ast.Node) -> None:
        """Compile a declaration in a block."""
        if not isinstance(node, c_ast.Decl):
            raise UnsupportedC("this declaration")
        type_ = self.read_type(node.type)
        if node.name is None:
            return
        if isinstance(type_, FunctionType):
            self.scope.symbols[node.name] = FunctionName(node.name, type_)
            return
        storage = node.storage or []
        if "extern" in storage or "_Thread_local" in storage:
            raise UnsupportedC("an extern variable in a block")
        if isinstance(type_, Array) and type_.length is None and node.init is not None:
            type_ = self.find_initialized_type(type_, node.init)
        is_const = _is_const(node.type)
        if "static" in storage:
            self.scope.symbols[node.name] = self.declare_static(type_, node.init, is_const)
            return
        if isinstance(type_, Array) and type_.length is None:
            self._declare_open_array(node, type_)
            return
        variable = self.declare_hidden(type_, is_const)
        self.scope.symbols[node.name] = variable
        size = type_.size
        if node.init is None:
            slot, machine = variable.slot, self.machine
            assert slot is not None

            def forget(state: State) -> None:
                item = machine.change_object(state, state.slots[slot])
                item.cells.clear()
                item.fill = None

            self.emit(forget)
            return
        self.emit_address(variable, size)
        self.compile_initializer(type_, node.init)
        self.pop()

    def _declare_open_array(self, node: c_ast.Decl, type_: Array) -> None:
        """Declare an array whose length is known at run time only."""
        self.number(node.type.dim)
        element_size = type_.element.size
        slot, machine = self.new_slot(), self.machine
        self.scope.late_slots.append(slot)
        self.scope.symbols[node.name] = Variable(type_, slot)

        def create(state: State) -> None:
            length = state.stack.pop()
            if type(length) is not int:
                raise UnsupportedC("an array of an open length")
            if length <= 0:
                raise UnsupportedC("an array without elements")
            state.objects.pop(state.slots[slot], None)
            size = length * element_size
            state.slots[slot] = machine.create_object(state, size, None, "auto")

        self.emit(create)

    def declare_hidden(self, type_: CType, is_const: bool = False) -> Variable:
        """Declare a variable without a name in the current scope."""
        if self.scope.parent is None:
            return self.declare_static(type_, None, is_const)
        slot = self.new_slot()
        self.scope.slots.append((slot, type_.size))
        return Variable(type_, slot, is_const=is_const)

    def declare_static(self, type_: CType, init: c_ast.Node | None, is_const: bool) -> Variable:
        """Declare a variable that lives as long as the run, with its initial value."""
        number, _ = self.machine.create_static(type_.size, 0, "static")
        if init is not None:
            self.initialize_static(number, type_, init)
        return Variable(type_, None, number, is_const)

    def initialize_static(self, number: int, type_: CType, init: c_ast.Node) -> None:
        """Compute the initial value of a static variable."""
        size = type_.size
        code = Code("initial value", self._function.slots)

        def compile_() -> None:
            self.push(Address(number, 0, 0, size))
            self.compile_initializer(type_, init)
            code.operations += self.code

        self.discard_code(compile_)
        self.machine.run_static(State(code))

    def find_initialized_type(self, type_: Array, node: c_ast.Node) -> Array:
        """Return the type of an array with the length of its initializer."""
        parts = self._list_parts(type_, node)
        size = type_.element.size
        ends = [offset + part.size for offset, part, _, _ in parts]
        return Array(type_.element, -(-max(ends, default=0) // size))

    def compile_initializer(self, type_: CType, node: c_ast.Node) -> None:
        """Compile the initial value of the object whose address is on the stack and stays there."""
        is_list = isinstance(node, c_ast.InitList) or _is_string(node)
        if not isinstance(type_, Array | Record) or not is_list:
            if isinstance(type_, Array):
                raise UnsupportedC("this initial value of an array")
            if isinstance(node, c_ast.InitList):
                if len(node.exprs) != 1:
                    raise UnsupportedC("this initial value")
                node = node.exprs[0]
            parts: list[_Part] = [(0, type_, None, node)]
        else:
            parts = self._list_parts(type_, node)
            size, machine = type_.size, self.machine
            if len(parts) > _MAX_PARTS:
                raise UnsupportedC("so many initial values")

            def fill(state: State) -> None:
                address = state.stack[-1]
                item = machine.change_object(state, address.obj)
                item.clear(address.offset, size)
                if item.size == size:
                    item.fill = 0
                else:
                    for index in range(size):
                        item.cells[address.offset + index] = (1, 0)

            self.emit(fill)
        self._store_parts(parts)

    def _list_parts(self, type_: CType, node: c_ast.Node) -> list[_Part]:
        """List the initialized parts of an object; later ones replace earlier ones."""
        parts: list[_Part] = []
        # The type of a value may depend on another initializer.
        outer = self._has_names, self._union_members
        # Without names no value replaces another one.
        has_names = any(iter_nodes(node, (c_ast.NamedInitializer,)))
        self._has_names, self._union_members = has_names, {}
        try:
            self._flatten(type_, node, 0, parts)
        finally:
            self._has_names, self._union_members = outer
        ranges = [_find_bits(part) for part in parts] if has_names else []
        for index, bits in enumerate(ranges):
            _, part_type, _, expression = parts[index]
            # C leaves open whether a replaced value is evaluated, and what is left of it.
            is_open = isinstance(part_type, Record) or self.has_effects(expression)
            if is_open and any(_overlaps(bits, later) for later in ranges[index + 1 :]):
                raise UnsupportedC("two initial values of a part")
        return parts

    def _store_parts(self, parts: Sequence[_Part]) -> None:
        """Store the parts of an initial value, whose order C does not specify."""
        is_checked = len(parts) > 1 and any(self.has_effects(part[3]) for part in parts)
        for index, (offset, type_, member, expression) in enumerate(parts):
            if is_checked:
                self.emit(begin_group if index == 0 else next_operand)
            self._store_part(offset, type_, member, expression)
        if is_checked:
            self.emit(end_group)

    def _store_part(
        self, offset: int, type_: CType, member: Field | None, expression: c_ast.Node
    ) -> None:
        size, machine = type_.size, self.machine
        if isinstance(type_, Array):
            numbers = [*parse_characters(expression.value[1:-1]), 0][:size]

            def store_string(state: State) -> None:
                address = state.stack[-1]
                item = machine.change_object(state, address.obj)
                for index, number in enumerate(numbers):
                    item.store(address.offset + offset + index, 1, number)

            self.emit(store_string)
            return

        def locate(state: State) -> None:
            address = state.stack[-1]
            start = address.offset + offset
            state.stack.append(Address(address.obj, start, start, start + size))

        self.emit(locate)
        self.cast_to(self.value(expression), type_)
        self.store(Place(type_, member), keeps_value=False)

    def _flatten(self, type_: CType, node: c_ast.Node, offset: int, parts: list[_Part]) -> None:
        """List the initialized parts of an object (C11 6.7.9)."""
        if parts and self._has_names and (isinstance(node, c_ast.InitList) or _is_string(node)):
            # A list or a string also replaces the values that it does not name (C11 6.7.9p19).
            bits = (8 * offset, 8 * (offset + type_.size))
            if any(_overlaps(bits, _find_bits(part)) for part in parts):
                raise UnsupportedC("two initial values of a part")
        if isinstance(type_, Array) and _is_bytes(type_.element):
            text = node.exprs[0] if isinstance(node, c_ast.InitList) and node.exprs else node
            if _is_string(text) and (text is node or len(node.exprs) == 1):
                if not text.value.startswith('"'):
                    raise UnsupportedC("a wide string")
                length = len(parse_characters(text.value[1:-1]))
                count = length + 1 if type_.length is None else type_.length
                if length > count:
                    raise UnsupportedC("a string longer than its array")
                parts.append((offset, Array(type_.element, count), None, text))
                return
        if not isinstance(node, c_ast.InitList):
            parts.append((offset, type_, None, node))
            return
        if not isinstance(type_, Array | Record):
            if len(node.exprs) != 1:
                raise UnsupportedC("this initial value")
            self._flatten(type_, node.exprs[0], offset, parts)
            return
        end = self._fill(type_, offset, node.exprs, 0, parts, is_braced=True)
        if end != len(node.exprs):
            raise UnsupportedC("too many initial values")

    def _list_members(
        self, type_: Array | Record
    ) -> Callable[[int], tuple[int, CType, Field | None] | None]:
        """Return the function from the number of a part to its offset, type and bit-field."""
        if isinstance(type_, Array):
            element, length = type_.element, type_.length

            def find_element(index: int) -> tuple[int, CType, Field | None] | None:
                if length is not None and index >= length:
                    return None
                return index * element.size, element, None

            return find_element
        fields = type_.fields or ()
        count = 1 if type_.is_union else len(fields)

        def find_member(index: int) -> tuple[int, CType, Field | None] | None:
            if index >= count:
                return None
            member = fields[index]
            return member.offset, member.type, member if member.width is not None else None

        return find_member

    def _fill(
        self,
        type_: Array | Record,
        offset: int,
        items: Sequence[c_ast.Node],
        position: int,
        parts: list[_Part],
        is_braced: bool,
        index: int = 0,
    ) -> int:
        """Distribute initial values to the parts of an object; return the next position."""
        find_part = self._list_members(type_)
        while position < len(items):
            item = items[position]
            if isinstance(item, c_ast.NamedInitializer):
                if not is_braced:
                    return position
                (_, _, index), *inner = self._fill_named(type_, offset, item, parts)
                position += 1
                # Values after a path of names continue its innermost part (C11 6.7.9p17).
                for inner_type, start, following in reversed(inner):
                    position = self._fill(
                        inner_type, start, items, position, parts, False, following
                    )
                continue
            part = find_part(index)
            if part is None:
                return position
            start, part_type, member = part
            position = self._fill_part(offset + start, part_type, member, items, position, parts)
            index += 1
        return position

    def _fill_part(
        self,
        offset: int,
        type_: CType,
        member: Field | None,
        items: Sequence[c_ast.Node],
        position: int,
        parts: list[_Part],
    ) -> int:
        item = items[position]
        if isinstance(item, c_ast.InitList) or not isinstance(type_, Array | Record):
            if member is not None:
                parts.append((offset, type_, member, item))
            else:
                self._flatten(type_, item, offset, parts)
            return position + 1
        if isinstance(type_, Array) and _is_bytes(type_.element) and _is_string(item):
            self._flatten(type_, item, offset, parts)
            return position + 1
        if isinstance(type_, Record) and self.find_type(item) is type_:
            parts.append((offset, type_, None, item))
            return position + 1
        return self._fill(type_, offset, items, position, parts, is_braced=False)

    def _fill_named(
        self,
        type_: Array | Record,
        offset: int,
        item: c_ast.NamedInitializer,
        parts: list[_Part],
    ) -> list[tuple[Array | Record, int, int]]:
        """Initialize the part that a designator names.

        Returns:
            For each object on the path to the part, its type, its offset and the number of the part
            after the path.
        """
        current: CType = type_
        path: list[tuple[Array | Record, int, int]] = []
        member = None
        for depth, name in enumerate(item.name):
            if isinstance(current, Array):
                number = self.fold_constant(getattr(name, "expr", name))
                if number is None or not 0 <= number < (current.length or _MAX_PARTS):
                    raise UnsupportedC("this index of an initial value")
                path.append((current, offset, number + 1))
                offset += number * current.element.size
                current = current.element
            elif isinstance(current, Record) and isinstance(name, c_ast.ID):
                found = current.find_field(name.name)
                names = [entry.name for entry in current.fields or ()]
                if found is None or name.name not in names:
                    raise UnsupportedC(f"the field {name.name!r}")
                if current.is_union:
                    bits = (8 * offset, 8 * (offset + current.size))
                    known = self._union_members.get((offset, id(current)))
                    is_same = known == name.name and len(item.name) > depth + 1
                    if any(_overlaps(bits, _find_bits(part)) for part in parts) and not is_same:
                        raise UnsupportedC("two initial values of a union")
                    self._union_members[offset, id(current)] = name.name
                # A union has one part.
                following = len(names) if current.is_union else names.index(name.name) + 1
                path.append((current, offset, following))
                offset += found.offset
                member = found if found.width is not None else None
                current = found.type
            else:
                raise UnsupportedC("this designator")
        if member is not None:
            parts.append((offset, current, member, item.expr))
        else:
            self._flatten(current, item.expr, offset, parts)
        return path


def _find_bits(part: _Part) -> tuple[int, int]:
    """Return the first bit of an initialized part, and the end of its bits."""
    offset, type_, member, _ = part
    if member is not None:
        first = 8 * offset + (member.bit_offset or 0)
        return first, first + (member.width or 0)
    return 8 * offset, 8 * (offset + type_.size)


def _overlaps(left: tuple[int, int], right: tuple[int, int]) -> bool:
    return left[0] < right[1] and right[0] < left[1]


def return_to_caller(state: State) -> None:
    """Return from a function: the top of the stack is its result, if it has one."""
    for number in state.slots:
        state.objects.pop(number, None)
    state.code, state.pc, state.slots = state.frames.pop()


def _has_declaration(item: c_ast.Node) -> bool:
    """Return whether a part of a block declares a variable of the block."""
    match item:
        case c_ast.Case(stmts=stmts) | c_ast.Default(stmts=stmts):
            return any(map(_has_declaration, stmts or ()))
        case c_ast.Label(stmt=stmt):
            return _has_declaration(stmt)
    return isinstance(item, c_ast.Decl | c_ast.DeclList)


def _has_literal(node: c_ast.Node) -> bool:
    return any(iter_nodes(node, (c_ast.CompoundLiteral,)))


def _is_string(node: c_ast.Node) -> bool:
    return isinstance(node, c_ast.Constant) and node.type == "string"


def _is_bytes(type_: CType) -> bool:
    return isinstance(type_, Integer) and type_.bits == 8 and not type_.is_bool


def _is_const(node: c_ast.Node) -> bool:
    """Return whether a declared variable is `const` itself."""
    while isinstance(node, c_ast.ArrayDecl):
        node = node.type
    return "const" in (getattr(node, "quals", None) or ())
