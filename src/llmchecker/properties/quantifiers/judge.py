"""Quantifier of the grade that another model gives a text."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from llmchecker.errors import ConfigError
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.judges import normalize_label
from llmchecker.properties.quantifiers.interface import TEXT_PARTS, check_one_of
from llmchecker.utils.printable_text import quote_value, shorten

if TYPE_CHECKING:
    import numpy as np

    from llmchecker.models.judges import JudgeAccess

_YES_NO = {"yes": 1, "no": 0}
_NUMBERS = re.compile(r"\s*(-?[0-9]+)\s+to\s+(-?[0-9]+)\s*")
_SPREADS = 4
"""Number of spreads within which two probabilities may be in another order in another batch."""
_SHOWN_CHARACTERS = 60
"""Number of characters of a judged text in a message."""

# The judged text is a message of its own: no text in it can end the message or begin another.
_PROMPT_IS_READ = "I have read the prompt."
_TEXT_IS_READ = "I have read the text."


class JudgeModel(Protocol):
    """A model that judges texts; its representation names all that determines its answers.

    Attributes:
        name: name of the model in messages.
        files: paths of files and directories that determine its answers; empty for a model whose
            representation does.
    """

    @property
    def name(self) -> str: ...

    @property
    def files(self) -> tuple[Path, ...]: ...

    @property
    def answer_settings(self) -> Mapping[str, Any]:
        """All that determines its answers besides the content of the files, as JSON."""
        ...

    def is_same(self, model: object) -> bool:
        """Return whether a model is the judge, with any decoding."""
        ...

    def open_access(self) -> "JudgeAccess":
        """Open the access to its answers; the first call loads the model."""
        ...


@dataclass(frozen=True)
class Judge:
    """Grade of a text by a model: the most probable label of a scale as its answer.

    The probability of a label is that of all tokens that spell it as the first word of the judge's
    answer. Of equally probable labels the one with the smallest grade counts. A text to which less
    than `share` of the probability is on the scale has no grade and is an error. A model that
    returns texts alone gives one stored answer at temperature 0.

    Every text is graded once and its grade is kept; new texts are graded in batches. A text has the
    same grade in every batch: where the rounding of a batch could matter, it is graded alone.

    Attributes:
        model: the judge.
        question: a question about the text, answered by yes (1) or no (0); None with a rubric.
        rubric: what to judge the text by; None with a question.
        scale: `yes/no`, `1 to 5` or grades by label; None for a question.
        of: `text` judges the answer to the prompt, `continuation` the answer alone.
        share: the least probability of all labels together, above 0 and at most 1.
        grades: grades by label.
        minimum, maximum: the least and the greatest grade.
        files: as in `JudgeModel`.
        grade_cache: grades by prompt and text, or the reasons why texts have none.

    Raises:
        ConfigError: a setting is unusable. On a call: the judge's answer is not on the scale.
        UnusableText: on a call: the model has no chat template, or the text is too long.
    """

    model: Any
    question: str | None = None
    rubric: str | None = None
    scale: Any = None
    of: str = "text"
    share: float = 0.5
    grades: Mapping[str, int] = field(init=False, repr=False, compare=False)
    minimum: int | None = field(init=False, repr=False, compare=False)
    maximum: int | None = field(init=False, repr=False, compare=False)
    files: tuple[Path, ...] = field(init=False, repr=False, compare=False)
    grade_cache: dict[tuple[str, str], int | ConfigError] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        check_one_of("of", self.of, TEXT_PARTS)
        model = _GivenModel(self.model) if hasattr(self.model, "open_prefix") else self.model
        if not hasattr(model, "open_access"):
            raise ConfigError(
                f"model: {quote_value(model)} is no loaded model; write it in a configuration "
                "or a suite, or "
                "give one that load(…) returned"
            )
        grades = _parse_grades(self.question, self.rubric, self.scale)
        share = self.share
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            raise ConfigError(
                f"share: {quote_value(share)} is no share above 0 and at most 1; write 0.5"
            )
        # frozen dataclass: only `object.__setattr__` can set derived fields
        for name, value in (
            ("model", model),
            ("grades", grades),
            ("minimum", min(grades.values())),
            ("maximum", max(grades.values())),
            ("files", model.files),
        ):
            object.__setattr__(self, name, value)

    def build_notes(self, model: object, *, is_measured: bool = False) -> list[str]:
        """Build the notes on verdicts about a model, as in `JudgesAnswers`."""
        judge: JudgeModel = self.model
        note = f"graded by the judge {judge.name}, whose own error is not in the confidence"
        notes = [] if is_measured else [note]
        if judge.is_same(model):
            notes.append(
                f"warning: the judge {judge.name} is the judged model, and may share its errors"
            )
        return notes

    def __call__(self, start: str, continuation: str) -> int:
        return self.score_batch([(start, continuation)])[0]

    def score_batch(self, texts: Sequence[tuple[str, str]]) -> list[int]:
        """Return the grades of several texts, each a start string and a continuation."""
        grades = self.find_grades(texts)
        for grade in grades:
            if isinstance(grade, ConfigError):
                raise grade
        return [grade for grade in grades if isinstance(grade, int)]

    def find_grades(self, texts: Sequence[tuple[str, str]]) -> list[int | ConfigError]:
        """Find the grades of several texts, or the reason why a text has none."""
        # the prompt of a text may be unknown
        keys = [(start if self.of == "text" else "", text) for start, text in texts]
        new_keys = [key for key in dict.fromkeys(keys) if key not in self.grade_cache]
        self.grade_cache.update(zip(new_keys, self._grade(new_keys), strict=True))
        return [self.grade_cache[key] for key in keys]

    def _grade(self, texts: Sequence[tuple[str, str]]) -> list[int | ConfigError]:
        if not texts:
            return []
        access, labels = self.model.open_access(), tuple(self.grades)
        chats = [self.build_chat(prompt, text) for prompt, text in texts]
        masses = access.compute_masses(chats, labels)
        margin = _SPREADS * access.spread
        if len(chats) > 1 and margin > 0:
            for row in range(len(chats)):
                if self._is_close(masses[row], margin):
                    masses[row] = access.compute_masses(chats[row : row + 1], labels)[0]
        return [
            self._select_grade(row, text, access.name)
            for row, (_, text) in zip(masses, texts, strict=True)
        ]

    def _is_close(self, masses: "np.ndarray", margin: float) -> bool:
        """Return whether the rounding of a batch could change the grade."""
        first, second = sorted(self._sum_grades(masses).values(), reverse=True)[:2]
        return first - second <= margin or abs(masses.sum() - self.share) <= margin

    def _select_grade(self, masses: "np.ndarray", text: str, name: str) -> int | ConfigError:
        total = float(masses.sum())
        if not total >= self.share:
            labels = ", ".join(self.grades)
            return ConfigError(
                f"judge {name}: its answer to {shorten(text, _SHOWN_CHARACTERS)!r} is one of "
                f"{labels} with probability "
                f"{total:.3g}, under `share` {self.share:g}; reword the question, or use another "
                "judge"
            )
        sums = self._sum_grades(masses)
        return min(sums, key=lambda grade: (-sums[grade], grade))

    def _sum_grades(self, masses: "np.ndarray") -> dict[int, float]:
        """Return the probability of each grade, which several labels may have."""
        sums: dict[int, float] = {}
        for grade, mass in zip(self.grades.values(), masses.tolist(), strict=True):
            sums[grade] = sums.get(grade, 0.0) + mass
        return sums

    def build_chat(self, prompt: str, text: str) -> Chat:
        """Build the messages to the judge: prompt and text as data, and the question."""
        begun = [("user", f"Prompt:\n{prompt}"), ("assistant", _PROMPT_IS_READ)] if prompt else []
        if self.question is not None:
            question = self.question
        else:
            question = f"Judge the text by this rubric:\n{self.rubric}"
        labels = list(self.grades)
        choice = f"{', '.join(labels[:-1])} or {labels[-1]}"
        messages = [
            *begun,
            ("user", f"Text:\n{text}"),
            ("assistant", _TEXT_IS_READ),
            ("user", f"{question}\nAnswer with one word, {choice}."),
        ]
        return Chat(tuple(messages))


@dataclass(frozen=True)
class _GivenModel:
    """A loaded model as a judge.

    Attributes:
        model: the language model.
    """

    model: Any
    files: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        name: str = self.model.name
        return name

    @property
    def answer_settings(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def is_same(self, model: object) -> bool:
        """Return whether a loaded model is the judge, with any decoding."""
        # decodings of one model share its network
        return getattr(model, "network", model) is getattr(self.model, "network", self.model)

    def open_access(self) -> "JudgeAccess":
        """Return the access to the answers of the model."""
        return self._access

    @cached_property
    def _access(self) -> "JudgeAccess":
        from llmchecker.models.judges import TokenJudge

        return TokenJudge(self.model)


def _parse_grades(question: Any, rubric: Any, scale: Any) -> dict[str, int]:
    """Return the grades by label.

    Raises:
        ConfigError: there is not exactly one of question and rubric, or the scale is unusable.
    """
    if (question is None) == (rubric is None):
        found = "neither" if question is None else "both"
        raise ConfigError(f"question, rubric: {found} of them is given; write exactly one")
    key, text = ("question", question) if rubric is None else ("rubric", rubric)
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(
            f"{key}: {quote_value(text)} is no text; write what the judge is to answer"
        )
    if rubric is None:
        if scale is not None:
            raise ConfigError("scale: a question is answered by yes or no; write a rubric instead")
        return dict(_YES_NO)
    if scale is None:
        raise ConfigError("scale: the rubric has none; write 1 to 5, or yes/no")
    grades = _parse_scale(scale)
    _check_labels(grades)
    return grades


def _parse_scale(scale: Any) -> dict[str, int]:
    if isinstance(scale, Mapping):
        for label, grade in scale.items():
            if not isinstance(label, str) or type(grade) is not int:
                raise ConfigError(
                    f"scale: {quote_value(label)}: {quote_value(grade)} is no label with a "
                    "grade; write quotes around the label, and a whole number"
                )
        return dict(scale)
    if isinstance(scale, str) and scale.replace(" ", "") == "yes/no":
        return dict(_YES_NO)
    match = _NUMBERS.fullmatch(scale) if isinstance(scale, str) else None
    if match is None:
        raise ConfigError(
            f"scale: {quote_value(scale)} is unknown; write yes/no, 1 to 5, or grades by label"
        )
    numbers = range(int(match[1]), int(match[2]) + 1)
    # each number is one token, and begins with no other
    if numbers and not (numbers[0] >= 0 and numbers[-1] <= 9):
        raise ConfigError(f"scale: {scale} has numbers of several characters; use 0 to 9 at most")
    return {str(number): number for number in numbers}


def _check_labels(grades: Mapping[str, int]) -> None:
    """Check that the first token of an answer tells all labels apart.

    Raises:
        ConfigError: the scale has less than two grades, or a label begins with another.
    """
    if len(set(grades.values())) < 2:
        raise ConfigError(f"scale: it has {len(set(grades.values()))} grades; write at least two")
    names: dict[str, str] = {}
    for label in grades:
        name = normalize_label(label)
        if not name:
            raise ConfigError("scale: a label is empty; write a word")
        for other, other_label in names.items():
            if name.startswith(other) or other.startswith(name):
                raise ConfigError(
                    f"scale: {other_label!r} and {label!r} may begin with the same token; use "
                    "other labels"
                )
        names[name] = label
