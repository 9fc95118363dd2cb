"""Scores of a tree's texts, in memory and in files: one integer per state.

A `rest` state has no score.
"""

import math
import os.path
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from llmchecker.errors import ConfigError, InvalidTree, LLMCheckerError
from llmchecker.models.decoding.answer_reader import AnswerReader
from llmchecker.properties.custom_class import FOREIGN_ERRORS, format_foreign_error, is_integer
from llmchecker.properties.quantifiers.interface import (
    BatchQuantifier,
    Quantifier,
    check_parts,
    find_part,
)
from llmchecker.trees.sealed_parquet import read_parquet, write_parquet
from llmchecker.trees.text_tree import StateKind, TextTree

_REST_SCORE = 0
"""Placeholder for the missing score of `rest` in an array of scores."""

_MAX_SCORE = 2**63 - 1
"""The largest size of a score, which arrays contain as int64."""


def score_tree(quantifier: Quantifier, tree: TextTree, name: str | None = None) -> np.ndarray:
    """Score every text of a tree, each distinct text once.

    A tokenizer may rewrite the end of the start string when it decodes, and turn "do" + "not" into
    "don't". The rewritten part then counts as generated, so that start + continuation equals the
    text.

    Args:
        quantifier: the scoring function.
        tree: the tree of the texts.
        name: str, name of the quantifier for messages, as in `score_texts`.

    Returns:
        (n,) int64; `_REST_SCORE` for `rest`, which callers must not use as a score.

    Raises:
        ConfigError: as in `score_texts`, or the quantifier reads thoughts that the texts do not
            have.
    """
    reader = AnswerReader(marks=tree.marks)
    check_parts({name or "score": quantifier}, reader)
    has_text = tree.kind != StateKind.REST
    scores = np.full(len(tree), _REST_SCORE, dtype=np.int64)
    texts = tree.text[has_text].tolist()
    if tree.marks is None:
        scores[has_text] = score_texts(quantifier, tree.start, texts, name, tree.messages)
        return scores
    part, pairs = find_part(quantifier), []
    for text, is_whole in zip(texts, tree.is_whole[has_text].tolist(), strict=True):
        start, continuation = split_text(tree.start, text, tree.messages)
        pairs.append((start, reader.read(continuation, is_whole=is_whole).select(part)))
    scores[has_text] = score_pairs(quantifier, pairs, name)
    return scores


def score_texts(
    quantifier: Quantifier,
    start: str,
    texts: Sequence[str],
    name: str | None = None,
    messages: str | None = None,
) -> np.ndarray:
    """Score texts that continue a start string, each distinct text once.

    Args:
        quantifier: the scoring function.
        start: the start string.
        texts: the full texts, including the start string.
        name: str, name of the quantifier in its query, for messages. None for a caller's own
            function, whose exceptions are not wrapped.
        messages: the messages of a chat, which quantifiers read instead of the start string; None
            without a chat.

    Returns:
        (n,) int64, in the order of the texts.

    Raises:
        ConfigError: the quantifier cannot score a text, or a score is not an integer within the
            declared range.
    """
    distinct = {text: split_text(start, text, messages) for text in texts}
    scores = score_pairs(quantifier, list(distinct.values()), name)
    # all texts are distinct, so the scores have their order already
    if len(scores) == len(texts):
        return scores
    score_of = dict(zip(distinct, scores.tolist(), strict=True))
    return np.fromiter(map(score_of.__getitem__, texts), np.int64, len(texts))


