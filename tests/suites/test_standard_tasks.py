"""The suite of the how-to gives the accuracy on files of the form of the real data sets."""

import re
from fractions import Fraction
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from helpers.suites import OpenTable, write_suite

import llmchecker as lc
from llmchecker.errors import ConfigError
from llmchecker.suites.load import load_suite
from llmchecker.suites.session import run_suite
from llmchecker.suites.verdicts import Status

PAGE = Path(__file__).parents[2] / "docs/how-to/standard_tasks.md"
CONTENT = yaml.safe_load(re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)[1])
TEXT, LABELS = pa.string(), ["A", "B", "C", "D", "E"]

BOOLQ = pa.table(
    {
        "question": pa.array(["is it q0", "is it q1"], TEXT),
        "answer": pa.array([True, False], pa.bool_()),
        "passage": pa.array(["It is {so}.", "It is not."], TEXT),
    }
)
_CHOICES = pa.struct([("text", pa.list_(TEXT)), ("label", pa.list_(TEXT))])
ARC_EASY = pa.table(
    {
        "id": pa.array(["a", "b", "c"], TEXT),
        "question": pa.array(["Which q2", "Which q3", "Which q4"], TEXT),
        "choices": pa.array(
            [
                {"text": ["sun", "moon", "sea"], "label": LABELS[:3]},
                {"text": ["one", "two", "three", "four"], "label": ["1", "2", "3", "4"]},
                {"text": ["a", "b", "c", "d", "e"], "label": LABELS},
            ],
            _CHOICES,
        ),
        "answerKey": pa.array(["B", "1", "E"], TEXT),
    }
)
MMLU = pa.table(
    {
        "question": pa.array(["How q5", "How q6"], TEXT),
        "subject": pa.array(["anatomy", "anatomy"], TEXT),
        "choices": pa.array([["w", "x", "y", "z"], ["a", "b", "c", "d"]], pa.list_(TEXT)),
        "answer": pa.array([0, 3], pa.int64()),
    }
)
TABLES = {"boolq": BOOLQ, "arc_easy": ARC_EASY, "mmlu_anatomy": MMLU}
RIGHT = ["true", "false", "B", "1", "E", "0", "3"]
"""The right answer to each question."""

WORDS = ["True", "false", "B", "1", "E", "0", "3", " is", "er", ".", ""]
END = len(WORDS) - 1
LENGTH = 3


def distribute(question: int, step: int) -> list[Fraction]:
    """The probabilities of the words: the right one is likely, and may be continued or end."""
    weights = [1] * 7 + ([0, 0, 0, 0] if step == 0 else [3, 2, 2, 4])
    weights[question] += 2 * question if step == 0 else 0
    return [Fraction(weight, sum(weights)) for weight in weights]


class Answers(lc.TableModel):
    """A table whose probabilities depend on the question in the last message."""

    def __init__(self) -> None:
        words = [*WORDS, *(f"q{number}" for number in range(len(RIGHT)))]
        others = [0.0] * len(RIGHT)

        def list_probabilities(tokens: tuple[int, ...]) -> list[float]:
            question = tokens[0] - len(WORDS)
            return [*map(float, distribute(question, len(tokens) - 1)), *others]

        super().__init__(words, list_probabilities, frozenset({END}))

    def encode(self, start):
        text = start if isinstance(start, str) else start.messages[-1][1]
        return (len(WORDS) + int(re.search(r"q(\d)", text)[1]),)


def compute_accuracy(questions: range, *, greedy: bool) -> Fraction:
    """The accuracy by enumeration of all answers, read without regular expressions."""
    total = Fraction(0)
    for question in questions:
        for tokens in product(range(len(WORDS)), repeat=LENGTH):
            probability, text, has_ended = Fraction(1), "", False
            for step, token in enumerate(tokens):
                row = distribute(question, step)
                if has_ended:
                    # one way to write what follows the end
                    probability *= token == END
                    continue
                probability *= (row.index(max(row)) == token) if greedy else row[token]
                has_ended = token == END
                text += WORDS[token]
            rest = text[len(RIGHT[question]) :]
            is_right = text.lower().startswith(RIGHT[question].lower())
            if is_right and not rest[:1].isalnum():
                total += probability
    return total / len(questions)


