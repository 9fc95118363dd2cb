"""The model checker Storm: the only module that imports stormpy.

A process reaches Storm as a matrix, built in linear time. Storm solves reachability in the
topological order of the states. The only cycles are loops of single states, so every value is one
sum and exact up to float64 rounding. Storm's usual iteration would stop at an error of 1e-6.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import stormpy
from stormpy.developer.info import StormVersion

import llmchecker
from llmchecker.checking.markov.jani import format_jani_atom
from llmchecker.checking.markov.prism import format_prism_atom
from llmchecker.checking.markov.sparse_matrix import TransitionMatrix
from llmchecker.errors import CheckFailed, InvalidQuery
from llmchecker.properties.logic.ast import (
    Atom,
    Conditional,
    Expectation,
    Literal,
    Probability,
    subformulas,
)
from llmchecker.properties.logic.query import Query
from llmchecker.utils.atomic_files import compute_sha256

# Storm also prints the errors that it raises, into the output of the program that imports it.
stormpy.developer.set_log_level(stormpy.developer.LogLevel.OFF)

_CHUNK_ENTRIES = 1 << 16
"""The number of matrix entries in one call of stormpy."""
_NO_REWARDS: Mapping[str, np.ndarray] = {}
_MAX_EXACT_INTEGER = 2**53
"""The largest integer up to which float64 represents every integer."""
_MAX_SCORE = 2**31
"""The assumed largest absolute value of a variable in PRISM or JANI."""
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
        value: a number, or whether the query holds; None of a conditional without a value.
        states, transitions: the numbers of states and transitions of the model that Storm built.
    """

    value: float | bool | None
    states: int
    transitions: int


def check_prism(path: str | Path, query: Query) -> FileAnswer:
    """Check a query on a file of `write_prism`, through Storm's own front end.

    The time grows with the square of the states.

    Raises:
        InvalidQuery: Storm rejects the query, would round one of its numbers to another, or fails.
        CheckFailed: Storm rejects the program.
    """
    with translate_errors(CheckFailed, f"does not read {path} to answer the query {query.text}"):
        program = stormpy.parse_prism_program(str(path))
    return _check_program(program, query, format_prism_atom)


def check_jani(path: str | Path, query: Query) -> FileAnswer:
    """Check a query on a file of `write_jani`, through Storm's own front end.

    The function raises the same errors as `check_prism`.
    """
    with translate_errors(CheckFailed, f"does not read {path} to answer the query {query.text}"):
        model = _parse_jani(str(path), compute_sha256(path))
    return _check_program(model, query, format_jani_atom)


# of a chain with 170,000 states parsing takes as long as building; its queries are adjacent
@lru_cache(maxsize=1)
def _parse_jani(path: str, checksum: str) -> stormpy.io.JaniModel:
    model, _ = stormpy.parse_jani_model(path)
    return model


def _check_program(
    program: stormpy.io.PrismProgram | stormpy.io.JaniModel,
    query: Query,
    format_atom: Callable[[Atom | Literal], str],
) -> FileAnswer:
    _check_exact_numbers(query)
    with translate_errors(InvalidQuery, f"does not read the query {query.text}"):
        properties = stormpy.parse_properties(query.format_for_storm(format_atom), program)
    with translate_errors(CheckFailed, f"does not build a model to answer the query {query.text}"):
        # built before the steps are capped, since the cap is the depth of this model
        model = stormpy.build_model(program, properties)
    # Storm computes every step up to a bound, even after all paths have reached their final loop
    properties = stormpy.parse_properties(
        query.cap_step_bounds(_compute_depth(model)).format_for_storm(format_atom), program
    )
    with translate_errors(
        InvalidQuery, f"does not answer the query {query.text} on a model of its own"
    ):
        return FileAnswer(
            _check_start_state(model, properties, query), model.nr_states, model.nr_transitions
        )


def _compute_depth(model: Model) -> int:
    """Return the number of steps after which every path is in its final loop."""
    matrix, (start,) = model.transition_matrix, model.initial_states
    steps, level, visited = 0, {start}, {start}
    while level := {entry.column for state in level for entry in matrix.get_row(state)} - visited:
        steps += 1
        visited |= level
    return steps


def _check_exact_numbers(query: Query) -> None:
    """Check that Storm's front end reads every number exactly, in float64.

    Raises:
        InvalidQuery: the front end would round a number to another.
    """
    for atom in query.atoms:
        # the range of a variable is not known here, so the largest score is assumed
        magnitudes = {name: np.array([_MAX_SCORE]) for name in atom.variables}
        if atom.compute_max_magnitude(magnitudes) > _MAX_EXACT_INTEGER:
            raise InvalidQuery(
                f"{query.text}: Storm's front end may round numbers of {atom}, which may exceed "
                f"{_MAX_EXACT_INTEGER}"
            )
    for formula in subformulas(query.root):
        threshold = formula.threshold if isinstance(formula, Probability) else None
        # 0 and 1 are decided on the graph, so a threshold rounded to them changes the answer
        if threshold is not None and float(threshold) in (0, 1) and threshold not in (0, 1):
            raise InvalidQuery(
                f"{query.text}: Storm's front end would round the threshold {threshold} to "
                f"{float(threshold):.0f}"
            )


def compute_values(model: Model, formula: str, states: np.ndarray) -> np.ndarray:
    """Compute (m,) float64: the number that a formula requests in each given state.

    Args:
        states: (m,) int64.

    Raises:
        RuntimeError: Storm gave no answer; see `translate_errors`.
    """
    result = _run_storm(model, formula)
    return np.fromiter(map(result.get_value, states.tolist()), np.float64, len(states))


