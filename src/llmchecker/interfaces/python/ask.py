"""Anytime checking: refine and sample until the answer is narrow enough."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from llmchecker.checking import formatting
from llmchecker.checking.anytime.budget import AnswerBudget
from llmchecker.checking.verdict import Verdict
from llmchecker.errors import ConfigError, InterruptedCheck, NoTruthValue
from llmchecker.interfaces.python.check import Scorer, resolve_query
from llmchecker.interfaces.python.tree import Tree, parse_start
from llmchecker.models.decoding.chat_template import Start
from llmchecker.properties.logic.ast import Probability
from llmchecker.properties.logic.query import Query
from llmchecker.utils.optional_packages import explain_missing_packages

if TYPE_CHECKING:
    from llmchecker.checking.anytime.answer import AnytimeResult
    from llmchecker.checking.anytime.answer_forecast import Forecast
    from llmchecker.checking.anytime.anytime_check import AnytimeProgress
    from llmchecker.models.interface import LanguageModel
    from llmchecker.reporting.answer_figure import Axes

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
        witnesses: the most probable texts that decide the query for the whole model; for an
            unknown verdict, those that speak against it.
        passes: number of texts that the model evaluated.
        seconds: duration in seconds.
        tree: the tree that was built for the bounds.
        verdict: the answer as a `Verdict`.
        query: the parsed query.
        history: both intervals after each round of the work.
        forecast: the costs of a decision or of the wanted width; None if they are reached or
            unknown.
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
    query: Query = field(repr=False)
    history: tuple["AnytimeProgress", ...] = field(repr=False)
    forecast: "Forecast | None" = None

    @property
    def holds(self) -> bool | None:
        """Whether the query holds; None if this is unknown, and for a query with =?."""
        return None if self.verdict.decision is None else self.verdict.decision.holds

    def __bool__(self) -> bool:
        """Return whether the query holds.

        Raises:
            NoTruthValue: this is unknown, or the query has =?.
        """
        if self.holds is not None:
            return self.holds
        if self.query.is_numeric:
            raise NoTruthValue(
                f"{self.query.text}: the answer is a number; compare answer.low and answer.high, "
                "or ask with a threshold"
            )
        raise NoTruthValue(
            f"{self.query.text}: the outcome is UNKNOWN; test answer.holds, or allow more passes"
        )

    def __str__(self) -> str:
        return formatting.format_rows_as_text(self._format_rows(), self.verdict)

    def _repr_html_(self) -> str:
        return formatting.format_rows_as_html(self._format_rows(), self.verdict)

    def plot(self, *, axes: "Axes | None" = None) -> "Axes":
        """Plot both intervals against the passes, and any threshold as a line.

        Args:
            axes: axes for the plot; None for new ones.
        """
        # imported here, because matplotlib takes a second to load
        with explain_missing_packages():
            from llmchecker.reporting.answer_figure import draw_history

        root = self.query.root
        threshold = root.threshold if isinstance(root, Probability) else None
        return draw_history(
            self.history, self.confidence, None if threshold is None else float(threshold), axes
        )

    def _format_rows(self) -> dict[str, str]:
        """Return the figures of the answer by name, formatted."""
        return (
            formatting.anytime_rows(self.verdict, self.passes)
            | formatting.build_forecast_row(self.forecast)
            | formatting.build_start_rows(self.witnesses)
        )


def ask(
    query: str | Query,
    model: "LanguageModel",
    start: str | Sequence[Mapping[str, str]] | None = None,
    /,
    *,
    user: str | None = None,
    system: str | None = None,
    length: int = 5,
    width: float = 0.0,
    passes: int | None = None,
    seconds: float | None = None,
    confidence: float = 0.99,
    seed: int = 0,
    certain: bool = False,
    end_of_sequence: Literal["terminal", "ordinary"] = "terminal",
    progress: Callable[[str], None] | None = None,
    watch: Callable[["AnytimeProgress"], bool | None] | None = None,
    **quantifiers: Scorer,
) -> Answer:
    """Answer a query for the whole model within a budget of passes or seconds.

    Samples of the model estimate the undecided probability, and their texts narrow the certain
    bounds. The same seed and passes give the same answer on the same machine.

    Args:
        query: a text such as `P=? [ F gender > 0 ]`, or a query that `parse` returned.
        model: a model that `load` returned.
        start: the start string or messages, as in `grow`; None with `user`.
        user: what a user says to a chat model.
        system: the system prompt of that chat.
        length: the horizon in tokens.
        width: width of the interval at which the work ends.
        passes: maximum number of texts to evaluate.
        seconds: time limit in seconds; 30 if width, passes and seconds are all absent.
        confidence: confidence of the estimate, in [0, 1].
        seed: seed of the samples.
        certain: whether to compute certain bounds only, without an estimate.
        end_of_sequence: as in `grow`.
        progress: a function that receives a line about the progress after each round.
        watch: a function that receives both intervals after each round, as `AnytimeProgress`; the
            work ends when it returns true.
        quantifiers: as in `check`.

    Raises:
        InvalidQuery: the query does not parse, or contains an unknown quantifier.
        InvalidEstimate: a limit of the budget is out of its range.
        ConfigError: an argument has the wrong type, or a score is no integer or out of its range.
        InterruptedCheck: the model failed; its `result` is the `Answer` so far.
        CheckFailed: the query has no answer; the message contains the reason.
    """
    check_model(model)
    text = parse_prompt(start, user, system)
    checked_query = resolve_query(query, length, quantifiers)
    # Imported after the checks of the arguments, because torch and Storm take seconds to load.
    from llmchecker.checking.anytime.answer import check_anytime

    budget = create_budget(width, passes, seconds, confidence, seed, certain)
    has_answer = checked_query.estimation_obstacle is None
    try:
        result = check_anytime(
            model,
            text,
            checked_query,
            budget,
            end_of_sequence=end_of_sequence,
            watch=combine_watches(progress, watch, has_answer),
        )
    except InterruptedCheck as error:
        answer = _build_answer(error.result, checked_query.query)
        raise InterruptedCheck(error.problem, answer) from error.__cause__
    return _build_answer(result, checked_query.query)


def check_model(model: object) -> None:
    """Check that an object is a language model.

    Raises:
        ConfigError: it is not.
    """
    # A model is recognised by its method, so that a caller's own class is accepted.
    if isinstance(model, str) or not hasattr(model, "open_prefix"):
        raise ConfigError(f"model: {model!r} is not a language model; load(…) returns one")


def parse_prompt(start: object, user: str | None, system: str | None) -> Start:
    """Return the start string, or the chat of a user and a system prompt.

    Raises:
        ConfigError: none or both are given, or the start string is invalid.
    """
    if start is not None:
        # a start string is continued without a chat template
        if user is not None or system is not None:
            raise ConfigError("user, system: they make a chat; leave them out, or the start string")
        return parse_start(start)
    if user is None:
        raise ConfigError("start: a start string is missing; give one, messages, or user=…")
    messages = {"system": system, "user": user}
    return parse_start(
        [{"role": role, "content": text} for role, text in messages.items() if text is not None]
    )


def create_budget(
    width: float,
    passes: int | None,
    seconds: float | None,
    confidence: float,
    seed: int,
    certain: bool,
) -> AnswerBudget:
    """Create the budget of the arguments, with a time limit if no limit is given.

    Raises:
        InvalidEstimate: a limit is out of its range.
    """
    # only these three arguments bound the work
    if passes is None and seconds is None and width == 0:
        seconds = _DEFAULT_SECONDS
    return AnswerBudget(width, passes, seconds, confidence, seed, certain)


def combine_watches(
    progress: Callable[[str], None] | None,
    watch: Callable[["AnytimeProgress"], bool | None] | None,
    has_answer: bool = True,
) -> Callable[["AnytimeProgress"], bool]:
    """Return a function that passes intervals to both functions.

    Args:
        progress: receives a line; None for nothing.
        watch: receives the intervals, and returns whether the work ends; None for nothing.
        has_answer: as in `formatting.format_progress`.
    """

    def report(now: "AnytimeProgress") -> bool:
        if progress is not None:
            progress(formatting.format_progress(now, has_answer))
        return watch is not None and bool(watch(now))

    return report


def _build_answer(result: "AnytimeResult", query: Query) -> Answer:
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
        query,
        result.history,
        result.forecast,
    )
