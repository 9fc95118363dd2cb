"""Prices of tokens, and limits of the tokens and the money that a run may spend."""

import re
import threading
from dataclasses import dataclass, field

from llmchecker.errors import ConfigError
from llmchecker.utils.number_format import format_number

_PRICE = re.compile(
    r"\s*(?:\$|USD|dollars?)?\s*(?P<amount>[0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*"
    r"(?P<unit>\$|USD|dollars?)?\s*(?:/|per)\s*(?P<count>1\s*M|1\s*K|M|K|million|thousand)\s*"
    r"tok(?:en)?s?\s*",
    re.IGNORECASE,
)
_EXAMPLE = "write it as 0.15 USD / 1M tokens"


@dataclass(frozen=True)
class Prices:
    """The prices of a model in dollars per token.

    Attributes:
        input: price of a token of the prompt.
        output: price of a token of the answer.
    """

    input: float
    output: float

    def compute_cost(self, prompt_tokens: int, answer_tokens: int) -> float:
        """Return the price of an answer in dollars."""
        return prompt_tokens * self.input + answer_tokens * self.output


def parse_price(key: str, text: str) -> float:
    """Parse a price such as `0.15 USD / 1M tokens`; return dollars per token.

    Raises:
        ConfigError: the price has no unit, or another form.
    """
    match = _PRICE.fullmatch(text)
    has_unit = match is not None and re.search(r"\$|usd|dollar", text, re.IGNORECASE)
    if match is None or not has_unit:
        raise ConfigError(f"{key}: {text!r} is no price with a unit; {_EXAMPLE}")
    is_million = "m" in match["count"].lower()
    return float(match["amount"]) / (1_000_000 if is_million else 1_000)


@dataclass
class Spending:
    """The tokens and the money that a run has spent, and their limits.

    The deployments of a run share it. Stored answers cost nothing.

    Attributes:
        max_tokens: largest number of tokens of prompts and answers; None for no limit.
        max_dollars: largest sum in dollars; None for no limit.
        tokens, dollars: what received answers have cost.
    """

    max_tokens: int | None = None
    max_dollars: float | None = None
    tokens: int = 0
    dollars: float = 0.0
    _reserved_tokens: int = field(default=0, repr=False)
    _reserved_dollars: float = field(default=0.0, repr=False)
    # requests run in a thread of their own
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def find_limit(self, tokens: int, dollars: float) -> str | None:
        """Return the limit that an answer of a cost would exceed; None if it exceeds none.

        Args:
            tokens, dollars: the largest cost of the answer.
        """
        used = self.tokens + self._reserved_tokens + tokens
        if self.max_tokens is not None and used > self.max_tokens:
            return (
                f"the budget of {self.max_tokens:,} tokens allows no further answer; "
                f"{self.tokens:,} are spent"
            )
        sum_of_dollars = self.dollars + self._reserved_dollars + dollars
        if self.max_dollars is not None and sum_of_dollars > self.max_dollars:
            return (
                f"the budget of {format_number(self.max_dollars)} dollars allows no further "
                f"answer; {format_number(self.dollars, 3)} are spent"
            )
        return None

    def reserve(self, tokens: int, dollars: float) -> None:
        """Reserve the largest cost of an answer that is requested."""
        with self._lock:
            self._reserved_tokens += tokens
            self._reserved_dollars += dollars

    def release(self, tokens: int, dollars: float) -> None:
        """Release what was reserved for an answer."""
        with self._lock:
            self._reserved_tokens -= tokens
            self._reserved_dollars -= dollars

    def pay(self, tokens: int, dollars: float) -> None:
        """Add the cost of a received answer."""
        with self._lock:
            self.tokens += tokens
            self.dollars += dollars
