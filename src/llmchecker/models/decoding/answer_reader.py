"""Readers: append-only functions from the output of a model to what is read of it.

    raw text    <think>Yes? No.</think>No.\\nUser: more
    stops       "\\nUser:"
    marks       "<think>" and "</think>"

    output      <think>Yes? No.</think>\nNo.
    thought     Yes? No.
    answer      No.

`max_tokens` cuts an answer, which people get as it is then.

A stop ends the output before itself. A suffix that may begin a stop or a mark is held back until
the next characters show whether it does, as a streaming client receives the text. So what is read
of a text never loses a character when the text goes on.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from llmchecker.errors import ConfigError
from llmchecker.models.decoding.answer_format import AnswerFormat, ThoughtMarks, find_answer_format
from llmchecker.models.decoding.chat_template import Chat, Start
from llmchecker.utils.printable_text import quote_value

ANSWER, THOUGHT, OUTPUT = "answer", "thought", "output"

READ_PARTS = (ANSWER, THOUGHT, OUTPUT)
"""Parts of what a model writes; the output is all of it, marks included."""

_MARK_TOKENS = 64
"""The largest number of tokens of a mark that ends a prompt, with white space after it."""

_ModelT = TypeVar("_ModelT")


@dataclass(frozen=True)
class Reading:
    """What is read of a text.

    White space before a thought and before an answer after marks belongs to neither.

    Attributes:
        output: the released text, marks included.
        thought: the thought with which the text begins.
        answer: the text after it; the whole text without marks.
        has_stopped: whether a stop ended the text.
        is_thinking: whether the text ends within a thought.
    """

    output: str
    thought: str
    answer: str
    has_stopped: bool
    is_thinking: bool

    def select(self, part: str) -> str:
        """Return a part of `READ_PARTS`."""
        text: str = getattr(self, part)
        return text


@dataclass(frozen=True)
class AnswerReader:
    """A reader of whole texts; `ReaderTransducer` reads the same token by token.

    The stop that is complete first ends a text. Of several that are complete at one character, the
    longest does. Stops are searched in all that the model writes, thoughts and marks included.

    Attributes:
        stop: the stops.
        include_stop: whether the output ends after the stop, and not before it.
        marks: the marks of a thought; None for answers without thoughts.
        finds_marks: whether marks that are not stated are those of the chat template.
        max_tokens: the number of tokens, from 1 on, at which an answer ends that has not ended
            before; None for no such end.

    Raises:
        ConfigError: a stop is empty, another stop always ends the text before it, or it is part of
            a mark; marks overlap; or the number of tokens is out of range.
    """

    stop: tuple[str, ...] = ()
    include_stop: bool = False
    marks: ThoughtMarks | None = None
    finds_marks: bool = True
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.max_tokens is not None and not _is_count(self.max_tokens):
            raise ConfigError(
                f"max_tokens: {quote_value(self.max_tokens)} is not a whole number above 0"
            )
        for stop in self.stop:
            if not isinstance(stop, str) or not stop:
                raise ConfigError(f"stop: {quote_value(stop)} ends no text; leave it out")
        for stop in self.stop:
            for other in self.stop:
                # a stop that ends with another one is complete at the same character
                if other in stop[:-1]:
                    raise ConfigError(
                        f"stop: {quote_value(stop)} is never reached, since {quote_value(other)} "
                        "ends the text before; leave it out"
                    )
        if len(set(self.stop)) < len(self.stop):
            raise ConfigError("stop: a text is given twice; leave one out")
        marks = () if self.marks is None else (self.marks.begin, self.marks.end)
        _check_marks(marks)
        for stop in self.stop:
            for mark in marks:
                if stop in mark:
                    raise ConfigError(
                        f"stop: {quote_value(stop)} ends every answer within the mark "
                        f"{quote_value(mark)} of a thought; leave out either"
                    )
        if self.include_stop and not self.stop:
            raise ConfigError("include_stop: no effect without stop; remove it")

    def __bool__(self) -> bool:
        """Return whether anything but the whole output is read."""
        return bool(self.stop) or self.marks is not None

    @property
    def as_json(self) -> dict[str, Any]:
        """The settings with an effect."""
        settings: dict[str, Any] = {}
        if self.stop:
            settings["stop"] = list(self.stop)
        if self.include_stop:
            settings["include_stop"] = True
        if self.marks is not None:
            marks = self.marks
            settings[THOUGHT] = {"begin": marks.begin, "end": marks.end, "open": marks.is_open}
        elif not self.finds_marks:
            settings[THOUGHT] = False
        if self.max_tokens is not None:
            settings["max_tokens"] = self.max_tokens
        return settings

    def __str__(self) -> str:
        stops = ", ".join(map(quote_value, self.stop))
        words = [f"stop {stops}{' (included)' * self.include_stop}"] if self.stop else []
        if self.marks is not None:
            words.append(f"answers after {quote_value(self.marks.end)}")
        elif not self.finds_marks:
            words.append("thoughts in answers")
        if self.max_tokens is not None:
            words.append(f"max_tokens {self.max_tokens}")
        return ", ".join(words)

    @property
    def without_stops(self) -> "AnswerReader":
        """The reader of texts that stops have ended."""
        return replace(self, stop=(), include_stop=False)

    def limit_length(self, length: int) -> int:
        """Return the largest number of tokens of an answer within a horizon."""
        return length if self.max_tokens is None else min(length, self.max_tokens)

    def adapt_format(self, answer_format: AnswerFormat) -> AnswerFormat:
        """Return a format of answers with the marks of the reader, if it has some."""
        return replace(answer_format, thought=self.marks or answer_format.thought)

    def continue_prompt(self, prompt: str) -> "AnswerReader":
        """Return the reader of texts after a prompt, which may begin a thought."""
        if self.marks is None or not prompt.rstrip().endswith(self.marks.begin):
            return self
        return replace(self, marks=replace(self.marks, is_open=True))

    @property
    def text_marks(self) -> ThoughtMarks | None:
        """The marks of thoughts in texts alone: the usual ones if none are stated."""
        return self.marks or (AnswerFormat().thought if self.finds_marks else None)

    def find_marks(self, text: str) -> "AnswerReader":
        """Return the reader of an answer of texts alone, whose own marks show a thought.

        Raises:
            ConfigError: the answer has the end of a thought that it does not begin.
        """
        marks = self.text_marks
        if self.marks is not None or marks is None:
            return self
        if text.lstrip().startswith(marks.begin):
            return replace(self, marks=marks)
        # an answer that was cut within such a thought has no mark at all
        if marks.end in text:
            raise ConfigError(
                f"thought: an answer has {quote_value(marks.end)} and does not begin with "
                f"{quote_value(marks.begin)}; write {{begin, end, open: true}} or false"
            )
        return self

    def read(self, text: str, *, is_whole: bool) -> Reading:
        """Read a text that was generated.

        Args:
            text: the raw text, from its first character on.
            is_whole: whether the text ended or was cut, so that no suffix is held back.
        """
        output, has_stopped = self._cut(text, is_whole)
        thought, answer, is_thinking = self._split(output, is_whole or has_stopped)
        return Reading(output, thought, answer, has_stopped, is_thinking)

    def _cut(self, text: str, is_whole: bool) -> tuple[str, bool]:
        """Return the text that the stops release, and whether a stop ended it."""
        found = [
            (place + len(stop), place) for stop in self.stop if (place := text.find(stop)) >= 0
        ]
        if found:
            end, place = min(found)
            return text[: end if self.include_stop else place], True
        # a stop that is part of the output is released as it is written
        held = 0 if is_whole or self.include_stop else _count_held(text, self.stop)
        return text[: len(text) - held], False

    def _split(self, output: str, is_whole: bool) -> tuple[str, str, bool]:
        """Return the thought, the answer, and whether the output ends within a thought."""
        if self.marks is None:
            return "", output, False
        begin, end, is_open = self.marks.begin, self.marks.end, self.marks.is_open
        content = output.lstrip()
        if not is_whole and len(content) < len(begin) and begin.startswith(content):
            return "", "", is_open
        if not is_open and not content.startswith(begin):
            return "", content, False
        thought, mark, answer = content.removeprefix(begin).lstrip().partition(end)
        if mark:
            return thought, answer.lstrip(), False
        held = 0 if is_whole else _count_held(thought, (end,))
        return thought[: len(thought) - held], "", True


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _count_held(text: str, patterns: Sequence[str]) -> int:
    """Return the length of the longest suffix that begins a pattern and is shorter than it."""
    return max(
        (
            length
            for pattern in patterns
            for length in range(1, min(len(pattern), len(text) + 1))
            if text.endswith(pattern[:length])
        ),
        default=0,
    )


def _check_marks(marks: Sequence[str]) -> None:
    """Check that marks of a thought can be told apart."""
    for mark in marks:
        if mark != mark.strip():
            raise ConfigError(
                f"thought: the mark {quote_value(mark)} has white space around it; remove that"
            )
    if marks and (marks[0] in marks[1] or marks[1] in marks[0]):
        raise ConfigError(
            f"thought: {quote_value(marks[0])} and {quote_value(marks[1])} overlap; write two "
            "marks, of which neither contains the other"
        )


WHOLE_OUTPUT = AnswerReader()
"""The reader of a model without stops and thoughts."""


def find_reader(model: object) -> AnswerReader:
    """Return the reader of a model's answers."""
    reader: AnswerReader = getattr(model, "reader", WHOLE_OUTPUT)
    return reader


