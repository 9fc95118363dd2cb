"""Requests of a check to its model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from llmchecker.checking.anytime.product_automaton import TextRows
from llmchecker.checking.anytime.token_step import ClassOrder, StepResult
from llmchecker.errors import LLMCheckerError
from llmchecker.models.continuation import ContinuationTask
from llmchecker.models.distribution import Distributions
from llmchecker.processes.process import Part


@dataclass(frozen=True)
class StepRequest:
    """Texts of one length that the model evaluates.

    Attributes:
        continuations: (n, d) int64, the tokens after the prompts.
        parts: the parts of the texts, all of one stage.
        part_of: (n,) int64, the index of each text's part, whose prompt it continues.
        will_extend: whether longer continuations will follow.
        order: the tokens of the vocabulary by class.
        rows, values, known, uniforms, is_drawn, k: as in `ClassOrder.compute_step`.
    """

    continuations: np.ndarray
    parts: Sequence[Part]
    part_of: np.ndarray
    will_extend: bool
    order: ClassOrder
    rows: TextRows
    values: np.ndarray
    known: Sequence[np.ndarray]
    uniforms: np.ndarray
    is_drawn: np.ndarray
    k: np.ndarray

    def is_known(self, index: int, tokens: np.ndarray) -> np.ndarray:
        """Return (n,) bool: whether the row of a text decides about tokens by itself."""
        is_known: np.ndarray = self.rows[index].is_known[self.order.class_of[tokens]]
        return is_known

    def limit_passes(self, passes: float) -> "StepRequest | None":
        """Return the request if it needs no more passes; None if it does."""
        return self if len(self.continuations) <= passes else None

    def compute_step(self, positions: np.ndarray, distributions: Distributions) -> StepResult:
        """Compute the next tokens of some of the texts from their distributions."""
        return self.order.compute_step(
            distributions,
            self.rows.select(positions),
            self.values,
            [self.known[index] for index in positions.tolist()],
            self.uniforms[positions],
            self.is_drawn[positions],
            self.k[positions],
        )


@dataclass(frozen=True)
class ContinuationRequest:
    """Texts of any lengths whose continuations a server samples.

    Attributes:
        continuations: the tasks, whose texts follow the prompts.
        parts: the part of each text, whose prompt it continues. All have one writer.
        expected: a later request, with which the server may begin.
    """

    continuations: Sequence[ContinuationTask]
    parts: Sequence[Part]
    expected: "ContinuationRequest | None" = None

    @property
    def prompted(self) -> list[ContinuationTask]:
        """The tasks whose texts begin with their prompts."""
        return [
            task.join_prompt(part.prompt)
            for task, part in zip(self.continuations, self.parts, strict=True)
        ]

    @property
    def expected_prompted(self) -> list[ContinuationTask]:
        """The tasks of the later request that the same writer continues."""
        expected = self.expected
        if expected is None or expected.parts[0].stage.writer is not self.parts[0].stage.writer:
            return []
        try:
            return expected.prompted
        # a prompt that its model rejects is an error of the later request
        except LLMCheckerError:
            return []

    def limit_passes(self, passes: float) -> "ContinuationRequest | None":
        """Return the request for at most as many tokens; None if a text would have none."""
        if math.isinf(passes):
            return self
        share = int(passes) // len(self.continuations)
        if share < 1:
            return None
        tasks = [
            replace(task, max_tokens=min(task.max_tokens, share)) for task in self.continuations
        ]
        # a shortened request uses up the passes, so that no later one follows
        if tasks == list(self.continuations):
            return self
        return ContinuationRequest(tasks, self.parts)
