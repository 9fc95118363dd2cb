"""The answers of a page: those to each requirement, with the models next to each other."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from llmchecker.suites.entries import Entry
from llmchecker.suites.verdicts import Status

_MAX_ANSWERS = 3_000
"""Maximum number of answers of a page, which is about 2 MB."""


@dataclass(frozen=True)
class AnswerGroup:
    """The answers to one requirement.

    Attributes:
        number: its number on the page, from 1 on.
        columns: the entries of its models, with the answers that the page has.
        left_out: number of answers that the page leaves out.
    """

    number: int
    columns: tuple[Entry, ...]
    left_out: int

    @property
    def counts(self) -> Mapping[Status, int]:
        """The number of models by status."""
        return Counter(entry.status for entry in self.columns)

    @property
    def count(self) -> int:
        """Number of answers on the page."""
        return sum(len(entry.examples) for entry in self.columns)


def group_answers(
    entries: Iterable[Entry], max_answers: int = _MAX_ANSWERS
) -> tuple[AnswerGroup, ...]:
    """Group the answers by requirement, up to a number of answers.

    Args:
        entries: the entries in the order of the page, those of one requirement in a row.
        max_answers: maximum number of answers. The first requirements have theirs.
    """
    columns: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if entry.examples:
            columns.setdefault((entry.group, entry.name), []).append(entry)
    groups, room = [], max_answers
    for number, found in enumerate(columns.values(), start=1):
        shown = []
        for entry in found:
            shown.append(replace(entry, examples=entry.examples[:room]))
            room -= len(shown[-1].examples)
        total = sum(len(entry.examples) for entry in found)
        group = AnswerGroup(number, tuple(shown), 0)
        groups.append(replace(group, left_out=total - group.count))
    return tuple(groups)
