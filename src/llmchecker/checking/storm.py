"""Storm, the model checker: the only module that imports stormpy.

A process reaches Storm as a matrix, built in linear time. Storm solves reachability in the
topological order of the states. The only cycles are loops of single states, so every value is one
sum and exact up to float64 rounding. Storm's usual iteration would stop at an error of 1e-6.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import stormpy
from stormpy.developer.info import StormVersion

import llmchecker
from llmchecker.chains.jani import in_jani
from llmchecker.chains.prism import in_prism
from llmchecker.chains.transitions import Transitions
from llmchecker.errors import CheckFailed, InvalidQuery
from llmchecker.queries.formulas import (
    Atom,
    Conditional,
    Expectation,
    Literal,
    Probability,
    subformulas,
)
from llmchecker.queries.query import Query

# Storm also prints the errors that it raises, into the output of whatever program uses it.
stormpy.developer.set_log_level(stormpy.developer.LogLevel.OFF)

PART = 1 << 16
"""The number of matrix entries that are handed to Storm at once."""
NO_REWARDS: Mapping[str, np.ndarray] = {}
MOST_EXACT = 2**53
"""float64 has every whole number up to this one."""
LARGEST_SCORE = 2**31
"""No variable of a PRISM program or JANI model is assumed to exceed this in absolute value."""
Model = Any
"""A DTMC or an MDP in Storm's memory."""

VERSIONS = {
    "storm": f"{StormVersion.version_major}.{StormVersion.version_minor}"
    f".{StormVersion.version_patch}",
    "stormpy": stormpy.__version__,
    "llmchecker": llmchecker.__version__,
}


@dataclass(frozen=True)
class FileAnswer:
    """Storm's answer to a query on a file that its own front end reads.

    Attributes:
        value: a number, or whether the query holds.
        states, transitions: the size of the model that Storm built.
    """

    value: float | bool
    states: int
    transitions: int


def check_prism(path: str | Path, query: Query) -> FileAnswer:
    """Ask Storm a query on a program that `write_prism` wrote, through Storm's own front end.

    The time grows with the square of the states.

    Raises:
        InvalidQuery: Storm does not read the query, would take one of its numbers for another, or
            fails.
        CheckFailed: Storm does not read the program, or the query has no answer.
    """
    with reported(CheckFailed, f"does not read {path} to answer the query {query.text}"):
        program = stormpy.parse_prism_program(str(path))
    return _check_program(program, query, in_prism)


def check_jani(path: str | Path, query: Query) -> FileAnswer:
    """Ask Storm a query on a model that `write_jani` wrote, through Storm's own front end.

    Errors are those of `check_prism`.
    """
    with reported(CheckFailed, f"does not read {path} to answer the query {query.text}"):
        model, _ = stormpy.parse_jani_model(str(path))
    return _check_program(model, query, in_jani)


def _check_program(
    program: stormpy.io.PrismProgram | stormpy.io.JaniModel,
    query: Query,
    naming: Callable[[Atom | Literal], str],
) -> FileAnswer:
    _require_exact(query)
    with reported(InvalidQuery, f"does not read the query {query.text}"):
        questions = stormpy.parse_properties(query.formula(naming), program)
    with reported(CheckFailed, f"does not build a model to answer the query {query.text}"):
        model = stormpy.build_model(program, questions)
    # Storm takes as many steps as a bound says, even where nothing happens any more
    questions = stormpy.parse_properties(query.within(_depth(model)).formula(naming), program)
    with reported(InvalidQuery, f"does not answer the query {query.text} on a model of its own"):
        return FileAnswer(_value(model, questions, query), model.nr_states, model.nr_transitions)


def _depth(model: Model) -> int:
    """The number of steps within which every path of a tree comes to a loop of one state."""
    matrix, (start,) = model.transition_matrix, model.initial_states
    steps, level, seen = 0, {start}, {start}
    while level := {e.column for state in level for e in matrix.get_row(state)} - seen:
        steps += 1
        seen |= level
    return steps


def _require_exact(query: Query) -> None:
    """Check that Storm's front end, which computes in float64, reads every number exactly.

    Raises:
        InvalidQuery: it would take some number for another.
    """
    for atom in query.atoms:
        sizes = {name: np.array([LARGEST_SCORE]) for name in atom.variables}
        if atom.largest(sizes) > MOST_EXACT:
            raise InvalidQuery(
                f"Storm's front end is not asked {query.text}: in {atom} numbers may be larger "
                f"than {MOST_EXACT}, beyond which float64 lacks some whole numbers"
            )
    for formula in subformulas(query.root):
        threshold = formula.threshold if isinstance(formula, Probability) else None
        if threshold is not None and float(threshold) in (0, 1) and threshold not in (0, 1):
            raise InvalidQuery(
                f"Storm's front end is not asked {query.text}: it would take the threshold "
                f"{threshold} for {float(threshold):.0f}"
            )


def values(model: Model, formula: str) -> np.ndarray:
    """(n,) float64: the answer in each state to a formula that asks for a number.

    Raises:
        RuntimeError: Storm gave no answer; see `reported`.
    """
    return np.array(_answer(model, formula).get_value_vector())


