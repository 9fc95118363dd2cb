"""Data sets whose rows are chats, and whose answers are lists: as their authors publish them."""

import json
from typing import Any

import pytest
import yaml

from llmchecker.errors import LLMCheckerError
from llmchecker.suites.cases import Case
from llmchecker.suites.load import load_suite

ANY = {"contains_any": "{ideal}", "at_least": 0.5}


def load(tmp_path, rows: list[Any], name: str = "rows.jsonl", **case: Any) -> list[Case]:
    """The cases of rows, for a model that returns texts alone."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (tmp_path / name).write_text("\n".join(lines))
    case = {"prompts": name, "messages": "{input}", "require": [ANY], **case}
    suite = {"model": "openai:gpt-4o-mini", "length": 9, "cases": [case]}
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump(suite))
    return list(load_suite(path).cases)


def messages(cases: list[Case]) -> list[Any]:
    return [case.question.prompt.messages for case in cases]


SYSTEM, USER = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}
ASSISTANT = {"role": "assistant", "content": "Ann."}


def test_rows_of_openai_evals_are_chats_with_one_or_several_answers(tmp_path):
    """Chats of any length, and a text, are prompts; a list and a text are acceptable answers."""
    rows = [
        {"input": [SYSTEM, USER], "ideal": "Paris, France"},
        {"input": [USER, ASSISTANT, USER], "ideal": ["Ann", "1.50"]},
        {"input": "Is {it} so?", "ideal": [1.50, 7]},
    ]
    # a number is a text as the file has it
    rows[2] = json.dumps(rows[2]).replace("1.5", "1.50")
    cases = load(tmp_path, rows)
    assert messages(cases) == [
        (("system", "Be brief."), ("user", "Who?")),
        (("user", "Who?"), ("assistant", "Ann."), ("user", "Who?")),
        (("user", "Is {it} so?"),),
    ]
    patterns = [repr(case.question.asked.quantifiers["contains"]) for case in cases]
    for pattern, texts in zip(
        patterns, (["Paris,\\\\ France"], ["Ann|1\\\\.50"], ["1\\\\.50|7"]), strict=True
    ):
        assert all(text in pattern for text in texts), pattern


def test_the_answer_of_a_training_row_is_no_part_of_the_prompt(tmp_path):
    """A chat for fine-tuning and one of ShareGPT end before their answer, which is a column."""
    parts = [{"type": "text", "text": "Wh"}, {"type": "text", "text": "o?"}]
    rows = [
        {"input": [SYSTEM, {**USER, "content": parts}, {**ASSISTANT, "weight": 1}]},
        {"input": [{"from": "human", "value": "Who?"}, {"from": "gpt", "value": "Ann."}]},
    ]
    cases = load(tmp_path, rows, require=[{"equals": "{input.answer}", "at_least": 0.5}])
    assert messages(cases) == [
        (("system", "Be brief."), ("user", "Who?")),
        (("user", "Who?"),),
    ]
    assert all("Ann" in case.requirement for case in cases)


def test_a_chat_may_be_a_part_of_the_messages(tmp_path):
    """Messages of the suite may precede and follow those of a column."""
    entries = [{"system": "Be {tone}."}, {"chat": "{input}"}, {"user": "And {tone}?"}]
    row = {"input": [USER, ASSISTANT, USER, ASSISTANT], "ideal": "x", "tone": "kind"}
    (found,) = messages(load(tmp_path, [row], messages=[*entries[:2]]))
    assert found == (("system", "Be kind."), ("user", "Who?"), ("assistant", "Ann."), found[1])
    with pytest.raises(LLMCheckerError, match="no such column"):
        load(tmp_path, [row], messages=[{"chat": "{inputs}"}])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([{"role": "user"}], "message 0: .* has no role and text"),
        ([{"role": "critic", "content": "x"}], "the role 'critic' is unknown; use system"),
        ([{**USER, "name": "ann"}], "the key 'name' is not read"),
        ([{**USER, "content": [{"type": "image_url"}]}], "message 0: .* is no text; use texts"),
        ([{**USER, "content": None}], "message 0: null is no text"),
        ([ASSISTANT], "no messages|user's"),
        ([USER, SYSTEM, USER], "a system prompt follows another message"),
        ([], r"\[\] is no chat"),
        (7, ""),
    ],
)
def test_what_is_no_chat_is_named(tmp_path, value, message):
    """A role, a part or a key that would be lost is refused with its message."""
    if value == 7:
        # a number is a text, as in any other place
        assert messages(load(tmp_path, [{"input": 7, "ideal": "x"}])) == [(("user", "7"),)]
        return
    with pytest.raises(LLMCheckerError, match=message):
        load(tmp_path, [{"input": value, "ideal": "x"}])


def test_a_csv_file_has_no_lists(tmp_path):
    """The text of a CSV cell with a comma may be one text or several, so it is refused."""
    with pytest.raises(LLMCheckerError, match="is one text; write a list"):
        load(tmp_path, ["input,ideal", 'Who?,"Ann, Bob"'], name="rows.csv")
    assert load(tmp_path, ["input,ideal", "Who?,Ann"], name="rows.csv")


def test_a_chat_needs_a_table(tmp_path):
    """Without rows a text in place of messages is an error, not a message."""
    path = tmp_path / "suite.yaml"
    case = {"messages": "{input}", "require": [{"contains": "x", "at_least": 0.5}]}
    path.write_text(yaml.safe_dump({"model": "openai:gpt-4o-mini", "cases": [case]}))
    with pytest.raises(LLMCheckerError, match=r"is no column; write \{input\}, and add `prompts`"):
        load_suite(path)
