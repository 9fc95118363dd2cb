"""Spacer: candidates from constrained Horn clauses of a program.

Each loop is a predicate over the variables in its scope, and each path between heads a clause
(Grebenshchikov et al. 2012). Z3's Spacer (Komuravelli, Gurfinkel and Chaki 2014) finds predicates
that satisfy the clauses, by interpolation. The solution is converted to C conditions, which are
ordinary candidates.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial, reduce
from math import gcd

import z3

from loop_invariants.ir.expressions import (
    SWAPPED_COMPARISONS,
    Binary,
    Cast,
    Constant,
    Expression,
    Semantics,
    Type,
    negate,
)
from loop_invariants.ir.polynomials import Polynomial, build_comparison, build_sum, scale, sum_of
from loop_invariants.ir.statements import Program
from loop_invariants.limits import find_remaining_seconds
from loop_invariants.verification.houdini import MAX_CLOCK_FACTOR, STEPS_PER_SECOND, to_z3_limit
from loop_invariants.verification.verification_conditions import (
    VerificationConditions,
    build_verification_conditions,
)
from loop_invariants.verification.z3_encoding import Encoder, SymbolicState

_INT64 = Type(64)
_MAX_COMPARISONS = 60
"""Maximum number of comparisons: longer conditions are useless as candidates."""


def solve_horn_clauses(
    program: Program,
    semantics: Semantics,
    seconds: float,
    invariants: Iterable[tuple[int, Expression]] = (),
) -> Mapping[int, tuple[Expression, ...]]:
    """Solve a program's Horn clauses for loop conditions; empty without a proof.

    Machine integers are encoded as wrapping integers. The conditions compute sums in 64 bits.

    Args:
        program: the program; the initial content of its arrays is arbitrary.
        semantics: the semantics of the program's integers.
        seconds: maximum seconds, counted in Z3's steps (see `Prover`).
        invariants: pairs of a loop number and a proven invariant.
    """
    encoder = Encoder(semantics, as_integers=True)
    conditions = build_verification_conditions(program, encoder, per_segment=True)
    lemmas: dict[int, list[z3.BoolRef]] = {number: [] for number in conditions.cut_points}
    for number, expression in invariants:
        # Proven invariants strengthen the clauses that begin at their loop.
        lemmas[number].append(
            encoder.encode_condition(expression, conditions.cut_points[number].state)
        )
    names = {
        loop.number: [name for name in loop.scope if not program.types[name].is_array]
        for loop in program.loops
    }
    predicates = {
        # Arrays are no arguments of predicates, so the clauses quantify over them.
        number: z3.Function(f"loop_{number}", *[z3.IntSort() for _ in loop_names], z3.BoolSort())
        for number, loop_names in names.items()
    }
    fails = z3.Function("fails", z3.BoolSort())
    engine = z3.Fixedpoint()
    engine.set("engine", "spacer")
    engine.set(
        "rlimit", to_z3_limit(STEPS_PER_SECOND / 2 * seconds)
    )  # a step of Spacer takes longer
    clock_seconds = min(MAX_CLOCK_FACTOR * seconds, max(0.0, find_remaining_seconds()))
    engine.set("timeout", to_z3_limit(1000 * clock_seconds))
    for option in ("xform.inline_eager", "xform.inline_linear", "xform.slice"):
        engine.set(option, False)  # these rewritings would remove predicates that are read below
    engine.register_relation(fails, *predicates.values())
    try:
        for clause in _iter_clauses(conditions, predicates, names, fails(), lemmas):
            engine.add_rule(clause)
        if engine.query(fails()) != z3.unsat:
            # A counterexample or an undecided query yields no solution.
            return {}
        covers = {n: engine.get_cover_delta(-1, predicate) for n, predicate in predicates.items()}
    except z3.Z3Exception:  # the time limit is exceeded, or Spacer does not support the clauses
        return {}
    reader = _TermReader(semantics, program)
    solution = {}
    for number, loop_names in names.items():
        body = z3.substitute_vars(covers[number], *[z3.Int(name) for name in loop_names])
        solution[number] = tuple(dict.fromkeys(reader.iter_conditions(body)))
    return solution


def _iter_clauses(
    conditions: VerificationConditions,
    predicates: Mapping[int, z3.FuncDeclRef],
    names: Mapping[int, list[str]],
    fails: z3.BoolRef,
    lemmas: Mapping[int, list[z3.BoolRef]],
) -> Iterator[z3.BoolRef]:
    """Yield a clause for each condition and each head at which its path may begin."""

    def apply_predicate(number: int, state: Mapping[str, z3.ExprRef]) -> z3.BoolRef:
        return predicates[number](*[state[name] for name in names[number]])

    targets: list[tuple[z3.BoolRef, int | None, SymbolicState]] = [
        (case.path, case.loop, case.state) for case in conditions.induction_cases
    ]
    targets += [(z3.And(g.path, z3.Not(g.condition)), None, {}) for g in conditions.goals]
    # A head that no run reaches has the flag False, which is no Boolean of its own.
    flags = {
        n: head.is_reached
        for n, head in conditions.cut_points.items()
        if not z3.is_false(head.is_reached)
    }
    for path, loop, state in targets:
        constant_ids = {part.get_id() for part in _find_free_constants(path)}
        for start in (None, *(n for n, flag in flags.items() if flag.get_id() in constant_ids)):
            # Exactly the flag of the head at which the path begins is true.
            flag_values = [(flag, z3.BoolVal(number == start)) for number, flag in flags.items()]
            condition = z3.simplify(z3.substitute(path, *flag_values))
            if z3.is_false(condition):
                # The path cannot begin at this head.
                continue
            body = [condition]
            if start is not None:
                body += [apply_predicate(start, conditions.cut_points[start].state), *lemmas[start]]
            head = fails
            # A goal has no loop: its violation implies `fails`.
            if loop is not None:
                head = apply_predicate(
                    loop, {n: z3.substitute(state[n], *flag_values) for n in names[loop]}
                )
            clause = z3.Implies(z3.And(body), head)
            free_constants = [term for term in _find_free_constants(clause) if not term.eq(fails)]
            yield z3.ForAll(free_constants, clause) if free_constants else clause


def _find_free_constants(term: z3.ExprRef) -> list[z3.ExprRef]:
    """Collect the uninterpreted constants of a term."""
    constants: dict[int, z3.ExprRef] = {}
    visited_ids: set[int] = set()
    stack = [term]
    while stack:
        # Terms are shared graphs, so each part is visited once.
        subterm = stack.pop()
        if subterm.get_id() in visited_ids:
            continue
        visited_ids.add(subterm.get_id())
        if z3.is_const(subterm) and subterm.decl().kind() == z3.Z3_OP_UNINTERPRETED:
            constants[subterm.get_id()] = subterm
        stack.extend(subterm.children())
    return list(constants.values())


class _UnsupportedTerm(Exception):
    """A term without an equivalent C condition."""


class _TermReader:
    """A converter of integer terms to conditions of a program."""

    def __init__(self, semantics: Semantics, program: Program) -> None:
        self._program = program
        self._comparison_count = 0
        self._wide = semantics is Semantics.INT32

    def iter_conditions(self, term: z3.BoolRef) -> Iterator[Expression]:
        """Yield the supported conjuncts of a term as conditions."""
        term = z3.simplify(term, elim_and=False, arith_lhs=False)
        conjuncts = term.children() if z3.is_and(term) else [term]
        for conjunct in conjuncts:
            if z3.is_and(conjunct):
                # A nested conjunction is split too, so that an unsupported conjunct loses no
                # others.
                yield from self.iter_conditions(conjunct)
                continue
            self._comparison_count = 0
            try:
                condition = self._read_condition(conjunct)
            except _UnsupportedTerm:
                continue
            # A constant condition is true or false in every state and describes none.
            if not isinstance(condition, Constant):
                yield condition

    def _read_condition(self, term: z3.BoolRef) -> Expression:
        self._comparison_count += 1
        if self._comparison_count > _MAX_COMPARISONS:
            raise _UnsupportedTerm
        if z3.is_true(term) or z3.is_false(term):
            return Constant(int(z3.is_true(term)))
        if z3.is_not(term):
            return negate(self._read_condition(term.arg(0)))
        if z3.is_and(term) or z3.is_or(term):
            connective = "&&" if z3.is_and(term) else "||"
            return reduce(partial(Binary, connective), map(self._read_condition, term.children()))
        if z3.is_implies(term):
            left, right = map(self._read_condition, term.children())
            return Binary("||", negate(left), right)
        operators = {z3.Z3_OP_LE: "<=", z3.Z3_OP_GE: ">=", z3.Z3_OP_LT: "<", z3.Z3_OP_GT: ">"}
        operators |= {z3.Z3_OP_EQ: "==", z3.Z3_OP_DISTINCT: "!="}
        operator = operators.get(term.decl().kind())
        if operator is None or term.num_args() != 2 or not z3.is_int(term.arg(0)):
            raise _UnsupportedTerm
        return self._build_comparison(operator, term.arg(0), term.arg(1))

    def _build_comparison(self, operator: str, left: z3.ArithRef, right: z3.ArithRef) -> Expression:
        """Build a comparison of sums in which every factor is positive."""
        difference = sum_of(self._read_sum(left), self._read_sum(right), -1)
        divisor = gcd(*difference.values()) or 1
        constant = difference.get((), 0) // divisor
        factors: Polynomial[Expression] = {
            parts: factor // divisor for parts, factor in difference.items() if parts
        }
        # A side without a positive factor would be 0, so both sides swap and change their signs.
        if not any(factor > 0 for factor in factors.values()):
            constant, operator = -constant, SWAPPED_COMPARISONS[operator]
            factors = scale(factors, -1)
        operator, constant = _normalize_comparison(operator, constant)
        # Neither a single variable nor a comparison of two variables can overflow.
        is_overflow_free = all(abs(factor) == 1 for factor in factors.values()) and (
            len(factors) < 2 or (len(factors) == 2 and -1 in factors.values() and not constant)
        )
        if not is_overflow_free:
            factors = self._widen(factors)
        # A sum without negative factors is compared with the constant alone.
        if all(factor > 0 for factor in factors.values()):
            return Binary(operator, build_sum(factors), Constant(-constant))
        return build_comparison(operator, {**factors, (): constant})

    def _read_sum(self, term: z3.ArithRef) -> Polynomial[Expression]:
        """Read a term as a polynomial of degree 1."""
        kind = term.decl().kind()
        if z3.is_int_value(term):
            return {(): term.as_long()}
        if kind in (z3.Z3_OP_ADD, z3.Z3_OP_SUB):
            sign = 1 if kind == z3.Z3_OP_ADD else -1
            return reduce(partial(sum_of, factor=sign), map(self._read_sum, term.children()))
        if kind == z3.Z3_OP_UMINUS:
            return scale(self._read_sum(term.arg(0)), -1)
        if kind == z3.Z3_OP_MUL and z3.is_int_value(term.arg(0)) and term.num_args() == 2:
            return scale(self._read_sum(term.arg(1)), term.arg(0).as_long())
        return {(self._read_value(term),): 1}

    def _widen(self, polynomial: Polynomial[Expression]) -> Polynomial[Expression]:
        """Convert the parts of sums of machine integers to 64 bits."""
        if not self._wide:
            return polynomial
        return {
            tuple(Cast(_INT64, part) for part in parts): factor
            for parts, factor in polynomial.items()
        }

    def _read_value(self, term: z3.ArithRef) -> Expression:
        kind = term.decl().kind()
        if z3.is_const(term) and kind == z3.Z3_OP_UNINTERPRETED:
            return self._program.variable(term.decl().name())
        if kind in (z3.Z3_OP_MOD, z3.Z3_OP_IDIV) and z3.is_int_value(term.arg(1)):
            dividend = build_sum(self._widen(self._read_sum(term.arg(0))))
            operator = "%" if kind == z3.Z3_OP_MOD else "/"
            return Binary(operator, dividend, Constant(term.arg(1).as_long()))
        raise _UnsupportedTerm


def _normalize_comparison(operator: str, constant: int) -> tuple[str, int]:
    """Normalize a comparison with 0, without a constant if possible."""
    # Integers allow `x < 0` as `x + 1 <= 0`, so that strict and non-strict comparisons meet.
    if operator == ">" or operator == "<":
        operator, constant = f"{operator}=", constant + (1 if operator == "<" else -1)
    if (operator, constant) in ((">=", -1), ("<=", 1)):
        return operator[0], 0
    return operator, constant
