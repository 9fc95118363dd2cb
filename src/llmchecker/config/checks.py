"""The trees of a run, the queries on them, and the rows of Table II that show the answers."""

import hashlib
import re
from dataclasses import dataclass

from llmchecker.queries.formulas import STEP
from llmchecker.queries.query import Query
from llmchecker.trees.text_tree import Truncation


@dataclass(frozen=True)
class TreeSpec:
    """One tree of a run.

    Attributes:
        model: name of the model in the configuration.
        start: name of the start string in the configuration.
        truncation: where the tree is cut.
    """

    model: str
    start: str
    truncation: Truncation

    def __str__(self) -> str:
        """The part of a path that names the tree."""
        truncation = self.truncation
        # 1 and 1.0 are one alpha and must give one path
        alpha = float(truncation.alpha)
        return f"{self.model}/{self.start}/alpha{alpha}_k{truncation.k}_L{truncation.length}"


@dataclass(frozen=True)
class Check:
    """One query on one tree."""

    tree: TreeSpec
    query: Query

    def __str__(self) -> str:
        """The part of a path that names the check."""
        return f"{self.tree}/{slug(self.query.text)}"


@dataclass(frozen=True)
class TableRow:
    """A row of Table II.

    Attributes:
        label: the name of the experiment.
        interest: what the query is about, such as Gender.
        check: the query whose answer the row shows.
    """

    label: str
    interest: str
    check: Check


def quantifiers_in(query: Query) -> tuple[str, ...]:
    """Names of the quantifiers in a query, sorted."""
    return tuple(sorted(query.variables - {STEP}))


def slug(query: str) -> str:
    """A file name for a query.

    Words keep it readable. The hash at its end keeps it distinct: two queries may have the same
    words, or differ only behind the 60th character.
    """
    words = {"<": " lt ", ">": " gt ", "=": " eq ", "!": " not ", "-": " minus "}
    spelt = "".join(words.get(character, character) for character in query)
    readable = "-".join(re.findall(r"[A-Za-z0-9.]+", spelt))[:60].strip("-.")
    return f"{readable}-{hashlib.sha256(query.encode()).hexdigest()[:8]}"
