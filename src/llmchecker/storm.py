"""Storm, the model checker: the only module that imports stormpy.

A chain reaches Storm as a matrix, built in linear time. Reachability is solved along the
topological order of the chain: a tree has no cycle but the loops of its leaves, so every value is
one sum and exact up to float64 rounding, where Storm's usual iteration would stop at 1e-6.
A threshold P>=p is compared with that float64; P>=1 and P>0 are decided on the graph alone.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import stormpy
from stormpy.developer.info import StormVersion

import llmchecker
from llmchecker import jani, prism
from llmchecker.chaos import DecisionProcess
from llmchecker.errors import CheckFailed, InvalidQuery
from llmchecker.files import read_json, write_json
from llmchecker.formulas import (
    Atom,
    Conditional,
    Connective,
    Expectation,
    Formula,
    Label,
    Literal,
    PathQuantifier,
    Probability,
    Temporal,
)
from llmchecker.markov_chain import MarkovChain
from llmchecker.properties import Query, in_storm

# Storm prints its errors besides raising them, into output that is not its own.
stormpy.developer.set_log_level(stormpy.developer.LogLevel.OFF)

DECISION_MARGIN = 1e-12
"""A probability this close to a threshold decides nothing, since float64 may have rounded it."""
PART = 1 << 16
"""Entries of a matrix that are handed to Storm at once."""
NO_REWARDS: Mapping[str, np.ndarray] = {}
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

    For a number the least and the greatest that it can be, None where an expected score is not
    bounded on that side. For yes or no whether it surely holds and whether it may hold:
    (True, True) is true, (False, False) is false, (False, True) is unknown.
    """

    lower: float | bool | None
    upper: float | bool | None


@dataclass(frozen=True)
class Verdict:
    """What a check found, and what it took.

    Args:
        query: the query as it was asked.
        value: the probability or expected score that =? asks for, or whether the query holds in the
            start state, in the bounded process.
        lower, upper: an `Interval` for the whole model; None where it was not asked for, and where
            an expected score is not bounded on that side.
        witnesses: the fields of each `evidence.Witness`, most probable first.
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
    witnesses: tuple[Mapping[str, object], ...] = ()

    def bounded(self, interval: Interval) -> "Verdict":
        """The same verdict with bounds for the whole model."""
        return replace(self, lower=interval.lower, upper=interval.upper)

    def with_witnesses(self, witnesses: Iterable[Mapping[str, object]]) -> "Verdict":
        """The same verdict with the texts that decide the query."""
        return replace(self, witnesses=tuple(witnesses))

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
            verdict = cls(**read_json(path))
            return verdict.with_witnesses(verdict.witnesses)  # JSON has lists, not tuples
        except (ValueError, TypeError) as error:
            raise CheckFailed(f"{path} is not a verdict: {error}") from error


@dataclass(frozen=True)
class Answer:
    """What Storm says to a query on a program of its own: the value, and the size that it built."""

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
        questions = stormpy.parse_properties(formula)
    marks = {name: chain.satisfying(proposition) for proposition, name in labels.items()}
    rewards = {}
    if isinstance(query.root, Expectation):
        rewards = {query.root.quantifier: chain.scores(query.root.quantifier)}
    with _reported(query, CheckFailed, "cannot answer"):
        model = _dtmc(chain, marks | {"rest": chain.rest, "end": chain.end}, rewards)
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


def check_prism(path: str | Path, query: Query) -> Answer:
    """Ask Storm a query on a program that `prism.write` wrote, through Storm's own front end.

    The time grows with the square of the states.

    Raises:
        InvalidQuery: Storm does not read the query.
        CheckFailed: Storm does not read the program, or gave no answer.
    """
    with _reported(query, CheckFailed, f"does not read {path} to answer"):
        program = stormpy.parse_prism_program(str(path))
    return _check_program(program, query, prism.naming)


def check_jani(path: str | Path, query: Query) -> Answer:
    """Ask Storm a query on a model that `jani.write` wrote, through Storm's own front end.

    Errors are those of `check_prism`.
    """
    with _reported(query, CheckFailed, f"does not read {path} to answer"):
        model, _ = stormpy.parse_jani_model(str(path))
    return _check_program(model, query, jani.naming)


def _check_program(
    program: stormpy.io.PrismProgram | stormpy.io.JaniModel,
    query: Query,
    naming: Callable[[Atom | Literal], str],
) -> Answer:
    with _reported(query, InvalidQuery, "does not read"):
        questions = stormpy.parse_properties(query.formula(naming), program)
    with _reported(query, CheckFailed, "cannot answer"):
        model = stormpy.build_model(program, questions)
        return Answer(_value(model, questions, query), model.nr_states, model.nr_transitions)


def bounds(process: DecisionProcess, query: Query) -> Interval:
    """Bound what a query's value is for the whole model, whatever `rest` hides.

    A P inside the query is decided for each state before what it stands in: where it surely holds,
    and where it may hold. The bounds take of the two what makes them wider, so that they are sound,
    though with a nested P not always as narrow as they could be. E is P>0 and A is P>=1.

    An expected score takes in `rest` the limits of the quantifier's range; the value of the bounded
    process, which counts 0 there, lies within these bounds if the range holds 0.

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
        if isinstance(query.root, Expectation):
            return _expected(process, query.root)
        model = _mdp(process, marks | {"rest": process.rest, "end": process.end})
        bounded = _Bounded(model, lambda proposition: f'"{labels[proposition]}"')
        match query.root:
            case Conditional(path, given):
                return _conditional(bounded, path, given)
            case Probability(_, None, path):
                return bounded.probability(path)
        low, high = (bounded.satisfying(query.root, surely)[0] for surely in (True, False))
        return Interval(bool(low), bool(high))


