"""The answer to a query: certain bounds, samples, the bounded process, witnesses and costs.

Everything that answers a query returns an `Answer`, whatever made it: a chain, a refined tree, or
samples. Three figures are never mixed. `certain` holds for the whole model. `sampled` holds for the
whole model with its confidence. `bounded` is exact for the bounded process alone.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmchecker.checking.decision import Decision, decide
from llmchecker.checking.endings import Beginnings, Endings, describe_endings, find_beginnings
from llmchecker.checking.forecast import Forecast
from llmchecker.checking.measurement import Measurement, find_threshold
from llmchecker.checking.witnesses import Witness
from llmchecker.errors import CheckFailed, DamagedFile, LLMCheckerError, NoTruthValue
from llmchecker.properties.definitions import describe_quantifiers, encode, format_definitions
from llmchecker.properties.logic.ast import Expectation
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.properties.property import Property
from llmchecker.utils.atomic_files import read_json_with_digest, write_json_with_digest
from llmchecker.utils.exit_status import ExitStatus
from llmchecker.utils.interval import NUMBERS, PROBABILITIES, TRUTHS, Interval
from llmchecker.utils.stored_fields import (
    COUNT,
    END,
    NUMBER,
    OBJECT,
    TEXT,
    TRUTH,
    check_fields,
    list_of,
    mapping_of,
    optional,
    record,
)

# files of answers are read without the packages that compute them
if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from llmchecker.checking.markov.scored_tree import ScoredTree
    from llmchecker.checking.sample_values import SampleValues

_FORMAT = "llmchecker answer 5"
"""The format of an answer as JSON; its number changes with the keys."""
_INTERVAL = record({"lower": NUMBER, "upper": NUMBER})
_FIELDS = {
    "query": TEXT,
    "L": COUNT,
    "turns": optional(COUNT),
    **dict.fromkeys(("bounded", "lower", "upper", "low", "high"), optional(END)),
    "probability": optional(_INTERVAL),
    **dict.fromkeys(("estimate", "confidence"), optional(NUMBER)),
    **dict.fromkeys(("samples", "seed"), optional(COUNT)),
    "ended": _INTERVAL,
    "cut": NUMBER,
    "counted": optional(list_of(COUNT, 2)),
    "tally": optional(list_of(COUNT, 2)),
    "forecast": optional(
        record(
            {
                **dict.fromkeys(("passes", "least_passes", "most_passes"), optional(COUNT)),
                **dict.fromkeys(("samples_to_hold", "passes_to_hold"), optional(COUNT)),
                **dict.fromkeys(("seconds", "width"), optional(NUMBER)),
                "unit": TEXT,
            }
        )
    ),
    "witnesses": list_of(
        record(
            {
                **{"uid": COUNT, "text": TEXT, "probability": NUMBER},
                **{"kind": TEXT, "rest": TRUTH, "kept": COUNT, "ending": TEXT},
                "scores": mapping_of(NUMBER),
            }
        )
    ),
    "notes": list_of(TEXT),
    **dict.fromkeys(("states", "transitions", "passes", "answers"), optional(COUNT)),
    **dict.fromkeys(("states_explored", "transitions_explored"), optional(COUNT)),
    **dict.fromkeys(("encode_seconds", "check_seconds", "seconds"), optional(NUMBER)),
    "versions": mapping_of(TEXT),
    "quantifiers": mapping_of(OBJECT),
    "assertion": optional(OBJECT),
}
"""The fields of an answer as JSON that are read."""
_HISTORY = {
    **dict.fromkeys(("passes", "samples"), list_of(COUNT)),
    "seconds": list_of(NUMBER),
    **dict.fromkeys(("lower", "upper", "low", "high"), list_of(optional(END))),
}
"""The columns of the history that a file of its own has: a row for each round."""


@dataclass(frozen=True)
class Progress:
    """The intervals of a check at one time.

    Attributes:
        passes: number of texts that the models evaluated so far; with texts alone, number of the
            answers and simulated messages of the samples so far.
        seconds: seconds since the start.
        certain: the certain bounds of the answer.
        sampled: the interval with confidence, within these bounds; None without samples.
        samples: number of samples so far.
    """

    passes: int
    seconds: float
    certain: Interval
    sampled: Interval | None = None
    samples: int = 0

    @property
    def narrower_interval(self) -> Interval:
        """The narrower of both intervals."""
        return self.certain if self.sampled is None else self.sampled

    @property
    def width(self) -> float:
        """The width of the narrower of both intervals."""
        return self.narrower_interval.width

    @property
    def lower(self) -> float:
        """The lower end of `certain`."""
        return self.certain.lower

    @property
    def upper(self) -> float:
        """The upper end of `certain`."""
        return self.certain.upper

    @property
    def low(self) -> float | None:
        """The lower end of `sampled`; None without samples."""
        return None if self.sampled is None else self.sampled.lower

    @property
    def high(self) -> float | None:
        """The upper end of `sampled`; None without samples."""
        return None if self.sampled is None else self.sampled.upper


@dataclass(frozen=True)
class Sampled:
    """The interval of a probability or an expected score, from samples.

    Attributes:
        interval: the interval, which covers the number with at least `confidence`.
        estimate: the estimated number. None of a conditional whose condition neither the tree nor a
            sample satisfies.
        confidence: the probability, before the samples are drawn, that the interval will be right.
        samples: number of samples; 0 if the tree decides every text.
        seed: seed of the samples.
    """

    interval: Interval
    estimate: float | None
    confidence: float
    samples: int
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Costs:
    """The sizes and times of an answer; None for what it did not need.

    Attributes:
        states, transitions: size of the reachable part of the chain.
        states_explored, transitions_explored: size of the part that Storm's PRISM front end
            explores for the query. It stops where the query is decided.
        encode_seconds: seconds to build and score the tree as far as this run did, and to build the
            chain if Storm reads it.
        check_seconds: seconds to compute the value.
        passes: number of texts that the model evaluated; None for a tree.
        seconds: seconds of the whole computation; None for a tree.
        answers: number of answers of a model that returns texts alone; None for other models.
    """

    states: int | None = None
    transitions: int | None = None
    states_explored: int | None = None
    transitions_explored: int | None = None
    encode_seconds: float | None = None
    check_seconds: float | None = None
    passes: int | None = None
    seconds: float | None = None
    answers: int | None = None


@dataclass(frozen=True)
class Evidence:
    """What an anytime answer was computed from; it stays in memory.

    Attributes:
        explore: returns the tree of the explored texts with their scores, and (formulas, n) 0, 1 or
            `UNDECIDED`, what each text decided for each path formula; None for a model that returns
            texts alone.
        mean: the `MeanEvidence` of the samples; None without samples.
        texts: the most frequent answers of a model that returns texts alone, of both kinds; the
            most probable conversations.
        conversation: the `ExploredConversation`; None for a query about the tokens of one text.
        list_samples: returns the sampled texts that the explored tree leaves out, up to a number of
            each kind; None without such a tree.
        samples: the values of the samples, which may be none yet; None if no sample can estimate
            the answer.
    """

    explore: "Callable[[], tuple[ScoredTree, np.ndarray]] | None"
    mean: Any = None
    texts: tuple[Witness, ...] = ()
    conversation: Any = None
    samples: "SampleValues | None" = None
    list_samples: "Callable[[int], tuple[Witness, ...]] | None" = None

    @property
    def scored(self) -> "ScoredTree":
        """The tree of the explored texts with their scores, built on first use."""
        return self._explored[0]

    @property
    def truth(self) -> "np.ndarray":
        """(formulas, n): what each text decided for each path formula."""
        return self._explored[1]

    @cached_property
    def _explored(self) -> "tuple[ScoredTree, np.ndarray]":
        if self.explore is None:
            raise CheckFailed("tree: a model that returns texts alone has none; read the answer")
        return self.explore()


@dataclass(frozen=True)
class Answer:
    """The answer to a query, and its costs.

    Attributes:
        query: the parsed query.
        horizon: largest number of tokens of a text.
        certain: certain bounds for the whole model, which includes all tokens.
        sampled: the interval of the samples, within `certain`; for a query without =? that of the
            probability. None without samples.
        bounded: the answer of the bounded process: a number, or whether the query holds in the
            start state. None without such a process, and where it is unknown; a note then gives the
            reason.
        witnesses: the texts that decide the query, most probable first.
        notes: sentences with the reason of an unknown figure or of bounds wider than necessary.
        costs: sizes and times.
        versions: versions of storm, stormpy and llmchecker.
        probability: for P with a threshold, certain bounds of the probability; all probabilities if
            they are not known.
        endings: how much of the texts had ended at the horizon.
        history: both intervals after each round of the work.
        forecast: the costs of a decision or of the wanted width; None if they are reached or
            unknown.
        evidence: what the answer was computed from; None for a tree and for a stored answer.
        turns: number of turns of the conversation that the query is about, each of which has the
            horizon; None for the tokens of one text.
        quantifiers: type and settings of each quantifier of the query by name, as values of JSON.
        assertion: the assertion that the query stands for, likewise; None for none.
        tally: for a path formula and a model that returns texts alone, how many of its answers, or
            of its conversations, satisfy the formula, and how many violate it; else None.
    """

    query: Query
    horizon: int
    certain: Interval
    sampled: Sampled | None = None
    bounded: float | bool | None = None
    witnesses: tuple[Witness, ...] = ()
    notes: tuple[str, ...] = ()
    costs: Costs = Costs()
    versions: Mapping[str, str] = field(default_factory=dict, repr=False)
    probability: Interval = field(default=PROBABILITIES, repr=False)
    endings: Endings = field(default=Endings(), repr=False)
    history: tuple[Progress, ...] = field(default=(), repr=False)
    forecast: Forecast | None = None
    evidence: Evidence | None = field(default=None, repr=False, compare=False)
    turns: int | None = None
    quantifiers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    assertion: Mapping[str, Any] | None = field(default=None, repr=False)
    tally: tuple[int, int] | None = None

    @property
    def definitions(self) -> dict[str, str]:
        """What the query asks for in words, by `assertion` or `quantifiers`; see there."""
        return format_definitions(self.quantifiers, self.assertion)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields for a copy or another process, without what stays in memory."""
        state = {each.name: getattr(self, each.name) for each in fields(Answer)}
        return state | {"evidence": None}

    def __bool__(self) -> bool:
        """Return whether the query holds.

        Raises:
            NoTruthValue: this is unknown, or the query has =?.
        """
        if self.holds is not None:
            return self.holds
        text = self.query.text
        if not self.query.is_numeric:
            raise NoTruthValue(
                f"{text}: the outcome is UNKNOWN; test answer.holds, or allow more passes"
            )
        raise NoTruthValue(
            f"{text}: the answer is a number; compare answer.low and answer.high, or ask with a "
            "threshold"
        )

    def __repr__(self) -> str:
        """Return the query and its figures on one line, without texts and costs."""
        line: str = load_views().format_line(self)
        return line

    def __str__(self) -> str:
        text: str = load_views().format_text(self)
        return text

    def _repr_html_(self) -> str:
        html: str = load_views().render_html(self)
        return html

    def plot(self, label: str | None = None, *, axes: Any = None) -> Any:
        """Plot the answer, and return the axes of matplotlib.

        On a model: both intervals against the passes, and any threshold as a line. On a tree: value
        and bounds; for a query without =?, the texts that decide it.

        Args:
            label: on a tree, the label of the row; the start string if it is None.
            axes: axes of the plot of another answer, to which this one is added; None for new axes.

        Raises:
            InvalidQuery: on a tree, the query has no =?, and no single text decides it.
        """
        return load_views().draw_plot(self, label, axes)

    @property
    def decision(self) -> Decision | None:
        """Whether the query holds for the whole model; None for a query with =?."""
        if self.query.is_numeric:
            return None
        certain = bool(self.lower) if self.certain.is_exact else None
        threshold = find_threshold(self.query)
        # samples are read for a single probability only
        if self.sampled is None or threshold is None:
            return decide(certain, None, None)
        return decide(certain, threshold.compare(self.sampled.interval), self.sampled.confidence)

    @property
    def measurement(self) -> Measurement:
        """Bounds and interval of the number of the query; of P>=p of its probability."""
        # the ends of `certain` are truth values for a query without =?
        certain = self.certain if self.query.is_numeric else self.probability
        estimate = None
        if self.sampled is None:
            interval = certain
        else:
            interval = certain.cut(self.sampled.interval)
            estimate = self.sampled.estimate if self.query.is_numeric else None
        has_evidence = self.sampled is not None or interval.is_exact
        if estimate is None and has_evidence:
            estimate = (interval.lower + interval.upper) / 2
        return Measurement(certain, interval, estimate)

    @property
    def about(self) -> str:
        """What the answer is about: `within 6 tokens; 0.00 of the answers had ended`."""
        return describe_endings(self.horizon, self.endings, self.turns)

    @property
    def warning(self) -> str | None:
        """A warning of a verdict that longer texts may change; None without one."""
        found = None if self.decision is None else self.find_beginnings(self.decision)
        return None if found is None else str(found)

    def find_beginnings(self, decision: Decision) -> Beginnings | None:
        """Return the beginnings that a decision is about; None if no longer text may change it."""
        return find_beginnings(
            self.query, decision, self.measurement, self.horizon, self.endings, self.turns
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """The warning, and the notes."""
        return self.notes if self.warning is None else (self.warning, *self.notes)

    @property
    def holds(self) -> bool | None:
        """Whether the query holds; None if this is unknown, and for a query with =?."""
        return None if self.decision is None else self.decision.holds

    @property
    def exit_status(self) -> ExitStatus:
        """The exit status of a command: 0 for a query with =?, else that of the decision."""
        return ExitStatus.SUCCESS if self.decision is None else self.decision.exit_status

    @property
    def lower(self) -> float | bool:
        """The lower end of `certain`."""
        return self.certain.lower

    @property
    def upper(self) -> float | bool:
        """The upper end of `certain`."""
        return self.certain.upper

    @property
    def estimate(self) -> float | bool | None:
        """The estimated number, or whether a query without =? holds.

        None without samples, and where they do not decide the query.
        """
        if self.sampled is None:
            return None
        return self.sampled.estimate if self.query.is_numeric else self.holds

    @property
    def low(self) -> float | None:
        """The lower end of the interval of the samples; None without samples."""
        return None if self.sampled is None else self.sampled.interval.lower

    @property
    def high(self) -> float | None:
        """The upper end of the interval of the samples; None without samples."""
        return None if self.sampled is None else self.sampled.interval.upper

    @property
    def confidence(self) -> float | None:
        """The confidence of the interval of the samples; None without samples."""
        return None if self.sampled is None else self.sampled.confidence

    @property
    def samples(self) -> int | None:
        """Number of samples; None without samples."""
        return None if self.sampled is None else self.sampled.samples

    @property
    def is_text_only(self) -> bool:
        """Whether the model returns texts alone, which leave every number possible."""
        return self.costs.answers is not None

    @property
    def has_bounds(self) -> bool:
        """Whether the certain bounds exclude a value; texts alone do so by listed probabilities."""
        if not self.is_text_only:
            return True
        # the first bounds of texts alone are all values
        return bool(self.history) and self.certain != self.history[0].certain

    @property
    def passes(self) -> int | None:
        """Number of texts that the model evaluated; None for a tree."""
        return self.costs.passes

    @property
    def seconds(self) -> float | None:
        """Seconds of the whole computation; None for a tree."""
        return self.costs.seconds

    def with_samples(self, sampled: Sampled) -> "Answer":
        """Return the same answer with samples, whose interval is cut to the certain bounds."""
        # bounds of a threshold query are truth values, so only [0, 1] can cut the interval
        limits = self.certain if self.query.is_numeric else PROBABILITIES
        interval = sampled.interval
        # without samples everything is decided, so the certain bounds are the answer
        if self.query.is_numeric and sampled.samples == 0 and math.isfinite(limits.width):
            interval = limits
        interval = limits.cut(interval)
        estimate = None if sampled.estimate is None else interval.clip(sampled.estimate)
        return replace(self, sampled=replace(sampled, interval=interval, estimate=estimate))

    def with_property(self, asked: Property) -> "Answer":
        """Return the same answer with its quantifiers' settings and its assertion."""
        return replace(
            self,
            quantifiers=describe_quantifiers(asked.quantifiers),
            assertion=None if asked.assertion is None else encode(asked.assertion),
        )

    def narrow(self, other: "Answer") -> "Answer":
        """Return this answer with the bounds, samples and notes of another one to the same query.

        The certain bounds are those that both share, and cut the interval of the samples.

        Raises:
            CheckFailed: the bounds are disjoint.
        """
        lower, upper = max(self.lower, other.lower), min(self.upper, other.upper)
        if lower > upper:
            raise CheckFailed(
                f"{self.query.text}: the bounds of tree and answer are disjoint; compute both on "
                "one machine"
            )
        notes = tuple(dict.fromkeys((*self.notes, *other.notes)))
        endings = self.endings.narrow(other.endings)
        answer = replace(
            self,
            certain=Interval(lower, upper),
            notes=notes,
            endings=endings,
            quantifiers=self.quantifiers or other.quantifiers,
        )
        return answer if other.sampled is None else answer.with_samples(other.sampled)

    def as_json(self) -> dict[str, Any]:
        """Return the figures, texts and costs as an object for JSON.

        An absent figure and an end without a limit are null. The estimate is a number; `outcome`
        contains whether a query without =? holds.
        """
        sampled = self.sampled
        decision = self.decision
        return {
            "format": _FORMAT,
            "query": self.query.text,
            "L": self.horizon,
            "turns": self.turns,
            "bounded": self.bounded,
            "lower": _encode_end(self.lower),
            "upper": _encode_end(self.upper),
            "probability": None if self.probability == PROBABILITIES else asdict(self.probability),
            "estimate": None if sampled is None else sampled.estimate,
            "low": self.low,
            "high": self.high,
            "confidence": self.confidence,
            "samples": self.samples,
            "seed": None if sampled is None else sampled.seed,
            "outcome": None if decision is None else decision.outcome.value,
            "certainty": None if decision is None else decision.certainty,
            "ended": asdict(self.endings.ended),
            "cut": self.endings.cut,
            "counted": self.endings.counted,
            "thought": None if self.endings.thought is None else asdict(self.endings.thought),
            "limited": None if self.endings.limited is None else asdict(self.endings.limited),
            "tally": self.tally,
            "warning": self.warning,
            "forecast": None if self.forecast is None else asdict(self.forecast),
            "witnesses": [asdict(witness) for witness in self.witnesses],
            "notes": list(self.notes),
            **asdict(self.costs),
            "versions": dict(self.versions),
            "quantifiers": {name: dict(each) for name, each in self.quantifiers.items()},
            "assertion": None if self.assertion is None else dict(self.assertion),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any], place: str | Path) -> "Answer":
        """Return the answer whose figures, texts and costs a JSON object has.

        Args:
            content: an object of `as_json`, which may have further keys.
            place: the file of the object, for errors.

        Raises:
            DamagedFile: the object has another format, or lacks a key.
        """
        if not isinstance(content, Mapping):
            raise _build_format_error(place, "is no object")
        found = content.get("format")
        if found != _FORMAT:
            raise _build_format_error(place, f"has the format {found!r}, not {_FORMAT!r}")
        try:
            check_fields(content, _FIELDS)
            query = parse(content["query"])
            sampled = None
            if content["samples"] is not None:
                sampled = Sampled(
                    Interval(content["low"], content["high"]),
                    *(content[key] for key in ("estimate", "confidence", "samples", "seed")),
                )
            limits = select_trivial_interval(query)
            lower, upper = content["lower"], content["upper"]
            probability, forecast = content["probability"], content["forecast"]
            counted, tally = content["counted"], content["tally"]
            thought, limited = content.get("thought"), content.get("limited")
            return cls(
                query=query,
                horizon=content["L"],
                turns=content["turns"],
                certain=Interval(
                    limits.lower if lower is None else lower,
                    limits.upper if upper is None else upper,
                ),
                sampled=sampled,
                bounded=content["bounded"],
                witnesses=tuple(Witness(**fields) for fields in content["witnesses"]),
                notes=tuple(content["notes"]),
                costs=Costs(**{name: content[name] for name in Costs.__dataclass_fields__}),
                versions=content["versions"],
                quantifiers=content["quantifiers"],
                assertion=content["assertion"],
                probability=PROBABILITIES if probability is None else Interval(**probability),
                endings=Endings(
                    Interval(**content["ended"]),
                    content["cut"],
                    None if counted is None else tuple(counted),
                    *(None if each is None else Interval(**each) for each in (thought, limited)),
                ),
                forecast=None if forecast is None else Forecast(**forecast),
                history=_decode_history(content.get("history"), limits),
                tally=None if tally is None else (tally[0], tally[1]),
            )
        except (TypeError, ValueError, LLMCheckerError) as error:
            raise _build_format_error(place, f"is not an answer ({error})") from error

    def write(self, path: str | Path, details: Mapping[str, Any] | None = None) -> None:
        """Write the answer and its history as JSON, with its digest.

        Args:
            path: the file.
            details: further keys of the file, as values of JSON.
        """
        columns = {name: [getattr(each, name) for each in self.history] for name in _HISTORY}
        for name in ("lower", "upper"):
            columns[name] = [_encode_end(end) for end in columns[name]]
        content = {**self.as_json(), "history": columns, **(details or {})}
        write_json_with_digest(content, path)

    @classmethod
    def read(cls, path: str | Path) -> "Answer":
        """Read a file that `write` wrote.

        Raises:
            DamagedFile: the file changed, or contains no answer of this format.
        """
        return cls.from_json(read_json_with_digest(path), path)


