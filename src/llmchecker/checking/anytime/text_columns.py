"""The columns of an explored tree's texts, which grow by rows."""

import numpy as np

_MIN_CAPACITY = 1024


class TextColumns:
    """Columns of texts that rows are appended to.

    The capacity doubles when it is exhausted, so that n appended rows cost O(n) copies. A column is
    a view whose last axis has one entry for each text; `append` replaces it.

    Attributes:
        parent: (n,) int64, the row of the parent; -1 for the root.
        part: (n,) int64, the number of the last part.
        step: (n,) int64, number of tokens after the prompt; in a later part it counts from the
            first step of its stage on.
        token: (n,) int64, the last token.
        has_ended: (n,) bool, whether the last token ends the part, which no other part follows.
        is_visited: (n,) bool.
        is_undecided: (n,) bool, whether at least one formula is undecided on the text.
        is_scored: (n,) bool, whether the states of the text are known.
        is_listed: (n,) bool, whether the probability of the text is known.
        probability: (n,) float64, of the text given its parent.
        mass: (n,) float64, of the path from the root.
        undecided_rest: (n,) float64, the probability of undecided tokens without a row, given the
            text; 1 for an unvisited text.
        rest: (n,) float64, the probability of all tokens without a row, given the text.
        undecided_mass: (n,) float64, the undecided mass of the text that is in no other row.
        situation: (n,) int64, as in `ProductAutomaton.number_situations`.
        controls, counts, scores, obligations, truth, truth_if_ended, is_open_ended, reading: as in
            `TextStates`.
    """

    parent: np.ndarray
    part: np.ndarray
    step: np.ndarray
    token: np.ndarray
    has_ended: np.ndarray
    is_visited: np.ndarray
    is_undecided: np.ndarray
    is_scored: np.ndarray
    is_listed: np.ndarray
    probability: np.ndarray
    mass: np.ndarray
    undecided_rest: np.ndarray
    rest: np.ndarray
    undecided_mass: np.ndarray
    controls: np.ndarray
    counts: np.ndarray
    scores: np.ndarray
    obligations: np.ndarray
    truth: np.ndarray
    truth_if_ended: np.ndarray
    situation: np.ndarray
    is_open_ended: np.ndarray
    reading: np.ndarray

    def __init__(self) -> None:
        self._buffers: dict[str, np.ndarray] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def append(self, **columns: np.ndarray) -> None:
        """Append rows; every call has all columns."""
        size = self._size + next(iter(columns.values())).shape[-1]
        for name, column in columns.items():
            buffer = self._buffers.get(name)
            if buffer is None or buffer.shape[-1] < size:
                capacity = max(_MIN_CAPACITY, 2 * size)
                grown = np.empty((*column.shape[:-1], capacity), dtype=column.dtype)
                if buffer is not None:
                    grown[..., : self._size] = buffer[..., : self._size]
                self._buffers[name] = buffer = grown
            buffer[..., self._size : size] = column
            setattr(self, name, buffer[..., :size])
        self._size = size
