"""Storm, the model checker: the only module that imports stormpy.

A chain reaches Storm as a matrix, built in linear time. Reachability is solved along the
topological order of the chain: a tree has no cycle but the loops of its leaves, so every value is
one sum and exact up to float64 rounding, where Storm's usual iteration would stop at 1e-6.
A threshold P>=p is compared with that float64; P>=1 and P>0 are decided on the graph alone.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import stormpy
from stormpy.developer.info import StormVersion

import llmchecker
from llmchecker import prism
from llmchecker.errors import CheckFailed, InvalidQuery
from llmchecker.files import read_json, write_json
from llmchecker.markov_chain import MarkovChain
from llmchecker.properties import Query

# Storm prints its errors besides raising them, into output that is not its own.
stormpy.developer.set_log_level(stormpy.developer.LogLevel.OFF)

VERSIONS = {
    "storm": f"{StormVersion.version_major}.{StormVersion.version_minor}"
    f".{StormVersion.version_patch}",
    "stormpy": stormpy.__version__,
    "llmchecker": llmchecker.__version__,
}


@dataclass(frozen=True)
class Verdict:
    """What a check found, and what it took.

    Args:
        query: the query as it was asked.
        value: the probability that P=? asks for, or whether P>=p holds in the start state.
        states, transitions: the size of the chain, as far as it is reachable.
        states_explored, transitions_explored: what of it Storm's PRISM front end explores for this
            query; it does not go on where the query is decided.
        encode_seconds: from tree and scores to the chain.
        check_seconds: from the chain to the value.
        versions: of storm, stormpy and llmchecker.
    """

    query: str
    value: float | bool
    states: int
    transitions: int
    states_explored: int
    transitions_explored: int
    encode_seconds: float
    check_seconds: float
    versions: Mapping[str, str]

    def write(self, path: str | Path) -> None:
        """Write a JSON object with these fields."""
        write_json(asdict(self), path)

    @classmethod
    def read(cls, path: str | Path) -> "Verdict":
        """Read what `write` wrote.

        Raises:
            CheckFailed: the file is not a verdict.
        """
        try:
            return cls(**read_json(path))
        except (ValueError, TypeError) as error:
            raise CheckFailed(f"{path} is not a verdict: {error}") from error


@dataclass(frozen=True)
class Answer:
    """What Storm says to a query on a PRISM program: the value and the size of what it built."""

    value: float | bool
    states: int
    transitions: int


def check(chain: MarkovChain, query: Query, encode_seconds: float = 0.0) -> Verdict:
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
    with _reported(query, InvalidQuery, "does not read"):
        (question,) = stormpy.parse_properties(formula)
    marks = {name: chain.satisfying(proposition) for proposition, name in labels.items()}
    with _reported(query, CheckFailed, "cannot answer"):
        model = _dtmc(chain, marks | {"rest": chain.rest, "end": chain.end})
        value = _value(model, question, query)
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


def check_prism(path: str | Path, query: Query) -> Answer:
    """Ask Storm a query on a program that `prism.write` wrote, through Storm's own front end.

    The time grows with the square of the states.

    Raises:
        InvalidQuery: Storm does not read the query.
        CheckFailed: Storm does not read the program, or gave no answer.
    """
    with _reported(query, CheckFailed, f"does not read {path} to answer"):
        program = stormpy.parse_prism_program(str(path))
    with _reported(query, InvalidQuery, "does not read"):
        (question,) = stormpy.parse_properties(query.formula(prism.naming), program)
    with _reported(query, CheckFailed, "cannot answer"):
        model = stormpy.build_model(program, [question])
        return Answer(_value(model, question, query), model.nr_states, model.nr_transitions)


def _dtmc(chain: MarkovChain, labels: Mapping[str, np.ndarray]) -> stormpy.models.SparseDtmc:
    n = len(chain)
    entries = stormpy.datastructures.SparseMatrixBuilder[float](
        rows=n, columns=n, entries=len(chain.columns)
    )
    rows = np.repeat(np.arange(n), np.diff(chain.row_pointers))
    entries.add_next_values(rows.tolist(), chain.columns.tolist(), chain.values.tolist())
    labeling = stormpy.models.StateLabeling(n)
    labeling.add_label("init")
    labeling.add_label_to_state("init", 0)
    for name, states in labels.items():
        members = np.flatnonzero(states).tolist()
        labeling.add_label(name)
        labeling.set_states(name, stormpy.datastructures.BitVector(n, members))
    return stormpy.models.SparseDtmc[float](
        stormpy.models.SparseModelComponents[float](
            transition_matrix=entries.build(), state_labeling=labeling
        )
    )


def _value(
    model: stormpy.models.SparseDtmc, question: stormpy.logic.Property, query: Query
) -> float | bool:
    environment = stormpy.environments.sound()
    environment.solver().set_linear_equation_solver_type(
        stormpy.environments.EquationSolverType.TOPOLOGICAL
    )
    result = stormpy.model_checking(
        model, question, only_initial_states=True, environment=environment
    )
    (start,) = model.initial_states
    return result.get_value(start) if query.root.threshold is None else bool(result[start])


@contextmanager
def _reported(query: Query, kind: type[Exception], what: str) -> Iterator[None]:
    """Turn an exception of Storm's into one of the given kind that says what Storm does not do."""
    try:
        yield
    except (RuntimeError, stormpy.exceptions.StormError) as error:
        raise kind(f"Storm {what} the query {query.text}: {error}") from error