def select_trivial_interval(query: Query) -> Interval:
    """Select the interval that contains every answer to a query."""
    if not query.is_numeric:
        return TRUTHS
    # a quantifier may have no limits, so no finite ends hold for all scores
    return NUMBERS if isinstance(query.root, Expectation) else PROBABILITIES


def load_views() -> Any:
    """Load the module of the views of answers and comparisons, by its name.

    An import would make them a part of the code that computes answers, so that a change of a colour
    would compute all answers of the workflow again.
    """
    return import_module("llmchecker.reporting.answer_views")


def _encode_end(end: float | bool) -> float | bool | None:
    # JSON has no infinity
    return None if math.isinf(end) else end


def _decode_history(content: Any, limits: Interval) -> tuple[Progress, ...]:
    """Return the rounds of a history; none of a file of an earlier version without seconds."""
    if not isinstance(content, Mapping) or "seconds" not in content:
        return ()
    check_fields(content, _HISTORY, "history")
    return tuple(
        Progress(
            passes,
            seconds,
            Interval(
                limits.lower if lower is None else lower, limits.upper if upper is None else upper
            ),
            None if low is None else Interval(low, high),
            samples,
        )
        for passes, samples, seconds, lower, upper, low, high in zip(
            *(content[name] for name in _HISTORY), strict=True
        )
    )


def _build_format_error(place: str | Path, problem: str) -> DamagedFile:
    return DamagedFile(
        f"{place}: damaged or from another version: it {problem}",
        place,
        "; delete it and run the same command again",
    )
