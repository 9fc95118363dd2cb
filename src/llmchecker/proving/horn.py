"""Invariants that Z3's Spacer finds: the program as constrained Horn clauses.

Each loop is a predicate over the variables in its scope, each path between heads a clause
(Grebenshchikov et al. 2012). Spacer (Komuravelli, Gurfinkel and Chaki 2014) looks for predicates
that satisfy them, by interpolation. What it finds is read as conditions in C, which are candidates
like any other.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import gcd

import z3

from llmchecker.programs.expressions import (
    MIRRORED,
    Binary,
    Cast,
    Constant,
    Expression,
    Identifier,
    Semantics,
    Type,
    negation,
)
from llmchecker.programs.statements import Program
from llmchecker.proving.houdini import LONGEST, STEPS, counted
from llmchecker.proving.obligations import Obligations, obligations
from llmchecker.proving.terms import Encoder

_WIDE = Type(64)
_MOST_PARTS = 60
"""The most comparisons in a condition that is read: longer ones are of no use as candidates."""


def spacer(
    program: Program,
    semantics: Semantics,
    seconds: float,
    known: Iterable[tuple[int, Expression]] = (),
) -> Mapping[int, tuple[Expression, ...]]:
    """Conditions that Spacer finds for each loop; none if it finds no proof.

    Machine integers are numbers that wrap around. A sum is then written in 64 bits.

    Args:
        program: the program; what its arrays hold is left open.
        semantics: what its integers are.
        seconds: the most time, counted in Z3's own steps (see `Prover`).
        known: proven invariants with the numbers of their loops.
    """
    encoder = Encoder(semantics, program.types, numbers=True)
    made = obligations(program, encoder, apart=True)
    lemmas: dict[int, list[z3.BoolRef]] = {number: [] for number in made.heads}
    for number, expression in known:
        lemmas[number].append(encoder.truth(expression, made.heads[number].state))
    names = {
        loop.number: [name for name in loop.scope if not program.types[name].array]
        for loop in program.loops
    }
    predicates = {
        number: z3.Function(f"loop_{number}", *[z3.IntSort() for _ in of_loop], z3.BoolSort())
        for number, of_loop in names.items()
    }
    fails = z3.Function("fails", z3.BoolSort())
    engine = z3.Fixedpoint()
    engine.set("engine", "spacer")
    engine.set("rlimit", counted(STEPS / 2 * seconds))  # a step of Spacer takes longer
    engine.set("timeout", counted(1000 * LONGEST * seconds))
    for kept in ("xform.inline_eager", "xform.inline_linear", "xform.slice"):
        engine.set(kept, False)  # else predicates vanish that are asked for
    engine.register_relation(fails, *predicates.values())
    try:
        for clause in _clauses(made, predicates, names, fails(), lemmas):
            engine.add_rule(clause)
        if engine.query(fails()) != z3.unsat:
            return {}
        covers = {n: engine.get_cover_delta(-1, predicate) for n, predicate in predicates.items()}
    except z3.Z3Exception:  # the time is over, or the clauses hold what Spacer does not cover
        return {}
    reader = _Reader(semantics)
    found = {}
    for number, of_loop in names.items():
        body = z3.substitute_vars(covers[number], *[z3.Int(name) for name in of_loop])
        found[number] = tuple(dict.fromkeys(reader.conditions(body)))
    return found


def _clauses(
    made: Obligations,
    predicates: Mapping[int, z3.FuncDeclRef],
    names: Mapping[int, list[str]],
    fails: z3.BoolRef,
    lemmas: Mapping[int, list[z3.BoolRef]],
) -> Iterator[z3.BoolRef]:
    """A clause for each obligation and each head that its path may begin at."""

    def applied(number: int, state: Mapping[str, z3.ExprRef]) -> z3.BoolRef:
        return predicates[number](*[state[name] for name in names[number]])

    wanted = [(p.path, p.loop, p.state) for p in made.preservations]
    wanted += [(z3.And(g.path, z3.Not(g.condition)), None, {}) for g in made.goals]
    flags = {n: head.reached for n, head in made.heads.items() if not z3.is_false(head.reached)}
    for path, loop, state in wanted:
        inside = {part.get_id() for part in _unknowns(path)}
        for begin in (None, *(n for n, flag in flags.items() if flag.get_id() in inside)):
            chosen = [(flag, z3.BoolVal(number == begin)) for number, flag in flags.items()]
            condition = z3.simplify(z3.substitute(path, *chosen))
            if z3.is_false(condition):
                continue
            body = [condition]
            if begin is not None:
                body += [applied(begin, made.heads[begin].state), *lemmas[begin]]
            head = fails
            if loop is not None:
                head = applied(loop, {n: z3.substitute(state[n], *chosen) for n in names[loop]})
            clause = z3.Implies(z3.And(body), head)
            unknown = [term for term in _unknowns(clause) if not term.eq(fails)]
            yield z3.ForAll(unknown, clause) if unknown else clause


def _unknowns(term: z3.ExprRef) -> list[z3.ExprRef]:
    """The constants of a term without interpretation."""
    found: dict[int, z3.ExprRef] = {}
    seen: set[int] = set()
    open_ = [term]
    while open_:
        part = open_.pop()
        if part.get_id() in seen:
            continue
        seen.add(part.get_id())
        if z3.is_const(part) and part.decl().kind() == z3.Z3_OP_UNINTERPRETED:
            found[part.get_id()] = part
        open_.extend(part.children())
    return list(found.values())


class _Unread(Exception):
    """A term that has no counterpart among the conditions that are proposed."""


class _Reader:
    """Reads terms over numbers as conditions of a program."""

    def __init__(self, semantics: Semantics) -> None:
        self._parts = 0
        self._wide = semantics is Semantics.INT32

    def conditions(self, term: z3.BoolRef) -> Iterator[Expression]:
        """The parts of a conjunction that can be read."""
        term = z3.simplify(term, elim_and=False, arith_lhs=False)
        parts = term.children() if z3.is_and(term) else [term]
        for part in parts:
            if z3.is_and(part):
                yield from self.conditions(part)
                continue
            self._parts = 0
            try:
                read = self._truth(part)
            except _Unread:
                continue
            if not isinstance(read, Constant):
                yield read

    def _truth(self, term: z3.BoolRef) -> Expression:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise _Unread
        if z3.is_true(term) or z3.is_false(term):
            return Constant(int(z3.is_true(term)))
        if z3.is_not(term):
            return negation(self._truth(term.arg(0)))
        if z3.is_and(term) or z3.is_or(term):
            operator = "&&" if z3.is_and(term) else "||"
            read = [self._truth(part) for part in term.children()]
            whole = read[0]
            for part in read[1:]:
                whole = Binary(operator, whole, part)
            return whole
        if z3.is_implies(term):
            left, right = map(self._truth, term.children())
            return Binary("||", negation(left), right)
        kinds = {z3.Z3_OP_LE: "<=", z3.Z3_OP_GE: ">=", z3.Z3_OP_LT: "<", z3.Z3_OP_GT: ">"}
        kinds |= {z3.Z3_OP_EQ: "==", z3.Z3_OP_DISTINCT: "!="}
        operator = kinds.get(term.decl().kind())
        if operator is None or term.num_args() != 2 or not z3.is_int(term.arg(0)):
            raise _Unread
        return self._compared(operator, term.arg(0), term.arg(1))

    def _compared(self, operator: str, left: z3.ArithRef, right: z3.ArithRef) -> Expression:
        """A comparison of sums in which every factor is positive."""
        factors: dict[Expression | None, int] = {}
        for sign, side in ((1, left), (-1, right)):
            for part, factor in self._sum(side):
                factors[part] = factors.get(part, 0) + sign * factor
        divisor = gcd(*factors.values()) or 1
        constant = factors.pop(None, 0) // divisor
        scaled = {part: factor // divisor for part, factor in factors.items() if factor}
        if not any(factor > 0 for factor in scaled.values()):
            constant, operator = -constant, MIRRORED[operator]
            scaled = {part: -factor for part, factor in scaled.items()}
        operator, constant = _plainest(operator, constant)
        # Neither one variable nor two that are compared can overflow.
        plain = all(abs(factor) == 1 for factor in scaled.values()) and (
            len(scaled) < 2 or (len(scaled) == 2 and -1 in scaled.values() and not constant)
        )
        wide = self._wide and not plain
        sides = (
            [_times(factor, part, wide) for part, factor in scaled.items() if factor > 0],
            [_times(-factor, part, wide) for part, factor in scaled.items() if factor < 0],
        )
        if not sides[1]:
            return Binary(operator, _total(sides[0]), Constant(-constant))
        if constant:
            sides[constant < 0].append(Constant(abs(constant)))
        return Binary(operator, _total(sides[0]), _total(sides[1]))

    def _sum(self, term: z3.ArithRef) -> Iterator[tuple[Expression | None, int]]:
        """The parts of a sum with their factors; None is the constant."""
        kind = term.decl().kind()
        if z3.is_int_value(term):
            yield None, term.as_long()
        elif kind == z3.Z3_OP_ADD:
            for part in term.children():
                yield from self._sum(part)
        elif kind == z3.Z3_OP_SUB:
            first, *others = term.children()
            yield from self._sum(first)
            for other in others:
                yield from ((part, -factor) for part, factor in self._sum(other))
        elif kind == z3.Z3_OP_UMINUS:
            yield from ((part, -factor) for part, factor in self._sum(term.arg(0)))
        elif kind == z3.Z3_OP_MUL and z3.is_int_value(term.arg(0)) and term.num_args() == 2:
            by = term.arg(0).as_long()
            yield from ((part, by * factor) for part, factor in self._sum(term.arg(1)))
        else:
            yield self._value(term), 1

    def _value(self, term: z3.ArithRef) -> Expression:
        kind = term.decl().kind()
        if z3.is_const(term) and kind == z3.Z3_OP_UNINTERPRETED:
            return Identifier(term.decl().name())
        if kind in (z3.Z3_OP_MOD, z3.Z3_OP_IDIV) and z3.is_int_value(term.arg(1)):
            parts = list(self._sum(term.arg(0)))
            divided = _total([_times(f, p, self._wide) for p, f in parts])
            operator = "%" if kind == z3.Z3_OP_MOD else "/"
            return Binary(operator, divided, Constant(term.arg(1).as_long()))
        raise _Unread


def _plainest(operator: str, constant: int) -> tuple[str, int]:
    """The same comparison of a sum and a constant with 0, without a constant where that can be."""
    if operator == ">" or operator == "<":
        operator, constant = f"{operator}=", constant + (1 if operator == "<" else -1)
    if (operator, constant) in ((">=", -1), ("<=", 1)):
        return operator[0], 0
    return operator, constant


def _times(factor: int, part: Expression | None, wide: bool) -> Expression:
    if part is None:
        return Constant(factor)
    if wide:
        part = Cast(_WIDE, part)
    return part if factor == 1 else Binary("*", Constant(factor), part)


def _total(terms: list[Expression]) -> Expression:
    total = terms[0] if terms else Constant(0)
    for term in terms[1:]:
        total = Binary("+", total, term)
    return total
