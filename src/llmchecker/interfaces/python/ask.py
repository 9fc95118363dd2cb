"""Anytime checking: refine and sample until the answer is narrow enough."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from llmchecker.checking import formatting
from llmchecker.checking.verdict import Verdict
from llmchecker.errors import ConfigError
from llmchecker.interfaces.python.check import Scorer, resolve_query
from llmchecker.interfaces.python.tree import Tree, parse_start
from llmchecker.properties.logic.query import Query
from llmchecker.utils.number_format import format_count, format_upper

if TYPE_CHECKING:
    from llmchecker.models.interface import LanguageModel

_DEFAULT_SECONDS = 30.0
"""Time limit in seconds, if width, passes and seconds are not given."""


@dataclass(frozen=True)
class Answer:
    """Certain bounds and an estimate of a query's answer for the whole model.

    Attributes:
        lower, upper: certain bounds, as in `Verdict`.
        estimate: the answer, estimated from samples; for a query without =?, whether it holds. None
            if the samples do not decide it, or without an estimate.
        low, high: confidence interval of the answer, valid for every number of `samples`; None
            without an estimate.
        confidence: the confidence of the interval, in [0, 1]; None without an estimate.
        samples: number of samples; None without an estimate.
        witnesses: the most probable texts that decide the query.
        passes: number of texts that the model evaluated.
        seconds: duration in seconds.
        tree: the tree that was built for the bounds.
        verdict: the answer as a `Verdict`.
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
        return formatting.format_rows_as_text(self._format_rows(), self.verdict)

    def _repr_html_(self) -> str:
        return formatting.format_rows_as_html(self._format_rows(), self.verdict)

    def _format_rows(self) -> dict[str, str]:
        """Return the figures of the answer by name, formatted."""
        start = formatting.build_start_rows(self.witnesses)
        return formatting.anytime_rows(self.verdict, self.passes) | start


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
    """Answer a query for the whole model within a budget of passes or seconds.

    Refinement expands the tree where this narrows the certain bounds. Samples of the model estimate
    the undecided probability. The same seed and passes give the same answer on the same machine.

    Args:
        query: a text such as `P=? [ F gender > 0 ]`, or a query that `parse` returned.
        model: a model that `load` returned.
        start: the start string or messages, as in `grow`.
        length: the horizon in tokens.
        width: width of the interval at which the work ends.
        passes: maximum number of texts to evaluate.
        seconds: time limit in seconds; 30 if width, passes and seconds are all absent.
        confidence: confidence of the estimate, in [0, 1].
        seed: seed of the samples.
        certain: whether to compute certain bounds only, without an estimate.
        end_of_sequence: as in `grow`.
        progress: a function that receives a sentence about the progress.
        quantifiers: as in `check`.

    Raises:
        InvalidQuery: the query does not parse, or contains an unknown quantifier.
        InvalidEstimate: a limit of the budget is out of its range.
        ConfigError: an argument has the wrong type, or a score is no integer or out of its range.
        CheckFailed: the query has no answer; the message contains the reason.
    """
    # A model is recognised by its method, so that a caller's own class is accepted.
    if isinstance(model, str) or not hasattr(model, "open_prefix"):
        raise ConfigError(f"model: {model!r} is not a language model; call load(…)")
    text = parse_start(start)
    checked_query = resolve_query(query, length, quantifiers)
    # Imported after the checks of the arguments, because torch and Storm take seconds to load.
    from llmchecker.checking.anytime.answer import check_anytime
    from llmchecker.checking.anytime.budget import AnswerBudget

    # Only these three arguments bound the work.
    if passes is None and seconds is None and width == 0:
        seconds = _DEFAULT_SECONDS
    budget = AnswerBudget(width, passes, seconds, confidence, seed, certain)
    callbacks: dict[str, Any] = {}
    if progress is not None:
        callbacks["report_refinement"] = lambda now: progress(
            f"refining: width {format_upper(now.width, 3)} after {format_count(now.passes, 'pass')}"
        )
        callbacks["report_samples"] = lambda done, total: progress(
            f"sampling: {done:,} of {format_count(total, 'sample')}"
        )
    result = check_anytime(
        model, text, checked_query, budget, end_of_sequence=end_of_sequence, **callbacks
    )
    verdict = result.verdict
    return Answer(
        verdict.lower,
        verdict.upper,
        verdict.estimate,
        verdict.low,
        verdict.high,
        verdict.confidence,
        verdict.samples,
        verdict.witnesses,
        result.passes,
        result.seconds,
        Tree.from_text_tree(result.tree),
        verdict,
    )
