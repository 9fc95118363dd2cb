"""Conversations of small tables: a table that answers chats, and all of its conversations.

The enumeration shares no code with the package but the table itself.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

from helpers import oracle
from helpers.random_tables import PARTS

from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.table_model import TableModel

LETTERS = "abc"
END, USER, MODEL = len(LETTERS), len(LETTERS) + 1, len(LETTERS) + 2


class ChatTable(TableModel):
    """A table of letters that answers chats: each message is its mark and its letters."""

    drops_answers = False

    def encode(self, start):
        messages = start.messages if isinstance(start, Chat) else [("user", start)]
        if self.drops_answers:
            messages = [each for each in messages if each[0] != "assistant"]
        tokens = []
        for role, text in messages:
            tokens.append(MODEL if role == "assistant" else USER)
            # other letters than those of the table have a token too
            tokens += [LETTERS.index(c) if c in LETTERS else ord(c) % 3 for c in text]
        return (*tokens, MODEL)


def chat_table(seed: int, *, is_truncated: bool = False) -> ChatTable:
    """A table whose next letter depends on the whole chat, with probabilities of 64ths."""

    def distribution(tokens):
        chance = random.Random(repr((seed, tokens)))
        weights = [chance.random() ** chance.choice([1, 4, 16]) for _ in range(END + 1)]
        if is_truncated:
            least = sorted(weights)[-2]
            weights = [weight if weight >= least else 0.0 for weight in weights]
        total = sum(weights)
        cuts = [0, *(round(PARTS * sum(weights[: i + 1]) / total) for i in range(END + 1))]
        return [*((after - before) / PARTS for before, after in pairwise(cuts)), 0.0, 0.0]

    return ChatTable([*LETTERS, ".", "<u>", "<m>"], distribution, frozenset([END]))


def iter_answers(
    model: ChatTable, messages: Sequence[tuple[str, str]], length: int
) -> Iterator[tuple[str, bool, Fraction]]:
    """Yield each answer to messages, whether it ended, and its probability."""
    prompt = model.encode(Chat(tuple(messages)))
    waiting = [((), Fraction(1))]
    while waiting:
        tokens, mass = waiting.pop()
        for token, probability in enumerate(model.distribution((*prompt, *tokens))):
            if probability == 0:
                continue
            longer, share = (*tokens, token), mass * Fraction(probability)
            if token == END or len(longer) == length:
                text = "".join(LETTERS[t] for t in longer if t != END)
                yield text, token == END, share
            else:
                waiting.append((longer, share))


def enumerate_conversations(
    model: ChatTable, user_texts: Sequence[str], length: int, quantifiers: Mapping
) -> oracle.Tree:
    """Return all conversations as a tree of answers, whose first state is before the first one.

    `{1}` in a text of the user is the first answer.
    """
    parents, chances, kinds = [-1], [1], [0]
    columns = {name: [0] for name in ("turn", *quantifiers)}
    waiting = [(0, [("user", user_texts[0])], [])]
    while waiting:
        state, messages, answers = waiting.pop()
        # a quantifier reads the chat as its start
        start = "".join(model.vocabulary[token] for token in model.encode(Chat(tuple(messages))))
        for text, has_ended, chance in iter_answers(model, messages, length):
            parents.append(state)
            chances.append(chance)
            kinds.append(2 if has_ended else 0)
            columns["turn"].append(len(answers) + 1)
            for name, quantifier in quantifiers.items():
                columns[name].append(quantifier(start, text))
            if len(answers) + 1 < len(user_texts):
                said = [*answers, text]
                user = user_texts[len(said)].replace("{1}", said[0])
                longer = [*messages, ("assistant", text), ("user", user)]
                waiting.append((len(parents) - 1, longer, said))
    return oracle.Tree(parents, chances, kinds, columns, read=lambda chance: chance)