def write_tasks(folder: Path, **keys) -> Path:
    """The suite of the page on small files."""
    cases = []
    for case in CONTENT["cases"]:
        path = folder / f"{case['name']}.parquet"
        pq.write_table(TABLES[case["name"]], path)
        cases.append({**case, "prompts": path.name})
    content = {**CONTENT, "model": "m", "length": LENGTH, "cases": cases} | keys
    return write_suite(folder, content)


@pytest.mark.few(1)
@pytest.mark.parametrize("decoding", ["greedy", {"temperature": 1}])
def test_the_accuracy_of_standard_tasks_is_the_enumerated_one(tmp_path, decoding):
    """The mean over the rows of each data set is within its certain bounds and its interval."""
    suite = load_suite(write_tasks(tmp_path, decoding=decoding, budget={"passes": 200}))
    model = Answers()
    result = run_suite(suite, open_model=lambda deployment: OpenTable(choose(model, decoding)))
    means = {each.name.partition(":")[0]: each for each in result.aggregates}
    first = 0
    for name, table in TABLES.items():
        questions = range(first, first := first + table.num_rows)
        expected = compute_accuracy(questions, greedy=decoding == "greedy")
        mean = means[name].measurement
        assert mean.certain.lower - 1e-12 <= expected <= mean.certain.upper + 1e-12
        assert mean.sampled.lower - 1e-12 <= expected <= mean.sampled.upper + 1e-12
        assert mean.certain.width < 1e-9
    assert means["boolq"].status in (Status.HOLDS, Status.VIOLATED)
    assert means["arc_easy"].status is Status.MEASURED


def choose(model: Answers, decoding) -> lc.TableModel:
    """The model with its decoding, which a loaded model would have."""
    if decoding != "greedy":
        return model
    inner = model.distribution

    def take_best(tokens: tuple[int, ...]) -> list[float]:
        row = inner(tokens)
        best = row.index(max(row))
        return [float(token == best) for token in range(len(row))]

    model.distribution = take_best
    return model


def test_the_prompts_have_the_parts_of_lists_and_objects(tmp_path):
    """Choices are lines, and parts of a list are columns; braces in a cell have no meaning."""
    suite = load_suite(write_tasks(tmp_path))
    prompts = [case.question.prompt.messages[-1][1] for case in suite.cases]
    assert prompts[0] == "It is {so}.\n\nQuestion: is it q0?\nAnswer true or false."
    assert prompts[3] == (
        "Which q3\n1. one\n2. two\n3. three\n4. four\n"
        "Answer with the letter or number of the right choice."
    )
    assert prompts[5].splitlines()[:3] == ["How q5", "0. w", "1. x"]


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ("{a}", "row 1, column a: the value is a list with parts such as a[0]; write a text"),
        ("{o}", "column o: the value is an object with parts such as o.b; write a text"),
        ("{a[1]}", "row 2, column a[1]: the value is missing; write a text or a number"),
        ("{a[2]}", "{a[2]}: the prompts have no such column"),
        ("{v[0]}", "{v[0]}: the prompts have no such column"),
    ],
)
def test_a_part_that_a_row_lacks_is_refused(tmp_path, user, reason):
    """A list itself, a missing part and a part of a vector are named with their row."""
    (tmp_path / "rows.jsonl").write_text(
        f'{{"a": ["x", "y"], "o": {{"b": 1.50}}, "v": {list(range(101))}}}\n'
        '{"a": ["x"], "o": {"b": 2}, "v": []}\n'
    )
    case = {"prompts": "rows.jsonl", "user": user, "require": ["P>=0.1 [ F json = 2 ]"]}
    with pytest.raises(ConfigError, match=re.escape(reason)):
        load_suite(write_suite(tmp_path, {"cases": [case]}))


def test_parts_are_as_written_and_replace_no_column(tmp_path):
    """Numbers keep their digits, nested parts have paths, and a column of that name remains."""
    (tmp_path / "rows.jsonl").write_text(
        '{"a": [[1.50], {"t": true}], "a[0][0]": "own", "o": {"b": 1.50}}\n'
    )
    user = "{a[0][0]} {a[1].t} {o.b}"
    case = {"prompts": "rows.jsonl", "user": user, "require": ["P>=0.1 [ F json = 2 ]"]}
    (found,) = load_suite(write_suite(tmp_path, {"cases": [case]})).cases
    assert found.prompt == "own true 1.50"
