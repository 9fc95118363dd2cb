"""The scores of a tree's texts, in memory and in files: one integer a state, none for `rest`."""

import math
import os.path
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from llmchecker.errors import ConfigError, InvalidTree, LLMCheckerError
from llmchecker.quantifiers.quantifier import Quantifier, Together
from llmchecker.scoring.own_class import ANY_ERROR, raised
from llmchecker.trees.parquet import read_parquet, write_parquet
from llmchecker.trees.text_tree import Kind, TextTree

REST_FILLER = 0
"""What an array of scores holds for `rest`, which has no score."""


def score_tree(quantifier: Quantifier, tree: TextTree, name: str | None = None) -> np.ndarray:
    """Score every text of a tree, each distinct text once.

    A tokenizer may rewrite the end of the start string when it decodes, and turn "do" + "not" into
    "don't". The rewritten part then counts as generated, so start + continuation is always the
    text.

    Args:
        quantifier: what scores.
        tree: whose texts are scored.
        name: the quantifier's, as in `score_texts`.

    Returns:
        (n,) int64; `REST_FILLER` for `rest`, which has no score and must not be read.

    Raises:
        ConfigError: as `score_texts` raises it.
    """
    known = tree.kind != Kind.REST
    scores = np.full(len(tree), REST_FILLER, dtype=np.int64)
    scores[known] = score_texts(quantifier, tree.start, tree.text[known].tolist(), name)
    return scores


def score_texts(
    quantifier: Quantifier, start: str, texts: Sequence[str], name: str | None = None
) -> np.ndarray:
    """Score texts that continue a start string, each distinct text once.

    Args:
        quantifier: what scores.
        start: the start string.
        texts: the whole texts.
        name: the quantifier's in its query, which messages begin with. Without one it is a caller's
            own, and what it raises is raised as it is.

    Returns:
        (n,) int64, in the order of the texts.

    Raises:
        ConfigError: the quantifier cannot score a text, or a score is not an integer or lies
            outside the declared range.
    """
    distinct = dict.fromkeys(texts)
    with _naming(name):
        if isinstance(quantifier, Together):
            values = quantifier.together([_parted(start, text) for text in distinct])
        else:
            values = [quantifier(*_parted(start, text)) for text in distinct]
        _check_scores(quantifier, distinct, values)
    if len(values) == len(texts):
        return np.array(values, dtype=np.int64)
    score_of = dict(zip(distinct, values, strict=True))
    return np.fromiter(map(score_of.__getitem__, texts), np.int64, len(texts))


def write_scores(scores: np.ndarray, tree: TextTree, path: str | Path) -> None:
    """Write the columns uid and score; a `rest` state has no score.

    The file holds the digest of the tree, which tells what tree it belongs to.
    """
    unknown = tree.kind == Kind.REST
    table = pa.table(
        {
            "uid": pa.array(np.arange(len(tree)), pa.int64()),
            "score": pa.array(scores, pa.int64(), mask=unknown),
        }
    )
    write_parquet(table, path, {"tree": tree.digest})


def read_scores(tree: TextTree, path: str | Path) -> np.ndarray:
    """Read the scores of a tree: (n,) int64, `REST_FILLER` for `rest`.

    Raises:
        DamagedFile: the file has changed since it was written.
        InvalidTree: the file holds scores of another tree.
    """
    table, about = read_parquet(path)
    if about.get("tree") != tree.digest or "score" not in table.column_names:
        raise InvalidTree(f"{path} does not hold the scores of this tree; delete it to score again")
    return table["score"].combine_chunks().fill_null(REST_FILLER).to_numpy()


def read_all_scores(tree: TextTree, paths: Iterable[str | Path]) -> dict[str, np.ndarray]:
    """Read the scores of several quantifiers; each has the name of its file without the suffix."""
    return {Path(path).stem: read_scores(tree, path) for path in paths}


def _parted(start: str, text: str) -> tuple[str, str]:
    """The start string, as far as the text begins with it, and the continuation."""
    if not text.startswith(start):
        start = os.path.commonprefix((start, text))  # noqa: RUF071 - of characters
    return start, text[len(start) :]


@contextmanager
def _naming(name: str | None) -> Iterator[None]:
    """Name the quantifier in whatever scoring raises."""
    try:
        yield
    except ConfigError as error:
        if name is None:
            raise
        raise type(error)(f"quantifier {name!r}: {error}") from error
    except (LLMCheckerError, MemoryError):
        raise
    except ANY_ERROR as error:
        if name is None:
            raise
        raise ConfigError(f"quantifier {name!r} raised {raised(error)}") from error


def _check_scores(quantifier: Quantifier, texts: Iterable[str], values: Sequence[Any]) -> None:
    low, high = quantifier.minimum, quantifier.maximum
    least, greatest = -math.inf if low is None else low, math.inf if high is None else high
    for text, value in zip(texts, values, strict=True):
        # nearly every score is a plain int, and to look at that first saves a third of the time
        if type(value) is not int and not _is_integer(value):
            raise ConfigError(f"the score of {text!r} is {value!r}, which is not an integer")
        if not least <= value <= greatest:
            raise ConfigError(
                f"the score of {text!r} is {value}, outside the range {low} to {high}"
            )


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
