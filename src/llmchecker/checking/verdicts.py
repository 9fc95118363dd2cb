"""Verdicts: the value of a query, its bounds for the whole model, and what the answer cost."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from llmchecker.errors import CheckFailed
from llmchecker.files import read_sealed_json, write_sealed_json


@dataclass(frozen=True)
class Interval:
    """What is certain of a query's answer for the whole model, all tokens included.

    The ends of a number are the least and the greatest value that it can have. An end is None where
    an expected score has no limit on that side. The ends of yes or no are whether the query surely
    holds and whether it may hold: (True, True) is true, (False, False) is false, and (False, True)
    is unknown.

    Attributes:
        lower, upper: the two ends.
        note: a sentence that says why the interval is wider than need be; None if it is not.
    """

    lower: float | bool | None
    upper: float | bool | None
    note: str | None = None


@dataclass(frozen=True)
class Verdict:
    """What a check found, and what it cost.

    Attributes:
        query: the query as it was asked.
        value: the answer of the bounded process: the probability or expected score that =? asks
            for, or whether the query holds in the start state. None where it is unknown, because a
            probability lies within rounding of a threshold or no answer could be computed.
        lower, upper: an `Interval` for the whole model; None where it was not asked for, and where
            an expected score has no limit on that side.
        witnesses: the fields of each `evidence.Witness`, most probable first.
        states, transitions: the size of the reachable part of the chain.
        states_explored, transitions_explored: the size of the part that Storm's PRISM front end
            explores for this query. It does not go on where the query is decided.
        encode_seconds: how long the chain took to make from tree and scores.
        check_seconds: how long the value took to compute from the chain.
        versions: of storm, stormpy and llmchecker.
        notes: sentences that say why the value is unknown or the bounds are wider than need be.
        estimate: of the probability for the whole model, from samples. For a query without =?
            whether it holds. None where samples do not tell, and where nothing was estimated.
        low, high: the interval of the probability; None where nothing was estimated.
        confidence: with which `low` and `high` hold; None where nothing was estimated.
        samples: how many were drawn; None where nothing was estimated.
    """

    query: str
    value: float | bool | None
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
    notes: tuple[str, ...] = ()
    estimate: float | bool | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    samples: int | None = None

    def bounded(self, interval: Interval) -> "Verdict":
        """The same verdict with bounds for the whole model."""
        notes = self.notes if interval.note is None else (*self.notes, interval.note)
        return replace(self, lower=interval.lower, upper=interval.upper, notes=notes)

    def with_witnesses(self, witnesses: Iterable[Mapping[str, object]]) -> "Verdict":
        """The same verdict with the texts that decide the query."""
        return replace(self, witnesses=tuple(witnesses))

    def write(self, path: str | Path) -> None:
        """Write a JSON object with these fields, and a seal."""
        write_sealed_json(asdict(self), path)

    @classmethod
    def read(cls, path: str | Path) -> "Verdict":
        """Read what `write` wrote.

        Raises:
            DamagedFile: the file has changed since it was written.
            CheckFailed: the file is not a verdict.
        """
        try:
            verdict = cls(**read_sealed_json(path))
            # JSON has lists, not tuples
            return replace(verdict.with_witnesses(verdict.witnesses), notes=tuple(verdict.notes))
        except TypeError as error:
            raise CheckFailed(f"{path} is not a verdict: {error}") from error
