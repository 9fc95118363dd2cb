"""Entries of outputs: a line for each verdict, with its reasons, as inert text.

Texts of prompts, files and models are printed without control characters. Each output escapes its
own markup besides.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from llmchecker.checking.conversations.answer_tree import AnswerTree
from llmchecker.checking.decision import Outcome
from llmchecker.checking.endings import Beginnings
from llmchecker.checking.figures import Bar, Figure, ForestPlot, Plot, Row, format_row
from llmchecker.checking.formatting import CERTAIN_MEANING, format_interval
from llmchecker.checking.measurement import Measurement, Threshold
from llmchecker.config.deployment import Deployment
from llmchecker.processes.conversation import format_messages, parse_messages
from llmchecker.suites.cases import Case, Suite
from llmchecker.suites.evidence import ShownText, describe_evidence, iter_shown_texts
from llmchecker.suites.examples import Example
from llmchecker.suites.multiple_testing import METHOD
from llmchecker.suites.requirement_wording import describe_threshold
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.verdicts import Aggregate, CaseResult, Counts, Status, find_decision
from llmchecker.utils.interval import PROBABILITIES, Interval
from llmchecker.utils.number_format import format_count, format_lower, format_number, format_upper
from llmchecker.utils.printable_text import escape_unprintable, shorten

_DIGITS = 4
"""Significant digits of a figure, unless it needs more to show its verdict."""
_MAX_DIGITS = 17
"""The number of significant digits that tell all floats apart."""
_MAX_NAME = 300
"""Maximum number of characters of a name in an output."""
_MAX_ANSWER = 2_000
"""Maximum number of characters of an answer, or of a message of a conversation, on a page."""
_MAX_PLOTTED = 400
"""Maximum number of rows of a plot, about 20 bytes each."""
_MAX_DIFFERENCES = 60
"""Maximum number of differences of a plot, which is about 30 KB."""
_ORDER = (Status.ERROR, Status.VIOLATED, Status.UNKNOWN, Status.HOLDS, Status.MEASURED)
"""The order of entries: failures first."""


@dataclass(frozen=True)
class Entry:
    """A verdict or a figure in an output, as inert text.

    Attributes:
        deployment: name of the model; of a difference, what differs.
        group: the entry of the suite file, `average`, `group` or `difference`.
        name: name of the case or aggregate, unique in its deployment and group.
        subject: the name without that of the requirement.
        label: the name of the requirement; empty if it has none of its own.
        requirement: the requirement in words, without its threshold; empty if it is unknown.
        threshold: the threshold in words; empty without one.
        query: the query; empty for an aggregate.
        prompt: the prompt; empty for an aggregate.
        status: the status.
        row: the interval and its confidence as a figure; empty without evidence.
        plot: for an average of probabilities or scores, the intervals of its rows; else None.
        certainty: `certain` or `with confidence …` for a verdict without a figure; else empty.
        about: the horizon, and how much of the answers had ended there; empty for an aggregate.
        reasons: lines with the reasons: texts, passes or an error.
        transcripts: the most probable conversations that violate a violated or an unknown
            requirement, or one that meets an unknown one, from the first answer on.
        examples: answers that violate the requirement, and others.
        opening: for a conversation, role and text of the messages before the first answer.
        conversation: the most probable answers of a conversation, to be drawn; else None.
        seconds: duration in seconds.
        line: the line of the requirement in the suite file.
    """

    deployment: str
    group: str
    name: str
    status: Status
    subject: str = ""
    label: str = ""
    requirement: str = ""
    threshold: str = ""
    query: str = ""
    prompt: str = ""
    row: Row = ()
    plot: Plot | None = None
    certainty: str = ""
    about: str = ""
    reasons: tuple[str, ...] = ()
    transcripts: tuple[ShownText, ...] = ()
    examples: tuple[Example, ...] = ()
    opening: tuple[tuple[str, str], ...] = ()
    conversation: AnswerTree | None = None
    seconds: float = 0.0
    line: int = 1

    @property
    def key(self) -> tuple[str, str, str]:
        """What identifies the entry: deployment, group and name."""
        return self.deployment, self.group, self.name

    @property
    def figures(self) -> str:
        """The interval as text; empty without evidence."""
        return format_row(self.row)

    @property
    def details(self) -> str:
        """The interval and the horizon as text; empty without both."""
        return "; ".join(part for part in (self.figures, self.about) if part)

    @property
    def lines(self) -> list[str]:
        """The reasons and the transcripts, a line for each message."""
        transcripts = map(_format_transcript, self.transcripts)
        return [*self.reasons, *(line for lines in transcripts for line in lines)]

    @property
    def verdict(self) -> str:
        """The status; with its certainty where no figure states it."""
        return f"{self.status}, {self.certainty}" if self.certainty else str(self.status)

    @property
    def labelled_requirement(self) -> str:
        """The requirement by any name and in words, without its threshold."""
        return f"{self.label}: {self.requirement}" if self.label else self.requirement

    @property
    def content(self) -> str:
        """The requirement by any name, in words and with its threshold."""
        return ", ".join(part for part in (self.labelled_requirement, self.threshold) if part)


def build_entries(result: SuiteResult) -> list[Entry]:
    """Build the entries of a result, in the order of the suite."""
    return list(_iter_entries(result))


def list_requirements(suite: Suite) -> list[tuple[str, str]]:
    """List the deployment and the name of each requirement, as its entry has them.

    Without results, requirements of stored results are not known.
    """
    # trivial results have the same requirements as any others
    results = tuple(
        CaseResult(case.name, case.deployment.name, Status.UNKNOWN) for case in suite.cases
    )
    entries = build_entries(SuiteResult(suite, results))
    return [
        (entry.deployment, entry.name) for entry in entries if entry.status is not Status.MEASURED
    ]


def sort_entries(entries: Iterable[Entry]) -> list[Entry]:
    """Sort entries: errors first, then violated and unknown cases.

    The entries of one requirement for several models follow each other, at the place of the first.
    """
    entries = list(entries)
    places: dict[tuple[str, str], tuple[int, int]] = {}
    for number, entry in enumerate(entries):
        key, place = (entry.group, entry.name), (_ORDER.index(entry.status), number)
        places[key] = min(place, places.get(key, place))
    return sorted(entries, key=lambda entry: places[entry.group, entry.name])


def summarize(result: SuiteResult) -> str:
    """Summarize the numbers of verdicts."""
    return describe_counts(result.counts)


def describe_counts(counts: Counts) -> str:
    """Describe numbers of verdicts, as `1 violated (certain), 5 hold (with confidence 0.99)`."""
    hold = "hold" if counts.holds != 1 else "holds"
    parts = [
        (counts.errors, "failed to run"),
        (counts.violated, f"violated{_describe_certainties(counts, Outcome.VIOLATED)}"),
        (counts.unknown, "unknown"),
        (counts.holds, f"{hold}{_describe_certainties(counts, Outcome.HOLDS)}"),
    ]
    return ", ".join(f"{number:,} {noun}" for number, noun in parts if number) or "no verdicts"


def _describe_certainties(counts: Counts, outcome: Outcome) -> str:
    """Describe how the verdicts of an outcome are known: ` (1 certain, 2 with confidence 0.99)`."""
    found: Counter[str] = Counter()
    for each, number in counts.decisions.items():
        if each.outcome is outcome and each.certainty is not None:
            found[each.certainty] += number
    parts = [f"{number:,} {certainty}" for certainty, number in sorted(found.items())]
    # one kind has the number of all verdicts of the outcome
    shown = parts if len(parts) > 1 else list(found)
    return f" ({', '.join(shown)})" if found else ""


def describe_deployments(suite: Suite) -> list[str]:
    """Describe each deployment by its name, its decoding, and whether it has a system prompt."""
    return [_clean(_describe_deployment(suite, each)) for each in suite.all_deployments]


def _describe_deployment(suite: Suite, deployment: Deployment) -> str:
    # rows of a table may have several decodings, but far fewer than rows
    found = {id(case.deployment): case.deployment for case in suite.cases}
    decodings = {
        each.describe_decoding(): None for each in found.values() if each.name == deployment.name
    }
    decoding = next(iter(decodings)) if len(decodings) == 1 else f"{len(decodings)} decodings"
    # the name of one of several system prompts is in that of the deployment
    system = ["system prompt"] if deployment.system and not deployment.system_name else []
    return ", ".join([deployment.name, decoding, *system])


def describe_confidence(result: SuiteResult, entries: Iterable[Entry]) -> list[str]:
    """Explain the words `certain` and `confidence`, each if an entry has it, as sentences."""
    suite = result.suite
    words = " ".join(f"{each.figures} {each.certainty}" for each in entries)
    sentences = []
    if "certain" in words:
        sentences.append(f"Certain: {CERTAIN_MEANING}.")
    if "with confidence" in words:
        sentences.append(
            "All verdicts together have confidence "
            f"{format_number(suite.confidence)} "
            f"({METHOD}, {format_count(suite.interval_count, 'interval')})."
        )
        if result.baseline is not None:
            confidence = format_number(result.difference_confidence)
            sentences.append(f"Differences from stored results have confidence {confidence}.")
    return sentences


def _build_row(
    noun: str,
    measurement: Measurement,
    threshold: Threshold | None,
    confidence: float,
    axis: Interval = PROBABILITIES,
    *,
    is_certain: bool = False,
) -> Row:
    """Build the figure of the interval that decides; empty without evidence.

    It is the certain bounds if these decide, or else the interval with its confidence.
    """
    certain, sampled = measurement.certain, measurement.sampled
    is_certain = is_certain or sampled == certain
    interval = certain if is_certain else sampled
    # trivial bounds inform nobody
    if interval == axis:
        return ()
    digits = _DIGITS if threshold is None else _choose_digits(threshold, interval)
    number = (
        format_number(interval.lower, digits)
        if interval.is_exact
        else format_interval(interval, digits)
    )
    limit = None if threshold is None else float(threshold.number)
    bar = None if interval.is_exact else Bar(interval, axis, limit)
    certainty = ", certain" if is_certain else f" with confidence {format_number(confidence)}"
    return (Figure(f"{noun} {number}", certainty, bar),)


def _choose_digits(threshold: Threshold, *intervals: Interval) -> int:
    """Return the digits with which rounded intervals meet a threshold as the exact ones do."""
    for digits in range(_DIGITS, _MAX_DIGITS):
        if all(
            threshold.compare_ends(
                Decimal(format_lower(each.lower, digits)), Decimal(format_upper(each.upper, digits))
            )
            == threshold.compare(each)
            for each in intervals
        ):
            return digits
    return _MAX_DIGITS


def _iter_entries(result: SuiteResult) -> Iterator[Entry]:
    confidence = result.suite.confidence
    verdicts = {case.key for case, _ in result.verdicts}
    for case, case_result in zip(result.suite.cases, result.results, strict=True):
        # members of averages are entries only if they failed to run
        is_verdict = case.key in verdicts
        if not is_verdict and case_result.status is not Status.ERROR:
            continue
        row = _build_row(
            "probability",
            case_result.measurement,
            case.threshold,
            confidence,
            is_certain=case_result.is_certain,
        )
        decision = find_decision(case_result, confidence)
        yield Entry(
            deployment=_clean(case.deployment.name),
            group=_clean(case.entry),
            name=_clean(case.name),
            status=case_result.status,
            subject=_clean(case.subject or case.name),
            label=_clean(case.title),
            requirement=_clean(case.requirement),
            threshold=describe_threshold(case.threshold),
            query=_clean(" ".join(case.question.query.text.split())),
            prompt=_clean(case.prompt),
            row=row,
            certainty="" if row or decision is None else decision.certainty or "",
            about=_describe_horizon(case, case_result, confidence),
            reasons=tuple(_iter_reasons(case, case_result, confidence)),
            transcripts=tuple(_iter_transcripts(case, case_result)),
            examples=tuple(
                replace(each, text=_clean_example(case, each.text)) for each in case_result.examples
            ),
            opening=_find_opening(case),
            conversation=case_result.conversation,
            seconds=case_result.seconds,
            line=case.line,
        )
    cases = {case.name: case for case in result.suite.cases}
    for aggregate in result.aggregates:
        yield _build_aggregate_entry(result, aggregate, cases)


def _build_aggregate_entry(
    result: SuiteResult, aggregate: Aggregate, cases: Mapping[str, Case]
) -> Entry:
    case = cases.get(aggregate.name)
    return Entry(
        deployment=_clean(aggregate.deployment),
        group=aggregate.kind,
        name=_clean(aggregate.name),
        status=aggregate.status,
        subject=_clean(aggregate.name if case is None else case.subject),
        label="" if case is None else _clean(case.title),
        requirement=_clean(_describe_aggregate(result.suite, aggregate, cases)),
        threshold=describe_threshold(aggregate.threshold),
        row=_build_row(
            aggregate.noun,
            aggregate.measurement,
            aggregate.threshold,
            result.find_confidence(aggregate),
            aggregate.values,
            is_certain=aggregate.is_certain,
        ),
        plot=_build_plot(result, aggregate),
        reasons=tuple(map(_clean, aggregate.reasons)),
        line=_find_line(result.suite, aggregate, case),
    )


def _build_plot(result: SuiteResult, aggregate: Aggregate) -> Plot | None:
    """Build the plot of the rows of an average or a group; None for another figure or one row."""
    average = result.find_average(aggregate)
    # the rows have another figure than pass^k, or than what people say
    if average is None or average.statistic.figure or average.statistic.truth:
        return None
    intervals = sorted(
        (
            each.measurement.sampled
            for each in result.find_results(aggregate.deployment, average.cases)
            if each.status is Status.MEASURED
        ),
        key=lambda interval: (interval.lower + interval.upper, interval.lower),
    )
    # of many rows, an even choice
    step = max(1, -(-len(intervals) // _MAX_PLOTTED))
    threshold = None if aggregate.threshold is None else float(aggregate.threshold.number)
    bar = Bar(aggregate.measurement.sampled, aggregate.values, threshold)
    shown = tuple(intervals[::step])
    return Plot(shown, bar, aggregate.noun, aggregate.cases) if len(shown) > 1 else None


def build_forest_plot(result: SuiteResult) -> ForestPlot | None:
    """Build the plot of the differences of a result; None for fewer than two.

    Of many, those that are furthest from 0 are drawn.
    """
    found = [
        (
            _clean(f"{each.name} ({each.deployment})"),
            Bar(
                each.measurement.sampled,
                each.values,
                None if each.threshold is None else float(each.threshold.number),
            ),
        )
        for each in result.aggregates
        # trivial bounds inform nobody
        if each.kind == "difference" and each.measurement.sampled != each.values
    ]
    middles = [abs(bar.interval.lower + bar.interval.upper) for _, bar in found]
    furthest = sorted(range(len(found)), key=lambda index: -middles[index])[:_MAX_DIFFERENCES]
    rows = [found[index] for index in sorted(furthest)]
    numbers = [end for _, bar in rows for end in (bar.interval.lower, bar.interval.upper)]
    numbers += [bar.threshold for _, bar in rows if bar.threshold is not None]
    size = 1.05 * max(map(abs, numbers), default=0.0)
    if len(rows) < 2 or size == 0:
        return None
    return ForestPlot(tuple(rows), Interval(-size, size), len(found))


def _find_line(suite: Suite, aggregate: Aggregate, case: Case | None) -> int:
    """Return the line of the average or the requirement of an aggregate."""
    if case is not None:
        return case.line
    name = aggregate.name.rpartition(", ")[0] if aggregate.kind == "group" else aggregate.name
    return next((average.line for average in suite.averages if average.name == name), 1)


def _describe_aggregate(suite: Suite, aggregate: Aggregate, cases: Mapping[str, Case]) -> str:
    """Describe what is averaged or subtracted, with the requirement if it is that of all rows."""
    if (case := cases.get(aggregate.name)) is not None:
        return f"difference of {case.requirement}"
    name = aggregate.name.rpartition(", ")[0] if aggregate.kind == "group" else aggregate.name
    contents = {
        cases[member].requirement
        for average in suite.averages
        if average.name == name
        for member in average.cases
    }
    subject = aggregate.subject
    return f"{subject}: {contents.pop()}" if len(contents) == 1 else subject


def _iter_reasons(case: Case, result: CaseResult, confidence: float) -> Iterator[str]:
    """Yield the lines that explain a result."""
    if result.error is not None:
        yield _clean(result.error)
    if (evidence := describe_evidence(case, result)) is not None:
        yield evidence
    if case.question.conversation is None:
        for found in iter_shown_texts(result):
            text = _clean(found.example.text, quoted=True)
            reason = f"  {_clean(found.reason)}" if found.reason else ""
            yield f"{found.probability}  {text}{found.mark}{reason}"
    answers = None if result.answer is None else result.answer.costs.answers
    unit, units = ("pass", "passes") if answers is None else ("answer", "answers")
    if result.status is Status.UNKNOWN:
        used = format_count(result.passes if answers is None else answers, unit)
        needed = (
            f"no forecast of the {units} that would decide it"
            if result.forecast is None
            else result.forecast.requirement
        )
        yield f"{used} used; {needed}"
    # what a provider did with the answers is a part of the verdict
    if result.answer is not None and answers is not None:
        # notes on judges are those of the whole suite
        shown = case.question.asked.notes
        yield from (_clean(note) for note in result.answer.notes if note not in shown)


def find_beginnings(case: Case, result: CaseResult, confidence: float) -> Beginnings | None:
    """Return the beginnings that a verdict is about; None if no longer text may change it."""
    # where probabilities are compared, the answer is a number without a decision of its own
    decision = find_decision(result, confidence)
    if result.answer is None or decision is None:
        return None
    # the stored query may have =? in place of the threshold
    return replace(result.answer, query=case.question.query).find_beginnings(decision)


def _describe_horizon(case: Case, result: CaseResult, confidence: float) -> str:
    """Describe the horizon, and whether longer texts may change the verdict."""
    if result.answer is None:
        return ""
    is_warned = find_beginnings(case, result, confidence) is not None
    return f"about beginnings {result.answer.about}" if is_warned else result.answer.about


def _iter_transcripts(case: Case, result: CaseResult) -> Iterator[ShownText]:
    """Yield the most probable conversations that count for or against a requirement."""
    if case.question.conversation is not None:
        for shown in iter_shown_texts(result):
            text = format_messages(_clean_messages(shown.example.messages))
            yield replace(shown, example=replace(shown.example, text=text))


def _format_transcript(shown: ShownText) -> list[str]:
    """Format the probability, a line for each message after the opening, and why it counts."""
    first, *others = map(_clean, shown.example.text.split("\n"))
    others += [_clean(shown.reason)] if shown.reason else []
    return [f"{shown.probability}  {first}", *(f"        {line}" for line in others)]


def _find_opening(case: Case) -> tuple[tuple[str, str], ...]:
    """Return the messages before the first answer of a conversation, without a system prompt."""
    conversation = case.question.conversation
    if conversation is None:
        return ()
    messages = conversation.chat.messages
    return _clean_messages(message for message in messages if message[0] != "system")


def _clean_messages(messages: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((escape_unprintable(role), escape_unprintable(text)) for role, text in messages)


def _clean_example(case: Case, text: str) -> str:
    """Return an answer without control characters, or a conversation with a line a message."""
    if case.question.conversation is None:
        return escape_unprintable(shorten(text, _MAX_ANSWER))
    messages = ((role, shorten(said, _MAX_ANSWER)) for role, said in parse_messages(text))
    return format_messages(_clean_messages(messages))


def _clean(text: str, *, quoted: bool = False) -> str:
    """Return a text on one line, without control characters and not too long."""
    shown = escape_unprintable(shorten(text, _MAX_NAME))
    return f'"{shown}"' if quoted else shown
