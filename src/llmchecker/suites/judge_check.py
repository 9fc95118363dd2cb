"""The measurement of a judge on labelled texts: agreement, precision, recall and errors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from llmchecker.errors import ConfigError, UnusableDataset
from llmchecker.models.judges import normalize_label
from llmchecker.properties.quantifiers.judge import Judge
from llmchecker.suites.prompt_rows import read_prompt_table
from llmchecker.suites.templates import Row
from llmchecker.suites.true_rate import bound_rate, draw_order
from llmchecker.utils.file_state import compute_checksums
from llmchecker.utils.interval import Interval
from llmchecker.utils.json_digest import compute_json_digest

LABEL = "label"
_TEXT, _PROMPT = "text", "prompt"
"""The columns of a table of labelled texts; the last one may be absent."""
SETTINGS = "settings"
FALSE_PASS, FALSE_FAIL = "false_pass", "false_fail"
"""Fields of a measurement as JSON: what determines the grades, and the two kinds of errors."""
_BISECTIONS = 50
"""Number of bisections of an end of an interval, after which it is exact to 15 digits."""


@dataclass(frozen=True)
class LabelledText:
    """A text with the grade that a person gives it.

    Attributes:
        place: the file and the row, for messages.
        prompt: the prompt that the text answers; empty if it is unknown.
        text: the text.
        label: the grade; None for a text that nobody has labelled.
    """

    place: str
    prompt: str
    text: str
    label: int | None


@dataclass(frozen=True)
class Share:
    """A share of independent texts, with an exact interval (Clopper and Pearson 1934).

    Attributes:
        hits, total: numbers of texts.
        interval: the interval of the probability; [0, 1] without texts.
    """

    hits: int
    total: int
    interval: Interval

    @property
    def value(self) -> float | None:
        """The share; None without texts."""
        return self.hits / self.total if self.total else None

    def as_json(self) -> dict[str, Any]:
        """Return the share as JSON."""
        return {
            "value": self.value,
            "hits": self.hits,
            "total": self.total,
            "low": self.interval.lower,
            "high": self.interval.upper,
        }


@dataclass(frozen=True)
class JudgeMeasurement:
    """The errors of a judge on labelled texts, and the share of good texts among all.

    Attributes:
        judge: name of the judge.
        settings: all that determines its grades, as of `describe_judge`.
        good_grade: the least good grade.
        confidence: confidence of each interval.
        total: number of all texts.
        good: the share of all texts that people call good, by the labels so far and the grades.
        agreement: the share of texts whose grade is their label.
        precision: of the texts with a good grade, the share with a good label.
        recall: of the texts with a good label, the share with a good grade.
        false_pass: of the texts with a bad label, the share with a good grade.
        false_fail: of the texts with a good label, the share without a good grade.
        ungraded: number of texts to which the judge's answer is not on the scale; they count as
            texts with neither their label nor a good grade.
        differences: the texts whose grade is not their label, with the grade; None for no grade.
    """

    judge: str
    settings: Mapping[str, Any]
    good_grade: int
    confidence: float
    total: int
    good: Interval
    agreement: Share
    precision: Share
    recall: Share
    false_pass: Share
    false_fail: Share
    ungraded: int
    differences: tuple[tuple[LabelledText, int | None], ...]

    def as_json(self) -> dict[str, Any]:
        """Return the measurement as JSON."""
        return {
            "judge": self.judge,
            SETTINGS: dict(self.settings),
            "good_grade": self.good_grade,
            "confidence": self.confidence,
            "total": self.total,
            "good": {"low": self.good.lower, "high": self.good.upper},
            "agreement": self.agreement.as_json(),
            "precision": self.precision.as_json(),
            "recall": self.recall.as_json(),
            FALSE_PASS: self.false_pass.as_json(),
            FALSE_FAIL: self.false_fail.as_json(),
            "ungraded": self.ungraded,
            "differences": [
                {"place": each.place, "text": each.text, "label": each.label, "grade": grade}
                for each, grade in self.differences
            ],
        }


def read_labelled_texts(
    path: Path, judge: Judge, *, needs_labels: bool = True
) -> list[LabelledText]:
    """Read a CSV, JSON lines or parquet file with the columns `text` and `label`.

    A text with an empty or missing label has none.

    Args:
        path: the file; a column `prompt` contains the prompts.
        judge: the judge, whose grades or answers are labels.
        needs_labels: whether at least one text must have a label.

    Raises:
        UnusableDataset: the file is absent or no table, or a column or all labels are absent.
        ConfigError: the format is unknown, or a label is no grade; the message contains the row.
    """
    # a name with a colon is a path too
    table = read_prompt_table(f"path:{path.name}", path.absolute().parent)
    for column in (_TEXT, LABEL) if needs_labels else (_TEXT,):
        if column not in table.columns:
            raise UnusableDataset(
                f"{table.name}: the column {column!r} is missing; it has {', '.join(table.columns)}"
            )
    has_prompts = _PROMPT in table.columns
    texts = [
        LabelledText(
            row.place,
            row.read(_PROMPT) if has_prompts else "",
            row.read(_TEXT),
            _parse_label(row, judge),
        )
        for row in table.rows
    ]
    if needs_labels and all(each.label is None for each in texts):
        raise UnusableDataset(f"{table.name}, column {LABEL}: all labels are empty; label a text")
    return texts


def measure_judge(
    judge: Judge, texts: Sequence[LabelledText], good_grade: int, confidence: float
) -> JudgeMeasurement:
    """Grade texts, and compare the grades with the labels.

    Args:
        judge: the judge.
        texts: the texts, at least one; labels in the order of `draw_order`, or of texts that were
            chosen at random.
        good_grade: the least good grade.
        confidence: confidence of each interval.

    Raises:
        LLMCheckerError: the judge cannot be loaded, or cannot read a text.
    """
    found = judge.find_grades([(each.prompt, each.text) for each in texts])
    grades = [grade if isinstance(grade, int) else None for grade in found]
    is_good = [grade is not None and grade >= good_grade for grade in grades]
    order = [index for index in draw_order(len(texts)) if texts[index].label is not None]
    truths = {index: (texts[index].label or 0) >= good_grade for index in order}
    good = bound_rate(
        list(truths.values()),
        [is_good[index] for index in order],
        sum(is_good) / len(texts),
        len(texts),
        1 - confidence,
    )
    pairs = [(texts[index], grades[index]) for index in sorted(order)]
    both = sum(is_good[index] and truths[index] for index in order)
    passed, good_labels = sum(is_good[index] for index in order), sum(truths.values())
    # a judge that reads prompts grades a text without one by other messages
    has_prompts = all(texts[index].prompt for index in order)
    agreeing = sum(each.label == grade for each, grade in pairs)
    return JudgeMeasurement(
        judge=judge.model.name,
        settings=describe_judge(judge, has_prompts=has_prompts),
        good_grade=good_grade,
        confidence=confidence,
        total=len(texts),
        good=good,
        agreement=build_share(agreeing, len(pairs), confidence),
        precision=build_share(both, passed, confidence),
        recall=build_share(both, good_labels, confidence),
        false_pass=build_share(passed - both, len(pairs) - good_labels, confidence),
        false_fail=build_share(good_labels - both, good_labels, confidence),
        ungraded=grades.count(None),
        differences=tuple(pair for pair in pairs if pair[0].label != pair[1]),
    )


def describe_judge(judge: Judge, *, has_prompts: bool) -> dict[str, Any]:
    """Describe all that determines the grades of a judge, as JSON.

    Args:
        judge: the judge.
        has_prompts: whether the texts have prompts.
    """
    reads_prompts = judge.of == "text" and has_prompts
    files = sorted(
        (path.name, sha256)
        for path, sha256 in compute_checksums({p: p for p in judge.files}).items()
    )
    # the place of files is no part of the model
    left_out = {"source"} if files else set()
    settings = judge.model.answer_settings
    model = [{name: settings[name] for name in settings if name not in left_out}, files]
    # the messages to the judge are those of this version of the program
    messages = judge.build_chat("prompt" if reads_prompts else "", "text").as_json
    return {
        "model": compute_json_digest(model),
        "question": judge.question,
        "rubric": judge.rubric,
        "scale": dict(judge.grades),
        "share": judge.share,
        "of": judge.of,
        "prompts": reads_prompts,
        "messages": compute_json_digest(messages),
    }


def build_share(hits: int, total: int, confidence: float) -> Share:
    """Build a share with its exact interval."""
    if total == 0:
        return Share(0, 0, Interval(0.0, 1.0))
    error = (1 - confidence) / 2
    # the upper end is the lower end of the misses
    low, high = _bound_below(hits, total, error), 1 - _bound_below(total - hits, total, error)
    return Share(hits, total, Interval(low, high))


def _bound_below(hits: int, total: int, error: float) -> float:
    """Return the largest probability with which so many hits or more are as rare as the error."""
    if hits == 0:
        return 0.0
    counts = range(hits, total + 1)
    logarithms = np.array(
        [math.lgamma(total + 1) - math.lgamma(k + 1) - math.lgamma(total - k + 1) for k in counts]
    )
    numbers = np.arange(hits, total + 1)
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        terms = logarithms + numbers * math.log(middle) + (total - numbers) * math.log1p(-middle)
        if np.exp(terms).sum() <= error:
            low = middle
        else:
            high = middle
    return low


def _parse_label(row: Row, judge: Judge) -> int | None:
    if row.is_missing(LABEL) or not (text := row.read(LABEL)).strip():
        return None
    return parse_label(row.place, text, judge)


def parse_label(place: str, text: str, judge: Judge) -> int:
    """Return the grade of a label: a number, or an answer of the scale.

    Args:
        place: the file and the row, for messages.
        text: the label.
        judge: the judge, whose grades or answers are labels.

    Raises:
        ConfigError: the label is no grade of the judge.
    """
    named = {normalize_label(label): grade for label, grade in judge.grades.items()}
    numbers = {str(grade): grade for grade in judge.grades.values()}
    grade = (named | numbers).get(normalize_label(text))
    if grade is None:
        known = ", ".join(dict.fromkeys([*judge.grades, *numbers]))
        raise ConfigError(
            f"{place}, column {LABEL}: {text.strip()!r} is no grade; write one of {known}"
        )
    return grade
