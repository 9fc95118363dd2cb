"""Generated queries in the forms of PRISM, as Storm's own parser reads them from the same text."""

from fractions import Fraction
from pathlib import Path

import pytest
import stormpy
from helpers import oracle
from helpers.prism_forms import random_prism_case
from helpers.random_queries import Case

from llmchecker.checking.bounded_value import check_chain
from llmchecker.checking.markov.jani import write_jani
from llmchecker.checking.markov.prism import write_prism
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.checking.storm import check_jani, check_prism
from llmchecker.errors import InvalidQuery
from llmchecker.properties.logic.parser import parse
from llmchecker.trees.text_tree import StateKind

PART = 100
KNOWN = f"kind != {StateKind.REST.value}"


class Unsupported(Exception):
    """A form that Storm's parser or model checker lacks."""


def write_for_storm(formula: tuple) -> str:
    """Write a formula as a user of Storm would, where Storm has all of its forms."""
    match formula:
        case ("true",) | ("false",) | ("label", "end"):
            return oracle.written(formula)
        case ("atom" | "compare", *_):
            # mod(-1, 1) is 1 in Storm 2.0, and 0 in PRISM
            if "mod" in oracle.written(formula):
                raise Unsupported
            known = "" if oracle.names(formula) <= {"step"} else f"{KNOWN} & "
            return f"({known}{oracle.written(formula)})"
        case ("!" | "X" as name, f):
            return f"{name} ({write_for_storm(f)})"
        case ("&" | "|" as name, f, g):
            return f"({write_for_storm(f)}) {name} ({write_for_storm(g)})"
        case ("F", n, f):
            return f"F{write_bound(n)} ({write_for_storm(f)})"
        case ("G", None, f):
            return f"G ({write_for_storm(f)})"
        # Storm 2.0 does not ask φ of the states before the lower bound of `φ U[a,b] ψ`
        case ("U", n, f, g) if n is None or isinstance(n, int):
            return f"({write_for_storm(f)}) U{write_bound(n)} ({write_for_storm(g)})"
        case ("P" | "S" as name, comparison, number, f):
            # Storm adds up the probabilities of bounded formulas, so that 0 and 1 are rounded
            if number in (0, 1):
                raise Unsupported
            return f"{name}{comparison}{float(number)} [ {write_for_storm(f)} ]"
    raise Unsupported


def write_bound(n: int | tuple[int, int | None] | None) -> str:
    if isinstance(n, tuple) and n[1] is None:
        raise Unsupported
    return oracle.written_bound(n)


def write_case(case: Case) -> str:
    match case.kind:
        case "path":
            return f"P=? [ {write_for_storm(case.question)} ]"
        case "state":
            return write_for_storm(case.question)
        case "long run":
            return f"S=? [ {write_for_storm(case.question)} ]"
        case "sum" | "last":
            return case.query
    raise Unsupported


def is_near_threshold(tree: oracle.Tree, formula: object) -> bool:
    if not isinstance(formula, tuple):
        return False
    if formula[0] in ("P", "S"):
        compute = tree.probability_of if formula[0] == "P" else tree.long_run
        states = range(len(tree.kind))
        if any(abs(compute(formula[3], s) - formula[2]) < Fraction(1, 10**6) for s in states):
            return True
    return any(is_near_threshold(tree, part) for part in formula)


def ask_storm(path: str, query: str) -> float | bool:
    program = stormpy.parse_prism_program(path)
    properties = stormpy.parse_properties(query, program)
    model = stormpy.build_model(program, properties)
    result = stormpy.model_checking(model, properties[0], only_initial_states=True)
    (start,) = model.initial_states
    return result[start] if isinstance(result[start], bool) else result.get_value(start)


def is_open(case: Case) -> bool:
    """Whether rounding may decide a threshold of the case."""
    columns = {"step": case.cut.step.tolist()} | {
        name: column.tolist() for name, column in case.cut_scores.items()
    }
    tree = oracle.Tree(case.cut.parent, case.cut.probability, case.cut.kind, columns, read=str)
    return is_near_threshold(tree, case.question)


def compare(seed: int, path: str) -> bool:
    """Compare the value of a case by Storm's parser and by the package; False if Storm lacks it."""
    case = random_prism_case(seed)
    try:
        native = write_case(case)
    except Unsupported:
        return False
    chain = ScoredTree(case.cut, case.cut_scores)
    if is_open(case):
        return False
    value = check_chain(chain, parse(case.query)).bounded
    write_prism(chain, path)
    try:
        found = ask_storm(path, native)
    except (RuntimeError, stormpy.exceptions.StormError):
        return False
    assert value == pytest.approx(found, abs=1e-9), f"seed {seed}: {case.query}: {native}"
    return True


@pytest.mark.few(1)
@pytest.mark.parametrize("first", range(0, 1000, PART))
def test_generated_queries_have_the_value_of_storms_own_parser(first, tmp_path):
    """Bounds, functions, long runs and sums have the value that Storm gives their own notation."""
    path = str(tmp_path / "tree.prism")
    compared = sum(compare(seed, path) for seed in range(first, first + PART))
    # of so few cases, the share that Storm has scatters around a quarter
    assert compared > PART / 8


def cross_check(seed: int, folder: Path) -> bool:
    """Compare value and sizes of a case by Storm's front ends; False if a number is too large."""
    case = random_prism_case(seed)
    query, chain = parse(case.query), ScoredTree(case.cut, case.cut_scores)
    found = check_chain(chain, query)
    sizes = found.costs.states_explored, found.costs.transitions_explored
    for write, check in ((write_prism, check_prism), (write_jani, check_jani)):
        write(chain, folder / "tree")
        try:
            answer = check(folder / "tree", query)
        except InvalidQuery as error:
            if "may round numbers" not in str(error):
                raise
            return False
        assert (answer.states, answer.transitions) == sizes
        assert answer.value is None or found.bounded == pytest.approx(answer.value, abs=1e-9)
    return True


@pytest.mark.few(1)
@pytest.mark.parametrize("first", range(0, 300, PART))
def test_generated_queries_are_the_same_on_exported_files(first, tmp_path):
    """Storm explores as many states of PRISM and JANI files as predicted, with the same values."""
    compared = 0
    for seed in range(first, first + PART):
        case = random_prism_case(seed)
        if not is_open(case):
            compared += cross_check(seed, tmp_path)
    assert compared > PART / 2
