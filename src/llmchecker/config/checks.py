"""What a run asks: trees, queries on them, and the rows of Table II that show the answers."""

import hashlib
import re
from dataclasses import dataclass

from llmchecker.queries.formulas import STEP
from llmchecker.queries.query import Query
from llmchecker.trees.text_tree import Truncation


@dataclass(frozen=True)
class TreeSpec:
    """One tree: a model, the name of a start string, and a truncation."""

    model: str
    start: str
    truncation: Truncation

    def __str__(self) -> str:
        """The part of a path that says which tree it is about."""
        truncation = self.truncation
        alpha = float(truncation.alpha)
        return f"{self.model}/{self.start}/alpha{alpha}_k{truncation.k}_L{truncation.length}"


@dataclass(frozen=True)
class Check:
    """One query on one tree."""

    tree: TreeSpec
    query: Query

    def __str__(self) -> str:
        """The part of a path that says which check it is about."""
        return f"{self.tree}/{slug(self.query.text)}"


@dataclass(frozen=True)
class TableRow:
    """A row of Table II."""

    label: str
    interest: str
    check: Check


def quantifiers_in(query: Query) -> tuple[str, ...]:
    """Names of the quantifiers in a query, sorted."""
    return tuple(sorted(query.variables - {STEP}))


def slug(query: str) -> str:
    """A file name for a query: readable, and distinct for distinct queries."""
    words = {"<": " lt ", ">": " gt ", "=": " eq ", "!": " not ", "-": " minus "}
    spelt = "".join(words.get(character, character) for character in query)
    readable = "-".join(re.findall(r"[A-Za-z0-9.]+", spelt))[:60].strip("-.")
    return f"{readable}-{hashlib.sha256(query.encode()).hexdigest()[:8]}"