def score_pairs(
    quantifier: Quantifier, pairs: Sequence[tuple[str, str]], name: str | None = None
) -> np.ndarray:
    """Score texts that are split, each distinct one once.

    Args:
        quantifier: the scoring function.
        pairs: the start string or the messages of each text, and what was generated and read.
        name: str, as in `score_texts`.

    Returns:
        (n,) int64, in the order of the pairs.

    Raises:
        ConfigError: as in `score_texts`.
    """
    distinct = list(dict.fromkeys(pairs))
    with _add_name_to_errors(name):
        # a network scores a batch faster than single texts
        if isinstance(quantifier, BatchQuantifier):
            values = list(quantifier.score_batch(distinct))
            if len(values) != len(distinct):
                raise ConfigError(
                    f"score_batch: it returned {len(values)} scores for {len(distinct)} "
                    "texts; return one for each"
                )
        else:
            values = [quantifier(*pair) for pair in distinct]
        _check_scores(quantifier, map("".join, distinct), values)
    if len(values) == len(pairs):
        return np.array(values, dtype=np.int64)
    score_of = dict(zip(distinct, values, strict=True))
    return np.fromiter(map(score_of.__getitem__, pairs), np.int64, len(pairs))


def write_scores(scores: np.ndarray, tree: TextTree, path: str | Path) -> None:
    """Write the columns uid and score; a `rest` state has no score.

    The file contains the digest of its tree.
    """
    is_rest = tree.kind == StateKind.REST
    table = pa.table(
        {
            "uid": pa.array(np.arange(len(tree)), pa.int64()),
            "score": pa.array(scores, pa.int64(), mask=is_rest),
        }
    )
    write_parquet(table, path, {"tree": tree.digest})


def _read_scores(tree: TextTree, path: str | Path) -> np.ndarray:
    """Read the scores of a tree: (n,) int64, `_REST_SCORE` for `rest`.

    Raises:
        DamagedFile: the file changed after it was written.
        InvalidTree: the file holds scores of another tree.
    """
    table, metadata = read_parquet(path)
    # scores are matched to states by row, so they must be of exactly this tree
    if metadata.get("tree") != tree.digest or "score" not in table.column_names:
        raise InvalidTree(f"{path}: not the scores of this tree; delete the file to score again")
    scores: np.ndarray = table["score"].combine_chunks().fill_null(_REST_SCORE).to_numpy()
    return scores


def read_all_scores(tree: TextTree, paths: Iterable[str | Path]) -> dict[str, np.ndarray]:
    """Read the scores of quantifiers; a quantifier's name is its file's stem."""
    return {Path(path).stem: _read_scores(tree, path) for path in paths}


def split_text(start: str, text: str, messages: str | None = None) -> tuple[str, str]:
    """Return the common prefix of start string and text, and the rest of the text.

    Args:
        start: the start string.
        text: the text.
        messages: the messages of a chat, which replace the common prefix; None without a chat.
    """
    if not text.startswith(start):
        start = os.path.commonprefix((start, text))  # noqa: RUF071 - by character, not by path
    return start if messages is None else messages, text[len(start) :]


@contextmanager
def _add_name_to_errors(name: str | None) -> Iterator[None]:
    """Add the quantifier's name to the errors of the block."""
    try:
        yield
    except ConfigError as error:
        if name is None:
            raise
        raise type(error)(f"quantifier {name!r}: {error}") from error
    # limits of the machine and other errors of this package have complete messages
    except (LLMCheckerError, MemoryError):
        raise
    except FOREIGN_ERRORS as error:
        if name is None:
            raise
        raise ConfigError(
            f"quantifier {name!r}: it raised {format_foreign_error(error)}"
        ) from error


def _check_scores(quantifier: Quantifier, texts: Iterable[str], values: Sequence[Any]) -> None:
    low, high = quantifier.minimum, quantifier.maximum
    min_score, max_score = -math.inf if low is None else low, math.inf if high is None else high
    for text, value in zip(texts, values, strict=True):
        # nearly every score is a plain int: the fast test first saves a third of the time
        if type(value) is not int and not is_integer(value):
            raise ConfigError(f"score of {text!r}: {value!r} is not an integer")
        if abs(value) > _MAX_SCORE:
            raise ConfigError(f"score of {text!r}: it has more than 64 bits; return a smaller one")
        if not min_score <= value <= max_score:
            raise ConfigError(
                f"score of {text!r}: {value} is outside the range {low} to {high}; correct either"
            )
