"""Estimates: what was found from samples, beside a verdict and in a file.

A file has the sha256 of its content inside it, so that an estimate that was changed is not taken
for one that was drawn.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from llmchecker.checking.verdicts import Verdict
from llmchecker.errors import DamagedFile
from llmchecker.files import read_sealed_json, write_sealed_json
from llmchecker.queries.query import Query

_OPPOSITE = {"<": ">=", "<=": ">"}


@dataclass(frozen=True)
class Estimate:
    """The answer to a query for the whole model, with confidence.

    Attributes:
        estimate: of a probability D + U times the share of samples that satisfy the formula.
        low, high: the interval, which covers the probability with at least `confidence`.
        confidence: the probability, before the samples are drawn, that the interval will be right.
        samples: how many were drawn.
        satisfying: how many of them satisfy the formula; None of an expected score.
        passes: how many texts the model was asked about.
        seed: of the samples.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    samples: int
    satisfying: int | None
    passes: int
    seed: int


@dataclass(frozen=True)
class EstimateRecord:
    """The estimate of a check's answer, or why there is none.

    Attributes:
        check: names model, start string, tree and query, as the file's path does.
        query: as it was asked.
        found: the estimate; None where samples of texts cannot estimate it.
        note: a sentence that says why there is no estimate; None where there is one.
        tree: the digest of the tree that was sampled.
        seconds: that the samples took, loading the model not included.
        making: the fields of a `making.Making`; None where the model was not asked.
    """

    check: str
    query: str
    found: Estimate | None
    note: str | None
    tree: str
    seconds: float
    making: Mapping[str, Any] | None

    def __str__(self) -> str:
        if self.found is None:
            return f"not estimated: {self.note}"
        found = self.found
        return (
            f"{found.estimate:.4g} in [{found.low:.4g}, {found.high:.4g}] with confidence "
            f"{found.confidence:g}, {found.samples} samples, {found.passes} passes, "
            f"{self.seconds:.1f} s"
        )

    def write(self, path: str | Path) -> None:
        """Write a JSON object in which the fields of the estimate stand beside the others."""
        nothing = dict.fromkeys(field.name for field in fields(Estimate))
        content = {
            "check": self.check,
            "query": self.query,
            **(nothing if self.found is None else asdict(self.found)),
            **{name: getattr(self, name) for name in ("note", "tree", "seconds", "making")},
        }
        write_sealed_json(content, path)

    @classmethod
    def read(cls, path: str | Path) -> "EstimateRecord":
        """Read what `write` wrote.

        Raises:
            DamagedFile: the file is not what was written.
        """
        content = read_sealed_json(path)
        try:
            estimated = {field.name: content.pop(field.name) for field in fields(Estimate)}
            found = None if estimated["samples"] is None else Estimate(**estimated)
            return cls(found=found, **content)
        except (KeyError, TypeError) as error:
            raise DamagedFile(f"{path} is not an estimate of this version: {error}") from error


def with_estimate(verdict: Verdict, query: Query, found: Estimate) -> Verdict:
    """The verdict with an estimate.

    The estimate of a threshold query is whether it holds, and None where the interval holds the
    threshold, so that samples do not tell.
    """
    answer: float | bool | None = found.estimate
    if not query.numeric:
        low, high = Fraction(found.low), Fraction(found.high)
        threshold = Fraction(query.root.threshold)
        above = {">=": low >= threshold, ">": low > threshold}
        below = {">=": high < threshold, ">": high <= threshold}
        rising = query.root.comparison in above
        comparison = query.root.comparison if rising else _OPPOSITE[query.root.comparison]
        answer = rising if above[comparison] else not rising if below[comparison] else None
    return replace(
        verdict,
        estimate=answer,
        low=found.low,
        high=found.high,
        confidence=found.confidence,
        samples=found.samples,
    )
