"""The most probable conditions that a model can write after a prompt, found without sampling.

The search is best first over tokens. A node is the beginning of a condition; its probability is the
product of its tokens' probabilities, so no text is more probable than its beginning. The grammar
decides, by their text, which tokens may follow: a token may hold a part of a name, several
operators, or the closing parenthesis and more after it.
"""

import heapq
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from llmchecker.invariants.grammar import Grammar, GrammarState
from llmchecker.invariants.token_texts import texts_after
from llmchecker.models.distributions import Distributions
from llmchecker.models.protocols import LanguageModel
from llmchecker.programs.expressions import Expression
from llmchecker.programs.statements import Loop, Program
from llmchecker.reading.c_expressions import parse_condition

BATCH = 16
"""The most nodes that are expanded at once: a step with fewer takes as long."""


@dataclass(frozen=True)
class Probable:
    """A condition that a model can write.

    Attributes:
        expression: the condition.
        probability: the probability of the most probable way to write it: the model writes exactly
            these tokens, and then one with the closing parenthesis, whatever else that token holds.
        total: the probability of all ways to write it that were found. They differ in spaces,
            parentheses or tokens. It is a lower bound of the probability that the model writes it.
        settled: whether its place is final: every condition with a more probable way to write it
            was found.
    """

    expression: Expression
    probability: float
    total: float
    settled: bool


def most_probable(
    model: LanguageModel, prompt: str, program: Program, loop: Loop, nodes: int, batch: int = BATCH
) -> tuple[Probable, ...]:
    """The most probable conditions over a loop's variables after a prompt, by falling probability.

    Each step expands the most probable beginning together with the most probable others that have
    as many tokens. It expands more beginnings than a search one by one would, and takes less time.
    A condition is settled when no beginning is left that is more probable.

    Args:
        model: the model to ask.
        prompt: the text before the conditions.
        program: supplies the types of the variables.
        loop: supplies the variables.
        nodes: the most beginnings that are expanded; the model computes one next-token
            distribution for each.
        batch: the most beginnings that are expanded at once.
    """
    if not loop.scope:
        return ()
    search = _Search(model, prompt, Grammar(loop.scope, program.types))
    while nodes > 0 and search.open:
        nodes -= search.expand(min(batch, nodes))
    ways: dict[Expression, list[float]] = {}
    for way in sorted(search.ended, key=lambda way: (-way.probability, way.text)):
        ways.setdefault(parse_condition(way.text, loop.scope, program.types), []).append(
            way.probability
        )
    left = search.highest()
    return tuple(Probable(e, found[0], sum(found), found[0] >= left) for e, found in ways.items())


@dataclass(frozen=True, order=True)
class _Node:
    """The beginning of a condition.

    Attributes:
        rank: its probability, negated: heaps return the least entry first.
        tokens: the tokens after the prompt; they decide between equally probable beginnings.
        text: what the tokens read like.
        state: the grammar's state after the text.
    """

    rank: float
    tokens: tuple[int, ...]
    text: str = field(compare=False)
    state: GrammarState = field(compare=False)

    @property
    def probability(self) -> float:
        """The probability that the model writes these tokens after the prompt."""
        return -self.rank


@dataclass(frozen=True)
class _Way:
    """One way to write a condition.

    Attributes:
        text: the condition without its closing parenthesis.
        probability: the probability that the model writes it in this way.
    """

    text: str
    probability: float


class _Search:
    """A search for conditions.

    Attributes:
        open: the nodes that may be expanded, in a heap for every number of tokens. A batch has rows
            of one length, so it takes its nodes from one heap.
        ended: the ways to write conditions that were found.
    """

    def __init__(self, model: LanguageModel, prompt: str, grammar: Grammar) -> None:
        tokens = model.encode(prompt)
        self._continuations = model.continuations(tokens)
        self._vocabulary = _Vocabulary(model, tokens, grammar)
        self.open = {0: [_Node(-1.0, (), "", grammar.start)]}
        self.ended: list[_Way] = []

    def highest(self) -> float:
        """The probability of the most probable open node; 0 if there is none."""
        return max((heap[0].probability for heap in self.open.values()), default=0.0)

    def expand(self, most: int) -> int:
        """Expand the most probable open node and others of its length; return how many."""
        length = min(self.open, key=lambda length: self.open[length][0])
        heap = self.open[length]
        chosen = [heapq.heappop(heap) for _ in range(min(most, len(heap)))]
        if not heap:
            del self.open[length]
        suffixes = np.array([node.tokens for node in chosen], dtype=np.int64)
        suffixes = suffixes.reshape(len(chosen), length)
        rows = self._continuations.map(_probabilities, suffixes, extended=True)
        for node, row in zip(chosen, (row for part in rows for row in part), strict=True):
            self._add_children(node, row)
        return len(chosen)

    def _add_children(self, node: _Node, row: np.ndarray) -> None:
        followers = self._vocabulary.after(node.state)
        # Ends are not searched any further, so all tokens with one text before `)` are one way.
        for tokens, text in followers.ends:
            probability = node.probability * float(row[tokens].sum())
            if probability > 0:
                self.ended.append(_Way(node.text + text, probability))
        children = self.open.get(len(node.tokens) + 1, [])
        for token, text, state in followers.longer:
            rank = node.rank * float(row[token])
            if rank < 0:
                child = _Node(rank, (*node.tokens, token), node.text + text, state)
                heapq.heappush(children, child)
        if children:
            self.open[len(node.tokens) + 1] = children


