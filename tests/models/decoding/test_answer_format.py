"""Formats of answers are those that a chat template writes."""

import pytest
from helpers.chat_tokenizers import build_tokenizer

from llmchecker.models.decoding.answer_format import (
    AnswerFormat,
    ThoughtMarks,
    find_answer_format,
)
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.decoding.template_format import read_answer_format

CHAT = Chat((("user", "Is it warm?"),))
USERS = "{% for m in messages if m.role != 'assistant' %}<|im_start|>{{ m.content }}{% endfor %}"
ANSWERS = "{% for m in messages if m.role == 'assistant' %}<|im_start|>"


def read_thought(template) -> ThoughtMarks | None:
    return read_answer_format(build_tokenizer(template), CHAT, "model").thought


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("<think>", "</think>"),
        ("[THINK]", "[/THINK]"),
        ("<|channel>thought", "<channel|>"),
        ("<|START_THINKING|>", "<|END_THINKING|>"),
        ("<seed:think>", "</seed:think>"),
    ],
)
@pytest.mark.parametrize("key", ["reasoning_content", "thinking", "reasoning"])
def test_marks_are_those_around_a_rendered_thought(begin, end, key):
    """Each known pair is found by what a template writes, whatever else its source contains."""
    template = (
        f"{{# <think></think> #}}{USERS}{ANSWERS}{begin}\n{{{{ m.{key} }}}}\n{end}\n\n"
        "{{ m.content }}{% endfor %}"
    )
    assert read_thought(template) == ThoughtMarks(begin, end)


def test_channels_before_the_final_one_are_thoughts():
    """The header of the final channel ends the thought, with or without an analysis."""
    marks = read_thought(
        USERS + ANSWERS + "{% if m.thinking %}<|channel|>analysis<|message|>{{ m.thinking }}<|end|>"
        "<|start|>assistant{% endif %}<|channel|>final<|message|>{{ m.content }}{% endfor %}"
    )
    assert marks is not None
    assert marks.split("<|channel|>final<|message|>No.") == ("", "No.")
    _, answer = marks.split(
        "<|channel|>analysis<|message|>Yes?<|end|><|start|>assistant<|channel|>final<|message|>No."
    )
    assert answer == "No."


@pytest.mark.parametrize(
    ("prompt", "is_open"),
    [("", False), ("<think>\n", True), ("<think>\n\n</think>\n\n", False), ("</think>", False)],
)
def test_a_thought_may_begin_in_the_prompt(prompt, is_open):
    """The prompt decides whether a thought is open, and no mark in a message does."""
    template = (
        USERS + ANSWERS + "{{ m.content.split('</think>')[-1] }}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n" + prompt + "{% endif %}"
    )
    tokenizer = build_tokenizer(template)
    chat = Chat((("user", "What does <think> mean?"),))
    marks = ThoughtMarks("<think>", "</think>", is_open)
    assert read_answer_format(tokenizer, chat, "model") == AnswerFormat(marks)


@pytest.mark.parametrize(
    ("text", "is_open", "parts"),
    [
        ("No.", False, (None, "No.")),
        (" <think>Yes?</think>\n\nNo. </think>", False, ("Yes?", "No. </think>")),
        ("Yes?</think>No.", True, ("Yes?", "No.")),
        ("<think>Yes?</think>No.", True, ("Yes?", "No.")),
        ("<think>Yes?", False, ("Yes?", None)),
        ("Yes?", True, ("Yes?", None)),
        ("No. <think>Yes?</think>", False, (None, "No. <think>Yes?</think>")),
        ("</think>No.", True, ("", "No.")),
        ("", False, (None, "")),
        ("", True, ("", None)),
    ],
)
def test_a_text_is_split_at_its_marks(text, is_open, parts):
    """A thought is at the beginning alone, and one without an end leaves no answer."""
    assert ThoughtMarks("<think>", "</think>", is_open).split(text) == parts


def test_a_model_without_a_template_has_the_default_format():
    """A text to continue, and a model that is no chat, may write the most common marks."""
    assert find_answer_format(object(), CHAT) == AnswerFormat()
    assert find_answer_format(object(), "Once") == AnswerFormat()
    with pytest.raises(ValueError, match="empty"):
        ThoughtMarks("<think>", "")
