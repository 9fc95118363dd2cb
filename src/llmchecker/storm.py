"""Storm, the model checker: the only module that imports stormpy.

A chain reaches Storm as a matrix, built in linear time. Reachability is solved along the
topological order of the chain: a tree has no cycle but the loops of its leaves, so every value is
one sum and exact up to float64 rounding, where Storm's usual iteration would stop at 1e-6.
A threshold P>=p is compared with that float64; P>=1 and P>0 are decided on the graph alone.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import stormpy
from stormpy.developer.info import StormVersion

import llmchecker
from llmchecker import prism
from llmchecker.chaos import DecisionProcess
from llmchecker.errors import CheckFailed, InvalidQuery
from llmchecker.files import read_json, write_json
from llmchecker.formulas import (
    Atom,
    Connective,
    Formula,
    Label,
    Literal,
    Probability,
    Temporal,
)
from llmchecker.markov_chain import MarkovChain
from llmchecker.properties import Query, in_storm

# Storm prints its errors besides raising them, into output that is not its own.
stormpy.developer.set_log_level(stormpy.developer.LogLevel.OFF)

DECISION_MARGIN = 1e-12
"""A probability this close to a threshold decides nothing, since float64 may have rounded it."""
_OPPOSITE = {">=": "<", ">": "<=", "<=": ">", "<": ">="}

VERSIONS = {
    "storm": f"{StormVersion.version_major}.{StormVersion.version_minor}"
    f".{StormVersion.version_patch}",
    "stormpy": stormpy.__version__,
    "llmchecker": llmchecker.__version__,
}


@dataclass(frozen=True)
class Interval:
    """What is certain of a query's value for the whole model, all tokens included.

    For P=? the least and the greatest probability. For P>=p whether it surely holds and whether it
    may hold: (True, True) is true, (False, False) is false, (False, True) is unknown.
    """

    lower: float | bool
    upper: float | bool


@dataclass(frozen=True)
class Verdict:
    """What a check found, and what it took.

    Args:
        query: the query as it was asked.
        value: the probability that P=? asks for, or whether P>=p holds in the start state, in the
            bounded process.
        lower, upper: an `Interval` for the whole model; None where it was not asked for.
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
    lower: float | bool | None = None
    upper: float | bool | None = None

    def bounded(self, interval: Interval) -> "Verdict":
        """The same verdict with bounds for the whole model."""
        return replace(self, lower=interval.lower, upper=interval.upper)

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


def bounds(process: DecisionProcess, query: Query) -> Interval:
    """Bound what a query's value is for the whole model, whatever `rest` hides.

    A P inside the query is decided for each state before what it stands in: where it surely holds,
    and where it may hold. The bounds take of the two what makes them wider, so that they are sound,
    though with a nested P not always as narrow as they could be.

    Raises:
        InvalidQuery: Storm does not read the query.
        CheckFailed: Storm gave no answer.
    """
    labels = {p: f"a{i}" for i, p in enumerate((*query.atoms, *query.literals))}
    marks = {
        name: np.full(len(process), p.value) if isinstance(p, Literal) else process.truths[p]
        for p, name in labels.items()
    }
    with _reported(query, CheckFailed, "cannot bound"):
        model = _mdp(process, marks | {"rest": process.rest, "end": process.end})
        bounded = _Bounded(model, lambda proposition: f'"{labels[proposition]}"')
        if query.root.threshold is None:
            low = bounded.extremes(query.root.path, surely=True)
            high = bounded.extremes(query.root.path, surely=False)
        else:
            low = bounded.holds(query.root, surely=True)
            high = bounded.holds(query.root, surely=False)
        return Interval(low[0].item(), high[0].item())


class _Bounded:
    """An MDP to which the truth of one nested P after the other is added as a label."""

    def __init__(
        self, model: stormpy.models.SparseMdp, naming: Callable[[Atom | Literal], str]
    ) -> None:
        self.model = model
        self.naming = naming
        self.nested = 0

    def extremes(self, path: Formula, surely: bool) -> np.ndarray:
        """(n,) float64: in each state the least probability of a path formula, or the greatest."""
        text = in_storm(self._decided(path, surely), self.naming)
        result = self._answer(f"P{'min' if surely else 'max'}=? [ {text} ]")
        return np.array(result.get_value_vector())

    def holds(self, formula: Probability, surely: bool) -> np.ndarray:
        """(n,) bool: the states in which P>=p surely holds, or may hold."""
        rising = formula.comparison in (">", ">=")
        if formula.threshold in (0, 1):
            # Storm decides these on the graph, where no rounding matters
            comparison = formula.comparison if surely else _OPPOSITE[formula.comparison]
            text = in_storm(self._decided(formula.path, surely == rising), self.naming)
            result = self._answer(f"P{comparison}{formula.threshold:f} [ {text} ]")
            states = np.array(list(result), dtype=bool)
            return states if surely else ~states
        margin = DECISION_MARGIN if surely == rising else -DECISION_MARGIN
        values = self.extremes(formula.path, surely == rising)
        threshold = float(formula.threshold)
        return values >= threshold + margin if rising else values <= threshold + margin

    def _decided(self, formula: Formula, surely: bool) -> Formula:
        """The formula with a label for each P in it: where it surely holds, or may hold."""
        match formula:
            case Probability():
                self.nested += 1
                name = f"p{self.nested}"
                _add_label(self.model.labeling, name, self.holds(formula, surely))
                return Label(name)
            case Connective("!", (operand,)):
                return Connective("!", (self._decided(operand, not surely),))
            case Connective("=>", (left, right)):
                operands = self._decided(left, not surely), self._decided(right, surely)
                return Connective("=>", operands)
            case Connective() | Temporal():
                operands = tuple(self._decided(operand, surely) for operand in formula.operands)
                return replace(formula, operands=operands)
            case _:
                return formula

    def _answer(self, text: str) -> object:
        (question,) = stormpy.parse_properties(text)
        return stormpy.model_checking(self.model, question, environment=_environment())


def _dtmc(chain: MarkovChain, labels: Mapping[str, np.ndarray]) -> stormpy.models.SparseDtmc:
    n = len(chain)
    entries = stormpy.datastructures.SparseMatrixBuilder[float](
        rows=n, columns=n, entries=len(chain.columns)
    )
    rows = np.repeat(np.arange(n), np.diff(chain.row_pointers))
    entries.add_next_values(rows.tolist(), chain.columns.tolist(), chain.values.tolist())
    return stormpy.models.SparseDtmc[float](_components(entries, n, labels))


def _mdp(process: DecisionProcess, labels: Mapping[str, np.ndarray]) -> stormpy.models.SparseMdp:
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
    return stormpy.models.SparseMdp[float](_components(entries, n, labels))


def _components(
    entries: stormpy.datastructures.SparseMatrixBuilder, n: int, labels: Mapping[str, np.ndarray]
) -> stormpy.models.SparseModelComponents:
    labeling = stormpy.models.StateLabeling(n)
    labeling.add_label("init")
    labeling.add_label_to_state("init", 0)
    for name, states in labels.items():
        _add_label(labeling, name, states)
    return stormpy.models.SparseModelComponents[float](
        transition_matrix=entries.build(), state_labeling=labeling
    )


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
    model: stormpy.models.SparseDtmc, question: stormpy.logic.Property, query: Query
) -> float | bool:
    result = stormpy.model_checking(
        model, question, only_initial_states=True, environment=_environment()
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
