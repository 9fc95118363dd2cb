"""Random language models of a few letters, small enough that every text can be enumerated."""

import random
from itertools import pairwise

from llmchecker.models.table_model import TableModel
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import TextTree, Truncation

LETTERS = "abcd"
END = len(LETTERS)
START = "a"
PARTS = 64


def table_model(seed: int) -> TableModel:
    """A model whose next letter depends on the whole text; one more token ends a text.

    Probabilities are 64ths, of which some are 0 and some hold nearly everything.
    """

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        drawn = random.Random(repr((seed, tokens)))
        weights = [drawn.random() ** drawn.choice([1, 4, 16]) for _ in range(END + 1)]
        cuts = [0, *(round(PARTS * sum(weights[: i + 1]) / sum(weights)) for i in range(END + 1))]
        return [(after - before) / PARTS for before, after in pairwise(cuts)]

    return TableModel([*LETTERS, "."], distribution, frozenset([END]))


def whole_tree(model: TableModel, length: int) -> TextTree:
    """All texts of a model, none of them left to `rest`."""
    return build_tree(model, START, Truncation(1.0, END + 1, length))


class Balance:
    """How many more of one letter than of another a text has."""

    def __init__(self, more: str, less: str) -> None:
        self.more, self.less = more, less
        self.minimum = self.maximum = None

    def __call__(self, start: str, continuation: str) -> int:
        text = start + continuation
        return text.count(self.more) - text.count(self.less)


class Spoilt:
    """0 once a letter was written, for ever; else 2 after another letter, and 1 after the rest."""

    minimum, maximum, final = 0, 2, frozenset({0})

    def __init__(self, spoiling: str, other: str) -> None:
        self.spoiling, self.other = spoiling, other

    def __call__(self, start: str, continuation: str) -> int:
        if self.spoiling in continuation:
            return 0
        return 1 + continuation.endswith(self.other)


class ReadBalance(Balance):
    """The same, read token by token: one state, and a count."""

    def build_transducer(self) -> "ReadBalance":
        return self

    def start(self, start: str) -> tuple:
        return "only", self("", start)

    def effect(self, piece: str) -> int:
        return self("", piece)

    def advance(self, state: str, effect: int) -> tuple:
        return state, effect

    def score(self, state: str) -> int:
        return 0


class ReadSpoilt(Spoilt):
    """The same, read token by token: the state is the score."""

    def build_transducer(self) -> "ReadSpoilt":
        return self

    def start(self, start: str) -> tuple:
        return 1, 0

    def effect(self, piece: str) -> str:
        return piece

    def advance(self, state: int, effect: str) -> tuple:
        if state == 0 or effect == "":
            return state, 0
        return self("", effect), 0

    def score(self, state: int) -> int:
        return state


QUANTIFIERS = {"gender": Balance("a", "b"), "polarity": Balance("c", "d")}
READ_QUANTIFIERS = {"gender": ReadBalance("a", "b"), "polarity": ReadBalance("c", "d")}
"""The same quantifiers with an incremental form."""

RANGES = dict.fromkeys(QUANTIFIERS, (None, None))

WITH_FINAL_SCORES = {"gender": Spoilt("b", "c"), "polarity": Spoilt("d", "c")}
"""Other quantifiers by the same names, both of which have a final score."""
READ_WITH_FINAL_SCORES = {"gender": ReadSpoilt("b", "c"), "polarity": ReadSpoilt("d", "c")}
"""The same with an incremental form."""
