"""Assertions of promptfoo that a model grades, as judges.

The prompts are not those of promptfoo, whose graders write a reason first. A judge answers a plain
question with one word.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from llmchecker_promptfoo.report import NotConverted

JUDGE = "./judge"
"""The placeholder of the model of all judges."""

_QUESTIONS = {
    "llm-rubric": ("Does the text meet this rubric? {}", "continuation"),
    "model-graded-closedqa": ("Does the text meet this criterion? {}", "text"),
    "factuality": ("Is the text free of contradictions to this expert answer? {}", "text"),
    "model-graded-factuality": (
        "Is the text free of contradictions to this expert answer? {}",
        "text",
    ),
    "answer-relevance": ("Does the text answer the prompt?", "text"),
}
"""The question of each type, and the part of the text that the judge reads."""
_G_EVAL = "g-eval"
_G_EVAL_THRESHOLD = Fraction(7, 10)
"""The threshold of g-eval without one."""
GRADED = frozenset({*_QUESTIONS, _G_EVAL})
"""The types of assertions that a model grades."""
WITHOUT_VALUE = frozenset({"answer-relevance"})
"""The types of these that need no value."""

_SIMILARITY = "answer-relevance"
"""The type whose score is a similarity of questions, to which its threshold applies."""
_MIN_GRADE, _MAX_GRADE = 1, 5


def convert_grader(kind: str, value: Any, assertion: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an assertion that a model grades to the value of `judge`.

    Args:
        kind: a type in `GRADED`.
        value: the value with its variables.
        assertion: the assertion.

    Raises:
        NotConverted: the assertion has a prompt of its own, a threshold of a score without a
            counterpart, or no text as its value.
    """
    if "rubricPrompt" in assertion:
        raise NotConverted("the rubricPrompt has no counterpart")
    threshold = assertion.get("threshold")
    if threshold is not None and kind not in (_SIMILARITY, _G_EVAL):
        raise NotConverted("the threshold of the grader's score has no counterpart")
    if kind == _G_EVAL:
        grade = _choose_grade(_G_EVAL_THRESHOLD if threshold is None else threshold)
        scale = f"{_MIN_GRADE} to {_MAX_GRADE}"
        settings = {"model": JUDGE, "rubric": _format_criteria(value), "scale": scale}
        return settings | {"of": "text", "grade": grade}
    question, part = _QUESTIONS[kind]
    if kind not in WITHOUT_VALUE:
        question = question.format(_check_criterion(value))
    return {"model": JUDGE, "question": question, "of": part}


def describe_difference(kind: str) -> str:
    """Describe how a judge differs from promptfoo's grader, and what is to be done."""
    answers = "grades from 1 to 5" if kind == _G_EVAL else "answers yes or no"
    return f"{kind}: a judge {answers}, by another prompt; put a chat model into {JUDGE}"


def _check_criterion(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise NotConverted("the value is no text")
    return value.strip()


def _format_criteria(value: Any) -> str:
    criteria = value if isinstance(value, list) else [value]
    if not criteria:
        raise NotConverted("the list of criteria is empty")
    return "\n".join(map(_check_criterion, criteria))


def _choose_grade(threshold: Any) -> int:
    """Return the least grade whose share of the scale is at least a threshold."""
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | Fraction):
        raise NotConverted("the threshold is no number")
    share = Fraction(str(threshold))
    if not 0 < share <= 1:
        raise NotConverted("the threshold is not above 0 and at most 1")
    return _MIN_GRADE + math.ceil(share * (_MAX_GRADE - _MIN_GRADE))