@dataclass(frozen=True)
class _Followers:
    """The tokens that may follow a text.

    Attributes:
        ends: pairs of the tokens with which the condition ends, and the text that they have before
            its closing parenthesis.
        longer: every other token, with its text and the state after it.
    """

    ends: tuple[tuple[np.ndarray, str], ...]
    longer: tuple[tuple[int, str, GrammarState], ...]


@dataclass
class _Trie:
    """A tree of tokens by the characters of their texts.

    Many tokens share their first characters, so the grammar reads those only once.

    Attributes:
        tokens: the tokens whose text ends here.
        further: the other tokens, by their next character.
    """

    tokens: list[int] = field(default_factory=list)
    further: dict[str, "_Trie"] = field(default_factory=dict)

    @cached_property
    def all_tokens(self) -> np.ndarray:
        """All tokens whose text ends here or goes on from here."""
        below = [trie.all_tokens for trie in self.further.values()]
        return np.concatenate([np.array(self.tokens, dtype=np.int64), *below])


class _Vocabulary:
    """A model's tokens, and which of them may follow a text."""

    def __init__(self, model: LanguageModel, prompt: Sequence[int], grammar: Grammar) -> None:
        self._grammar = grammar
        self._root = _plausible(model, tuple(prompt[-1:]))
        self._followers: dict[GrammarState, _Followers] = {}

    def after(self, state: GrammarState) -> _Followers:
        """The tokens that may follow a text with this state."""
        if state not in self._followers:
            ends: list[tuple[np.ndarray, str]] = []
            longer: list[tuple[int, str, GrammarState]] = []
            for trie, text, reached in self._walk(self._root, "", state):
                if reached.ended:
                    ends.append((trie.all_tokens, text[:-1]))
                else:
                    longer += ((token, text, reached) for token in trie.tokens)
            self._followers[state] = _Followers(tuple(ends), tuple(longer))
        return self._followers[state]

    def _walk(
        self, trie: _Trie, text: str, state: GrammarState
    ) -> Iterator[tuple[_Trie, str, GrammarState]]:
        """Yield every beginning of a token that may follow, up to one that ends the condition.

        Yields:
            The tokens that begin so, the beginning, and the state after it.
        """
        for character, further in trie.further.items():
            reached = self._grammar.after(state, character)
            if reached is None:
                continue
            yield further, text + character, reached
            if not reached.ended:
                yield from self._walk(further, text + character, reached)


@lru_cache(maxsize=1)
def _plausible(model: LanguageModel, prompt: tuple[int, ...]) -> _Trie:
    """The tokens that may stand in a condition, all or in part; kept for the next loop."""
    usable = [token for token in range(model.vocabulary_size) if token not in model.end_tokens]
    texts = texts_after(model, prompt, [(token,) for token in usable])
    root = _Trie()
    for token, text in zip(usable, texts, strict=True):
        if not _PLAUSIBLE.match(text):
            continue
        trie = root
        for character in text:
            trie = trie.further.setdefault(character, _Trie())
        trie.tokens.append(token)
    return root


_PLAUSIBLE = re.compile(r"[\w ()\[\]<>=!&|+*-]+(?:\Z|(?<=\)))", re.ASCII)
"""Matches tokens that may stand in a condition as a whole, or up to a closing parenthesis."""


def _probabilities(distributions: Distributions) -> np.ndarray:
    return distributions.probabilities().cpu().numpy()
