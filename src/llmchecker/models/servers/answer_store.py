"""Stored answers of models that return texts alone.

Each sequence of answers has a file of JSON lines. The first line describes the requests by their
settings and the digest of the prompt. Before a request is sent, a line has its number in the
sequence and its run; a further line has its answer, appended when it arrives. So a later run, or
another requirement on the same prompt, requests nothing twice. No file contains a key or a prompt.

A run that is killed must not make its answers a biased sample. Those that had arrived are shorter
than those that were under way, and another answer in place of a missing one would be a second
draw. So the answer of a number is that of its first request, and no other one counts as a sample.

Proof that the intervals stay right. Let b_n be the bit (or score) of the answer that the provider
draws for the first request with number n. The b_n are independent and have one mean, whatever
arrives. The check reads b_n in the order of n if that answer is stored; else the least value for
the lower end, and the greatest for the upper end. A bet that the mean is above m then wins at most
what it would win on b_n, and one that it is below m likewise. So each end is refuted as rarely as
with all b_n (see `confidence_sequence`), whenever the work stops. The bet on b_n depends on what is
stored of earlier numbers, so this needs one assumption: that the answer of a number is missing does
not depend on the answers of later numbers. A request that the provider has not read, because it
refused or was not reached, has drawn nothing: the next request with its number is the first.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from llmchecker.models.text_answer import Finish, ListedToken, TextAnswer
from llmchecker.utils.json_lines import JsonLines, append_line, resume_lines, write_lines
from llmchecker.utils.stored_fields import (
    COUNT,
    NUMBER,
    TEXT,
    TRUTH,
    check_fields,
    list_of,
    optional,
    record,
)

_FORMAT = "llmchecker texts 3"
"""The format of a file of answers; its number changes with the keys of a line."""
_TOKEN_FIELDS = {
    **{"text": TEXT, "logprob": NUMBER},
    **{"listed": list_of(TEXT), "listed_logprobs": list_of(NUMBER)},
}
"""The fields of a token with log probabilities."""
_ANSWER_FIELDS = {
    **dict.fromkeys(("text", "thought", "finish", "time"), TEXT),
    "is_repeated": TRUTH,
    "choice_count": COUNT,
    "model": optional(TEXT),
    **dict.fromkeys(("prompt_tokens", "answer_tokens"), optional(COUNT)),
    "tokens": list_of(record(_TOKEN_FIELDS)),
}
"""The fields of a line with an answer."""


_SEED_MODULUS = 2**31
"""Upper bound of seeds: some servers read them as signed 32-bit numbers."""


class AnswerFile:
    """The stored answers of a sequence, by their numbers.

    Attributes:
        digest: the digest of what determines the answers.
        answers: the answers by number; one that is not of its number's first request is repeated.

    Args:
        folder: the folder of the files of a model.
        request: what determines the answers, as JSON.

    Raises:
        DamagedFile: the file changed after it was written, or is from another version.
        ConfigError: the file cannot be read or written.
    """

    def __init__(self, folder: Path, request: Mapping[str, Any]) -> None:
        content = json.dumps(request, sort_keys=True).encode()
        self.digest = hashlib.sha256(content).hexdigest()
        self.path = folder / f"{self.digest[:32]}.jsonl"
        self.answers: dict[int, TextAnswer] = {}
        # several runs may write one file: each appends whole lines
        self._run = secrets.token_hex(4)
        # the run of the first request of each number that the provider may have read
        self._first_runs: dict[int, str] = {}
        self._header = {"format": _FORMAT, "digest": self.digest, **_hide_prompt(request)}
        if self.path.exists() and self.path.stat().st_size:
            fix = "delete it, and its answers are requested again"
            resume_lines(self.path, self._read, fix)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            write_lines(self.path, [self._header])

    def begin_request(self, number: int) -> None:
        """Store that an answer is requested, before the request is sent."""
        self._first_runs.setdefault(number, self._run)
        append_line(self.path, {"number": number, "run": self._run})

    def withdraw_request(self, number: int) -> None:
        """Store that the provider has not read the request for an answer."""
        self._withdraw(number, self._run)
        append_line(self.path, {"number": number, "run": self._run, "is_read": False})

    def add(self, number: int, answer: TextAnswer) -> TextAnswer:
        """Append the answer to a request of this run, and return it as it counts."""
        line = {"number": number, "run": self._run, **vars(answer)}
        line["tokens"] = list(map(_write_token, answer.tokens))
        append_line(self.path, line)
        return self._add(number, self._run, answer)

    def _add(self, number: int, run: str, answer: TextAnswer) -> TextAnswer:
        is_first = self._first_runs.get(number) == run
        if not is_first:
            answer = replace(answer, is_repeated=True)
        # the answer of another run stays where this one is repeated too
        if is_first or number not in self.answers:
            self.answers[number] = answer
        return self.answers[number]

    def _withdraw(self, number: int, run: str) -> None:
        if self._first_runs.get(number) == run:
            del self._first_runs[number]

    def _read(self, lines: JsonLines) -> None:
        first, *others = lines.objects or ({},)
        if first != self._header:
            raise ValueError("the first line does not describe these requests")
        for line in others:
            self._read_line(line)

    def _read_line(self, line: Mapping[str, Any]) -> None:
        check_fields(line, {"number": COUNT, "run": TEXT})
        number, run = line["number"], line["run"]
        if "text" in line:
            # files of earlier versions have no thoughts, and no tokens
            line = {"thought": "", "tokens": [], **line}
            check_fields(line, _ANSWER_FIELDS)
            self._add(number, run, _parse_answer(line))
        elif line.get("is_read", True):
            self._first_runs.setdefault(number, run)
        else:
            self._withdraw(number, run)


def _hide_prompt(request: Mapping[str, Any]) -> dict[str, Any]:
    prompt = json.dumps(request["prompt"], sort_keys=True).encode()
    return {**request, "prompt": f"sha256:{hashlib.sha256(prompt).hexdigest()}"}


def _parse_answer(line: Mapping[str, Any]) -> TextAnswer:
    values = {field.name: line[field.name] for field in fields(TextAnswer)}
    tokens = tuple(
        ListedToken(
            each["text"],
            each["logprob"],
            tuple(zip(each["listed"], each["listed_logprobs"], strict=True)),
        )
        for each in line["tokens"]
    )
    return TextAnswer(**(values | {"finish": Finish(line["finish"]), "tokens": tokens}))


def _write_token(token: ListedToken) -> dict[str, Any]:
    return {
        "text": token.text,
        "logprob": token.logprob,
        "listed": [text for text, _ in token.listed],
        "listed_logprobs": [logprob for _, logprob in token.listed],
    }


def derive_seed(requests: str, number: int) -> int:
    """Return the seed of an answer; those of other numbers and requests are independent.

    Args:
        requests: the digest of what determines the answers of the sequence.
        number: the number of the answer in it.
    """
    digest = hashlib.sha256(f"{requests} {number}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % _SEED_MODULUS
