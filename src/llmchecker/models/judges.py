"""Judges: models whose first word of an answer is one of the labels of a scale.

With next-token distributions, a label has the probability of all tokens that spell it, with or
without a space before it and in upper or lower case. Nothing is sampled. A model that returns texts
alone gives one answer at temperature 0, which is stored.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from llmchecker.errors import ConfigError, DamagedFile, RefusedPart, RequestRefused, prefix_errors
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.text_answer import Finish, TextAnswer, TextModel, TextStream, answer_prompts
from llmchecker.utils.json_digest import compute_json_digest
from llmchecker.utils.json_lines import JsonLines, append_line, resume_lines
from llmchecker.utils.stored_fields import NUMBER, TEXT, check_fields, list_of

if TYPE_CHECKING:
    from llmchecker.models.interface import LanguageModel

_FLOAT_SPREAD = 2.5e-4
"""A limit above the differences between probabilities of a text in several batches, in float32."""

_ANSWER_TOKENS = 16
"""Largest number of tokens of an answer of a model that returns texts alone."""

_OPENING = " \t\r\n\"'“”‘’„«»「『*_`#([{"
"""Characters before an answer that are no part of it: spaces, quotes and marks of Markdown."""

_LABEL_END = re.compile(
    r"""(?P<mark>[.,;:!?…"'“”‘’»*_`)\]}。、，；：！？）」』]*)(?:\s|\Z)"""
    r"""|[,;:!?…—。、，；：！？(](?=[^\W\d_])"""
)
"""What may follow a label, so that it is a whole word: marks before a space or a further word."""

_SECOND_VALUE = re.compile(
    r"\s*(?:(?:[-–—/|&~,]|or\b|and\b|to\b)\s*)?(?P<number>[\d½¼¾])"
    r"|\s*(?:[-–—/|&~]|or\b|and\b)\s*(?P<word>a half\b|\w+)"
)
"""A further number or word on the line of a label, as in `4 or 5` and `yes and no`."""

_FIX = "delete it, and its texts are judged again"
"""The fix of a damaged file of stored probabilities."""


class JudgeAccess(Protocol):
    """Access to the answers of a judge.

    Attributes:
        name: name of the judge in messages.
        spread: largest difference between probabilities of a text in several calls; 0 if a text
            has the same probabilities in all calls.
    """

    name: str
    spread: float

    def compute_masses(self, chats: Sequence[Chat], labels: Sequence[str]) -> np.ndarray:
        """Return (n, labels) float64: the probability of each label as the answer to each chat.

        A single chat has the same probabilities in every call.

        Raises:
            LLMCheckerError: the model cannot read a chat, or gives no answer.
        """
        ...


class TokenJudge:
    """A judge with next-token distributions.

    Args:
        model: the model; its decoding has no effect.
    """

    def __init__(self, model: "LanguageModel") -> None:
        # torch takes seconds to import, and answers of texts alone do not need it
        from llmchecker.models.decoding.settings import Decoding
        from llmchecker.models.transformers.causal import CausalModel

        self.name = model.name
        # a decoding changes what a model writes, and not how it judges
        self._model = model.with_decoding(Decoding()) if isinstance(model, CausalModel) else model
        spread = model.probability_spread
        self.spread = _FLOAT_SPREAD if spread is None else max(spread, _FLOAT_SPREAD)
        self._pieces: list[str] | None = None
        self._label_tokens: dict[tuple[str, ...], list[np.ndarray]] = {}

    def compute_masses(self, chats: Sequence[Chat], labels: Sequence[str]) -> np.ndarray:
        """Return (n, labels) float64, as in `JudgeAccess`."""
        with prefix_errors("judge"):
            texts = [self._model.encode(chat) for chat in chats]
        label_tokens = self._find_label_tokens(tuple(labels))
        with prefix_errors("judge"):
            masses = np.zeros((len(texts), len(labels)))
            for rows, found in self._iter_masses(texts, label_tokens):
                masses[rows] = found
        return masses

    def _find_label_tokens(self, labels: tuple[str, ...]) -> list[np.ndarray]:
        """Return the ids of the tokens that spell each label.

        Raises:
            ConfigError: no token spells a label.
        """
        if labels not in self._label_tokens:
            if self._pieces is None:
                vocabulary = [[token] for token in range(self._model.vocabulary_size)]
                self._pieces = [normalize_label(text) for text in self._model.decode(vocabulary)]
            spelled = np.array(self._pieces, dtype=object)
            found = [np.flatnonzero(spelled == normalize_label(label)) for label in labels]
            for label, tokens in zip(labels, found, strict=True):
                if len(tokens) == 0:
                    raise ConfigError(
                        f"scale: {label!r} is no single token of the judge {self.name}; use "
                        "shorter labels"
                    )
            self._label_tokens[labels] = found
        return self._label_tokens[labels]

    def _iter_masses(
        self, texts: Sequence[Sequence[int]], label_tokens: Sequence[np.ndarray]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield positions of texts, and the probability of each label after them."""
        import torch

        from llmchecker.models.distribution import Distributions
        from llmchecker.models.transformers.causal import CausalModel
        from llmchecker.models.transformers.whole_texts import map_whole_texts

        sizes = [len(tokens) for tokens in label_tokens]
        columns = torch.from_numpy(np.concatenate(label_tokens))

        def gather(rows: np.ndarray, distributions: Distributions) -> tuple[np.ndarray, np.ndarray]:
            indices = torch.arange(len(rows))
            tokens = columns.expand(len(rows), -1)
            if (device := getattr(distributions, "values", columns).device) != columns.device:
                indices, tokens = indices.to(device), tokens.to(device)
            weights = distributions.gather_weights(indices, tokens)
            totals = getattr(distributions, "totals", 1.0)
            probabilities = (weights / totals).cpu().numpy()
            parts = np.split(probabilities, np.cumsum(sizes)[:-1], axis=1)
            return rows, np.stack([part.sum(axis=1) for part in parts], axis=1)

        if isinstance(self._model, CausalModel):
            yield from map_whole_texts(self._model, gather, texts)
            return
        # a server and a table read texts of one length together
        prefix = self._model.open_prefix((), max(map(len, texts), default=0))
        for length in sorted({len(text) for text in texts}):
            rows = np.array([row for row, text in enumerate(texts) if len(text) == length])
            continuations = np.array([texts[row] for row in rows], dtype=np.int64)
            for positions, found in prefix.map_next(gather, continuations):
                yield rows[positions], found


class TextJudge:
    """A judge that returns texts alone: one answer to each chat, which is stored.

    Args:
        name: name of the judge in messages.
        model: the model with its decoding, greedy unless another one is stated.
        default: the model with the decoding of its provider, whose answers are samples; for a
            provider that refuses the temperature of greedy decoding. None for a stated decoding.
    """

    spread = 0.0

    def __init__(self, name: str, model: TextModel, default: TextModel | None = None) -> None:
        self.name = name
        self._model, self._default = model, default

    def compute_masses(self, chats: Sequence[Chat], labels: Sequence[str]) -> np.ndarray:
        """Return (n, labels) float64, as in `JudgeAccess`: 1 for the label of the answer, else 0.

        All are 0 if the answer has no label as its first word, or is none: `4.5`, `4/5`, `4-5`,
        `4 or 5`, `-4` and `grade: 4` are not the label `4`.
        """
        streams = [TextStream(chat, _ANSWER_TOKENS, seed=0) for chat in chats]
        with prefix_errors("judge"):
            answers = self._answer(streams)
        names = [normalize_label(label) for label in labels]
        found = [_find_label(answer, names) for answer in answers]
        return np.array([[float(label == name) for name in names] for label in found])

    def _answer(self, streams: Sequence[TextStream]) -> list[TextAnswer]:
        try:
            return answer_prompts(self._model, streams)
        except RequestRefused as error:
            if self._default is None or RefusedPart.TEMPERATURE not in error.parts:
                raise
        self._model, self._default = self._default, None
        return answer_prompts(self._model, streams)


class StoredJudge:
    """A judge whose probabilities are stored, so that no text is judged twice.

    Each line of the file has the digest of messages and labels, and the probabilities. Of two runs
    at once the first line counts.

    Args:
        judge: the judge.
        path: the file of JSON lines, which is of this judge alone.

    Raises:
        DamagedFile: the file is damaged.
    """

    def __init__(self, judge: JudgeAccess, path: Path) -> None:
        self.name, self.spread = judge.name, judge.spread
        self._judge, self._path = judge, path
        self._stored: dict[str, list[float]] = {}
        if path.exists():
            self._stored = resume_lines(path, _parse_probabilities, _FIX)

    def compute_masses(self, chats: Sequence[Chat], labels: Sequence[str]) -> np.ndarray:
        """Return (n, labels) float64, as in `JudgeAccess`.

        Raises:
            DamagedFile: a line has another number of probabilities than labels.
        """
        # the probabilities of a text alone are others than those in a batch
        is_alone = len(chats) == 1 and self.spread > 0
        keys = [_build_key(chat, labels, is_alone) for chat in chats]
        new = {key: chat for key, chat in zip(keys, chats, strict=True) if key not in self._stored}
        if new:
            found = self._judge.compute_masses(list(new.values()), labels).tolist()
            added = dict(zip(new, found, strict=True))
            self._path.parent.mkdir(parents=True, exist_ok=True)
            for key, row in added.items():
                append_line(self._path, {"digest": key, "probabilities": row})
            self._stored |= added
        rows = [self._stored[key] for key in keys]
        for row in rows:
            # the digest is that of the labels too
            if len(row) != len(labels):
                raise DamagedFile(
                    f"{self._path}: damaged or from another version: probabilities: {row} are not "
                    f"those of {', '.join(labels)}",
                    self._path,
                    f"; {_FIX}",
                )
        return np.array(rows).reshape(-1, len(labels))


def _parse_probabilities(lines: JsonLines) -> dict[str, list[float]]:
    """Return the probabilities of each digest."""
    stored: dict[str, list[float]] = {}
    for line in lines.objects:
        check_fields(line, {"digest": TEXT, "probabilities": list_of(NUMBER)})
        row = [float(number) for number in line["probabilities"]]
        if not (min(row, default=-1) >= 0 and sum(row) < 1 + 1e-6):
            raise ValueError(f"probabilities: {row} are no probabilities")
        stored.setdefault(line["digest"], row)
    return stored


def normalize_label(label: str) -> str:
    """Return a label without the spaces around it, in lower case."""
    return label.strip().casefold()


def _find_label(answer: TextAnswer, names: Sequence[str]) -> str | None:
    """Return the label that is the first word of an answer; None without one.

    Args:
        answer: the answer.
        names: the normalized labels, of which none begins with another.
    """
    # a text that was withheld or calls a tool is no answer
    if not (answer.has_ended or answer.finish is Finish.TRUNCATED):
        return None
    text = normalize_label(answer.text)
    # a label may begin with a mark itself
    for begun in (text, text.lstrip(_OPENING)):
        name = next((each for each in names if begun.startswith(each)), None)
        if name is None:
            continue
        rest = begun[len(name) :]
        end = _LABEL_END.match(rest)
        # a label at the place where an answer was cut may be a part of a word or a number
        is_whole = end is not None and (end.end() < len(rest) or answer.finish is Finish.ENDED)
        if end is not None and is_whole and not _has_second_value(rest, end, names):
            return name
    return None


def _has_second_value(rest: str, end: re.Match[str], names: Sequence[str]) -> bool:
    """Return whether a further number or label follows a label, so that there is no one grade."""
    # a sentence ends after the label
    if set(end["mark"] or "") & set(".;:!?。；：！？") or "\n" in end[0]:
        return False
    second = _SECOND_VALUE.match(rest, len(end["mark"] or ""))
    return second is not None and (
        second["number"] is not None or second["word"] in ("a half", *names)
    )


def _build_key(chat: Chat, labels: Sequence[str], is_alone: bool) -> str:
    content: Mapping[str, object] = {
        "messages": chat.as_json,
        "labels": list(labels),
        "alone": is_alone,
    }
    return compute_json_digest(content)
