"""Stored answers of models that return texts alone: what a kill and two runs leave."""

import json
import random
from pathlib import Path

from helpers.questions import check_anytime

from llmchecker.config.question import build_model_budget, resolve_query
from llmchecker.models.servers.answer_store import AnswerFile
from llmchecker.models.text_answer import Finish, TextAnswer
from llmchecker.properties.quantifiers.pattern import Pattern

REQUEST = {"model": "m", "prompt": "Is it?"}


def build_answer(text: str) -> TextAnswer:
    return TextAnswer(text, Finish.ENDED, model="m", prompt_tokens=1, answer_tokens=1)


class _Stored:
    """A text model whose answers are stored."""

    name = description = "m at a place"

    def __init__(self, answers: dict[int, TextAnswer]) -> None:
        self.answers = answers

    def check_prompt(self, prompt) -> None:
        del prompt

    def find_spent_limit(self, stream, number):
        return None

    def iter_answers(self, next_request, must_stop):
        while (item := next_request()) is not None:
            yield item[0], self.answers[item[1]]


def test_runs_that_are_killed_while_long_answers_are_under_way_bias_nothing(tmp_path):
    """Every kill loses the answers `no`, and the interval still covers their share of one half.

    Without a mark of lost requests all 160 numbers would have the answer `yes` in the end.
    """
    drawn = random.Random(1)
    while len(AnswerFile(tmp_path, REQUEST).answers) < 160:
        run = AnswerFile(tmp_path, REQUEST)
        waiting = [number for number in range(160) if number not in run.answers][:16]
        for number in waiting:
            run.begin_request(number)
        for number in waiting:
            # the short answer arrives before the kill, the long one does not
            if drawn.random() < 0.5:
                run.add(number, build_answer("yes"))
    answers = AnswerFile(tmp_path, REQUEST).answers
    asked = resolve_query("P=? [ F yes = 1 ]", 3, {"yes": Pattern("yes")})
    assert {answer.text for answer in answers.values()} == {"yes"}
    budget = build_model_budget([("m", True)], answers=160)
    found = check_anytime(_Stored(answers), "", asked, budget)
    assert found.samples == 160
    assert found.low <= 0.5 <= found.high
    assert 50 < sum(each.is_repeated for each in answers.values()) < 110
    assert found.low > 0.3


def test_a_request_that_the_provider_has_not_read_loses_nothing(tmp_path):
    """The next request of a withdrawn number is its first, in this run and in a later one."""
    first = AnswerFile(tmp_path, REQUEST)
    for number in (0, 1):
        first.begin_request(number)
        first.withdraw_request(number)
    first.begin_request(0)
    assert not first.add(0, build_answer("a")).is_repeated
    later = AnswerFile(tmp_path, REQUEST)
    later.begin_request(1)
    assert not later.add(1, build_answer("b")).is_repeated
    found = AnswerFile(tmp_path, REQUEST).answers
    assert [found[number].text for number in (0, 1)] == ["a", "b"]
    assert not any(each.is_repeated for each in found.values())


def test_of_two_runs_at_once_the_first_request_counts(tmp_path):
    """The answer that arrives first is the shorter one, so the order of requests decides."""
    one, two = AnswerFile(tmp_path, REQUEST), AnswerFile(tmp_path, REQUEST)
    one.begin_request(0)
    two.begin_request(0)
    two.add(0, build_answer("short"))
    (found,) = AnswerFile(tmp_path, REQUEST).answers.values()
    assert (found.text, found.is_repeated) == ("short", True)
    one.add(0, build_answer("a long answer"))
    (found,) = AnswerFile(tmp_path, REQUEST).answers.values()
    assert (found.text, found.is_repeated) == ("a long answer", False)


def test_an_answer_without_its_request_is_no_sample(tmp_path):
    """A file without the lines of requests shows no answer as a sample."""
    run = AnswerFile(tmp_path, REQUEST)
    run.begin_request(0)
    run.add(0, build_answer("a"))
    lines = [json.loads(line) for line in Path(run.path).read_text().splitlines()]
    kept = [line for line in lines if "format" in line or "text" in line]
    run.path.write_text("".join(f"{json.dumps(line)}\n" for line in kept))
    assert AnswerFile(tmp_path, REQUEST).answers[0].is_repeated