def _expected(process: DecisionProcess, question: Expectation) -> Interval:
    """Bound an expected score, with what the quantifier's range allows in `rest`."""
    limits = []
    for kind, scores in (("min", process.least), ("max", process.greatest)):
        rewards = scores[question.quantifier]
        finite = np.isfinite(rewards)
        model = _mdp(
            process,
            {"unbounded": ~finite},
            {question.quantifier: np.where(finite, rewards, 0.0)},
        )
        unbounded = _answer(model, f'P>0 [ F<={question.step} "unbounded" ]')
        asked = f'R{{"{question.quantifier}"}}{kind}=? [ I={question.step} ]'
        limits.append(None if unbounded[0] else _answer(model, asked).get_value(0))
    return Interval(*limits)


def _conditional(bounded: "_Bounded", path: Formula, given: Formula) -> Interval:
    """Bound P(path & given) / P(given), of which P(given) - P(path & given) = P(!path & given)."""
    both = bounded.probability(Connective("&", (path, given)))
    other = bounded.probability(Connective("&", (Connective("!", (path,)), given)))
    least, most = both.lower + other.upper, both.upper + other.lower
    return Interval(both.lower / least if least else 0.0, both.upper / most if most else 1.0)


def on_paths(
    row_pointers: np.ndarray, columns: np.ndarray, labels: Mapping[str, np.ndarray], path: str
) -> tuple[np.ndarray, np.ndarray]:
    """Tell where some path, and where every path, of a transition system satisfies LTL.

    Each successor is a choice of an MDP. Its best and its worst scheduler for an LTL formula need
    no chance and so walk one path: Pmax and Pmin are 0 or 1.

    Args:
        row_pointers: (n + 1,) int64; the successors of a state s, at least one, are the entries
            row_pointers[s] up to row_pointers[s + 1] of `columns`.
        columns: (m,) int64, rising within a row.
        labels: (n,) bool each, by name: the states that have a label.
        path: an LTL formula over the quoted labels, as Storm reads it.

    Returns:
        (n,) bool twice: where some path satisfies it, where every path does.

    Raises:
        CheckFailed: Storm gave no answer.
    """
    row_pointers, columns, labels = _with_sink(row_pointers, columns, labels)
    nowhere = np.zeros(len(row_pointers) - 1, dtype=bool)
    process = DecisionProcess(
        groups=row_pointers[:-1],
        rows=np.arange(len(columns)),
        columns=columns,
        values=np.ones(len(columns)),
        truths={},
        rest=nowhere,
        end=nowhere,
    )
    model = _mdp(process, labels)
    # of an MDP, P compares under every scheduler: some path satisfies it unless Pmax < 1
    some, every = ~_states(model, f"P<1 [ {path} ]"), _states(model, f"P>=1 [ {path} ]")
    return some[:-1], every[:-1]


