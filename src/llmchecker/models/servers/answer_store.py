"""Stored answers of models that return texts alone.

Each sequence of answers has a file of JSON lines. The first line describes the requests by their
settings and the digest of the prompt; each further line is an answer, appended when it arrives. So
a later run, or another requirement on the same prompt, requests nothing twice. No file contains a
key or a prompt.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from llmchecker.errors import DamagedFile, UnusableDataset
from llmchecker.models.text_answer import Finish, TextAnswer
from llmchecker.utils.json_lines import append_line, read_lines, write_lines

_FORMAT = "llmchecker texts 1"
"""The format of a file of answers; its number changes with the keys of a line."""


@dataclass(frozen=True)
class StoredAnswer:
    """An answer with what the provider returned with it.

    Attributes:
        answer: the answer.
        model: the provider's name of the model that answered; None without one.
        prompt_tokens, answer_tokens: numbers of tokens; None if unknown.
    """

    answer: TextAnswer
    model: str | None
    prompt_tokens: int | None
    answer_tokens: int | None


class AnswerFile:
    """The stored answers of a sequence, by their numbers.

    Args:
        folder: the folder of the files of a model.
        request: what determines the answers, as JSON.

    Raises:
        DamagedFile: the file changed after it was written, or is from another version.
        ConfigError: the file cannot be read or written.
    """

    def __init__(self, folder: Path, request: Mapping[str, Any]) -> None:
        content = json.dumps(request, sort_keys=True).encode()
        digest = hashlib.sha256(content).hexdigest()
        self.path = folder / f"{digest[:32]}.jsonl"
        self.answers: dict[int, StoredAnswer] = {}
        # numbers that were under way when an earlier run ended, after which others had arrived
        self.lost_numbers: frozenset[int] = frozenset()
        header = {"format": _FORMAT, "digest": digest, **_hide_prompt(request)}
        # several runs may write one file: each appends whole lines
        if self.path.exists() and self.path.stat().st_size:
            self._read(header)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            write_lines(self.path, [header])

    def add(self, number: int, stored: StoredAnswer) -> None:
        """Append an answer."""
        self.answers[number] = stored
        fields = asdict(stored)
        append_line(self.path, {"number": number, **fields.pop("answer"), **fields})

    def _read(self, header: Mapping[str, Any]) -> None:
        try:
            lines = read_lines(self.path)
            first, *others = lines.objects or ({},)
            if first != header:
                raise ValueError("the first line does not describe these requests")
            for line in others:
                number, answer = _parse_answer(line)
                # of two runs at once the first answer counts
                self.answers.setdefault(number, answer)
        except (UnusableDataset, KeyError, TypeError, ValueError) as error:
            raise DamagedFile(
                f"{self.path}: damaged or from another version: {error}",
                self.path,
                "; delete it, and its answers are requested again",
            ) from error
        numbers = range(max(self.answers, default=0))
        self.lost_numbers = frozenset(n for n in numbers if n not in self.answers)
        # a kill cut the last line short, to which nothing may be appended
        if lines.remainder:
            write_lines(self.path, lines.objects)


def _hide_prompt(request: Mapping[str, Any]) -> dict[str, Any]:
    prompt = json.dumps(request["prompt"], sort_keys=True).encode()
    return {**request, "prompt": f"sha256:{hashlib.sha256(prompt).hexdigest()}"}


def _parse_answer(line: Mapping[str, Any]) -> tuple[int, StoredAnswer]:
    names = ("text", "is_repeated", "choice_count", "time")
    answer = TextAnswer(finish=Finish(line["finish"]), **{name: line[name] for name in names})
    if not isinstance(answer.text, str) or type(line["number"]) is not int:
        raise TypeError("an answer has no text or no number")
    others = ("model", "prompt_tokens", "answer_tokens")
    return line["number"], StoredAnswer(answer, **{name: line[name] for name in others})
