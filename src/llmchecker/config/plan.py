"""The plan of a run: trees, checks of queries on them, and rows of Table II."""

import hashlib
import json
import re
from dataclasses import dataclass

from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.decoding.settings import DecodingChoice, decoding_as_json
from llmchecker.properties.logic.ast import STEP
from llmchecker.properties.logic.query import Query
from llmchecker.trees.text_tree import Horizon, Truncation


@dataclass(frozen=True)
class TreeSpec:
    """The texts that a query is about: a tree of a run, or all texts up to a horizon.

    Attributes:
        model: name of the model in the configuration.
        start: name of the start string in the configuration.
        truncation: the truncation of the tree; a horizon if there is no tree.
        decoding: the choice of next tokens; None for the decoding of the model.
    """

    model: str
    start: str
    truncation: Truncation | Horizon
    decoding: DecodingChoice = None

    def __str__(self) -> str:
        """Return the part of a path for the tree, with a hash of its own decoding."""
        truncation = self.truncation
        if isinstance(truncation, Horizon):
            folder = f"L{truncation.length}"
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
    """One query on one tree, or on all texts up to a horizon."""

    tree: TreeSpec
    query: Query

    @property
    def is_bounded(self) -> bool:
        """Whether the check has a tree, and so the value of a bounded process."""
        return isinstance(self.tree.truncation, Truncation)

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
        model: the model's label, with the decoding if it has one.
        prompt: the start string, or the chat to answer.
    """

    label: str
    interest: str
    check: Check
    model: str = ""
    prompt: Start = ""


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
