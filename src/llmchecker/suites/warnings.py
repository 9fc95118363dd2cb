"""Warnings of a suite that its cases show before a model is loaded: requirements without content.

ends, at least 0: every possible value meets it, whatever the model writes; …
case 1: {country} stays as it is, since the case has no prompts with columns; …
"""

from collections.abc import Iterator

from llmchecker.checking.measurement import describe_vacuity, list_vacuous_thresholds
from llmchecker.properties.logic.ast import Probability
from llmchecker.suites.cases import Average, Case, Suite
from llmchecker.suites.requirement_wording import describe_threshold
from llmchecker.suites.templates import list_literal_columns
from llmchecker.utils.interval import DIFFERENCES, PROBABILITIES, Interval


def list_warnings(suite: Suite) -> list[str]:
    """List the warnings of a suite, each once."""
    warnings = (*_iter_thresholds(suite), *_iter_braces(suite))
    return list(dict.fromkeys(warning for warning in warnings if warning is not None))


def _iter_thresholds(suite: Suite) -> Iterator[str | None]:
    """Yield warnings of thresholds that every number meets, or none."""
    for case in suite.representatives:
        root = case.question.query.root
        if case.threshold is None or not isinstance(root, Probability):
            yield from list_vacuous_thresholds(root)
            continue
        # the threshold of a worst figure is that of the average
        if case.is_measured:
            continue
        yield from list_vacuous_thresholds(root.path)
        content = case.title or case.requirement
        name = f"{case.entry}: {content}, {describe_threshold(case.threshold)}"
        yield describe_vacuity(name, case.threshold, PROBABILITIES)
    for average in suite.averages:
        if average.threshold is not None:
            noun = average.statistic.find_noun(average.threshold)
            name = f"{average.name}: {noun} {describe_threshold(average.threshold)}"
            yield describe_vacuity(name, average.threshold, _find_values(suite, average))
    for label, threshold in suite.differences.items():
        values = [_find_values(suite, each) for each in suite.averages if each.label == label]
        is_score = any(each != PROBABILITIES for each in values)
        limits = values[0] - values[0] if is_score else DIFFERENCES
        name = f"{label}: difference {describe_threshold(threshold)}"
        yield describe_vacuity(name, threshold, limits)


def _find_values(suite: Suite, average: Average) -> Interval:
    """Find an interval of all possible values of the rows of an average."""
    names = set(average.cases)
    ranges = [
        case.question.asked.value_range for case in suite.representatives if case.name in names
    ]
    return Interval(min(each.lower for each in ranges), max(each.upper for each in ranges))


def _iter_braces(suite: Suite) -> Iterator[str]:
    """Yield warnings of names in braces that no column replaces."""
    has_tables = any(case.row for case in suite.cases)
    for case in suite.representatives:
        # a name that is no column of a table is an error
        if case.row:
            continue
        for name in list_literal_columns("\n".join(_list_texts(case, has_tables))):
            yield (
                f"{case.entry}: {name} stays as it is, since the case has no prompts with columns; "
                "add `prompts`, or ignore this"
            )


def _list_texts(case: Case, has_tables: bool) -> list[str]:
    """List the texts of a case as the model and the requirement have them."""
    prompt, conversation = case.question.prompt, case.question.conversation
    texts = [case.requirement, *([] if conversation is None else conversation.turn_texts)]
    if isinstance(prompt, str):
        return [prompt, *texts]
    # with a table, the system prompt is a template, whose braces are doubled on purpose
    messages = [text for role, text in prompt.messages if role != "system" or not has_tables]
    return [*messages, *texts]
