"""The next tokens after texts of several prompts, in batches of texts of one length."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache

import numpy as np

from llmchecker.checking.anytime.step_request import ContinuationRequest, StepRequest
from llmchecker.checking.anytime.token_step import StepResult
from llmchecker.models.interface import Prefix
from llmchecker.processes.process import Part, Process, Stage

_MAX_PREFIXES = 8
"""The largest number of prompts whose keys and values are kept."""


class PromptReader:
    """The answers of a process's models to requests for next tokens.

    The tokens with which all prompts of a writer begin are read once.

    Args:
        process: the process.
        batch_invariant: as in `LanguageModel.open_prefix`.
    """

    def __init__(self, process: Process, *, batch_invariant: bool = False) -> None:
        self._process = process
        writers = {id(stage.writer): stage.writer for stage in process.stages}

        def open_prefix(writer: int, prompt: tuple[int, ...]) -> Prefix:
            return writers[writer].open_prefix(prompt, batch_invariant=batch_invariant)

        self._open_prefix = lru_cache(_MAX_PREFIXES)(open_prefix)

    def locate(self, request: ContinuationRequest) -> AbstractContextManager[None]:
        """Prefix errors of the block with the place of a request, where all texts have one."""
        stages = {id(part.stage): part.stage for part in request.parts}
        return self._process.locate(*stages.values()) if len(stages) == 1 else nullcontext()

    def answer(self, request: StepRequest, rows: np.ndarray) -> StepResult:
        """Answer a request for some of its texts.

        Args:
            request: the request.
            rows: (n,) int64, the positions of the texts.
        """
        stage = request.parts[0].stage
        # a prompt that its model rejects has a place of its own in the error
        splits = [self._split(part) for part in request.parts]
        with self._process.locate(stage):
            groups: dict[tuple[tuple[int, ...], int], list[int]] = defaultdict(list)
            for position, part in enumerate(request.part_of[rows].tolist()):
                prompt, tail = splits[part]
                groups[prompt, len(tail)].append(position)
            if request.continuations.shape[1] == 0:
                self._read_ahead(stage, splits)
            parts = []
            for (prompt, _), positions in groups.items():
                chosen = rows[positions]
                tails = np.array(
                    [splits[part][1] for part in request.part_of[chosen].tolist()], dtype=np.int64
                ).reshape(len(chosen), -1)
                prefix = self._open_prefix(id(stage.writer), prompt)
                parts.append(answer_step(prefix, request, chosen, tails))
        return StepResult.join(parts, [np.array(group) for group in groups.values()])

    def _split(self, part: Part) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the tokens of a prompt that are read once, and those after them."""
        shared, prompt = self._process.find_shared(part.stage), part.prompt
        if shared and prompt[: len(shared)] == shared:
            return shared, prompt[len(shared) :]
        return prompt, ()

    def _read_ahead(
        self, stage: Stage, splits: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
    ) -> None:
        """Read the ends of new prompts together; they rarely have equal lengths."""
        tails: dict[tuple[int, ...], list[tuple[int, ...]]] = defaultdict(list)
        for prompt, tail in splits:
            if len(tail) > 1:
                tails[prompt].append(tail[:-1])
        for prompt, texts in tails.items():
            self._open_prefix(id(stage.writer), prompt).read_ahead(texts)


def answer_step(
    prefix: Prefix, request: StepRequest, rows: np.ndarray, tails: np.ndarray | None = None
) -> StepResult:
    """Answer a request for some of its texts.

    Args:
        prefix: the prefix of their prompts.
        request: the request.
        rows: (n,) int64, the positions of the texts.
        tails: (n, m) int64, the tokens of their prompts after the prefix; None for none.
    """
    texts = request.continuations[rows]
    if tails is not None and tails.shape[1]:
        texts = np.concatenate([tails, texts], axis=1)
    parts = prefix.map_next(
        lambda part, distributions: request.compute_step(rows[part], distributions),
        texts,
        request.will_extend,
    )
    return StepResult.concatenate(list(parts))