def truths(model: Model, formula: str, states: np.ndarray) -> np.ndarray:
    """(m,) bool: whether a formula holds in each of some states.

    P>0, P<=0, P<1 and P>=1 of reaching a label are decided on the graph alone.

    Args:
        states: (m,) int64.

    Raises:
        RuntimeError: Storm gave no answer; see `reported`.
    """
    # read state by state: to iterate over all of a result takes time that grows with their square
    holds = _answer(model, formula).get_truth_values_vector()
    return np.fromiter(map(holds.get, states.tolist()), bool, len(states))


def _answer(model: Model, text: str) -> object:
    (question,) = stormpy.parse_properties(text)
    return stormpy.model_checking(model, question, environment=_environment())


def model(
    transitions: Transitions,
    labels: Mapping[str, np.ndarray],
    rewards: Mapping[str, np.ndarray] = NO_REWARDS,
) -> Model:
    """Return Storm's model: a DTMC if every state has one choice, and an MDP otherwise.

    Args:
        transitions: of n states.
        labels: (n,) bool by name.
        rewards: (n,) float by name.
    """
    n = len(transitions)
    if np.all(transitions.choices == 1):
        entries = stormpy.datastructures.SparseMatrixBuilder[float](
            rows=n, columns=n, entries=len(transitions.columns)
        )
        for part in _parts(len(transitions.columns)):
            entries.add_next_values(*_lists(transitions, part))
        return stormpy.models.SparseDtmc[float](_components(entries, n, labels, rewards))
    entries = stormpy.datastructures.SparseMatrixBuilder[float](
        columns=n, entries=len(transitions.columns), has_custom_row_grouping=True, row_groups=n
    )
    whole = slice(None)
    entries.add_next_values(*_lists(transitions, whole), transitions.groups.tolist())
    return stormpy.models.SparseMdp[float](_components(entries, n, labels, rewards))


def _lists(transitions: Transitions, part: slice) -> tuple[list[int], list[int], list[float]]:
    columns = transitions.rows, transitions.columns, transitions.values
    rows, columns, values = (column[part].tolist() for column in columns)
    return rows, columns, values


def _parts(n: int) -> Iterator[slice]:
    """Slices of n entries. stormpy takes lists, and is twice as fast if they fit into the cache."""
    return (slice(first, first + PART) for first in range(0, n, PART))


def _components(
    entries: stormpy.datastructures.SparseMatrixBuilder,
    n: int,
    labels: Mapping[str, np.ndarray],
    rewards: Mapping[str, np.ndarray],
) -> stormpy.models.SparseModelComponents:
    labeling = stormpy.models.StateLabeling(n)
    labeling.add_label("init")
    labeling.add_label_to_state("init", 0)
    for name, states in labels.items():
        _add_label(labeling, name, states)
    components = stormpy.models.SparseModelComponents[float](
        transition_matrix=entries.build(), state_labeling=labeling
    )
    components.reward_models = {
        name: stormpy.models.SparseRewardModel[float](optional_state_reward_vector=column.tolist())
        for name, column in rewards.items()
    }
    return components


def _add_label(labeling: stormpy.models.StateLabeling, name: str, states: np.ndarray) -> None:
    members = np.flatnonzero(states).tolist()
    labeling.add_label(name)
    labeling.set_states(name, stormpy.datastructures.BitVector(len(states), members))


def _environment() -> stormpy.environments.Environment:
    environment = stormpy.environments.sound()
    solver = environment.solver()
    solver.set_linear_equation_solver_type(stormpy.environments.EquationSolverType.TOPOLOGICAL)
    solver.min_max().method = stormpy.environments.MinMaxMethod.TOPOLOGICAL
    return environment


def _value(model: Model, questions: Sequence[stormpy.logic.Property], query: Query) -> float | bool:
    (start,) = model.initial_states
    if isinstance(query.root, Expectation):
        rewards = model.reward_models[query.root.quantifier]
        if not rewards.has_state_rewards:
            # a JANI model whose scores are all 0 defines no rewards, which Storm refuses to add up
            return 0.0
    results = [
        stormpy.model_checking(
            model, question, only_initial_states=True, environment=_environment()
        )
        for question in questions
    ]
    if not query.numeric:
        return bool(results[0][start])
    if not isinstance(query.root, Conditional):
        return results[0].get_value(start)
    both, given = (result.get_value(start) for result in results)
    if given == 0:
        problem = "what stands behind || has probability 0 in the bounded process"
        raise CheckFailed(f"the query {query.text} has no answer: {problem}")
    # Storm subtracts probabilities of G from 1, so that rounding may make the quotient exceed 1
    return min(both / given, 1.0)


@contextmanager
def reported(kind: type[Exception], what: str) -> Iterator[None]:
    """Turn an exception of Storm into one of the given kind whose message says what failed."""
    try:
        yield
    except (RuntimeError, stormpy.exceptions.StormError) as error:
        raise kind(f"Storm {what}: {error}") from error
