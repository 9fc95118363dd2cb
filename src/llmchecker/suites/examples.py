"""Examples of the answers to a case: the most probable that violate its requirement, and others."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import NamedTuple

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from llmchecker.checking.answer import Answer
from llmchecker.checking.measurement import find_threshold
from llmchecker.checking.witnesses import COUNTEREXAMPLE, OPEN, SAMPLE, WITNESS, Witness
from llmchecker.processes.conversation import format_messages, parse_messages
from llmchecker.properties.logic.ast import Probability
from llmchecker.properties.logic.query import Query
from llmchecker.utils.printable_text import shorten

_MAX_TEXTS = 5
"""Maximum number of texts of each kind."""
_MAX_EXAMPLES = 3
"""Maximum number of examples of each kind that a result keeps."""
_MAX_CHARACTERS = 20_000
"""Maximum number of characters of an example, or of a message of a conversation."""


@dataclass(frozen=True, slots=True, config=ConfigDict(strict=True))
class Example:
    """An answer, or the beginning of answers that all meet a requirement or all violate it.

    Attributes:
        text: the whole text, but for one that is far longer than any answer. That of a conversation
            has a line for each of its messages.
        probability: its probability; for a model that returns texts alone, its share; 0 if a server
            does not list it.
        is_violating: whether it speaks against the requirement; None for a sampled text that
            decides nothing so far.
        ending: how the text ends, as in `Witness`.
        scores: the scores that decide it, by the name of the quantifier.

    Raises:
        ValueError: a value has another type, as in a damaged file.
    """

    text: str
    probability: float
    is_violating: bool | None
    ending: str = OPEN
    scores: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_witness(
        cls, text: Witness, is_violating: bool | None, cut: Callable[[str], str] = lambda text: text
    ) -> "Example":
        """Return a witness without its prompt as an example.

        Args:
            text: the witness.
            is_violating: as in the class.
            cut: shortens the text.
        """
        return cls(
            cut(text.continuation), text.probability, is_violating, text.ending, dict(text.scores)
        )

    @property
    def reason(self) -> str:
        """The scores that decide the text, as `contains = 1`; empty without scores."""
        return ", ".join(f"{name} = {score}" for name, score in self.scores.items())

    @property
    def messages(self) -> tuple[tuple[str, str], ...]:
        """Role and text of each message, if the text is a conversation."""
        return parse_messages(self.text)


class CaseTexts(NamedTuple):
    """The most probable texts that decide the requirement of a case.

    Attributes:
        violating: those that speak against it.
        others: those that meet it.
        undecided: sampled texts that decide nothing so far; empty where others show both sides.
        are_conversations: whether the texts are conversations.
    """

    violating: tuple[Witness, ...] = ()
    others: tuple[Witness, ...] = ()
    undecided: tuple[Witness, ...] = ()
    are_conversations: bool = False

    @property
    def examples(self) -> tuple[Example, ...]:
        """The first texts of each kind, without the prompt."""
        cut = _cut_messages if self.are_conversations else _cut
        return tuple(
            Example.from_witness(text, is_violating, cut)
            for texts, is_violating in (
                (self.violating, True),
                (self.others, False),
                (self.undecided, None),
            )
            for text in texts[:_MAX_EXAMPLES]
        )


def find_texts(query: Query, answer: Answer) -> CaseTexts:
    """Find the most probable texts that violate or meet the requirement of a case.

    Combinations of several probabilities have no single texts.

    Args:
        query: the query of the case, with its threshold.
        answer: the answer to it, or to the query with =? in place of the threshold.
    """
    root, threshold, evidence = query.root, find_threshold(query), answer.evidence
    if threshold is None or not isinstance(root, Probability):
        return CaseTexts()
    is_lower_bound = threshold.comparison in (">=", ">")
    kinds = (COUNTEREXAMPLE, WITNESS) if is_lower_bound else (WITNESS, COUNTEREXAMPLE)
    # conversations and the answers of a model that returns texts alone are the texts themselves
    if evidence is None or evidence.explore is None:
        texts = answer.witnesses if evidence is None else evidence.texts
        violating, others = (_select(texts, kind) for kind in kinds)
        return CaseTexts(violating, others, are_conversations=answer.turns is not None)
    # imported here: Storm takes seconds, and a suite is checked before
    from llmchecker.checking import witnesses

    violating, others = (
        witnesses.find_path_texts(evidence.scored, root.path, kind, _MAX_TEXTS, evidence.truth[0])
        for kind in kinds
    )
    if (violating and others) or not answer.samples or evidence.list_samples is None:
        return CaseTexts(violating, others)
    # what samples visited is mostly too improbable for the tree
    samples = evidence.list_samples(_MAX_EXAMPLES)
    return CaseTexts(
        violating or _select(samples, kinds[0]),
        others or _select(samples, kinds[1]),
        _select(samples, SAMPLE),
    )


def _select(texts: Iterable[Witness], kind: str) -> tuple[Witness, ...]:
    return tuple(text for text in texts if text.kind == kind)[:_MAX_TEXTS]


def _cut(text: str) -> str:
    return shorten(text, _MAX_CHARACTERS)


def _cut_messages(text: str) -> str:
    """Cut each message of a conversation."""
    return format_messages((role, _cut(said)) for role, said in parse_messages(text))
