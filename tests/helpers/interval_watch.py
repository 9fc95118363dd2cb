"""The intervals of a check, compared with the truth at each of its stops."""


class IntervalWatch:
    """What a check calls with its progress.

    Attributes:
        found: whether each interval so far contained the truth.

    Args:
        truth: the number that the intervals should contain.
    """

    def __init__(self, truth: float) -> None:
        self.found: list[bool] = []
        self._truth = truth

    def __call__(self, progress) -> None:
        if progress.low is not None:
            margin = 1e-9
            self.found.append(progress.low - margin <= self._truth <= progress.high + margin)

    @property
    def has_missed(self) -> bool:
        """Whether an interval at any time missed the truth."""
        return not all(self.found)
