"""Evidence of a verdict in words: what was read, and texts that count for or against it.

21 answers read: 18 violate it, 3 meet it
0.8571  "Sure! Use SAVE20."  (contains = 1)
"""

from collections.abc import Iterator
from dataclasses import dataclass

from llmchecker.checking.witnesses import ENDED, MAX_TOKENS
from llmchecker.suites.cases import Case
from llmchecker.suites.examples import Example
from llmchecker.suites.verdicts import CaseResult, Status
from llmchecker.utils.number_format import format_count, format_number

_DIGITS = 4
"""Significant digits of an estimate and of a probability of a text."""
_DECIMALS = 12
"""Decimals of an estimate near 1."""
_MAX_VIOLATING = 2
"""Maximum number of texts against the requirement of an unknown case."""


@dataclass(frozen=True)
class ShownText:
    """A text that counts for or against a requirement.

    Attributes:
        example: the text, its probability and the scores that decide it.
        verdict: what it does, as `violates it`; empty under a violated requirement.
    """

    example: Example
    verdict: str = ""

    @property
    def probability(self) -> str:
        """Its probability or its share of the answers; `sampled` where this is no information."""
        if self.example.is_violating is None or self.example.probability == 0:
            return "sampled"
        return format_number(self.example.probability, _DIGITS)

    @property
    def mark(self) -> str:
        """A mark of a text that goes on; empty for a whole answer."""
        return "" if self.example.ending in (ENDED, MAX_TOKENS) else " …"

    @property
    def reason(self) -> str:
        """What it does and why: `violates it (contains = 1)`; empty if nothing is to be said."""
        reason = f"({self.example.reason})" if self.example.reason else ""
        return " ".join(part for part in (self.verdict, reason) if part)


def describe_evidence(case: Case, result: CaseResult) -> str | None:
    """Describe what was read for a verdict; None where nothing was sampled."""
    answer = result.answer
    if answer is None or answer.sampled is None or not answer.samples or result.is_certain:
        return None
    noun = "answer" if answer.turns is None else "conversation"
    if answer.tally is None:
        samples, estimate = format_count(answer.samples, f"sampled {noun}"), answer.sampled.estimate
        if estimate is None:
            return samples
        # the last bits of a sum to 1 are rounding
        estimate = round(estimate, _DECIMALS) if estimate > 0.5 else estimate
        return f"estimate {format_number(estimate, _DIGITS)} from {samples}"
    satisfying, violating = answer.tally
    is_lower_bound = case.threshold is not None and case.threshold.comparison in (">=", ">")
    against, others = (violating, satisfying) if is_lower_bound else (satisfying, violating)
    parts = [_count_verb(against, "violate"), _count_verb(others, "meet")]
    if open_count := answer.samples - against - others:
        parts.append(f"{open_count:,} undecided")
    return f"{format_count(answer.samples, noun)} read: {', '.join(parts)}"


def iter_shown_texts(result: CaseResult) -> Iterator[ShownText]:
    """Yield the texts of a row that is violated or unknown.

    These are texts against the requirement. An unknown row without one has a text that meets it,
    and each row without a decided text has one that decides nothing so far.
    """
    if result.status is Status.VIOLATED:
        for witness in result.witnesses:
            yield ShownText(Example.from_witness(witness, is_violating=True))
    if result.status not in (Status.VIOLATED, Status.UNKNOWN):
        return
    violating, others, undecided = (
        [each for each in result.examples if each.is_violating is kind]
        for kind in (True, False, None)
    )
    if violating:
        # those of a violated requirement are its witnesses
        shown = violating[:_MAX_VIOLATING] if result.status is Status.UNKNOWN else []
        yield from (ShownText(each, "violates it") for each in shown)
        return
    yield from (ShownText(each, "meets it") for each in others[:1])
    yield from (ShownText(each, "so far") for each in undecided[:1])


def _count_verb(number: int, verb: str) -> str:
    """Return how many answers do something: `3 violate it`, `none violates it`."""
    form = verb if number > 1 else f"{verb}s"
    return f"{f'{number:,}' if number else 'none'} {form} it"
