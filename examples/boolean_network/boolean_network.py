"""LTL, CTL and CTL* on asynchronous Boolean networks: which states satisfy a formula?

A network gives each variable a function of all variables. Time moves by one update: some variable
takes the value of its function. Which one is open, so a state may have several successors, and a
path quantifier asks about all paths (A) or some path (E).

Queries are read by the same parser, and path formulas answered by the same model checker, as
queries on language models.

    python examples/boolean_network/boolean_network.py
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import transition_systems

from llmchecker.errors import InvalidQuery
from llmchecker.properties.logic.ast import (
    STEP,
    Atom,
    Connective,
    Formula,
    Label,
    Literal,
    PathQuantifier,
    Temporal,
    format_for_storm,
)
from llmchecker.properties.logic.parser import parse

Network = Mapping[str, Callable[..., np.ndarray]]
"""For each variable the function that updates it, from (n,) bool arrays of all variables."""

CONVERGING: Network = {
    "x1": lambda x1, x2, x3: x3 & (~x1 | ~x2),
    "x2": lambda x1, x2, x3: x1 & x3,
    "x3": lambda x1, x2, x3: x1 | x2 | x3,
}
ROTATING: Network = {
    "x1": lambda x1, x2, x3: x3,
    "x2": lambda x1, x2, x3: x1,
    "x3": lambda x1, x2, x3: x2,
}

LTL = (
    "A [ F !(x1 = 1) ]",
    "A [ G x3 = 1 ]",
    "A [ F G x3 = 1 ]",
    "A [ G F !(x2 = 1) ]",
    "A [ x1 = 1 U x3 = 1 ]",
)
CTL = (
    "A [ F !(x1 = 1) ]",
    "A [ G x3 = 1 ]",
    "E [ F A [ G x3 = 1 ] ]",
    "A [ G E [ F !(x2 = 1) ] ]",
    "E [ x1 = 1 U x3 = 1 ]",
)
CTL_STAR = (
    "A [ (F G x3 = 1) | E [ G !(x3 = 1) ] ]",
    "E [ (F G x2 = 1) & (G E [ F !(x2 = 1) ]) ]",
    "A [ (F G x3 = 1) | (X E [ (G F x1 = 1) & (G F !(x1 = 1)) ]) ]",
)
FAIRNESS = (
    "A [ F (x1 = x2 & x2 = x3) ]",
    "E [ G !(x1 = x2 & x2 = x3) ]",
    "A [ (F G x1 = 1) | (F G !(x1 = 1)) ]",
    "A [ F A [ G x1 = x2 ] ]",
    *LTL,
)


@dataclass(frozen=True)
class TransitionSystem:
    """n states, each of which has a successor.

    Attributes:
        variables: (n,) bool each, by name: the value of a variable in each state.
        row_pointers: (n + 1,) int64; the successors of a state s are the entries row_pointers[s] up
            to row_pointers[s + 1] of `columns`.
        columns: (m,) int64.
    """

    variables: Mapping[str, np.ndarray]
    row_pointers: np.ndarray
    columns: np.ndarray

    def __len__(self) -> int:
        return len(self.row_pointers) - 1


class Paths(Enum):
    """What A and E say of the paths from a state."""

    POSSIBLE = "all paths, some path"
    RANDOM = "almost surely, with probability above 0: every successor is equally likely"


def asynchronous(network: Network) -> TransitionSystem:
    """Return the transitions of a network in which one variable at a time is updated.

    The number of a state, in binary, is the values of its variables in their order: 6 is x1x2x3 =
    110. Successors of a state are the distinct states that differ from it by one update; a state
    that no update changes is its own successor.
    """
    states = np.arange(2 ** len(network))
    bits = {name: 1 << place for place, name in enumerate(reversed(network))}
    variables = {name: states & bits[name] > 0 for name in network}
    changing = {
        name: states[update(**variables) != variables[name]] for name, update in network.items()
    }
    fixed = np.setdiff1d(states, np.concatenate(list(changing.values())))
    sources = np.concatenate([fixed, *changing.values()])
    targets = np.concatenate([fixed, *(changing[name] ^ bits[name] for name in network)])
    return TransitionSystem(
        variables=variables,
        row_pointers=np.concatenate([[0], np.cumsum(np.bincount(sources))]),
        columns=targets[np.lexsort((targets, sources))],
    )


def satisfying(system: TransitionSystem, text: str, paths: Paths = Paths.POSSIBLE) -> list[str]:
    """Return the states that satisfy a query `A [ … ]` or `E [ … ]`, each as its variables' values.

    Raises:
        InvalidQuery: the text does not parse, names another variable, or asks for a probability.
    """
    states = np.flatnonzero(holds(system, parse(text).root, paths))
    width = len(system.variables)
    return [f"{state:0{width}b}" for state in states]


def holds(system: TransitionSystem, formula: Formula, paths: Paths) -> np.ndarray:
    """Return (n,) bool: where a state formula is true.

    What stands in a path quantifier is an LTL formula once each state formula in it, innermost
    first, is replaced by a label of the states in which it holds (Emerson and Lei, Modalities for
    model checking, 1987).

    Raises:
        InvalidQuery: the formula names a variable that the network does not have, or is neither an
            atom, a literal nor a path quantifier.
    """
    match formula:
        case Atom():
            unknown = sorted(formula.variables.difference(system.variables))
            if unknown:
                known = ", ".join(system.variables)
                raise InvalidQuery(f"the network has no variable {unknown[0]}; it has {known}")
            # an atom has as many answers as `step` has entries, though no state here has a step
            columns = {name: truth.astype(np.int64) for name, truth in system.variables.items()}
            return formula.evaluate(columns | {STEP: np.zeros(len(system), dtype=np.int64)})
        case Literal(value):
            return np.full(len(system), value)
        case PathQuantifier(quantifier, path):
            labels: dict[str, np.ndarray] = {}
            # all leaves are labels by then: nothing is left to name
            labelled = format_for_storm(_labelled(system, path, paths, labels), str)
            random = paths is not Paths.POSSIBLE
            ask = transition_systems.at_random if random else transition_systems.on_paths
            some, every = ask(system.row_pointers, system.columns, labels, labelled)
            return some if quantifier == "E" else every
    raise InvalidQuery(
        "a Boolean network has no probabilities and no labels: ask A [ … ] or E [ … ]"
    )


def _labelled(
    system: TransitionSystem, formula: Formula, paths: Paths, labels: dict[str, np.ndarray]
) -> Formula:
    """Return a path formula whose largest state formulas are labels, which are added to `labels`.

    Connectives are left to Storm: their operands may be path formulas.
    """
    if isinstance(formula, Connective | Temporal):
        operands = tuple(_labelled(system, f, paths, labels) for f in formula.operands)
        return replace(formula, operands=operands)
    name = f"s{len(labels)}"
    labels[name] = holds(system, formula, paths)
    return Label(name)


def _table(system: TransitionSystem, queries: Iterable[str], paths: Paths) -> str:
    rows = [(query, satisfying(system, query, paths)) for query in queries]
    width = max(len(query) for query, _ in rows)
    everywhere, nowhere = f"all {len(system)}", "none"
    return "\n".join(
        f"  {query:{width}}  "
        + (everywhere if len(states) == len(system) else " ".join(states) or nowhere)
        for query, states in rows
    )


def main() -> None:
    """Print which states satisfy which formula, and how the uniform random scheduler answers."""
    converging, rotating = asynchronous(CONVERGING), asynchronous(ROTATING)
    print("x1' = x3 & (!x1 | !x2), x2' = x1 & x3, x3' = x1 | x2 | x3; states x1x2x3")
    for name, queries in (("LTL", LTL), ("CTL", CTL), ("CTL*", CTL_STAR)):
        print(f"\n{name}\n{_table(converging, queries, Paths.POSSIBLE)}")
    print(f"\n{Paths.RANDOM.value}\n{_table(converging, LTL, Paths.RANDOM)}")
    print("\n\nx1' = x3, x2' = x1, x3' = x2")
    for paths in Paths:
        print(f"\n{paths.value}\n{_table(rotating, FAIRNESS, paths)}")


if __name__ == "__main__":
    main()
