"""Best-first search for the most probable conditions of a model after a prompt.

A node is the beginning of a condition. Its probability is the product of its tokens' probabilities,
so no text is more probable than its beginning. The grammar decides by their text which tokens may
follow. A token may contain part of a name, several operators, or text after a closing parenthesis.
"""

import heapq
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from llmchecker.models.distribution import Distributions
from llmchecker.models.interface import LanguageModel
from loop_invariants.frontend.expressions import parse_condition
from loop_invariants.ir.expressions import Expression
from loop_invariants.ir.statements import Loop, Program
from loop_invariants.proposals.condition_grammar import Grammar, GrammarState
from loop_invariants.proposals.token_texts import decode_continuations

_BATCH_SIZE = 16
"""Maximum number of nodes in a batch: a smaller batch takes the same time."""


@dataclass(frozen=True)
class _ScoredCondition:
    """A condition with the probabilities that a model writes it.

    Attributes:
        expression: the condition.
        probability: probability of its most probable derivation. The model writes exactly these
            tokens, then a token with the closing parenthesis and any text after it.
        total_probability: probability of all derivations found, which differ in spaces,
            parentheses or tokens; a lower bound of the probability of the condition.
        is_final: whether its rank is final: every condition with a more probable derivation was
            found.
    """

    expression: Expression
    probability: float
    total_probability: float
    is_final: bool


def find_most_probable(
    model: LanguageModel,
    prompt: str,
    program: Program,
    loop: Loop,
    max_nodes: int,
    batch_size: int = _BATCH_SIZE,
) -> tuple[_ScoredCondition, ...]:
    """Find the most probable conditions over a loop's variables, in order.

    Each step expands the most probable node together with the next most probable nodes of the
    same number of tokens. This expands more nodes than a sequential search, but takes less time.
    The rank of a condition is final when no open node is more probable.

    Args:
        model: the language model.
        prompt: the text before the conditions.
        program: the program with the types of the variables.
        loop: the loop with the variables.
        max_nodes: maximum number of expanded nodes; each needs a next-token distribution.
        batch_size: maximum number of nodes expanded at once.
    """
    # A condition needs a variable, so the search would find none.
    if not loop.scope:
        return ()
    search = _Search(model, prompt, Grammar(loop.scope, program.types))
    while max_nodes > 0 and search.frontier:
        max_nodes -= search.expand(min(batch_size, max_nodes))
    probabilities: dict[Expression, list[float]] = {}
    # In order of probability, the first derivation of a condition is its most probable.
    for derivation in sorted(search.derivations, key=lambda way: (-way.probability, way.text)):
        probabilities.setdefault(
            parse_condition(derivation.text, loop.scope, program.types), []
        ).append(derivation.probability)
    # Open nodes bound the probability of every condition that is not yet found.
    max_open_probability = search.compute_max_probability()
    return tuple(
        _ScoredCondition(e, values[0], sum(values), values[0] >= max_open_probability)
        for e, values in probabilities.items()
    )


@dataclass(frozen=True, order=True)
class _Node:
    """The beginning of a condition.

    Attributes:
        rank: its negated probability, since heaps return the least entry first.
        tokens: the tokens after the prompt; they order equally probable nodes.
        text: the text of the tokens.
        state: the grammar's state after the text.
    """

    rank: float
    tokens: tuple[int, ...]
    text: str = field(compare=False)
    state: GrammarState = field(compare=False)

    @property
    def probability(self) -> float:
        """The probability of these tokens after the prompt."""
        return -self.rank


@dataclass(frozen=True)
class _Derivation:
    """A derivation: a token sequence of a condition.

    Attributes:
        text: the condition without its closing parenthesis.
        probability: the probability of the token sequence.
    """

    text: str
    probability: float


class _Search:
    """The state of a best-first search.

    Attributes:
        frontier: the open nodes, in a heap for each number of tokens. The rows of a batch have the
            same length, so a batch takes its nodes from a single heap.
        derivations: the derivations of conditions found so far.
    """

    def __init__(self, model: LanguageModel, prompt: str, grammar: Grammar) -> None:
        tokens = model.encode(prompt)
        self._prefix = model.open_prefix(tokens)
        self._vocabulary = _Vocabulary(model, tokens, grammar)
        self.frontier = {0: [_Node(-1.0, (), "", grammar.initial_state)]}
        self.derivations: list[_Derivation] = []

    def compute_max_probability(self) -> float:
        """Return the probability of the most probable open node; 0 without open nodes."""
        return max((heap[0].probability for heap in self.frontier.values()), default=0.0)

    def expand(self, limit: int) -> int:
        """Expand the most probable open node and others of its length; count them."""
        length = min(self.frontier, key=lambda length: self.frontier[length][0])
        heap = self.frontier[length]
        nodes = [heapq.heappop(heap) for _ in range(min(limit, len(heap)))]
        # An empty heap has no first node to compare in the next step.
        if not heap:
            del self.frontier[length]
        continuations = np.array([node.tokens for node in nodes], dtype=np.int64)
        continuations = continuations.reshape(len(nodes), length)
        chunks = self._prefix.map_next(_to_probability_array, continuations, will_extend=True)
        for node, row in zip(nodes, (row for chunk in chunks for row in chunk), strict=True):
            self._add_children(node, row)
        return len(nodes)

    def _add_children(self, node: _Node, row: np.ndarray) -> None:
        allowed_tokens = self._vocabulary.find_allowed_tokens(node.state)
        # Complete conditions are not extended, so all tokens with the same text before `)` form a
        # single derivation.
        for tokens, text in allowed_tokens.endings:
            probability = node.probability * float(row[tokens].sum())
            if probability > 0:
                self.derivations.append(_Derivation(node.text + text, probability))
        children = self.frontier.get(len(node.tokens) + 1, [])
        for token, text, state in allowed_tokens.extensions:
            rank = node.rank * float(row[token])
            # A token of probability 0 cannot be part of a derivation.
            if rank < 0:
                child = _Node(rank, (*node.tokens, token), node.text + text, state)
                heapq.heappush(children, child)
        if children:
            self.frontier[len(node.tokens) + 1] = children


