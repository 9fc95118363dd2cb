"""Check of the law of token transducers on single texts."""

import itertools
import math
from collections.abc import Callable, Iterable

from llmchecker.errors import ConfigError
from llmchecker.properties.transducers.interface import NarrowsRange, TokenTransducer


def check_law(
    quantifier: Callable[[str, str], int],
    transducer: TokenTransducer,
    start: str,
    pieces: Iterable[str],
) -> None:
    """Check that a transducer and the plain call score a text and its beginnings equally.

    No score may be outside the range that the state of an earlier beginning has.

    Args:
        quantifier: the plain call.
        transducer: the incremental form.
        start: the start string.
        pieces: the pieces of the continuation in their order. A plain string is read character by
            character.

    Raises:
        ConfigError: the scores of a beginning differ, or one is outside such a range.
    """
    low, high = -math.inf, math.inf
    name = type(transducer).__name__
    state, count = transducer.start(start)
    continuation = ""
    # the first step adds no text
    for piece in itertools.chain([None], pieces):
        if piece is not None:
            state, gain = transducer.advance(state, transducer.effect(piece))
            continuation += piece
            count += gain
        score, expected_score = count + transducer.score(state), quantifier(start, continuation)
        if score != expected_score:
            raise ConfigError(
                f"{name}: the score of {start + continuation!r} is {score}, but {expected_score} "
                "by the plain call; correct build_transducer"
            )
        if isinstance(transducer, NarrowsRange):
            least, greatest = transducer.find_range(state)
            low = low if least is None else max(low, count + least)
            high = high if greatest is None else min(high, count + greatest)
        if not low <= score <= high:
            raise ConfigError(
                f"{name}: the score of {start + continuation!r} is {score}, outside of the range "
                f"{low} to {high} of its beginnings; correct find_range"
            )
