"""Verdicts: the value of a query, bounds for the whole model, and costs."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from llmchecker.checking.decision import Decision, decide
from llmchecker.checking.interval import Interval
from llmchecker.errors import CheckFailed
from llmchecker.utils.atomic_files import read_json_with_digest, write_json_with_digest


@dataclass(frozen=True)
class Verdict:
    """The result of a check, and its costs.

    Attributes:
        query: text of the query as the user wrote it.
        value: the answer of the bounded process: the probability or expected score that =?
            requests, or whether the query holds in the start state. None where a probability is
            within rounding of a threshold, and where the condition of a conditional has no
            probability; a note gives the reason. None too without a bounded process.
        lower, upper: an `Interval` for the whole model; None if no bounds were computed, and where
            an expected score has no limit on that side.
        witnesses: the fields of each `witnesses.Witness`, most probable first.
        states, transitions: size of the reachable part of the chain. All sizes and seconds are
            None without a bounded process.
        states_explored, transitions_explored: size of the part that Storm's PRISM front end
            explores for this query. It stops where the query is decided.
        encode_seconds: seconds to build the chain from tree and scores.
        check_seconds: seconds to compute the value from the chain.
        versions: versions of storm, stormpy and llmchecker.
        notes: sentences with the reason of an unknown value or of bounds wider than necessary.
        estimate: the estimated probability or expected score for the whole model, from samples. For
            a query without =? whether it holds. None where samples do not decide the query, and
            without an estimation.
        low, high: the interval of the probability; None without an estimation.
        confidence: confidence of the interval from `low` to `high`; None without an estimation.
        samples: number of samples; None without an estimation.
    """

    query: str
    value: float | bool | None
    states: int | None
    transitions: int | None
    states_explored: int | None
    transitions_explored: int | None
    encode_seconds: float | None
    check_seconds: float | None
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

    @classmethod
    def without_process(cls, query: str, versions: Mapping[str, str]) -> "Verdict":
        """Return a verdict without a bounded process: no value, no sizes and no times."""
        names = ("states", "transitions", "states_explored", "transitions_explored")
        unknown = dict.fromkeys(("value", *names, "encode_seconds", "check_seconds"))
        return cls(query=query, versions=versions, **unknown)

    @property
    def decision(self) -> Decision | None:
        """Whether the query holds for the whole model; None for a query with =?."""
        # a query with =? has a number as its estimate or its bounds
        answers = [a for a in (self.lower, self.upper, self.estimate) if a is not None]
        if not answers or not all(isinstance(answer, bool) for answer in answers):
            return None
        return decide(self.lower, self.upper, self.estimate, self.confidence)

    def with_bounds(self, interval: Interval, note: str | None = None) -> "Verdict":
        """Return the same verdict with bounds for the whole model, and their note."""
        # notes on the value stay: they have other reasons than those on the bounds
        notes = self.notes if note is None else (*self.notes, note)
        # JSON has no infinity
        ends = (interval.lower, interval.upper)
        lower, upper = (None if math.isinf(end) else end for end in ends)
        return replace(self, lower=lower, upper=upper, notes=notes)

    def with_witnesses(self, witnesses: Iterable[Mapping[str, object]]) -> "Verdict":
        """Return the same verdict with the texts that decide the query."""
        return replace(self, witnesses=tuple(witnesses))

    def write(self, path: str | Path) -> None:
        """Write a JSON object with these fields, and its digest."""
        write_json_with_digest(asdict(self), path)

    @classmethod
    def read(cls, path: str | Path) -> "Verdict":
        """Read a file that `write` wrote.

        Raises:
            DamagedFile: the content of the file has changed.
            CheckFailed: the file does not contain a verdict.
        """
        try:
            verdict = cls(**read_json_with_digest(path))
            # JSON has lists, not tuples
            return replace(verdict.with_witnesses(verdict.witnesses), notes=tuple(verdict.notes))
        # a file of another kind or version has other fields
        except TypeError as error:
            raise CheckFailed(f"{path}: not a verdict: {error}") from error
