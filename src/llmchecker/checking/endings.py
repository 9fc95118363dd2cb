"""Endings: how much of the answers had ended at the horizon, which a verdict states.

A text that the horizon cuts is a beginning: the model would continue it. A requirement about whole
answers, such as a largest number of words, may change its truth there.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from os.path import commonprefix

import numpy as np

from llmchecker.checking.decision import Decision
from llmchecker.checking.measurement import Measurement, find_threshold
from llmchecker.models.decoding.answer_reader import AnswerReader
from llmchecker.properties.logic.ast import Conditional, Expectation, PathQuantifier, Probability
from llmchecker.properties.logic.continuation import (
    find_continuation_effects,
    find_turn_effects,
    names_ends,
)
from llmchecker.properties.logic.query import Query
from llmchecker.trees.text_tree import StateKind, TextTree, find_ended
from llmchecker.utils.interval import PROBABILITIES, Interval
from llmchecker.utils.number_format import format_count, format_upper

_ROUNDING = 1e-9
"""A limit above the rounding error of a sum of probabilities of texts."""


@dataclass(frozen=True, slots=True)
class Endings:
    """Probabilities of texts that ended within the horizon, and of texts that it cuts.

    Attributes:
        ended: certain bounds of the probability that a text ends within the horizon.
        cut: an upper bound of the probability that the horizon cuts a text which no earlier token
            decides.
        counted: for answers of a model that returns texts alone, how many the horizon cuts, and how
            many there are; None for other models.
        thought: certain bounds of the probability that the horizon, or `max_tokens` of one answer,
            cuts a text within a thought; None for answers without thoughts.
        limited: certain bounds of the probability that `max_tokens` ends a text; None if it ends
            none within the horizon.
    """

    ended: Interval = PROBABILITIES
    cut: float = 1.0
    counted: tuple[int, int] | None = None
    thought: Interval | None = None
    limited: Interval | None = None

    def narrow(self, other: "Endings") -> "Endings":
        """Return the bounds that both share."""
        lower = max(self.ended.lower, other.ended.lower)
        upper = max(lower, min(self.ended.upper, other.ended.upper))
        return Endings(
            Interval(lower, upper),
            min(self.cut, other.cut),
            thought=self.thought or other.thought,
            limited=self.limited or other.limited,
        )


def build_endings(
    masses: np.ndarray,
    has_ended: np.ndarray,
    is_cut: np.ndarray,
    is_decided: np.ndarray,
    *,
    can_end: bool = True,
    must_end: bool = False,
    is_thinking: np.ndarray | None = None,
    is_limited: np.ndarray | None = None,
) -> Endings:
    """Build endings from disjoint texts; all other texts of the model may be anything.

    Args:
        masses: (n,) float64, the probability of each text.
        has_ended: (n,) bool, whether the text ended.
        is_cut: (n,) bool, whether the text has all tokens of the horizon and did not end.
        is_decided: (n,) bool, whether the text decides the query before the horizon.
        can_end: whether the model has a token that ends a text.
        must_end: whether `max_tokens` ends every text within the horizon.
        is_thinking: (n,) bool, whether a text ends within a thought; None without thoughts.
        is_limited: (n,) bool, whether `max_tokens` ended a text, which then `has_ended`; None if it
            ends none, or if this is unknown.
    """
    is_unfinished = is_cut if is_limited is None else is_cut | is_limited
    ended, cut, decided = (
        math.fsum(masses[is_kind].tolist()) for is_kind in (has_ended, is_cut, is_decided)
    )
    others = 1 - ended - decided
    interval = Interval(max(0.0, ended - _ROUNDING), min(1.0, 1 - cut + _ROUNDING))
    # what is left of rounding cuts no text, but for texts that exist
    cut = max(cut, 0.0 if others <= _ROUNDING else min(1.0, others))
    if must_end:
        interval, cut = Interval(1.0, 1.0), 0.0
    elif not can_end:
        interval = Interval(0.0, 0.0)
    has_finished = has_ended & ~is_unfinished
    limited = PROBABILITIES if must_end else None
    if is_limited is not None:
        limited = _bound_share(masses, is_limited, has_finished)
    return Endings(
        interval,
        cut,
        thought=None
        if is_thinking is None
        else _bound_share(
            masses, is_unfinished & is_thinking, has_finished | (is_unfinished & ~is_thinking)
        ),
        limited=limited,
    )


def _bound_share(masses: np.ndarray, is_in: np.ndarray, is_out: np.ndarray) -> Interval:
    """Bound the probability of a set of texts, some of which are known to be in it or not."""
    within, without = (math.fsum(masses[is_kind].tolist()) for is_kind in (is_in, is_out))
    return Interval(max(0.0, within - _ROUNDING), min(1.0, 1 - without + _ROUNDING))


def measure_endings(tree: TextTree) -> Endings:
    """Measure the endings of a tree; a text in `rest` may end or not."""
    is_limited = tree.kind == StateKind.MAX_TOKENS
    must_end = bool(is_limited.any())
    is_cut = (tree.kind == StateKind.TEXT) & (tree.step == tree.truncation.length)
    return build_endings(
        tree.path_probability,
        find_ended(tree.kind),
        is_cut,
        np.zeros(len(tree), dtype=bool),
        must_end=must_end,
        is_thinking=None if tree.marks is None else _find_thinking(tree, is_cut | is_limited),
        is_limited=is_limited if must_end else None,
    )


def _find_thinking(tree: TextTree, is_cut: np.ndarray) -> np.ndarray:
    """Return (n,) bool: the texts of those that are cut which end within a thought."""
    reader, start = AnswerReader(marks=tree.marks), tree.start
    thinking = np.zeros(len(tree), dtype=bool)
    thinking[is_cut] = [
        reader.read(text[len(commonprefix((start, text))) :], is_whole=True).is_thinking  # noqa: RUF071
        for text in tree.text[is_cut]
    ]
    return thinking


def describe_endings(horizon: int, endings: Endings, turns: int | None = None) -> str:
    """Describe a horizon: `within 6 tokens; 0.00 of the answers had ended`.

    Args:
        horizon: the largest number of tokens of a text.
        endings: how much of the texts had ended there.
        turns: number of turns of a conversation, whose answers have the horizon; None for one text.
    """
    tokens = format_count(horizon, "token")
    if turns is not None:
        horizon_text = f"in {format_count(turns, 'turn')} of at most {tokens}"
        if endings.counted is None:
            return f"{horizon_text}; {_describe_share(endings, is_conversation=True)}"
        cut, count = endings.counted
        return f"{horizon_text}, which cut {cut:,} of {format_count(count, 'conversation')}"
    if endings.counted is not None:
        cut, answers = endings.counted
        return f"within {tokens}, which cut {cut:,} of {format_count(answers, 'answer')}"
    share = f"{_describe_share(endings)}{_describe_limited(endings)}"
    return f"within {tokens}; {share}{_describe_thoughts(endings)}"


def _describe_limited(endings: Endings) -> str:
    """Describe the share of answers that `max_tokens` ended; empty if it ends none."""
    if endings.limited is None:
        return ""
    share = _format_range(endings.limited)
    return ", by itself or at max_tokens" if share is None else f", {share} of them at max_tokens"


def _describe_thoughts(endings: Endings) -> str:
    """Describe the share of answers that the horizon cut within a thought; empty without any."""
    if endings.thought is None:
        return ""
    share = _format_range(endings.thought)
    # texts that are decided are not continued to their ends
    if share is None:
        return "; answers after thoughts"
    return f"; answers after thoughts, {share} of which were cut within the thought"


def _describe_share(endings: Endings, *, is_conversation: bool = False) -> str:
    share = _format_range(endings.ended)
    if is_conversation:
        share = share or "an unknown share"
        end = "ended by itself" if endings.limited is None else "ended, by itself or at max_tokens"
        return f"in {share} of the conversations every answer {end}"
    if share is not None:
        return f"{share} of the answers had ended"
    # texts that are decided are not continued to their ends
    if endings.cut == 0:
        return "every answer is decided by then, ended or not"
    return "how many of the answers had ended is unknown"


def _format_range(share: Interval) -> str | None:
    """Format the ends of a share as `0.10 to 0.20`; None if it may be any."""
    lower, upper = _format_share(share)
    if (lower, upper) == ("0.00", "1.00"):
        return None
    return lower if lower == upper else f"{lower} to {upper}"


def _format_share(share: Interval) -> tuple[str, str]:
    """Format the ends of a share with two digits, rounded outwards but for rounding errors."""
    slack = 100 * 4 * _ROUNDING
    lower = math.floor(100 * share.lower + slack) / 100
    upper = math.ceil(100 * share.upper - slack) / 100
    return f"{lower:.2f}", f"{upper:.2f}"


@dataclass(frozen=True)
class Beginnings:
    """A decision about beginnings of answers, which longer texts may change.

    Attributes:
        horizon: the largest number of tokens of a text.
        endings: how much of the texts had ended there.
        turns: number of turns of a conversation; None for one text.
        names_ends: whether the query itself is about ends, so that a horizon without a number does
            not serve it.
    """

    horizon: int
    endings: Endings
    turns: int | None = None
    names_ends: bool = False

    def __str__(self) -> str:
        """Return the warning as whole sentences."""
        return f"{_describe_cut(self)}: this is about beginnings.{_advise(self)}"


def describe_beginnings(found: Iterable[Beginnings]) -> list[str]:
    """Describe the decisions about beginnings of several answers, once for each horizon."""
    groups = defaultdict(list)
    for each in found:
        groups[each.horizon, each.turns is None, each.names_ends].append(each)
    return [
        f"{_describe_cut(max(group, key=_measure_cut))}: {format_count(len(group), 'verdict')} "
        f"{'is' if len(group) == 1 else 'are'} about beginnings.{_advise(group[0])}"
        for group in groups.values()
    ]


def _measure_cut(beginnings: Beginnings) -> tuple[bool, float]:
    """Return a key that is greatest where the horizon cuts most."""
    cut, count = beginnings.endings.counted or (beginnings.endings.cut, 1)
    return not _has_ended(beginnings.endings), cut / count


def _has_ended(endings: Endings) -> bool:
    """Return whether the texts may have ended by the horizon."""
    if endings.counted is not None:
        cut, count = endings.counted
        return cut < count
    return _format_share(endings.ended)[1] != "0.00"


def _describe_cut(beginnings: Beginnings) -> str:
    """Describe how many answers go on: `After 8 tokens no answer had ended`."""
    endings, noun = beginnings.endings, "answer" if beginnings.turns is None else "conversation"
    after = f"After {format_count(beginnings.horizon, 'token')}"
    if beginnings.turns is None and not _has_ended(endings):
        return f"{after} no answer had ended"
    largest = _format_share(Interval(0.0, endings.cut))[1]
    # a threshold of 0 or 1 depends on texts of any probability
    largest = format_upper(endings.cut, 1) if largest == "0.00" else largest
    share = f"up to {largest} of the {noun}s"
    if endings.counted is not None:
        cut, count = endings.counted
        share = f"{cut:,} of {format_count(count, noun)}"
    if beginnings.turns is not None:
        return f"{after} an answer goes on in {share}"
    return f"{after} {share} go on"


def _advise(beginnings: Beginnings) -> str:
    """Return the sentence about another horizon; empty for a conversation."""
    if beginnings.turns is not None:
        return ""
    if beginnings.names_ends:
        return " A greater length lets more of them end."
    return " `length: end` asks about whole answers."


def find_beginnings(
    query: Query,
    decision: Decision,
    measurement: Measurement,
    horizon: int,
    endings: Endings,
    turns: int | None = None,
) -> Beginnings | None:
    """Return a warning if longer texts may change a decision; None if they cannot.

    Args:
        query: the query, with a threshold.
        decision: the decision.
        measurement: bounds and interval of the probability of the query.
        horizon: the largest number of tokens of a text.
        endings: how much of the texts had ended there.
        turns: number of turns of a conversation; None for one text.
    """
    if endings.cut == 0 or not _can_change(
        query, decision, measurement, horizon, endings.cut, turns
    ):
        return None
    # what was never seen has no share that could be stated
    if endings.counted is not None and endings.counted[0] == 0:
        return None
    root = query.root
    is_about_ends = isinstance(root, Probability | PathQuantifier) and names_ends(root.path)
    return Beginnings(horizon, endings, turns, is_about_ends)


def _can_change(
    query: Query,
    decision: Decision,
    measurement: Measurement,
    horizon: int,
    cut: float,
    turns: int | None,
) -> bool:
    """Return whether continuations of the texts that the horizon cuts may change the decision.

    Each such text changes the probability by at most its own.
    """
    root = query.root
    if decision.holds is None or isinstance(root, Conditional | Expectation):
        return False
    path = root.path if isinstance(root, Probability | PathQuantifier) else root
    effects = find_continuation_effects(path, horizon) if turns is None else find_turn_effects(path)
    match root:
        case Probability(comparison):
            is_greater = comparison in (">=", ">")
        case PathQuantifier():
            is_greater = True
        case _:
            return effects.can_fall or effects.can_rise
    # a probability that may fall endangers P>=p that holds and P<=p that is violated
    is_endangered_by_fall = is_greater == decision.holds
    if not (effects.can_fall if is_endangered_by_fall else effects.can_rise):
        return False
    threshold = find_threshold(query)
    if threshold is None:
        return True
    known = measurement.certain if decision.is_certain else measurement.sampled
    whole = (
        Interval(max(0.0, known.lower - cut), known.upper)
        if is_endangered_by_fall
        else Interval(known.lower, min(1.0, known.upper + cut))
    )
    return threshold.compare(whole) is None