def at_random(
    row_pointers: np.ndarray, columns: np.ndarray, labels: Mapping[str, np.ndarray], path: str
) -> tuple[np.ndarray, np.ndarray]:
    """Tell where LTL holds with probability above 0, and where almost surely, on random paths.

    Each successor of a state is equally likely. Arguments and errors are those of `on_paths`.

    Returns:
        (n,) bool twice: where its probability is above 0, where it is 1.
    """
    row_pointers, columns, labels = _with_sink(row_pointers, columns, labels)
    nowhere = np.zeros(len(row_pointers) - 1, dtype=bool)
    degrees = np.diff(row_pointers)
    values = np.repeat(1 / degrees, degrees)
    chain = MarkovChain(row_pointers, columns, values, variables={}, rest=nowhere, end=nowhere)
    model = _dtmc(chain, labels)
    some, surely = _states(model, f"P>0 [ {path} ]"), _states(model, f"P>=1 [ {path} ]")
    return some[:-1], surely[:-1]


def _with_sink(
    row_pointers: np.ndarray, columns: np.ndarray, labels: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """A transition system with one more state, the last, that loops and that nothing else enters.

    Storm counts the states of its product with an automaton by the targets of transitions, and
    fails where no transition enters the last one.
    """
    sink = len(row_pointers) - 1
    return (
        np.append(row_pointers, len(columns) + 1),
        np.append(columns, sink),
        {name: np.append(states, False) for name, states in labels.items()},
    )


def _states(model: object, formula: str) -> np.ndarray:
    """(n,) bool: where P>0, P<1 or P>=1 holds in an MDP or a DTMC, decided on the graph."""
    try:
        return np.array(list(_answer(model, formula)), dtype=bool)
    except (RuntimeError, stormpy.exceptions.StormError) as error:
        raise CheckFailed(f"Storm gives no answer to {formula}: {error}") from error


class _Bounded:
    """An MDP to which the truth of one nested P after the other is added as a label."""

    def __init__(
        self, model: stormpy.models.SparseMdp, naming: Callable[[Atom | Literal], str]
    ) -> None:
        self.model = model
        self.naming = naming
        self.nested = 0

    def probability(self, path: Formula) -> Interval:
        """The least and the greatest probability of a path formula in the start state."""
        return Interval(*(self.extremes(path, surely)[0].item() for surely in (True, False)))

    def satisfying(self, formula: Formula, surely: bool) -> np.ndarray:
        """(n,) bool: the states in which a state formula surely holds, or may hold."""
        result = self._answer(in_storm(self._decided(formula, surely), self.naming))
        return np.array(list(result), dtype=bool)

    def extremes(self, path: Formula, surely: bool) -> np.ndarray:
        """(n,) float64: in each state the least probability of a path formula, or the greatest."""
        text = in_storm(self._decided(path, surely), self.naming)
        result = self._answer(f"P{'min' if surely else 'max'}=? [ {text} ]")
        return np.array(result.get_value_vector())

    def holds(self, formula: Probability | PathQuantifier, surely: bool) -> np.ndarray:
        """(n,) bool: the states in which P>=p, E or A surely holds, or may hold."""
        if isinstance(formula, PathQuantifier):
            formula = formula.probability
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
            case Probability() | PathQuantifier():
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
        return _answer(self.model, text)


def _answer(model: object, text: str) -> object:
    (question,) = stormpy.parse_properties(text)
    return stormpy.model_checking(model, question, environment=_environment())


def _dtmc(
    chain: MarkovChain,
    labels: Mapping[str, np.ndarray],
    rewards: Mapping[str, np.ndarray] = NO_REWARDS,
) -> stormpy.models.SparseDtmc:
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


def _mdp(
    process: DecisionProcess,
    labels: Mapping[str, np.ndarray],
    rewards: Mapping[str, np.ndarray] = NO_REWARDS,
) -> stormpy.models.SparseMdp:
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
def _reported(query: Query, kind: type[Exception], what: str) -> Iterator[None]:
    """Turn an exception of Storm's into one of the given kind that says what Storm does not do."""
    try:
        yield
    except (RuntimeError, stormpy.exceptions.StormError) as error:
        raise kind(f"Storm {what} the query {query.text}: {error}") from error
