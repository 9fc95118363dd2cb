"""Formats of answers: the marks of thoughts, and the form of calls of tools.

    <think>It is Paris.</think>Paris                      Qwen, DeepSeek, GLM, SmolLM3, …
    [THINK]It is Paris.[/THINK]Paris                      Magistral
    <|channel>thought\\nIt is Paris.<channel|>Paris        Gemma 4

The format of a model is found by its chat template.
"""

from dataclasses import dataclass

from llmchecker.errors import UnusableText
from llmchecker.models.decoding.call_formats import (
    INVALID_CALL,
    CallFormat,
    HarmonyCalls,
    Schemas,
    ToolCall,
    read_any_calls,
    read_harmony_analysis,
)


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


_DEFAULT_THOUGHT = ThoughtMarks("<think>", "</think>")
"""The marks of most models, and of one without a template."""


@dataclass(frozen=True)
class AnswerFormat:
    """What is read of the texts that a model writes.

    Attributes:
        thought: the marks of the thought with which an answer begins; None if none is read.
        calls: the format of calls; None for a model that may write any known one.
        obstacle: the reason why calls cannot be read, as of the template; empty if they can.
    """

    thought: ThoughtMarks | None = _DEFAULT_THOUGHT
    calls: CallFormat | None = None
    obstacle: str = ""

    @property
    def marks(self) -> tuple[str, ...]:
        """The literal texts of the format, which may be special tokens of a tokenizer."""
        thought = () if self.thought is None else (self.thought.begin, self.thought.end)
        return (*thought, *(() if self.calls is None else self.calls.marks))

    def read_calls(self, text: str, schemas: Schemas | None = None) -> list[ToolCall]:
        """Return the calls of a text after its thought, readable or not.

        A call in another known format than that of the model is one that cannot be read.

        Args:
            text: all that the model wrote.
            schemas: the JSON Schema of the arguments of each tool, by name.
        """
        schemas = schemas or {}
        if self.thought is not None and not isinstance(self.calls, HarmonyCalls):
            text = self.thought.split(text)[1] or ""
        calls = [] if self.calls is None else list(self.calls.read(text, schemas))
        if calls:
            return calls
        calls = read_any_calls(text, schemas)
        return calls if self.calls is None or not calls else [INVALID_CALL]

    def clean_thought(self, thought: str) -> str:
        """Return a thought as the message of an API contains it, without inner marks."""
        # gpt-oss thinks in whole messages of a channel
        is_harmony = self.thought is not None and self.thought.end == "final<|message|>"
        return read_harmony_analysis(thought) if is_harmony else thought

    def find_single_call(self, text: str) -> ToolCall | None:
        """Return the call of a text with exactly one; None for another text."""
        calls = self.read_calls(text)
        return calls[0] if len(calls) == 1 else None

    def check_calls(self) -> None:
        """Check that the calls of the model can be read.

        Raises:
            UnusableText: its template writes none, or in no known format.
        """
        if self.obstacle:
            raise UnusableText(
                f"tools: the chat template {self.obstacle}; choose a model of another family"
            )


def find_answer_format(model: object, start: object) -> AnswerFormat:
    """Find the format of a model's answers to a start.

    A text that the model continues, and a model without a template, have the default format.

    Args:
        model: the model.
        start: the start string or the chat.

    Raises:
        UnusableText: the chat template rejects the messages.
    """
    # a model of a user, or one that returns texts alone, has no chat template of its own
    find = getattr(model, "find_answer_format", None)
    return AnswerFormat() if find is None or isinstance(start, str) else find(start)
