"""A model in this process that returns texts with the log probabilities of their tokens."""

import math
import random
from collections.abc import Callable, Iterator
from fractions import Fraction

from helpers.random_tables import END, LETTERS, START

from llmchecker.models.table_model import TableModel
from llmchecker.models.text_answer import Finish, ListedToken, TextAnswer

Path = tuple[tuple[str, ...], bool]
"""The texts after each number of tokens, and whether the last one ended."""


class ListingSampler:
    """Samples from a table, and lists log probabilities as a provider does, rounded.

    Args:
        table: the table, with one token that ends an answer.
        seed: the seed of the samples.
        lists_end: whether the end token is listed.
        lists_sampled: whether the sampled token takes the last place of a list that lacks it.
        sharpness: the power of the probabilities from which it samples; 1 is right.
        change: changes an answer; None for right ones.
    """

    description = name = "a provider"
    top_logprobs = 3

    def __init__(
        self,
        table: TableModel,
        seed: int,
        *,
        lists_end: bool = True,
        lists_sampled: bool = False,
        sharpness: float = 1.0,
        change: Callable[[TextAnswer, random.Random], TextAnswer] | None = None,
    ) -> None:
        self._table, self._chance = table, random.Random(seed)
        self._lists_end, self._lists_sampled = lists_end, lists_sampled
        self._sharpness, self._change = sharpness, change

    def check_prompt(self, prompt) -> None:
        del prompt

    def find_spent_limit(self, stream, number) -> None:
        del stream, number

    def iter_answers(self, next_request, must_stop=lambda: False):
        while (item := next_request()) is not None:
            answer = self._write(self._table.encode(item[0].prompt), item[0].length)
            yield item[0], answer if self._change is None else self._change(answer, self._chance)

    def _write(self, prompt: tuple[int, ...], length: int) -> TextAnswer:
        (end,) = self._table.end_tokens
        texts = [*self._table.vocabulary]
        texts[end] = ""
        tokens: list[int] = []
        listed: list[ListedToken] = []
        while len(tokens) < length:
            weights = self._table.distribution((*prompt, *tokens))
            powers = [weight**self._sharpness for weight in weights]
            token = self._chance.choices(range(len(powers)), powers)[0]
            numbers = [round(math.log(each), 4) if each else -9999.0 for each in weights]
            top = sorted(zip(numbers, texts, strict=True), reverse=True)[: self.top_logprobs]
            sampled = (numbers[token], texts[token])
            if self._lists_sampled and sampled not in top:
                top = [sampled, *top[:-1]]
            if token != end or self._lists_end:
                others = tuple((text, number) for number, text in top)
                listed.append(ListedToken(texts[token], numbers[token], others))
            if token == end:
                break
            tokens.append(token)
        text = "".join(texts[each] for each in tokens)
        finish = Finish.TRUNCATED if len(tokens) == length else Finish.ENDED
        return TextAnswer(text, finish, tokens=tuple(listed))


def enumerate_paths(table: TableModel, length: int) -> Iterator[tuple[Path, Fraction]]:
    """Yield all answers of a table, with their probabilities."""

    def extend(tokens: tuple[int, ...], mass: Fraction) -> Iterator[tuple[Path, Fraction]]:
        texts = tuple(
            "".join(LETTERS[each] for each in tokens[:count]) for count in range(len(tokens) + 1)
        )
        if len(tokens) == length:
            yield (texts, False), mass
            return
        weights = table.distribution((LETTERS.index(START), *tokens))
        for token, weight in enumerate(map(Fraction, weights)):
            if weight and token == END:
                yield (texts, True), mass * weight
            elif weight:
                yield from extend((*tokens, token), mass * weight)

    return extend((), Fraction(1))
