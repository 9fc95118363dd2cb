"""Statements of C: branches, loops and jumps."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pycparser import c_ast

from llmchecker.errors import UnsupportedProgram
from llmchecker.programs.expressions import (
    Binary,
    Constant,
    Expression,
    Identifier,
    is_open,
    promoted,
    type_of,
    wrapped_to,
)
from llmchecker.programs.statements import (
    Assign,
    Block,
    Branch,
    Break,
    Continue,
    Labelled,
    Leave,
    Loop,
    Statement,
    Stop,
    statements,
)
from llmchecker.reading.declarations import DeclarationReader
from llmchecker.reading.pointers import PointerReader
from llmchecker.reading.scopes import Names, Pointer
from llmchecker.translating.evaluations import Evaluated, before_effects, folded
from llmchecker.translating.gotos import JumpRewriter
from llmchecker.translating.jumps import Interval, Irreducible, decided, labelled, shaped, stamped


@dataclass(frozen=True)
class _Exit:
    """Where `break` or `continue` leads.

    Attributes:
        loop: the loop whose Break or Continue does it where it is the innermost one, by its number;
            None if there is none.
        label: the block that is left elsewhere.
    """

    loop: int | None
    label: str


@dataclass(frozen=True)
class _Return:
    """Where `return` leads.

    Attributes:
        result: the variable or pointer that gets the value; None in a function without one.
        label: the block that is left.
    """

    result: str | Pointer | None
    label: str


class StatementReader:
    """Reads statements of one file.

    Args:
        names: what the names of the text stand for.
        reader: reads expressions.
        declarations: reads declarations.

    Attributes:
        lowered: whether the loops of the program are not those of the text, one by one.
    """

    def __init__(
        self, names: Names, reader: PointerReader, declarations: DeclarationReader
    ) -> None:
        self._names = names
        self._reader = reader
        self._declarations = declarations
        self._loops = 0
        self._labels = 0
        self._around = names.around
        self._breaks: list[_Exit] = []
        self._continues: list[_Exit] = []
        self._gotos: dict[str, str] = {}  # the block to leave for every label that is open
        self._returns: list[_Return] = []
        self._rewriter = JumpRewriter(names.fresh)
        self.lowered = False

    def function(self, node: c_ast.Compound, result: str | Pointer | None) -> Block:
        """The body of a function that is called; `return` stores a value and leaves it."""
        outer = self._breaks, self._continues, self._gotos
        self._breaks, self._continues, self._gotos = [], [], {}
        self._returns.append(_Return(result, self._label("end")))
        body = self.block(node)
        end = self._returns.pop()
        self._breaks, self._continues, self._gotos = outer
        return labelled(end.label, body)

    def block(self, node: c_ast.Node | None) -> Block:
        """The statements of a block with a scope of its own."""
        self._names.open()
        items = (node.block_items or ()) if isinstance(node, c_ast.Compound) else (node,)
        block = self._items([item for item in items if item is not None])
        self._names.close()
        return block

    def _items(self, items: Sequence[c_ast.Node]) -> Block:
        items = self._rewriter.entered(items)
        try:
            shape = shaped(items)
        except Irreducible as error:
            led = self._rewriter.dispatched(items)
            if led is None:
                raise self._unsupported(error.node, error.what) from error
            shape = shaped(led)
        return self._between(shape.nodes, list(shape.intervals), 0, len(shape.nodes))

    def _between(
        self, nodes: Sequence[c_ast.Node], intervals: list[Interval], start: int, end: int
    ) -> Block:
        """The statements of some items of a block, with the intervals inside."""
        block: list[Statement] = []
        place = start
        while place < end:
            if intervals and intervals[0].start == place:
                outer, *others = intervals
                inside = [i for i in others if i.end <= outer.end and i.start < outer.end]
                block += self._interval(nodes, outer, inside)
                intervals = others[len(inside) :]
                place = outer.end
            else:
                block += self._statement(nodes[place])
                place += 1
        return tuple(block)

    def _interval(
        self, nodes: Sequence[c_ast.Node], interval: Interval, inside: list[Interval]
    ) -> Block:
        """A block that jumps leave, or a loop that they repeat."""
        self.lowered = True
        hidden = self._gotos.get(interval.label)
        label = self._gotos[interval.label] = self._label(interval.label)
        number, scope = self._loops, self._names.scope()
        if interval.back:
            self._loops += 1
            self._around.append(number)
        with self._names.perhaps():
            body = self._between(nodes, inside, interval.start, interval.end)
        if interval.back:
            self._around.pop()
            # Whoever does not jump back leaves the loop at the end of its body.
            once = (Labelled(label, (*body, Break())),)
            line = nodes[interval.start].coord.line
            body = (Loop(number, line, Constant(1), once, (), scope),)
        del self._gotos[interval.label]
        if hidden is not None:
            self._gotos[interval.label] = hidden
        return body if interval.back else labelled(label, body)

    def _statement(self, node: c_ast.Node) -> Block:
        return stamped(self._read(node), node.coord.line if node.coord else 0)

    def _read(self, node: c_ast.Node) -> Block:
        match node:
            case c_ast.Compound():
                return self.block(node)
            case c_ast.Decl():
                return self._declarations.declare(node)
            case c_ast.DeclList():
                return tuple(s for d in node.decls for s in self._declarations.declare(d))
            case c_ast.Typedef():
                self._declarations.typedef(node)
                return ()
            case c_ast.Label():
                return self._items([node])
            case c_ast.If():
                return self._branch(node)
            case c_ast.While():
                done = self._reader.condition(node.cond)
                return self._loop(node, done, None)
            case c_ast.For():
                return self._for(node)
            case c_ast.DoWhile():
                return self._do(node)
            case c_ast.Switch():
                return self._switch(node)
            case c_ast.Return():
                return self._return(node)
            case c_ast.Break():
                return (self._exit(node, self._breaks, Break()),)
            case c_ast.Continue():
                return (self._exit(node, self._continues, Continue()),)
            case c_ast.Goto(name=name):
                if name not in self._gotos:
                    raise self._unsupported(node, f"a goto into a block, to {name!r},")
                return (Leave(self._gotos[name]),)
            case c_ast.EmptyStatement():
                return ()
        if type(node) in _REFUSED:
            raise self._unsupported(node, _REFUSED[type(node)])
        return self._reader.performed(node)

    def _unsupported(self, node: c_ast.Node, what: str) -> UnsupportedProgram:
        return self._reader.unsupported(node, what)

    def _label(self, name: str) -> str:
        self._labels += 1
        return f"{name}_{self._labels}"

    def _branch(self, node: c_ast.If) -> Block:
        done = self._reader.condition(node.cond)
        with self._names.perhaps():
            then = self.block(node.iftrue)
        with self._names.perhaps():
            otherwise = self.block(node.iffalse)
        return (*done.before, decided(done.value, then, otherwise))

    def _return(self, node: c_ast.Return) -> Block:
        if not self._returns:
            # In `main`, a return ends the run.
            return (*(self._reader.performed(node.expr) if node.expr else ()), Stop())
        end = self._returns[-1]
        if end.result is None:
            before = self._reader.performed(node.expr) if node.expr else ()
            return (*before, Leave(end.label))
        if node.expr is None:
            raise self._unsupported(node, "a return without a value")
        if isinstance(end.result, Pointer):
            return (*self._reader.returned(node.expr, end.result), Leave(end.label))
        done = self._reader.evaluated(node.expr)
        return (*done.before, Assign(Identifier(end.result), done.value), Leave(end.label))

    def _exit(self, node: c_ast.Node, exits: list[_Exit], direct: Statement) -> Statement:
        if not exits:
            raise self._unsupported(node, "break or continue outside a loop")
        innermost = self._around[-1] if self._around else None
        there = exits[-1]
        if there.loop is not None and there.loop == innermost:
            return direct
        return Leave(there.label)

    @contextmanager
    def _inside(self, number: int, on_break: _Exit, on_continue: _Exit) -> Iterator[None]:
        """Inside the body of a loop."""
        self._around.append(number)
        self._breaks.append(on_break)
        self._continues.append(on_continue)
        with self._names.perhaps():
            yield
        self._continues.pop()
        self._breaks.pop()
        self._around.pop()

    def _for(self, node: c_ast.For) -> Block:
        self._names.open()
        before: Block = self._statement(node.init) if node.init is not None else ()
        done = Evaluated((), Constant(1))
        if node.cond is not None:
            done = self._reader.condition(node.cond)
        block = (*before, *self._loop(node, done, node.next))
        self._names.close()
        return block

    def _loop(self, node: c_ast.Node, done: Evaluated, next_: c_ast.Node | None) -> Block:
        """A loop whose condition is evaluated first.

        A condition with side effects is evaluated on the state before them, if that can be written
        down; else the effects run before the loop and again at the end of each round.
        """
        number, scope, effects = self._number(), self._names.scope(), done.before
        self.lowered = self.lowered or bool(effects)
        entered = before_effects(done, self._names.types)
        lead: Block = ()
        head: Block = ()
        last: Block = ()
        behind: Block = ()
        if not effects:
            guard = done.value
        elif entered is not None:
            guard, head, behind = entered, effects, effects
        elif not any(isinstance(s, Loop | Labelled) for s in statements(effects)):
            guard, lead, last = done.value, effects, effects
        else:
            guard, head = Constant(1), (*effects, Branch(done.value, (), (Break(),)))
        on_break = _Exit(None if behind else number, self._label("leave"))
        on_continue = _Exit(number, self._label("again"))
        with self._inside(number, on_break, on_continue):
            body = labelled(on_continue.label, self.block(node.stmt))
        with self._names.perhaps():
            step = () if next_ is None else self._reader.performed(next_)
        loop = Loop(number, node.coord.line, guard, (*head, *body), (*step, *last), scope)
        return labelled(on_break.label, (*lead, loop, *behind))

    def _number(self) -> int:
        self._loops += 1
        return self._loops - 1

    def _do(self, node: c_ast.DoWhile) -> Block:
        """`do`: its body once and then `while`, where the body is without loops and jumps."""
        if isinstance(node.cond, c_ast.Constant) and node.cond.value == "0":
            return self._once(node)
        number, scope = self._number(), self._names.scope()
        on_break = _Exit(number, self._label("leave"))
        on_continue = _Exit(None, self._label("again"))
        with self._inside(number, on_break, on_continue):
            body = self.block(node.stmt)
        with self._names.perhaps():  # a `break` passes over the condition
            done = self._reader.condition(node.cond)
        line = node.coord.line
        round_ = (*body, *done.before)
        if not any(isinstance(s, _JUMPS) for s in statements(round_)):
            self.lowered = self.lowered or bool(done.before)
            return (*round_, Loop(number, line, done.value, round_, (), scope))
        self.lowered = True
        body = labelled(on_continue.label, body)
        left = Branch(done.value, (), (Break(),))
        loop = Loop(number, line, Constant(1), (*body, *done.before, left), (), scope)
        return labelled(on_break.label, (loop,))

    def _once(self, node: c_ast.DoWhile) -> Block:
        """`do … while (0)`, which macros use as a block."""
        self.lowered = True
        here = _Exit(None, self._label("leave"))
        self._breaks.append(here)
        self._continues.append(here)
        with self._names.perhaps():
            body = self.block(node.stmt)
        self._continues.pop()
        self._breaks.pop()
        return labelled(here.label, body)

    def _switch(self, node: c_ast.Switch) -> Block:
        """`switch`: jumps to the ends of blocks, behind which the cases stand in their order."""
        done = self._reader.evaluated(node.cond)
        value, before = done.value, done.before
        if is_open(value):
            kept = Identifier(self._names.temporary(type_of(value, self._names.types), "case"))
            before, value = (*before, Assign(kept, value)), kept
        cases = node.stmt.block_items or () if isinstance(node.stmt, c_ast.Compound) else ()
        end = _Exit(None, self._label("leave"))
        self._breaks.append(end)
        self._names.open()
        labels = [self._label("case") for _ in cases]
        block = self._dispatched(cases, labels, value, end)
        for case, label in zip(cases, labels, strict=True):
            with self._names.perhaps():
                items = self._items(case.stmts or ())
            block = (Labelled(label, block), *items)
        self._names.close()
        self._breaks.pop()
        return (*before, *labelled(end.label, block))

    def _dispatched(
        self, cases: Sequence[c_ast.Node], labels: Sequence[str], value: Expression, end: _Exit
    ) -> Block:
        """The jumps of a `switch` to its cases."""
        type_ = promoted(type_of(value, self._names.types))
        jumps: list[Statement] = []
        otherwise, known = Leave(end.label), set()
        for case, label in zip(cases, labels, strict=True):
            if isinstance(case, c_ast.Default):
                otherwise = Leave(label)
                continue
            if not isinstance(case, c_ast.Case):
                raise self._unsupported(case, "a statement before the cases of a switch")
            number = folded(self._reader.read(case.expr), self._names.types)
            if number is None or wrapped_to(number, type_) in known:
                raise self._unsupported(case, "this case of a switch")
            known.add(wrapped_to(number, type_))
            same = Binary("==", value, Constant(wrapped_to(number, type_)))
            jumps.append(Branch(same, (Leave(label),), ()))
        return (*jumps, otherwise)


_JUMPS = (Loop, Labelled, Leave, Break, Continue)

_REFUSED = {
    c_ast.Pragma: "a pragma",
    c_ast.Case: "a case inside a block of a switch",
    c_ast.Default: "a case inside a block of a switch",
    c_ast.FuncDef: "a function inside a function",
    c_ast.StaticAssert: "a static assertion",
}