def compute_truth_values(model: Model, formula: str, states: np.ndarray) -> np.ndarray:
    """Return (m,) bool: whether a formula holds in each of the given states.

    P>0, P<=0, P<1 and P>=1 of reaching a label are decided on the graph alone.

    Args:
        states: (m,) int64.

    Raises:
        RuntimeError: Storm gave no answer; see `translate_errors`.
    """
    # read state by state: iterating over a whole result takes quadratic time
    truth_values = _run_storm(model, formula).get_truth_values_vector()
    return np.fromiter(map(truth_values.get, states.tolist()), bool, len(states))


def _run_storm(model: Model, text: str) -> Any:
    return stormpy.model_checking(model, _parse_property(text), environment=_build_environment())


# parsing takes longer than an answer on a small model, and few formulas differ
@lru_cache(maxsize=64)
def _parse_property(text: str) -> stormpy.logic.Property:
    (property_,) = stormpy.parse_properties(text)
    return property_


def build_model(
    transitions: TransitionMatrix,
    labels: Mapping[str, np.ndarray],
    rewards: Mapping[str, np.ndarray] = _NO_REWARDS,
) -> Model:
    """Build Storm's model: a DTMC with one choice in each state, else an MDP.

    Args:
        transitions: matrix of n states.
        labels: (n,) bool by name.
        rewards: (n,) float by name.
    """
    n = len(transitions)
    # a choice is a row: with one row for each state, Storm needs no groups of rows
    if np.all(transitions.choice_counts == 1):
        entries = stormpy.datastructures.SparseMatrixBuilder[float](
            rows=n, columns=n, entries=len(transitions.columns)
        )
        for chunk in _iter_chunks(len(transitions.columns)):
            entries.add_next_values(*_convert_to_lists(transitions, chunk))
        return stormpy.models.SparseDtmc[float](_build_components(entries, n, labels, rewards))
    entries = stormpy.datastructures.SparseMatrixBuilder[float](
        columns=n, entries=len(transitions.columns), has_custom_row_grouping=True, row_groups=n
    )
    all_entries = slice(None)
    entries.add_next_values(
        *_convert_to_lists(transitions, all_entries), transitions.row_groups.tolist()
    )
    return stormpy.models.SparseMdp[float](_build_components(entries, n, labels, rewards))


def _convert_to_lists(
    transitions: TransitionMatrix, chunk: slice
) -> tuple[list[int], list[int], list[float]]:
    columns = transitions.rows, transitions.columns, transitions.values
    rows, columns, values = (column[chunk].tolist() for column in columns)
    return rows, columns, values


def _iter_chunks(n: int) -> Iterator[slice]:
    """Yield slices of n entries, in chunks that fit into the cache.

    stormpy takes lists, and is twice as fast then.
    """
    return (slice(first, first + _CHUNK_ENTRIES) for first in range(0, n, _CHUNK_ENTRIES))


def _build_components(
    entries: stormpy.datastructures.SparseMatrixBuilder,
    n: int,
    labels: Mapping[str, np.ndarray],
    rewards: Mapping[str, np.ndarray],
) -> stormpy.models.SparseModelComponents:
    labeling = stormpy.models.StateLabeling(n)
    labeling.add_label("init")
    # state 0 is the start of every process
    labeling.add_label_to_state("init", 0)
    for name, states in labels.items():
        members = np.flatnonzero(states).tolist()
        labeling.add_label(name)
        labeling.set_states(name, stormpy.datastructures.BitVector(len(states), members))
    components = stormpy.models.SparseModelComponents[float](
        transition_matrix=entries.build(), state_labeling=labeling
    )
    components.reward_models = {
        name: stormpy.models.SparseRewardModel[float](optional_state_reward_vector=column.tolist())
        for name, column in rewards.items()
    }
    return components


def _build_environment() -> stormpy.environments.Environment:
    environment = stormpy.environments.sound()
    solver = environment.solver()
    # the only cycles are loops of single states, so this order solves each state once
    solver.set_linear_equation_solver_type(stormpy.environments.EquationSolverType.TOPOLOGICAL)
    solver.min_max().method = stormpy.environments.MinMaxMethod.TOPOLOGICAL
    return environment


def _check_start_state(
    model: Model, properties: Sequence[stormpy.logic.Property], query: Query
) -> float | bool | None:
    """Return the answer in the start state.

    The answer is None if the condition of a conditional has probability 0.
    """
    (start,) = model.initial_states
    if isinstance(query.root, Expectation):
        rewards = model.reward_models[query.root.quantifier]
        if not rewards.has_state_rewards:
            # Storm rejects a JANI model without rewards, as when all scores are 0
            return 0.0
    results = [
        stormpy.model_checking(
            model, property_, only_initial_states=True, environment=_build_environment()
        )
        for property_ in properties
    ]
    if not query.is_numeric:
        return bool(results[0][start])
    if not isinstance(query.root, Conditional):
        value: float = results[0].get_value(start)
        return value
    # the front end gets a conditional as two questions, numerator first
    joint, condition = (float(result.get_value(start)) for result in results)
    # a condition of probability 0 leaves the conditional undefined
    if condition == 0:
        return None
    # Storm subtracts probabilities of G from 1, so that rounding may make the quotient exceed 1
    return min(joint / condition, 1.0)


@contextmanager
def translate_errors(error_type: type[Exception], problem: str) -> Iterator[None]:
    """Turn an exception of Storm into the given type.

    Its message names the problem.
    """
    try:
        yield
    except (RuntimeError, stormpy.exceptions.StormError) as error:
        # `problem` names the query or the file
        raise error_type(f"Storm {problem}: {error}") from error
