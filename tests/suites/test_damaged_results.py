"""Stored JSON whose values have other types is refused by file and field."""

import copy
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.suites import load, run, words_model

from llmchecker.checking.anytime.mean_evidence import MeanEvidence
from llmchecker.checking.conversations.answer_tree import AnswerTree
from llmchecker.errors import DamagedFile, LLMCheckerError
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.judges import StoredJudge
from llmchecker.models.servers.answer_store import AnswerFile
from llmchecker.models.text_answer import Finish, TextAnswer
from llmchecker.suites.json_lines import read_baseline, read_results
from llmchecker.suites.selection import read_last_failed

VALUES = ([], {}, None, 7, "x", math.nan, 10**400)
EVIDENCE = MeanEvidence()
TREE = AnswerTree(
    model="m",
    turns=("Hi",),
    parent=np.array([-1, 0]),
    probability=np.array([1.0, 1.0]),
    texts=(None, "a"),
    messages=(None, None),
    has_ended=(None, True),
    truths=(None, True),
    merged=(0, 0),
    is_open=(False, False),
    scores={"he": (0, 1)},
)


class Judge:
    """A judge that gives each of two labels half of the probability."""

    name, spread = "judge", 0.0

    def compute_masses(self, chats: list[Chat], labels: list[str]) -> np.ndarray:
        """Return the same probabilities for each chat."""
        return np.full((len(chats), len(labels)), 0.5)


@pytest.fixture
def results(tmp_path: Path) -> tuple[Path, list[Any]]:
    """A file of results of a case, and its lines, with evidence and a conversation."""
    case = {"name": "won", "start": "once", "require": {"he": "P>=0.5 [ F he = 1 ]"}}
    properties = {"he": {"type": "pattern", "pattern": " he"}}
    log = tmp_path / "log.jsonl"
    suite = load(tmp_path, [case], properties=properties, length=1)
    run(suite, words_model(0.5), log=log)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines[1]["evidence"] = json.loads(json.dumps(vars(EVIDENCE)))
    lines[1]["conversation"] = TREE.as_json()
    write(log, lines)
    return log, lines


def write(path: Path, lines: list[Any]) -> None:
    """Write JSON lines, of which Python also writes NaN."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def iter_damaged(content: Any) -> Iterator[Any]:
    """Yield copies of a value with another value at each place."""
    yield from VALUES
    if isinstance(content, dict | list):
        for key in content if isinstance(content, dict) else range(min(len(content), 1)):
            for damaged in iter_damaged(content[key]):
                changed = copy.copy(content)
                changed[key] = damaged
                yield changed


def count_refused(path: Path, lines: list[Any], index: int, read: Callable[[], object]) -> int:
    """Return the number of damaged files that are refused by name; other errors fail the test."""
    count = 0
    for damaged in iter_damaged(lines[index]):
        write(path, [*lines[:index], damaged, *lines[index + 1 :]])
        try:
            read()
        except LLMCheckerError as error:
            count += str(path) in str(error)
    return count


@pytest.mark.parametrize("index", [0, 1])
def test_results_with_values_of_other_types_are_refused_by_the_file(results, index):
    """No other value in a header or a case gives an error without the name of its file."""
    log, lines = results
    assert read_results(log)[0].evidence == EVIDENCE
    assert count_refused(log, lines, index, lambda: read_baseline(log, ["m"])) > 5


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("case",), ["a"], "case: ['a'] is not a text"),
        (("certain",), "yes", "certain: 'yes' is not true or false"),
        (("answer",), [], "it is no object"),
        (("answer", "samples"), "3", "samples: '3' is not a whole number"),
        (("answer", "lower"), [0], "lower: [0] is not a finite number, true or false or null"),
        (("evidence", "used"), [0.5], "evidence.used: [0.5] is not a list of"),
        (("conversation", "texts"), "ab", "conversation.texts: 'ab' is not a list of"),
        (("examples",), [{"text": 3}], "examples: [{'text': 3}] is not a list of"),
    ],
)
def test_the_field_of_another_type_is_named(results, keys, value, message):
    """A field of a stored case with another type is refused with its name and value."""
    log, lines = results
    content = lines[1]
    for key in keys[:-1]:
        content = content[key]
    content[keys[-1]] = value
    write(log, lines)
    with pytest.raises(LLMCheckerError) as error:
        read_baseline(log, ["m"])
    assert str(log) in str(error.value)
    assert message in str(error.value)


def test_a_damaged_header_of_a_baseline_is_named(results):
    """A confidence that is no number is refused with the file, the line and the field."""
    log, lines = results
    lines[0]["confidence"] = "0.9"
    write(log, lines)
    with pytest.raises(LLMCheckerError, match=r"log.jsonl, line 1: confidence: '0.9' is not"):
        read_baseline(log, ["m"])


def test_stored_answers_with_values_of_other_types_are_refused(tmp_path):
    """No other value in a line of stored answers gives an error without the name of its file."""
    request = {"prompt": "a"}
    store = AnswerFile(tmp_path, request)
    store.begin_request(0)
    store.add(0, TextAnswer("b", Finish.ENDED, model="model", prompt_tokens=1, answer_tokens=2))
    lines = [json.loads(line) for line in store.path.read_text().splitlines()]
    for index in (0, 1, 2):
        refused = count_refused(store.path, lines, index, lambda: AnswerFile(tmp_path, request))
        assert refused > 5


def test_stored_grades_with_values_of_other_types_are_refused(tmp_path):
    """No other value in a line of stored probabilities is read as one."""
    path = tmp_path / "judge.jsonl"
    StoredJudge(Judge(), path).compute_masses([Chat((("user", "a"),))], ["yes", "no"])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert count_refused(path, lines, 0, lambda: StoredJudge(Judge(), path)) > 15


@pytest.mark.parametrize("row", [[], [0.5], [0.25, 0.25, 0.25]])
def test_a_stored_grade_of_another_scale_is_refused(tmp_path, row):
    """A stored line with another number of probabilities than labels names file and field."""
    path, chats = tmp_path / "judge.jsonl", [Chat((("user", "a"),))]
    StoredJudge(Judge(), path).compute_masses(chats, ["yes", "no"])
    line = json.loads(path.read_text())
    write(path, [line | {"probabilities": row}])
    with pytest.raises(DamagedFile, match=r"judge.jsonl: .*probabilities: \[.*; delete it"):
        StoredJudge(Judge(), path).compute_masses(chats, ["yes", "no"])


def test_a_damaged_record_of_the_last_run_selects_all_cases(results, tmp_path, monkeypatch):
    """A record of failed cases whose values have other types is as none."""
    record = tmp_path / "record.json"
    monkeypatch.setattr("llmchecker.suites.selection._find_record", lambda path: record)
    suite = load(tmp_path, [{"start": "once", "require": ["P>=0.5 [ F gender > 0 ]"]}])
    for damaged in iter_damaged({"failed": [["m", "case: x", "case", "x"]]}):
        write(record, [damaged])
        assert read_last_failed(tmp_path / "suite.yaml", suite) is None
