"""The trees of a run, the queries on them, and the rows of Table II that show the answers."""

import hashlib
import json
import re
from dataclasses import dataclass

from llmchecker.deployed.decoding import Asked, decoding_as_json
from llmchecker.queries.formulas import STEP
from llmchecker.queries.query import Query
from llmchecker.trees.text_tree import Truncation


@dataclass(frozen=True)
class Refinement:
    """Where a tree is cut that is grown for the bounds of some queries, and not at an alpha and k.

    Attributes:
        queries: those whose bounds it makes narrow.
        length: the horizon L, in tokens.
        passes: it grows until the model was asked about this many texts; None for no limit.
        width: it grows until the bounds of every query are at most this wide; 0 for no limit.
    """

    queries: tuple[Query, ...]
    length: int
    passes: int | None = None
    width: float = 0.0

    def __str__(self) -> str:
        limits = [f"by {self.passes} passes"] if self.passes is not None else []
        limits += [f"to bounds {self.width} wide"] if self.width else []
        return f"refined {' or '.join(limits)}, L={self.length}"

    @property
    def folder(self) -> str:
        """The part of a path that names it. A hash tells other queries apart."""
        limits = [f"_passes{self.passes}"] if self.passes is not None else []
        limits += [f"_width{float(self.width)}"] if self.width else []
        asked = "\n".join(query.text for query in self.queries)
        return f"refined{''.join(limits)}_L{self.length}_{short_hash(asked)}"


@dataclass(frozen=True)
class TreeSpec:
    """One tree of a run.

    Attributes:
        model: name of the model in the configuration.
        start: name of the start string in the configuration.
        truncation: where the tree is cut.
        decoding: how next tokens are chosen; None for the decoding of the model.
    """

    model: str
    start: str
    truncation: Truncation | Refinement
    decoding: Asked = None

    def __str__(self) -> str:
        """The part of a path that names the tree. A hash names a decoding of its own."""
        cut = self.truncation
        if isinstance(cut, Refinement):
            folder = cut.folder
        else:
            # 1 and 1.0 are one alpha and must give one path
            folder = f"alpha{float(cut.alpha)}_k{cut.k}_L{cut.length}"
        own = ""
        if self.decoding is not None:
            settings = json.dumps(decoding_as_json(self.decoding), sort_keys=True)
            own = f"_decoding-{short_hash(settings)}"
        return f"{self.model}/{self.start}/{folder}{own}"


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
    return f"{readable}-{short_hash(query)}"


def short_hash(text: str) -> str:
    """What tells texts apart of which a path has no room for the whole."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]