def check_simulated_user(name: str, model: object) -> None:
    """Check that a simulated user has no settings of answers.

    Raises:
        ConfigError: it has.
    """
    reader = find_reader(model)
    if reader or reader.max_tokens is not None:
        raise ConfigError(
            f"turns: {name}: a simulated user has no stops, max_tokens and thoughts; "
            "remove the keys"
        )


def _find_answer_reader(model: object, start: Start) -> AnswerReader:
    """Return the reader of a model's answers to a start, with the marks of its chat template.

    Raises:
        ConfigError: a stop or a mark has control tokens, which texts leave out.
    """
    reader = find_reader(model)
    tokenizer = getattr(model, "tokenizer", None)
    if reader.finds_marks and reader.marks is None and isinstance(start, Chat):
        marks = find_answer_format(model, start).thought
        template = str(getattr(tokenizer, "chat_template", None) or "")
        # the marks of other models are in no text of this one
        if marks is not None and marks.end in template:
            reader = replace(reader, marks=marks)
    patterns = {"stop": reader.stop}
    if reader.marks is not None:
        patterns[THOUGHT] = (reader.marks.begin, reader.marks.end)
    for key, texts in patterns.items():
        for text in texts:
            if (control := _find_control_token(model, text)) is not None:
                fix = "leave it out" if key == "stop" else "write `thought: false`"
                raise ConfigError(
                    f"{key}: {quote_value(text)} has the control token {quote_value(control)}, "
                    f"which texts leave out; {fix}"
                )
    return reader


