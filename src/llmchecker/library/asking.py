"""Questions without a truncation: a caller's model is asked until the answer is narrow enough."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from llmchecker.checking import wording
from llmchecker.checking.verdicts import Verdict
from llmchecker.errors import ConfigError
from llmchecker.library.answers import Scorer, quantifiers_asked
from llmchecker.library.trees import Tree, given_start
from llmchecker.queries.parser import parse
from llmchecker.queries.query import Query

if TYPE_CHECKING:
    from llmchecker.models.protocols import LanguageModel

SECONDS = 30.0
"""The time for a question if nothing else ends the work."""


@dataclass(frozen=True)
class Answer:
    """What is certain of a query's answer for the whole model, and what holds with confidence.

    Attributes:
        lower, upper: certain, as those of a verdict.
        estimate: the answer as samples tell it; of a query without =? whether it holds. None where
            samples do not tell, and where nothing was estimated.
        low, high: an interval that covers the answer with at least this `confidence`, for every
            number of `samples`; None where nothing was estimated, as these are then.
        witnesses: the most probable texts that decide the query.
        passes: how many texts the model was asked about.
        seconds: that the answer took.
        tree: what was grown for the bounds.
    """

    lower: float | bool | None
    upper: float | bool | None
    estimate: float | bool | None
    low: float | None
    high: float | None
    confidence: float | None
    samples: int | None
    witnesses: tuple[Mapping[str, object], ...]
    passes: int
    seconds: float
    tree: Tree
    verdict: Verdict = field(repr=False)

    def __str__(self) -> str:
        figures = wording.verdict_rows(self.verdict)
        # the value of a tree that was grown for its bounds only is that of no alpha and k
        del figures["value"]
        rows = {
            "query": figures.pop("query"),
            "certain": figures.pop("whole model"),
            **figures,
            "passes": f"{self.passes:,}",
        }
        return "\n".join([*wording.aligned(rows), *wording.verdict_details(self.verdict)])


def ask(
    query: str | Query,
    model: "LanguageModel",
    start: str | Sequence[Mapping[str, str]],
    /,
    *,
    length: int = 5,
    width: float = 0.0,
    passes: int | None = None,
    seconds: float | None = None,
    confidence: float = 0.99,
    seed: int = 0,
    certain: bool = False,
    end_of_sequence: Literal["terminal", "ordinary"] = "terminal",
    progress: Callable[[str], None] | None = None,
    **quantifiers: Scorer,
) -> Answer:
    """Answer a query about what a model writes, as narrowly as some passes or seconds allow.

    A tree grows where it narrows the certain bounds, and samples of the model estimate what is left
    open. The same seed and passes give the same answer on the same machine.

    Args:
        query: a text such as `P=? [ F gender > 0 ]`, or the query that `parse` made of one.
        model: a model that `load` returned.
        start: the start string or messages, as in `grow`.
        length: the horizon in tokens.
        width: of the interval at which the work ends.
        passes: how many texts the model may be asked about.
        seconds: how long the answer may take; 30 if none of width, passes and seconds is given.
        confidence: of the estimate.
        seed: of the samples.
        certain: whether all work goes into the certain bounds, with no estimate.
        end_of_sequence: as in `grow`.
        progress: called with a sentence about how far the work is.
        quantifiers: as in `check`.

    Raises:
        InvalidQuery: the query does not parse, or names a quantifier that is not known.
        InvalidEstimate: an effort out of its range.
        ConfigError: an argument is of the wrong kind, or a score is no integer or out of its range.
        CheckFailed: there is no answer; the message says why.
    """
    if isinstance(model, str) or not hasattr(model, "continuations"):
        raise ConfigError(f"{model!r} is not a language model; load(…) returns one")
    text = given_start(start)
    query = parse(query) if isinstance(query, str) else query
    asked = quantifiers_asked(query, length, quantifiers)
    # Imported here: torch and Storm take seconds, for which mistakes need not wait.
    from llmchecker.deciding.effort import Effort
    from llmchecker.deciding.inquiry import inquire

    if passes is None and seconds is None and width == 0:
        seconds = SECONDS
    effort = Effort(width, passes, seconds, confidence, seed, certain)
    told: dict[str, Any] = {}
    if progress is not None:
        told["refining"] = lambda now: progress(
            f"refining: width {now.width:.3g} after {now.passes:,} passes"
        )
        told["sampling"] = lambda done, total: progress(f"sampling: {done:,} of {total:,} samples")
    found = inquire(
        model, text, query, asked, length, effort, end_of_sequence=end_of_sequence, **told
    )
    verdict = found.verdict
    return Answer(
        verdict.lower,
        verdict.upper,
        verdict.estimate,
        verdict.low,
        verdict.high,
        verdict.confidence,
        verdict.samples,
        verdict.witnesses,
        found.passes,
        found.seconds,
        Tree.of(found.tree),
        verdict,
    )
