"""A model in this process that returns texts alone."""

import random
from collections.abc import Callable

from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.text_answer import Finish, TextAnswer, TextStream


class TextSampler:
    """A text model that samples with a writer, a few texts at a time.

    Attributes:
        chats: the messages of each request.
    """

    description = name = "a sampler"

    def __init__(
        self,
        write: Callable[[TextStream, random.Random], tuple[str, bool]],
        seed: int,
        *,
        most: int | None = None,
        withheld: float = 0.0,
    ) -> None:
        """Build a sampler.

        Args:
            write: returns a text, and whether it ended.
            seed: the seed of the samples.
            most: the number of texts after which a limit is spent; None for none.
            withheld: the share of texts that a filter withholds.
        """
        self.write, self.chance = write, random.Random(seed)
        self.most, self.withheld = most, withheld
        self.chats: list[Chat] = []

    def check_prompt(self, prompt) -> None:
        del prompt

    def iter_answers(self, next_request, must_stop=lambda: False):
        waiting = []
        while True:
            while len(waiting) < 5 and (item := next_request()) is not None:
                waiting.append(item)
            if not waiting:
                return
            stream, _ = waiting.pop(0)
            self.chats.append(stream.prompt)
            text, ended = self.write(stream, self.chance)
            finish = Finish.ENDED if ended else Finish.TRUNCATED
            if self.chance.random() < self.withheld:
                text, finish = "", Finish.FILTERED
            yield stream, TextAnswer(text, finish)

    def find_spent_limit(self, stream, number):
        is_spent = self.most is not None and len(self.chats) >= self.most
        return "the limit is spent" if is_spent else None
