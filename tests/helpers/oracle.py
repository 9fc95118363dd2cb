"""Probabilistic temporal logic by plain enumeration of paths, in exact fractions.

It shares no code with the package. A formula is a nested tuple: ("true",), ("false",),
("label", name), ("atom", name, comparison, number), ("!", f), ("&", f, g), ("|", f, g),
("=>", f, g), ("<=>", f, g), ("?", f, g, h), ("X", f), ("F", n, f), ("G", n, f), ("U", n, f, g),
("W", n, f, g), ("R", n, f, g), ("M", n, f, g), ("compare", e, comparison, e) over expressions e,
("P", comparison, fraction, f), ("S", comparison, fraction, f), ("E", f), ("A", f) for some and
every path, and ("forall", f, g), ("exists", f, g) for f in every, or some, reachable state with g.

A bound n is None, the largest number of steps, or two numbers, of which the second may be None. W
and R without a bound may have two operands alone. An expression is a whole number, a name,
(operator, e, e) with one of + - * / min max mod, or (function, e) with floor, ceil or round.
"""

import math
from fractions import Fraction

from hypothesis import strategies as st


class Tree:
    """A tree by its columns; a path runs from a state to a leaf and repeats the leaf for ever."""

    def __init__(self, parent, probability, kind, variables, read=float):
        """`read` makes of a probability what a fraction is made of: str takes 0.7 for 7/10."""
        self.kind = list(kind)
        self.variables = {name: list(column) for name, column in variables.items()}
        self.probability = [Fraction(read(p)) for p in probability]
        self.children = [[] for _ in self.kind]
        for state, before in enumerate(parent):
            if before >= 0:
                self.children[before].append(state)

    def paths(self, state):
        """Yield (path, probability) for all paths from the state."""
        if not self.children[state]:
            yield (state,), Fraction(1)
        for child in self.children[state]:
            for path, probability in self.paths(child):
                yield (state, *path), self.probability[child] * probability

    def probability_of(self, formula, state=0):
        """Return the probability of the paths from the state that satisfy the formula."""
        return sum((p for path, p in self.paths(state) if self.holds(formula, path)), Fraction(0))

    def conditional(self, formula, given):
        """Return the probability of a path formula among the paths of another, or None."""
        whole = self.probability_of(given)
        return self.probability_of(("&", formula, given)) / whole if whole else None

    def expectation(self, name, step, rest=0):
        """Return the expected value of a variable after so many steps, where `rest` has its own."""
        total = Fraction(0)
        for path, probability in self.paths(0):
            state = path[min(step, len(path) - 1)]
            total += probability * (rest if self.kind[state] == 1 else self.variables[name][state])
        return total

    def cumulated(self, name, steps, rest=0):
        """Return the expected sum of a variable over so many states, the first one first."""
        return sum((self.expectation(name, step, rest) for step in range(steps)), Fraction(0))

    def long_run(self, formula, state=0):
        """Return the expected share of time that the paths spend in states with the formula."""
        return sum(
            (p for path, p in self.paths(state) if self.holds(formula, path[-1:])), Fraction(0)
        )

    def reachable(self):
        """Return the states that paths with a probability above 0 visit."""
        return {state for path, p in self.paths(0) if p > 0 for state in path}

    def holds(self, formula, path):
        """Decide whether the path satisfies the formula."""
        state, later = path[0], path[1:] or path
        match formula:
            case ("true",):
                return True
            case ("false",):
                return False
            case ("label", name):
                return self.kind[state] in {"rest": (1,), "end": (2, 3)}[name]
            case ("atom", name, comparison, number):
                if self.kind[state] == 1 and name != "step":
                    return False
                return _compare(self.variables[name][state], comparison, number)
            case ("compare", left, comparison, right):
                names = {**_names(left), **_names(right)}
                if self.kind[state] == 1 and names.keys() - {"step"}:
                    return False
                values = {name: int(self.variables[name][state]) for name in names}
                return _compare(_number(left, values), comparison, _number(right, values))
            case ("P", comparison, bound, inner):
                return _compare(self.probability_of(inner, state), comparison, bound)
            case ("E", f):
                return any(self.holds(f, p) for p, chance in self.paths(state) if chance > 0)
            case ("A", f):
                return all(self.holds(f, p) for p, chance in self.paths(state) if chance > 0)
            case ("S", comparison, bound, inner):
                return _compare(self.long_run(inner, state), comparison, bound)
            case ("forall", f, g):
                return all(self.holds(f, (s,)) for s in self.reachable() if self.holds(g, (s,)))
            case ("exists", f, g):
                return any(self.holds(f, (s,)) and self.holds(g, (s,)) for s in self.reachable())
            case ("<=>", f, g):
                return self.holds(f, path) == self.holds(g, path)
            case ("?", f, g, h):
                return self.holds(g if self.holds(f, path) else h, path)
            case ("!", f):
                return not self.holds(f, path)
            case ("&", f, g):
                return self.holds(f, path) and self.holds(g, path)
            case ("|", f, g):
                return self.holds(f, path) or self.holds(g, path)
            case ("=>", f, g):
                return self.holds(g, path) or not self.holds(f, path)
            case ("X", f):
                return self.holds(f, later)
        # Past the leaf nothing changes, so its first visit speaks for all later ones.
        bound = None if len(formula) == 3 and formula[0] in ("W", "R") else formula[1]
        first, last = bound if isinstance(bound, tuple) else (0, bound)
        end = max(first, len(path) - 1)
        steps = range(first, (end if last is None else min(last, end)) + 1)

        def at(f, i):
            return self.holds(f, path[min(i, len(path) - 1) :])

        match formula:
            case ("F", _, f):
                return any(at(f, i) for i in steps)
            case ("G", _, f):
                return all(at(f, i) for i in steps)
            case ("U", _, f, g):
                return any(at(g, i) and all(at(f, j) for j in range(i)) for i in steps)
            case ("M", _, f, g):
                return any(at(f, i) and all(at(g, j) for j in range(i + 1)) for i in steps)
            case ("R", *_, f, g):
                return all(at(g, i) or any(at(f, j) for j in range(i)) for i in steps)
            case ("W", *_, f, g):
                return all(
                    at(f, i) or at(g, i) or any(at(g, j) or not at(f, j) for j in range(i))
                    for i in steps
                )
        raise ValueError(formula)


