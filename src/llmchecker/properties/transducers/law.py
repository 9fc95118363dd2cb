"""Check of the law of token transducers on single texts."""

from collections.abc import Callable, Iterable

from llmchecker.errors import ConfigError
from llmchecker.properties.transducers.interface import TokenTransducer


def check_law(
    quantifier: Callable[[str, str], int],
    transducer: TokenTransducer,
    start: str,
    pieces: Iterable[str],
) -> None:
    """Check that a transducer and the plain call score a text and its beginnings equally.

    Args:
        quantifier: the plain call.
        transducer: the incremental form.
        start: the start string.
        pieces: the pieces of the continuation in their order. A plain string is read character by
            character.

    Raises:
        ConfigError: the scores of a beginning differ.
    """
    state, count = transducer.start(start)
    continuation = ""
    _check_score(quantifier, transducer, start, continuation, count + transducer.score(state))
    for piece in pieces:
        state, gain = transducer.advance(state, transducer.effect(piece))
        continuation += piece
        count += gain
        score = count + transducer.score(state)
        _check_score(quantifier, transducer, start, continuation, score)


def _check_score(
    quantifier: Callable[[str, str], int],
    transducer: TokenTransducer,
    start: str,
    continuation: str,
    score: int,
) -> None:
    expected_score = quantifier(start, continuation)
    if score != expected_score:
        raise ConfigError(
            f"{type(transducer).__name__}: the score of {start + continuation!r} is {score}, but "
            f"{expected_score} by the plain call; correct build_transducer"
        )
