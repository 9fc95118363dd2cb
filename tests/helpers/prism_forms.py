"""Random queries with the forms of PRISM's manual, made from those of `random_queries`."""

import random
from dataclasses import replace

from helpers import oracle
from helpers.random_queries import NAMES, Case, random_case

_BOUNDED = ("F", "G", "U", "W", "R", "M")


def random_prism_case(seed: int) -> Case:
    """Return the case of a seed, with other forms in its query.

    The kinds are those of `Case`, and `long run` for S=?, `sum` and `last` for sums of scores and
    for the last score.
    """
    chance = random.Random(-seed - 1)
    case = random_case(seed)
    match case.kind:
        case "expected":
            return _rewrite_score(chance, case)
        case "conditional":
            one, other = (_rewrite(chance, formula) for formula in case.question)
            query = f"P=? [ {oracle.written(one)} || {oracle.written(other)} ]"
            return replace(case, question=(one, other), query=query)
        case "path" if chance.random() < 0.2:
            state = _state(chance)
            query = f"S=? [ {oracle.written(state)} ]"
            return replace(case, kind="long run", question=state, query=query)
        case "path":
            path = _rewrite(chance, case.question)
            query = f"P=? [ {oracle.written(path)} ]"
            if chance.random() < 0.2:
                name = chance.choice(("state", "first", "min", "max", "avg", "sum", "+"))
                query = f'filter({name}, {query}, "init")'
            return replace(case, question=path, query=query)
    formula = _rewrite(chance, case.question)
    if chance.random() < 0.3:
        name = chance.choice(("forall", "exists"))
        inner = chance.choice((formula, _state(chance)))
        formula = (name, inner, chance.choice((("true",), _state(chance))))
    return replace(case, question=formula, query=oracle.written(formula))


def _rewrite_score(chance: random.Random, case: Case) -> Case:
    name, step = case.question
    length = case.whole.truncation.length
    if chance.random() < 0.5:
        query = f'R{{"{name}"}}=? [ S ]'
        return replace(case, kind="last", question=(name, length), query=query)
    query = f'R{{"{name}"}}=? [ C<={step} ]'
    return replace(case, kind="sum", question=(name, step), query=query)


def _rewrite(chance: random.Random, formula: object) -> tuple:
    """Return a formula with other operators and bounds in the place of some of its own."""
    if not isinstance(formula, tuple):
        return formula
    if formula[0] in ("atom", "compare"):
        return _comparison(chance) if chance.random() < 0.4 else formula
    formula = tuple(_rewrite(chance, part) for part in formula)
    match formula:
        case ("U", n, f, g):
            return (chance.choice("UUM"), _bound(chance, n), f, g)
        case ("W" | "R" | "M" as name, f, g):
            return (name, _bound(chance, None), f, g)
        case ("F" | "G" as name, n, f):
            return (name, _bound(chance, n), f)
        case ("&" | "|" | "=>", f, g) if chance.random() < 0.3:
            return ("<=>", f, g) if chance.random() < 0.5 else ("?", f, g, _state(chance))
        case ("P", comparison, number, _) if chance.random() < 0.2:
            return ("S", comparison, number, _state(chance))
    return formula


def _bound(chance: random.Random, n: int | None) -> int | tuple[int, int | None] | None:
    draw = chance.random()
    if draw < 0.3:
        return n
    first = chance.choice((0, 1, 1, 2, 3, 5))
    return (first, None if draw < 0.5 else first + chance.choice((0, 0, 1, 2, 40)))


def _state(chance: random.Random) -> tuple:
    draw = chance.random()
    if draw < 0.2:
        return ("label", "end")
    if draw < 0.4:
        return (chance.choice(("<=>", "&")), _state(chance), _comparison(chance))
    return _comparison(chance)


def _comparison(chance: random.Random) -> tuple:
    comparison = chance.choice(("=", "!=", "<", "<=", ">", ">="))
    return ("compare", _expression(chance, 2), comparison, _expression(chance, 1))


def _expression(chance: random.Random, depth: int) -> object:
    if depth == 0 or chance.random() < 0.2:
        return chance.choice((*NAMES, *NAMES, "step", 0, 1, 2))
    inner = _expression(chance, depth - 1)
    divisor = chance.choice((1, 2, 3, 4))
    match chance.choice(("min", "max", "mod", "floor", "ceil", "round", "/", "+", "-", "*")):
        case "mod":
            return ("mod", chance.choice((*NAMES, "step", ("-", "step", NAMES[0]))), divisor)
        case "floor" | "ceil" | "round" as name:
            return (name, ("/", inner, divisor))
        case "/":
            return ("/", inner, chance.choice((divisor, -divisor)))
        case name:
            return (name, inner, _expression(chance, depth - 1))
