"""Probabilities of fixed continuations, as of the choices of a multiple-choice question."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llmchecker.config.prompt import parse_prompt
from llmchecker.errors import ConfigError
from llmchecker.utils.json_lines import write_lines

if TYPE_CHECKING:
    from llmchecker.models.decoding.chat_template import Start
    from llmchecker.models.distribution import Distributions
    from llmchecker.models.interface import LanguageModel, Prefix

_Tokens = tuple[int, ...]


def probability_of(
    model: "LanguageModel",
    prompt: str | Sequence[Mapping[str, str]],
    continuations: Sequence[str],
) -> tuple[float, ...]:
    """Compute the probability that a model writes each continuation, token by token.

        lc.probability_of(model, "The capital of France is", [" Paris", " Rome"])

    It is that of the tokens into which the tokenizer divides the continuation, as harnesses for
    multiple-choice questions compute it. Other tokens may write the same text, so it is at most the
    probability that the answer begins with the text.

    Args:
        model: a model with probabilities of all tokens, which `load` returned.
        prompt: a text to continue, or messages to answer.
        continuations: the texts, which follow the prompt as they are: with a space where a word
            begins.

    Raises:
        ConfigError: the model returns no probabilities of all tokens, or a continuation is empty or
            has no tokens of its own after the prompt.
    """
    return tuple(map(math.exp, _read_log_probabilities(model, prompt, continuations)))


@dataclass(frozen=True)
class ChoiceRow:
    """A multiple-choice question with the probabilities of its choices.

    Attributes:
        prompt: the text or messages before each choice.
        choices: the choices.
        answer: the index of the right choice.
        log_probabilities: the natural logarithm of the probability of each choice.
        acc: 1 if the most probable choice is the right one, else 0.
        acc_norm, acc_bytes: the same for the largest logarithm for each character, and for each
            byte in UTF-8.
    """

    prompt: str | Sequence[Mapping[str, str]]
    choices: tuple[str, ...]
    answer: int
    log_probabilities: tuple[float, ...]
    acc: float
    acc_norm: float
    acc_bytes: float


@dataclass(frozen=True)
class ChoiceReport:
    """The choices of a model, with the metrics of lm-evaluation-harness.

    Attributes:
        rows: the questions.
    """

    rows: tuple[ChoiceRow, ...]

    @property
    def acc(self) -> float:
        """The share of questions whose most probable choice is the right one."""
        return self._average("acc")

    @property
    def acc_norm(self) -> float:
        """The same by the logarithm of the probability for each character."""
        return self._average("acc_norm")

    @property
    def acc_bytes(self) -> float:
        """The same by the logarithm of the probability for each byte."""
        return self._average("acc_bytes")

    def write(self, path: str | Path) -> None:
        """Write a line of JSON for each question, with the names of `ChoiceRow`.

        The logarithm of a probability of 0 is null.
        """
        write_lines(Path(path), map(_format_row, self.rows))

    def _average(self, name: str) -> float:
        return math.fsum(getattr(row, name) for row in self.rows) / len(self.rows)


def _format_row(row: ChoiceRow) -> dict[str, Any]:
    logs = [log if math.isfinite(log) else None for log in row.log_probabilities]
    return asdict(row) | {"log_probabilities": logs}


def rate_choices(
    model: "LanguageModel", questions: Sequence[Mapping[str, Any]], *, delimiter: str = " "
) -> ChoiceReport:
    """Compute the probabilities of the choices of multiple-choice questions, and the accuracy.

        lc.rate_choices(model, [{"prompt": "2 + 2 =", "choices": ["4", "5"], "answer": 0}]).acc

    It is exact: nothing is sampled, and the model writes nothing. Of equally probable choices the
    first counts, as in lm-evaluation-harness.

    Args:
        model: a model with probabilities of all tokens, which `load` returned.
        questions: mappings with the keys `prompt`, `choices` and `answer`, the index of the right
            choice, such as rows of a data set.
        delimiter: the text between a prompt and each choice, which is no part of its length.

    Raises:
        ConfigError: the model or a question is unusable; the message has the question's number.
    """
    if not questions:
        raise ConfigError("questions: there are none; give mappings with prompt, choices, answer")
    rows = []
    for number, question in enumerate(questions, 1):
        try:
            rows.append(_rate_question(model, question, delimiter))
        except ConfigError as error:
            raise ConfigError(f"question {number}: {error}") from error
    return ChoiceReport(tuple(rows))


def _rate_question(
    model: "LanguageModel", question: Mapping[str, Any], delimiter: str
) -> ChoiceRow:
    if absent := {"prompt", "choices", "answer"} - question.keys():
        raise ConfigError(f"{min(absent)}: the key is absent; write it")
    choices, answer = question["choices"], question["answer"]
    is_list = isinstance(choices, list | tuple) and len(choices) > 0
    if not is_list or not all(isinstance(choice, str) and choice for choice in choices):
        raise ConfigError(f"choices: {choices!r} is no list of texts; write several texts")
    if type(answer) is not int or not 0 <= answer < len(choices):
        raise ConfigError(f"answer: {answer!r} is no index; write one from 0 to {len(choices) - 1}")
    texts = [f"{delimiter}{choice}" for choice in choices]
    logs = _read_log_probabilities(model, question["prompt"], texts)

    def score(lengths: Sequence[int]) -> float:
        return float(np.argmax(logs / np.array(lengths)) == answer)

    return ChoiceRow(
        prompt=question["prompt"],
        choices=tuple(choices),
        answer=answer,
        log_probabilities=tuple(logs.tolist()),
        acc=score([1] * len(choices)),
        acc_norm=score([len(choice) for choice in choices]),
        acc_bytes=score([len(choice.encode()) for choice in choices]),
    )


def _read_log_probabilities(
    model: "LanguageModel",
    prompt: str | Sequence[Mapping[str, str]],
    continuations: Sequence[str],
) -> np.ndarray:
    """Return (n,) float64, the logarithms of the probabilities of continuations.

    Raises:
        ConfigError: as those of `probability_of`.
    """
    if not hasattr(model, "open_prefix") or model.listed_tokens < model.vocabulary_size:
        raise ConfigError(f"model: {model!r} has no probabilities of all tokens; load its weights")
    if isinstance(continuations, str) or not continuations:
        raise ConfigError(f"continuations: {continuations!r} is no list; write several texts")
    start = parse_prompt(prompt)
    tokens = model.encode(start)
    suffixes = [_encode(model, start, tokens, text) for text in continuations]
    reader = model.open_prefix(tokens, max(map(len, suffixes)))
    return _compute_log_probabilities(reader, suffixes)


def _encode(model: "LanguageModel", start: "Start", prompt: _Tokens, text: str) -> _Tokens:
    """Return the tokens of a continuation.

    Raises:
        ConfigError: it has none of its own, or they write another text.
    """
    if not isinstance(text, str) or not text:
        raise ConfigError(f"continuations: {text!r} is no text; write what the model may write")
    if isinstance(start, str):
        whole = model.encode(start + text)
        suffix = whole[len(prompt) :]
        is_own = whole[: len(prompt)] == prompt
    else:
        # a text has the special tokens of a beginning, which no answer has
        beginning = model.encode("")
        whole = model.encode(text)
        suffix = whole[len(beginning) :]
        is_own = whole[: len(beginning)] == beginning
    written = model.decode([(*prompt, *suffix)])[0] if suffix else ""
    if not is_own or not suffix or written != model.decode([prompt])[0] + text:
        raise ConfigError(
            f"continuations: {text!r} has no tokens of its own after the prompt; move a space from "
            "the prompt's end to its beginning"
        )
    if model.end_tokens.intersection(suffix):
        raise ConfigError(f"continuations: {text!r} has the end of a text; leave it out")
    return suffix


def _compute_log_probabilities(reader: "Prefix", suffixes: Sequence[_Tokens]) -> np.ndarray:
    """Return the logarithms of probabilities (n,), reading all texts in shared batches."""
    reader.read_ahead([suffix[:-1] for suffix in suffixes])
    logs = np.zeros(len(suffixes))
    for depth in range(max(map(len, suffixes))):
        members = [number for number, suffix in enumerate(suffixes) if len(suffix) > depth]
        # continuations with a common beginning are read once
        texts = list(dict.fromkeys(suffixes[number][:depth] for number in members))
        wanted = [
            [(n, suffixes[n][depth]) for n in members if suffixes[n][:depth] == text]
            for text in texts
        ]

        def read(
            rows: np.ndarray,
            distributions: "Distributions",
            wanted: list[list[tuple[int, int]]] = wanted,
        ) -> list[tuple[int, float]]:
            probabilities = distributions.probabilities()
            return [
                (number, float(probabilities[index, token]))
                for index, row in enumerate(rows.tolist())
                for number, token in wanted[row]
            ]

        continuations = np.array(texts, dtype=np.int64).reshape(len(texts), depth)
        for found in reader.map_next(read, continuations, will_extend=True):
            for number, probability in found:
                logs[number] += math.log(probability) if probability > 0 else -math.inf
    return logs