def written(formula):
    """Return a formula in PRISM's syntax, with parentheses around every operand."""
    match formula:
        case ("true",) | ("false",):
            return formula[0]
        case ("label", name):
            return f'"{name}"'
        case ("atom", name, comparison, number):
            return f"{name} {comparison} {number}"
        case ("compare", left, comparison, right):
            return f"{_expression(left)} {comparison} {_expression(right)}"
        case ("P" | "S" as operator, comparison, bound, inner):
            return f"{operator}{comparison}{float(bound)} [ {written(inner)} ]"
        case ("forall" | "exists" as name, f, g):
            return f"filter({name}, {written(f)}, {written(g)})"
        case ("?", f, g, h):
            return f"({written(f)}) ? ({written(g)}) : ({written(h)})"
        case ("E" | "A", f):
            return f"{formula[0]} [ {written(f)} ]"
        case ("!" | "X", f):
            return f"{formula[0]} ({written(f)})"
        case ("F" | "G", n, f):
            return f"{formula[0]}{written_bound(n)} ({written(f)})"
        case ("U" | "W" | "R" | "M" as name, n, f, g):
            return f"({written(f)}) {name}{written_bound(n)} ({written(g)})"
        case (name, f, g):
            return f"({written(f)}) {name} ({written(g)})"


