"""Whether the mean of a finite list exceeds a number, from its values in random order.

Of n values from 0 to 1, t were read, with the sum S. If the mean of all is m or less, that of the
n - t others is (n m - S) / (n - t) or less, and in random order the next value is so on average.
Bets on the difference therefore never gain on average (Waudby-Smith and Ramdas 2020, "Confidence
Sequences for Sampling Without Replacement"). The last values decide without a bet.
"""

from fractions import Fraction

from llmchecker.checking.anytime.threshold_evidence import ThresholdEvidence


class FiniteMeanTest:
    """A test whether the mean of a list is above or below a number, at every stop.

    Attributes:
        read_count: number of values read so far.
        is_above: whether the mean is at least the number; None while this is unknown.
        is_certain: whether the values read decide this whatever the others are.

    Args:
        count: number of values of the whole list.
        number: the number, from 0 to 1.
        error_probability: the largest probability that `is_above` is ever wrong.
    """

    def __init__(self, count: int, number: Fraction, error_probability: float) -> None:
        self.read_count = 0
        self.is_above: bool | None = None
        self.is_certain = False
        self._count, self._number = count, number
        self._sum = Fraction(0)
        # only one of the two can be wrong, so that each has the whole error probability
        self._evidences = {
            is_above: ThresholdEvidence(error_probability, sign, float(number))
            for is_above, sign in ((True, 1), (False, -1))
        }
        self._decide()

    def add(self, value: float) -> None:
        """Read the next value, from 0 to 1."""
        if not self.is_certain:
            remaining = self._count - self.read_count
            # of the values from here on, if the mean of all is the number
            expected = float((self._count * self._number - self._sum) / remaining)
            shift = float(self._number) - expected
            for evidence in self._evidences.values():
                evidence.add(value + shift, shift, 1 + shift)
        self.read_count += 1
        self._sum += Fraction(value)
        self._decide()

    def _decide(self) -> None:
        """Decide by the sum, or else by the bets, whose decision stays."""
        needed = self._count * self._number - self._sum
        if needed <= 0 or needed > self._count - self.read_count:
            self.is_above, self.is_certain = needed <= 0, True
        elif self.is_above is None:
            refuted = [
                is_above
                for is_above, evidence in self._evidences.items()
                if evidence.has_refuted_threshold
            ]
            self.is_above = refuted[0] if refuted else None
