"""The plan of a run: trees, checks of queries on them, and rows of Table II."""

import hashlib
import json
import re
from dataclasses import dataclass

from llmchecker.models.decoding.settings import DecodingChoice, decoding_as_json
from llmchecker.properties.logic.ast import STEP
from llmchecker.properties.logic.query import Query
from llmchecker.trees.text_tree import Truncation
from llmchecker.utils.number_format import format_count


@dataclass(frozen=True)
class Refinement:
    """The limits of a tree that is refined for the bounds of its queries.

    Attributes:
        queries: the queries whose bounds the tree narrows.
        length: the horizon L, in tokens.
        passes: maximum number of texts that the model evaluates; None for no limit.
        width: width of the bounds of every query at which refinement ends; 0 for no limit.
    """

    queries: tuple[Query, ...]
    length: int
    passes: int | None = None
    width: float = 0.0

    def __str__(self) -> str:
        limits = [f"by {format_count(self.passes, 'pass')}"] if self.passes is not None else []
        limits += [f"to bounds {self.width} wide"] if self.width else []
        return f"refined {' or '.join(limits)}, L={self.length}"

    @property
    def folder(self) -> str:
        """The part of a path for this refinement, with a hash of the queries."""
        limits = [f"_passes{self.passes}"] if self.passes is not None else []
        # A limit of 0 or None does not apply and is not part of the name.
        limits += [f"_width{float(self.width)}"] if self.width else []
        query_text = "\n".join(query.text for query in self.queries)
        return f"refined{''.join(limits)}_L{self.length}_{compute_short_hash(query_text)}"


@dataclass(frozen=True)
class TreeSpec:
    """One tree of a run.

    Attributes:
        model: name of the model in the configuration.
        start: name of the start string in the configuration.
        truncation: the truncation of the tree, or the limits of its refinement.
        decoding: the choice of next tokens; None for the decoding of the model.
    """

    model: str
    start: str
    truncation: Truncation | Refinement
    decoding: DecodingChoice = None

    def __str__(self) -> str:
        """Return the part of a path for the tree, with a hash of its own decoding."""
        truncation = self.truncation
        if isinstance(truncation, Refinement):
            folder = truncation.folder
        else:
            # 1 and 1.0 are the same alpha and must result in the same path.
            folder = f"alpha{float(truncation.alpha)}_k{truncation.k}_L{truncation.length}"
        decoding_suffix = ""
        # The model's name in the path implies the model's own decoding.
        if self.decoding is not None:
            settings = json.dumps(decoding_as_json(self.decoding), sort_keys=True)
            decoding_suffix = f"_decoding-{compute_short_hash(settings)}"
        return f"{self.model}/{self.start}/{folder}{decoding_suffix}"


@dataclass(frozen=True)
class Check:
    """One query on one tree."""

    tree: TreeSpec
    query: Query

    def __str__(self) -> str:
        """Return the part of a path for the check."""
        return f"{self.tree}/{_slugify(self.query.text)}"


@dataclass(frozen=True)
class TableRow:
    """A row of Table II.

    Attributes:
        label: the name of the experiment in tables.
        interest: the subject of the query, such as Gender.
        check: the check whose answer is in the row.
    """

    label: str
    interest: str
    check: Check


def quantifiers_in(query: Query) -> tuple[str, ...]:
    """Return the names of the quantifiers in a query, sorted."""
    # `step` is the number of tokens, not a quantifier.
    return tuple(sorted(query.variables - {STEP}))


def _slugify(query: str) -> str:
    """Build a file name for a query.

    The name contains words of the query, for readers. The hash at its end makes it distinct: two
    queries may have the same words, or differ only after the 60th character.
    """
    # Words for the operators, because file names do not contain such characters.
    operator_words = {"<": " lt ", ">": " gt ", "=": " eq ", "!": " not ", "-": " minus "}
    text = "".join(operator_words.get(character, character) for character in query)
    slug = "-".join(re.findall(r"[A-Za-z0-9.]+", text))[:60].strip("-.")
    return f"{slug}-{compute_short_hash(query)}"


def compute_short_hash(text: str) -> str:
    """Return the first 8 digits of the sha256 of a text, for use in a path."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]
