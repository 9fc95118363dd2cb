"""Answers are read as they were written, and files of other formats are refused by name."""

import json
from dataclasses import replace

import pytest

from llmchecker.checking.answer import Answer, Costs, Sampled
from llmchecker.checking.comparison import Comparison
from llmchecker.checking.decision import ComparisonOutcome, Decision, Outcome
from llmchecker.checking.forecast import Forecast
from llmchecker.checking.measurement import Measurement
from llmchecker.checking.witnesses import Witness
from llmchecker.errors import CheckFailed, DamagedFile
from llmchecker.properties.logic.parser import parse
from llmchecker.utils.atomic_files import write_json_with_digest
from llmchecker.utils.interval import NUMBERS, PROBABILITIES, TRUTHS, Interval

SAMPLED = Sampled(Interval(0.25, 0.5), 0.3, 0.99, 20, 7)
NUMBER, THRESHOLD = parse("P=? [ F g > 0 ]"), parse("P>=0.2 [ F g > 0 ]")


@pytest.mark.parametrize(
    ("query", "certain"),
    [
        (NUMBER, Interval(0.0, 0.75)),
        (THRESHOLD, TRUTHS),
        (parse('R{"g"}=? [ I=2 ]'), NUMBERS),
    ],
)
def test_an_answer_is_read_as_it_was_written(tmp_path, query, certain):
    """Every figure survives the file: numbers, truths, ends without a limit."""
    text = Witness(1, "He", 0.5, "witness", rest=False, kept=0)
    answer = Answer(
        query=query,
        horizon=3,
        certain=certain,
        sampled=SAMPLED,
        bounded=False if query is THRESHOLD else 0.25,
        witnesses=(text,),
        notes=("It is hard.",),
        costs=Costs(*range(1, 9)),
        versions={"storm": "2"},
        probability=Interval(0.125, 0.5) if query is THRESHOLD else PROBABILITIES,
        forecast=Forecast(4000, 120.0),
    )
    answer.write(tmp_path / "a.json")
    assert Answer.read(tmp_path / "a.json") == answer
    # a file may have further keys
    assert Answer.from_json(answer.as_json() | {"check": "a"}, "b.json") == answer


def test_the_estimate_of_a_threshold_in_a_file_is_a_number():
    """The file has the estimated probability and the outcome; the property is the truth."""
    answer = Answer(THRESHOLD, 3, TRUTHS, SAMPLED)
    content = answer.as_json()
    assert (content["estimate"], content["outcome"]) == (0.3, "HOLDS")
    assert content["certainty"] == "with confidence 0.99"
    assert answer.estimate is True
    assert answer.decision == Decision(Outcome.HOLDS, 0.99)


@pytest.mark.parametrize(
    "change", [{"format": "llmchecker answer 0"}, {"format": None}, {"samples": 3, "low": None}]
)
def test_a_file_of_another_format_is_refused(tmp_path, change):
    """Another format or a missing figure names the file and what to do."""
    content = Answer(NUMBER, 3, PROBABILITIES).as_json() | change
    write_json_with_digest(content, tmp_path / "old.json")
    with pytest.raises(DamagedFile, match=r"old\.json: .* version: .* delete it and run"):
        Answer.read(tmp_path / "old.json")


def test_a_verdict_of_an_older_version_is_refused(tmp_path):
    """The keys of the files before formats are no answer."""
    old = {"query": NUMBER.text, "value": 0.25, "lower": 0.1, "upper": 0.5, "states": 3}
    write_json_with_digest(old, tmp_path / "old.json")
    with pytest.raises(DamagedFile, match="it has the format None, not 'llmchecker answer 5'"):
        Answer.read(tmp_path / "old.json")


def test_an_answer_in_json_has_no_infinity():
    """Ends without a limit are null, which every JSON reader accepts."""
    content = Answer(parse('R{"g"}=? [ I=2 ]'), 3, NUMBERS).as_json()
    assert json.loads(json.dumps(content, allow_nan=False))["lower"] is None


def test_answers_to_one_query_share_their_bounds():
    """The bounds are the intersection, and disjoint ones are refused."""
    tree = Answer(NUMBER, 3, Interval(0.1, 0.4), bounded=0.2)
    found = tree.narrow(Answer(NUMBER, 3, Interval(0.2, 0.9), SAMPLED))
    assert (found.certain, found.bounded) == (Interval(0.2, 0.4), 0.2)
    assert found.sampled.interval == Interval(0.25, 0.4)
    with pytest.raises(CheckFailed, match="disjoint"):
        tree.narrow(Answer(NUMBER, 3, Interval(0.6, 0.9)))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        # the bounds of a threshold query are truths, so its number is the probability
        (
            Answer(THRESHOLD, 3, TRUTHS, SAMPLED, probability=Interval(0.125, 0.375)),
            Measurement(Interval(0.125, 0.375), Interval(0.25, 0.375), 0.3125),
        ),
        # without samples the bounds are the interval
        (Answer(NUMBER, 3, Interval(0.25, 0.5)), Measurement(*[Interval(0.25, 0.5)] * 2)),
        (Answer(NUMBER, 3, Interval(0.5, 0.5)), Measurement(*[Interval(0.5, 0.5)] * 2, 0.5)),
        (
            Answer(NUMBER, 3, PROBABILITIES, SAMPLED),
            Measurement(PROBABILITIES, Interval(0.25, 0.5), 0.3),
        ),
    ],
)
def test_an_answer_has_the_measurement_of_its_number(answer, expected):
    """Bounds, interval and estimate are those of the number, also for a threshold."""
    assert answer.measurement == expected


def test_a_comparison_is_two_answers_and_their_difference():
    """The ends of the difference are those of the answers, subtracted crosswise."""
    first = Answer(NUMBER, 3, Interval(0.5, 1.0), costs=Costs(passes=3), notes=("It is hard.",))
    versus = replace(first, certain=Interval(0.0, 0.25), costs=Costs(passes=4))
    found = Comparison(first, versus, confidence=None, seconds=1.0)
    assert (found.lower, found.upper, found.low, found.high) == (0.25, 1.0, None, None)
    assert (found.outcome, found.certainty) == (ComparisonOutcome.FIRST, "certain")
    assert (found.passes, found.notes) == (7, ("It is hard.",))
    sampled = replace(versus, certain=PROBABILITIES, sampled=SAMPLED)
    found = Comparison(sampled, first, confidence=0.98, seconds=1.0)
    assert (found.lower, found.upper) == (-1.0, 0.5)
    # the side without samples has its bounds
    assert (found.low, found.high) == (-0.75, 0.0)
    assert (found.outcome, found.certainty) == (ComparisonOutcome.UNKNOWN, None)
