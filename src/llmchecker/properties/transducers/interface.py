"""Protocol of token transducers, the incremental form of a quantifier.

A transducer reads a text from left to right and remembers a state. Its score of a text has two
parts: a count of what is complete, and the score of the state.

    text           state        count   score
    ""             no word      0       0
    " She"         "she"        0       -1    the word may go on: "Sheila"
    " She he"      "he"         -1      0     "She" is complete
    " She heavy"   a dead word  -1      -1

Counts are apart from states, so that texts with other counts share a state.
"""

from collections.abc import Hashable
from typing import Protocol, runtime_checkable


class TokenTransducer(Protocol):
    """Incremental form of a quantifier, with one law.

    For a start string and any pieces of text: the count of all pieces plus the score of the last
    state is what the quantifier's plain call returns for the start string and the joined pieces.
    The law implies that equal states have equal futures, whatever their counts are.

    States and effects are hashable values. They are compared by equality, so fewer distinct states
    and effects make a check faster. A state must not grow with the text where a smaller one obeys
    the law.

    A transducer may compare equal to others with the same settings. Equal transducers share the
    token classes of a vocabulary within a process.
    """

    def start(self, start: str) -> tuple[Hashable, int]:
        """Return the state and the count after a start string without a continuation."""
        ...

    def effect(self, piece: str) -> Hashable:
        """Return the effect of a piece of text on every state.

        Pieces with equal effects form one token class.
        """
        ...

    def advance(self, state: Hashable, effect: Hashable) -> tuple[Hashable, int]:
        """Return the state after an effect, and what the effect adds to the count."""
        ...

    def score(self, state: Hashable) -> int:
        """Return the score of a state, without the count."""
        ...


@runtime_checkable
class NarrowsRange(Protocol):
    """Protocol of a transducer whose states narrow the range of scores.

    A pattern that can no longer match has the range 0 to 0. So a check need not visit such a text.
    """

    def find_range(self, state: Hashable) -> tuple[int | None, int | None]:
        """Return the least and the greatest score of a text with this state and its continuations.

        The scores are without the count of the text. None stands for no limit.
        """
        ...


@runtime_checkable
class ScoresEnds(Protocol):
    """Protocol of a transducer that holds back the end of a text which may go on.

    The end of `No.U` may begin the stop `User:`, and is read once the text is known to end there.
    """

    def score_end(self, state: Hashable) -> int:
        """Return the score of a text that ends in a state, without the count."""
        ...


@runtime_checkable
class HasTransducer(Protocol):
    """Protocol of a quantifier with an incremental form."""

    def build_transducer(self) -> TokenTransducer | None:
        """Build the incremental form; None if these settings allow none.

        Without it the quantifier is called on visited texts only, and decides no text ahead.
        """
        ...