@dataclass(frozen=True)
class _AllowedTokens:
    """The tokens that the grammar allows after a text.

    Attributes:
        endings: pairs of the tokens that end the condition, and their common text before the
            closing parenthesis.
        extensions: all other tokens, each with its text and the state after it.
    """

    endings: tuple[tuple[np.ndarray, str], ...]
    extensions: tuple[tuple[int, str, GrammarState], ...]


@dataclass
class _Trie:
    """A trie: a tree of tokens by the characters of their texts.

    Many tokens share their first characters, so the grammar processes them only once.

    Attributes:
        tokens: the tokens whose text ends at this node.
        children: the subtrees of longer tokens, by the next character.
    """

    tokens: list[int] = field(default_factory=list)
    children: dict[str, "_Trie"] = field(default_factory=dict)

    @cached_property
    def all_tokens(self) -> np.ndarray:
        """The tokens whose text ends at this node or below."""
        subtree_tokens = [trie.all_tokens for trie in self.children.values()]
        return np.concatenate([np.array(self.tokens, dtype=np.int64), *subtree_tokens])


class _Vocabulary:
    """The vocabulary of a model, with a cache of the allowed tokens in each state."""

    def __init__(self, model: LanguageModel, prompt: Sequence[int], grammar: Grammar) -> None:
        self._grammar = grammar
        # Models are hashed by identity, which their protocol does not state.
        self._trie = _build_trie(model, tuple(prompt[-1:]))  # type: ignore[arg-type]
        self._cache: dict[GrammarState, _AllowedTokens] = {}

    def find_allowed_tokens(self, state: GrammarState) -> _AllowedTokens:
        """Return the tokens that are allowed in a state."""
        if state not in self._cache:
            endings: list[tuple[np.ndarray, str]] = []
            extensions: list[tuple[int, str, GrammarState]] = []
            for trie, text, next_state in self._walk(self._trie, "", state):
                # The token may contain any text after the closing parenthesis.
                if next_state.is_complete:
                    endings.append((trie.all_tokens, text[:-1]))
                else:
                    extensions += ((token, text, next_state) for token in trie.tokens)
            self._cache[state] = _AllowedTokens(tuple(endings), tuple(extensions))
        return self._cache[state]

    def _walk(
        self, trie: _Trie, text: str, state: GrammarState
    ) -> Iterator[tuple[_Trie, str, GrammarState]]:
        """Yield every allowed beginning of a token, up to the end of the condition.

        Yields:
            The subtree of the tokens with this beginning, the beginning, and the state after it.
        """
        for character, subtree in trie.children.items():
            next_state = self._grammar.advance(state, character)
            # No condition begins with this text, so the whole subtree is excluded.
            if next_state is None:
                continue
            yield subtree, text + character, next_state
            if not next_state.is_complete:
                yield from self._walk(subtree, text + character, next_state)


@lru_cache(maxsize=1)
def _build_trie(model: LanguageModel, prompt: tuple[int, ...]) -> _Trie:
    """Build the trie of tokens that may occur in conditions; the next loop reuses it."""
    ordinary_tokens = [
        token for token in range(model.vocabulary_size) if token not in model.end_tokens
    ]
    texts = decode_continuations(model, prompt, [(token,) for token in ordinary_tokens])
    root = _Trie()
    for token, text in zip(ordinary_tokens, texts, strict=True):
        # Most tokens of a vocabulary cannot occur in a condition, which keeps the trie small.
        if not _PLAUSIBLE_TOKEN.match(text):
            continue
        trie = root
        for character in text:
            trie = trie.children.setdefault(character, _Trie())
        trie.tokens.append(token)
    return root


_PLAUSIBLE_TOKEN = re.compile(r"[\w ()\[\]<>=!&|+*-]+(?:\Z|(?<=\)))", re.ASCII)
"""Tokens that may occur in a condition, as a whole or up to a closing parenthesis."""


def _to_probability_array(_: np.ndarray, distributions: Distributions) -> np.ndarray:
    return distributions.probabilities().cpu().numpy()
