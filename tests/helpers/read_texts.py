"""What is read of raw texts, by regular expressions and enumeration; it shares no code."""

import itertools
import random
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from os.path import commonprefix

from helpers import oracle

from llmchecker.models.decoding.answer_reader import AnswerReader
from llmchecker.models.table_model import TableModel

PARTS = 64


def read_whole(reader: AnswerReader, raw: str) -> tuple[dict[str, str], bool]:
    """Return the parts of a text that has ended, and whether a stop ended it."""
    output, has_stopped = raw, False
    for end in range(1, len(raw) + 1):
        if found := [stop for stop in reader.stop if raw[:end].endswith(stop)]:
            output = raw[: end if reader.include_stop else end - max(map(len, found))]
            has_stopped = True
            break
    if reader.marks is None:
        return {"output": output, "answer": output, "thought": ""}, has_stopped
    begin, end_mark = re.escape(reader.marks.begin), re.escape(reader.marks.end)
    first = rf"(?:{begin})?" if reader.marks.is_open else begin
    pattern = rf"\s*{first}\s*(?P<thought>.*?)(?:{end_mark}\s*(?P<answer>.*))?"
    found = re.fullmatch(pattern, output, re.DOTALL)
    parts = {"output": output, "answer": output.lstrip(), "thought": ""}
    if found:
        parts |= {name: text or "" for name, text in found.groupdict().items()}
    return parts, has_stopped


def read_beginning(reader: AnswerReader, raw: str, alphabet: str) -> tuple[dict[str, str], bool]:
    """Return what all texts that begin with a raw text have in common, and whether it stopped."""
    parts, has_stopped = read_whole(reader, raw)
    if has_stopped:
        return parts, True
    continuations = [
        "".join(letters)
        for count in range(5)
        for letters in itertools.product(alphabet, repeat=count)
    ]
    readings = [read_whole(reader, raw + continuation)[0] for continuation in continuations]
    shared = {name: commonprefix([each[name] for each in readings]) for name in parts}  # noqa: RUF071
    return shared, False


def token_table(vocabulary: Sequence[str], seed: int) -> TableModel:
    """A model of some tokens whose next one depends on the whole text; one more ends a text."""
    end = len(vocabulary)

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        drawn = random.Random(repr((seed, tokens)))
        weights = [drawn.random() ** drawn.choice([1, 4]) for _ in range(end + 1)]
        cuts = [0, *(round(PARTS * sum(weights[: i + 1]) / sum(weights)) for i in range(end + 1))]
        return [(after - before) / PARTS for before, after in pairwise(cuts)]

    return TableModel([*vocabulary, "."], distribution, frozenset([end]))


def enumerate_texts(
    model: TableModel,
    start: str,
    length: int,
    reader: AnswerReader,
    scores: dict[str, tuple[str, Callable[[str], int]]],
    *,
    with_shared: Callable[[str], tuple[dict[str, str], bool]] | None = None,
) -> oracle.Tree:
    """Enumerate all texts of a model as a tree of the oracle.

    Args:
        model: the table.
        start: the start string.
        length: the horizon.
        reader: what is read.
        scores: the part that each quantifier reads, and its function of start and part.
        with_shared: `read_beginning` of a raw text, which several trees may share.
    """
    alphabet = "".join(sorted(set("".join(model.vocabulary[:-1]))))
    read = with_shared or (lambda raw: read_beginning(reader, raw, alphabet))
    parent, probability, kind = [-1], [1.0], [0]
    columns: dict[str, list[int]] = {"step": [0], **{name: [] for name in scores}}
    for name, (part, function) in scores.items():
        columns[name].append(function(start + read("")[0][part]))
    nodes = [((), "", 0)]
    for step in range(1, length + 1):
        following = []
        for tokens, raw, number in nodes:
            weights = model.distribution((*model.encode(start), *tokens))
            for token, weight in enumerate(weights):
                if weight == 0:
                    continue
                is_end = token in model.end_tokens
                text = raw if is_end else raw + model.vocabulary[token]
                parts, has_stopped = read(text)
                is_limited = step == reader.max_tokens and not (is_end or has_stopped)
                if is_end or is_limited or step == length:
                    parts = read_whole(reader, text)[0]
                child = len(parent)
                parent.append(number)
                probability.append(weight)
                kind.append(3 if is_limited else 2 if is_end or has_stopped else 0)
                columns["step"].append(step)
                for name, (part, function) in scores.items():
                    columns[name].append(function(start + parts[part]))
                if kind[-1] == 0:
                    following.append(((*tokens, token), text, child))
        nodes = following
    return oracle.Tree(parent, probability, kind, columns)