def written_bound(n):
    """Return a bound in one of the notations of PRISM; ">" and ">=" take turns."""
    match n:
        case None:
            return ""
        case first, None:
            return f">={first}" if first % 2 else f">{first - 1}" if first else ">=0"
        case first, last if first == last:
            return f"={first}" if first % 2 else f"[{first},{first}]"
        case 0, last:
            return f"<{last + 1}"
        case first, last:
            return f"[{first},{last}]"
    return f"<={n}"


def names(formula):
    """Return the set of variables of a comparison."""
    match formula:
        case ("atom", name, _, _):
            return {name}
        case ("compare", left, _, right):
            return {*_names(left), *_names(right)}


def _names(expression):
    match expression:
        case (_, *parts):
            return {name: None for part in parts for name in _names(part)}
        case str():
            return {expression: None}
    return {}


def _number(expression, values):
    match expression:
        case ("+", left, right):
            return _number(left, values) + _number(right, values)
        case ("-", left, right):
            return _number(left, values) - _number(right, values)
        case ("*", left, right):
            return _number(left, values) * _number(right, values)
        case ("/", left, right):
            return Fraction(_number(left, values)) / _number(right, values)
        case ("min" | "max" as name, left, right):
            function = {"min": min, "max": max}[name]
            return function(_number(left, values), _number(right, values))
        case ("mod", left, right):
            # Python's remainder of a positive divisor is never negative
            return _number(left, values) % _number(right, values)
        case ("floor" | "ceil" | "round" as name, inner):
            number = Fraction(_number(inner, values))
            half = Fraction(1, 2)
            return {"floor": math.floor, "ceil": math.ceil}.get(
                name, lambda x: math.floor(x + half)
            )(number)
        case str():
            return values[expression]
    return expression


def _expression(expression):
    match expression:
        case ("min" | "max" | "mod" as name, left, right):
            return f"{name}({_expression(left)}, {_expression(right)})"
        case (operator, left, right):
            return f"({_expression(left)} {operator} {_expression(right)})"
        case (name, inner):
            return f"{name}({_expression(inner)})"
    return str(expression)


def _compare(left, comparison, right):
    return {
        "=": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[comparison]


def formulas(names, *, most=2, nested=True):
    """Generate path formulas over step and the named quantifiers, and `nested` P, E and A in them.

    No threshold but 0 and 1 is a sum of 64ths' powers, so that float64 rounding flips none.
    """
    bounds = st.none() | st.integers(0, 4)
    thresholds = st.integers(1, 7).map(lambda n: Fraction(n * 13, 100)) | st.sampled_from(
        [Fraction(0), Fraction(1)]
    )
    atoms = st.tuples(
        st.just("atom"),
        st.sampled_from(["step", *names]),
        st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
        st.integers(-most, most + 1),
    )
    leaves = st.one_of(
        atoms,
        atoms,
        st.sampled_from([("true",), ("false",), ("label", "rest"), ("label", "end")]),
    )

    def larger(inner):
        probability = st.tuples(
            st.just("P"), st.sampled_from([">=", ">", "<=", "<"]), thresholds, inner
        )
        return st.one_of(
            *([probability, st.tuples(st.sampled_from("EA"), inner)] if nested else []),
            st.tuples(st.sampled_from(["!", "X"]), inner),
            st.tuples(st.sampled_from(["F", "G"]), bounds, inner),
            st.tuples(st.sampled_from(["&", "|", "=>", "W", "R"]), inner, inner),
            st.tuples(st.just("U"), bounds, inner, inner),
        )

    return st.recursive(leaves, larger, max_leaves=4)


def state_formulas(names, *, most=2):
    """Generate boolean combinations of P, E and A over path formulas."""
    path = formulas(names, most=most)
    threshold = st.integers(1, 7).map(lambda n: Fraction(n * 13, 100))
    leaves = st.one_of(
        st.tuples(st.sampled_from("EA"), path),
        st.tuples(st.just("P"), st.sampled_from([">=", ">", "<=", "<"]), threshold, path),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(st.just("!"), inner),
            st.tuples(st.sampled_from(["&", "|", "=>"]), inner, inner),
        ),
        max_leaves=3,
    )
