"""Formats of answers: the marks of thoughts, as a model's own chat template writes them.

    <think>It is Paris.</think>Paris                      Qwen, DeepSeek, GLM, SmolLM3, …
    [THINK]It is Paris.[/THINK]Paris                      Magistral
    <|channel>thought\\nIt is Paris.<channel|>Paris        Gemma 4

The format of a model is found by its template: a message with a thought is rendered, and the known
marks around the thought are its marks. A template that leaves thoughts out still contains the mark
where it cuts them off.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from llmchecker.errors import UnusableText
from llmchecker.models.decoding.chat_template import Chat, ChatTemplate, Start

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_QUESTION, _THOUGHT, _ANSWER = "\ue001", "\ue002", "\ue003"
"""Private characters as contents of rendered messages, which no template changes."""

_THOUGHT_KEYS = ("reasoning_content", "reasoning", "thinking")
"""The keys of thoughts in messages."""


@dataclass(frozen=True)
class ThoughtMarks:
    """The marks of the thought with which an answer begins.

    Attributes:
        begin: the mark before a thought, which follows at most white space.
        end: the mark after it.
        is_open: whether the prompt ends within a thought, so that the text needs no `begin`.

    Raises:
        ValueError: a mark is empty.
    """

    begin: str
    end: str
    is_open: bool = False

    def __post_init__(self) -> None:
        if not self.begin or not self.end:
            raise ValueError("a mark of a thought is empty")

    def split(self, text: str) -> tuple[str | None, str | None]:
        """Return the thought and the answer of a text that has ended.

        White space between a mark and a part belongs to neither.

        Returns:
            The thought, or None for a text without one; and the text after it, or None if the
            thought has no end.
        """
        content = text.lstrip()
        if not self.is_open and not content.startswith(self.begin):
            return None, text
        thought, mark, answer = content.removeprefix(self.begin).partition(self.end)
        return thought.strip(), answer.lstrip() if mark else None


_KNOWN_THOUGHTS = (
    ThoughtMarks("<think>", "</think>"),
    # gpt-oss: all channels before the final one
    ThoughtMarks("<|channel|>", "final<|message|>"),
    ThoughtMarks("<|channel>thought", "<channel|>"),
    ThoughtMarks("[THINK]", "[/THINK]"),
    ThoughtMarks("<seed:think>", "</seed:think>"),
    ThoughtMarks("<|START_THINKING|>", "<|END_THINKING|>"),
    ThoughtMarks("<|inner_prefix|>", "<|inner_suffix|>"),
    ThoughtMarks("<longcat_think>", "</longcat_think>"),
    ThoughtMarks("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
)
"""The marks of thoughts of known models. The first are those of a model without a template."""


@dataclass(frozen=True)
class AnswerFormat:
    """What is read of the texts that a model writes.

    Attributes:
        thought: the marks of the thought with which an answer begins; None if none is read.
    """

    thought: ThoughtMarks | None = _KNOWN_THOUGHTS[0]


def find_answer_format(model: object, start: Start) -> AnswerFormat:
    """Find the format of a model's answers to a start.

    A text that the model continues, and a model without a template, have the default format.

    Raises:
        UnusableText: the chat template rejects the messages.
    """
    # a model of a user, or one that returns texts alone, has no chat template of its own
    find = getattr(model, "find_answer_format", None)
    return AnswerFormat() if find is None or isinstance(start, str) else find(start)


def read_answer_format(tokenizer: "PreTrainedTokenizerBase", chat: Chat, name: str) -> AnswerFormat:
    """Find the format of the answers to a chat, by what the chat template writes.

    Args:
        tokenizer, chat, name: as in `encode_chat`, which accepts them.
    """
    template = ChatTemplate(tokenizer, name, chat.tools)
    marks = _find_thought_marks(template)
    return AnswerFormat(replace(marks, is_open=_is_open(marks, template, chat)))


def _find_thought_marks(template: ChatTemplate) -> ThoughtMarks:
    """Return the marks that the template writes around a thought, or else contains."""
    message: dict[str, Any] = {"role": "assistant", "content": _ANSWER}
    message |= dict.fromkeys(_THOUGHT_KEYS, _THOUGHT)
    question = {"role": "user", "content": _QUESTION}
    try:
        text = template.render([question, message], add_generation_prompt=False)
    except UnusableText:  # a template may accept no message with a thought
        text = ""
    before, _, after = text.rpartition(_QUESTION)[2].partition(_THOUGHT)
    for marks in _KNOWN_THOUGHTS:
        if marks.begin in before and marks.end in after.partition(_ANSWER)[0]:
            return marks
    written = (marks for marks in _KNOWN_THOUGHTS if marks.end in template.source)
    return next(written, _KNOWN_THOUGHTS[0])


def _is_open(marks: ThoughtMarks, template: ChatTemplate, chat: Chat) -> bool:
    """Return whether the template begins a thought after the last message, and does not end it."""
    contents = [content for _, content in chat.messages[:-1]]
    text = template.render(chat.replace_contents([*contents, _QUESTION]))
    beginning = text.rpartition(_QUESTION)[2]
    is_open: bool = beginning.rfind(marks.begin) > beginning.rfind(marks.end)
    return is_open