def find_prompt_reader(model: Any, start: Start, prompt: Sequence[int]) -> AnswerReader:
    """Return the reader of a model, of which the prompt may begin the thought.

    Args:
        model, start: as there.
        prompt: the tokens of the start.
    """
    # the mark is among the last tokens
    (end_of_prompt,) = model.decode_unfinished([prompt[-_MARK_TOKENS:]])
    return _find_answer_reader(model, start).continue_prompt(end_of_prompt)


def _find_control_token(model: Any, text: str) -> str | None:
    """Return a control token in a text that the model's texts leave out; None without any."""
    tokenizer: Any = getattr(model, "tokenizer", None)
    for control in () if tokenizer is None else map(str, tokenizer.all_special_tokens):
        if control in text:
            (shown,) = model.decode([[tokenizer.convert_tokens_to_ids(control)]])
            if control not in shown:
                return control
    return None


def apply_reader(model: _ModelT, reader: AnswerReader) -> _ModelT:
    """Return the model with a reader of its answers."""
    if reader == find_reader(model):
        return model
    # a copy shares the network, as one with another decoding does
    changed: Any = copy(model)
    changed.reader = reader
    read: _ModelT = changed
    return read


def build_reader(keys: Mapping[str, Any], reader: AnswerReader = WHOLE_OUTPUT) -> AnswerReader:
    """Return a reader with the settings of keys.

    Args:
        keys: `stop`, `include_stop`, `max_tokens` and `thought`, each of which may be absent or
            None.
        reader: the settings that are not given.

    Raises:
        ConfigError: a value is invalid.
    """
    if (stop := keys.get("stop")) is not None:
        reader = replace(reader, stop=_parse_stop(stop), include_stop=False)
    if (thought := keys.get("thought")) is not None:
        marks = _parse_marks(thought)
        reader = replace(reader, marks=marks, finds_marks=marks is not None)
    if (max_tokens := keys.get("max_tokens")) is not None:
        reader = replace(reader, max_tokens=max_tokens)
    if (include_stop := keys.get("include_stop")) is not None:
        if not isinstance(include_stop, bool):
            raise ConfigError(f"include_stop: {quote_value(include_stop)} is not true or false")
        reader = replace(reader, include_stop=include_stop)
    return reader


def _parse_stop(value: object) -> tuple[str, ...]:
    """Parse the key `stop`: a text or a list of texts.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise ConfigError(f"stop: {quote_value(value)} is not a text or a list of texts")
    return tuple(value)


def _parse_marks(value: object) -> ThoughtMarks | None:
    """Parse the key `thought`: false, or `{begin: <think>, end: </think>}`.

    Raises:
        ConfigError: it has another form.
    """
    if value is False:
        return None
    keys = {"begin", "end"}
    if not isinstance(value, Mapping) or not keys <= value.keys() <= keys | {"open"}:
        raise ConfigError(
            f"thought: {quote_value(value)} has another form; write "
            "{begin: <think>, end: </think>} or false"
        )
    for key in sorted(keys):
        if not isinstance(value[key], str) or not value[key].strip():
            raise ConfigError(f"thought: {key}: {quote_value(value[key])} is no mark; write a text")
    return ThoughtMarks(value["begin"], value["end"], bool(value.get("open", False)))
