"""Storm, the model checker: the only module that imports stormpy.

A chain reaches Storm as a matrix, built in linear time. Reachability is solved along the
topological order of the chain: a tree has no cycle but the loops of its leaves, so every value is
one sum and exact up to float64 rounding, where Storm's usual iteration would stop at 1e-6.
A threshold P>=p is compared with that float64; P>=1 and P>0 are decided on the graph alone.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import stormpy
from stormpy.developer.info import StormVersion

import llmchecker
from llmchecker.chains.chaos import DecisionProcess
from llmchecker.chains.jani import in_jani
from llmchecker.chains.markov_chain import MarkovChain
from llmchecker.chains.prism import in_prism
from llmchecker.checking.verdicts import Verdict
from llmchecker.errors import CheckFailed, InvalidQuery
from llmchecker.queries.formulas import Atom, Conditional, Expectation, Literal
from llmchecker.queries.query import Query

# Storm prints its errors besides raising them, into output that is not its own.
stormpy.developer.set_log_level(stormpy.developer.LogLevel.OFF)

PART = 1 << 16
"""Entries of a matrix that are handed to Storm at once."""
NO_REWARDS: Mapping[str, np.ndarray] = {}
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
    """What Storm says to a query on a program of its own: the value, and the size that it built."""

    value: float | bool
    states: int
    transitions: int


def check_chain(chain: MarkovChain, query: Query, encode_seconds: float = 0.0) -> Verdict:
    """Ask Storm a query on a chain, and measure.

    Raises:
        UnknownName: the query names a variable that the chain does not have.
        InvalidQuery: Storm does not read the query.
        CheckFailed: Storm gave no answer.
    """
    full = chain.explored(np.zeros(len(chain), dtype=bool))
    explored = chain.explored(chain.satisfying(query.decided))
    began = time.perf_counter()
    # Literals too: in a matrix, which has no variables, Storm takes `!true` for an unknown label.
    labels = {p: f"a{i}" for i, p in enumerate((*query.atoms, *query.literals))}
    formula = query.formula(lambda proposition: f'"{labels[proposition]}"')
    with reported(InvalidQuery, f"does not read the query {query.text}"):
        questions = stormpy.parse_properties(formula)
    marks = {name: chain.satisfying(proposition) for proposition, name in labels.items()}
    rewards = {}
    if isinstance(query.root, Expectation):
        rewards = {query.root.quantifier: chain.scores(query.root.quantifier)}
    with reported(CheckFailed, f"cannot answer the query {query.text}"):
        model = dtmc(chain, marks | {"rest": chain.rest, "end": chain.end}, rewards)
        value = _value(model, questions, query)
    return Verdict(
        query=query.text,
        value=value,
        states=full.states,
        transitions=full.transitions,
        states_explored=explored.states,
        transitions_explored=explored.transitions,
        encode_seconds=encode_seconds,
        check_seconds=time.perf_counter() - began,
        versions=VERSIONS,
    )


def check_prism(path: str | Path, query: Query) -> FileAnswer:
    """Ask Storm a query on a program that `write_prism` wrote, through Storm's own front end.

    The time grows with the square of the states.

    Raises:
        InvalidQuery: Storm does not read the query.
        CheckFailed: Storm does not read the program, or gave no answer.
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
    with reported(InvalidQuery, f"does not read the query {query.text}"):
        questions = stormpy.parse_properties(query.formula(naming), program)
    with reported(CheckFailed, f"cannot answer the query {query.text}"):
        model = stormpy.build_model(program, questions)
        return FileAnswer(_value(model, questions, query), model.nr_states, model.nr_transitions)


def values(model: Model, formula: str) -> np.ndarray:
    """(n,) float64: the value in each state of a formula that asks for a number.

    Raises:
        RuntimeError: Storm gave no answer; see `reported`.
    """
    return np.array(_answer(model, formula).get_value_vector())


def truths(model: Model, formula: str) -> np.ndarray:
    """(n,) bool: the states in which a formula holds; P>0, P<1 and P>=1 by the graph alone.

    Raises:
        RuntimeError: Storm gave no answer; see `reported`.
    """
    return np.array(list(_answer(model, formula)), dtype=bool)


def add_label(model: Model, name: str, states: np.ndarray) -> None:
    """Mark (n,) bool states of a model with one more label."""
    _add_label(model.labeling, name, states)


def _answer(model: Model, text: str) -> object:
    (question,) = stormpy.parse_properties(text)
    return stormpy.model_checking(model, question, environment=_environment())


def dtmc(
    chain: MarkovChain,
    labels: Mapping[str, np.ndarray],
    rewards: Mapping[str, np.ndarray] = NO_REWARDS,
) -> Model:
    """Return Storm's model of a chain, with labels (n,) bool and rewards (n,) float by name."""
    n = len(chain)
    entries = stormpy.datastructures.SparseMatrixBuilder[float](
        rows=n, columns=n, entries=len(chain.columns)
    )
    rows = np.repeat(np.arange(n), np.diff(chain.row_pointers))
    for part in _parts(len(rows)):
        entries.add_next_values(
            rows[part].tolist(), chain.columns[part].tolist(), chain.values[part].tolist()
        )
    return stormpy.models.SparseDtmc[float](_components(entries, n, labels, rewards))


def mdp(
    process: DecisionProcess,
    labels: Mapping[str, np.ndarray],
    rewards: Mapping[str, np.ndarray] = NO_REWARDS,
) -> Model:
    """Return Storm's model of a decision process, with labels and rewards as for `dtmc`."""
    n = len(process)
    entries = stormpy.datastructures.SparseMatrixBuilder[float](
        columns=n, entries=len(process.columns), has_custom_row_grouping=True, row_groups=n
    )
    entries.add_next_values(
        process.rows.tolist(),
        process.columns.tolist(),
        process.values.tolist(),
        process.groups.tolist(),
    )
    return stormpy.models.SparseMdp[float](_components(entries, n, labels, rewards))


def _parts(n: int) -> Iterator[slice]:
    """Slices of n entries: stormpy takes lists, and lists that fit the cache are 2 times faster."""
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


def _value(
    model: stormpy.models.SparseDtmc, questions: Sequence[stormpy.logic.Property], query: Query
) -> float | bool:
    (start,) = model.initial_states
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
    # rounding may take two equal probabilities of G, which Storm subtracts from 1, past each other
    return min(both / given, 1.0)


@contextmanager
def reported(kind: type[Exception], what: str) -> Iterator[None]:
    """Turn an exception of Storm's into one of the given kind that says what Storm does not do."""
    try:
        yield
    except (RuntimeError, stormpy.exceptions.StormError) as error:
        raise kind(f"Storm {what}: {error}") from error
