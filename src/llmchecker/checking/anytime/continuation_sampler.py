"""Samples of an explored tree's undecided texts, continued by a server that lists few tokens.

A server samples from the whole distribution and returns a whole continuation S_1, S_2, ... in one
request, with the most probable tokens at every position. A sample begins at an undecided text or
rest of the tree, in proportion to its probability. While the tree is small, the server draws the
beginning by rejection sampling (von Neumann 1951, "Various Techniques Used in Connection with
Random Digits"): it continues the prompt, and continuations that the tree decides are dropped. Then
all samples share one text, and a request has many of them. Later the beginning is drawn first, and
no token is written in vain.

Let h be the text before a position. Its list splits the next token into disjoint cells: each listed
undecided token, all listed tokens that decide the query, of total probability d, and all tokens
that are not listed, of probability r. The list depends on h alone and not on the token that the
server draws.

The value of a sample is decided by the first S that decides the query. If S is listed, the value is
not its own truth but the mean of all listed tokens that decide, a = sum p_i v_i / d: it is the
expectation, given that the draw is in this cell (Rao-Blackwell). If S is not listed, the value is
its own. So the value is in [0, 1], and by the law of total probability, from the horizon
backwards, its mean is the probability of the query after the text where it began.

Control variates use the other listed probabilities. A prediction g of the value is fixed for each
cell before the draw: a for the decided cell, one learned from earlier rounds for the others. Then
g(S) - (d a + sum p_u g_u + r g_r) has mean 0 given h. So a value minus such terms keeps its mean,
and limits of their sum keep its range known. The term of a listed token that decides needs no
limit: the value a minus a share f of its term a - m is a mean of a and m, and both are in [0, 1].
Where the predictions are good, it varies as little as one with an exact look-ahead, and no text is
requested twice.

A part of a text that the server has ended leads to the next part, whose prompt the next request
continues. Where a model that lists all tokens writes a part, a sample moves on token by token.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmchecker.checking.anytime.path_sampler import Requests, SampleRound
from llmchecker.checking.anytime.step_request import ContinuationRequest, StepRequest
from llmchecker.checking.anytime.token_step import StepResult
from llmchecker.checking.decided_mass import UNDECIDED
from llmchecker.models.continuation import Continuation, ContinuationTask
from llmchecker.models.servers.settings import LEAST_UNLISTED

_MAX_TOKENS = 48
"""Largest number of tokens of a continuation; another one goes on from its end.

A longer one would be lost for longer after a decision, a stop or a failure.
"""

_MIN_USEFUL_SHARE = 0.95
"""The least share of useful tokens with which the server draws where samples begin.

These are the tokens after an undecided beginning, in a continuation of the prompt. A server takes
longer for texts that begin differently, but a token in vain narrows nothing.
"""

_SEED_COUNT = 2**62
"""The number of seeds where the seeds of a check may begin."""

_SEEDS_PER_SAMPLE = 2**20
"""A limit above the average number of seeds that a sample takes, two for each of its requests."""


@dataclass(frozen=True)
class _Reply:
    """A continuation of a sample's text.

    Attributes:
        continuation: the continuation.
        first_step: number of tokens of the text before it.
    """

    continuation: Continuation
    first_step: int

    def has_token(self, step: int) -> bool:
        """Return whether it has a token after a text of a length."""
        return step - self.first_step < len(self.continuation.tokens)

    def get_token(self, step: int) -> int:
        """Return the token after a text of a length."""
        return int(self.continuation.tokens[step - self.first_step])

    def get_list(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens that are listed after a text of a length, and their probabilities."""
        continuation = self.continuation
        # the first position has no list where tokens were excluded
        first = self.first_step + len(continuation.tokens) - len(continuation.listed_tokens)
        return continuation.listed_tokens[step - first], continuation.probabilities[step - first]


class ContinuationRound(SampleRound):
    """One round of samples that a server continues.

    Its arguments and attributes are those of a `SampleRound`.
    """

    # the seeds that requests have taken
    _taken_seeds = 0
    # the samples of the next request, and the request; None for samples without a server
    _prepared: tuple[np.ndarray, ContinuationRequest | None] | None = None

    @cached_property
    def _first_seed(self) -> int:
        """The first seed of the round."""
        start = int(np.random.Generator(np.random.Philox(key=self._seed)).integers(_SEED_COUNT))
        return start + _SEEDS_PER_SAMPLE * self._first

    def _draw_beginnings(self, uniforms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Draw where samples begin, or leave it to the server."""
        tree, part, count = self._tree, self.part, len(uniforms)
        useful = float(part.weights @ (tree.length - tree.step[part.leaves])) / tree.length
        seeks = tree.process.is_served and useful >= _MIN_USEFUL_SHARE
        self._is_seeking = np.full(count, seeks)
        if not self._is_seeking.any():
            return super()._draw_beginnings(uniforms)
        # the tree may grow until the server answers, but what it has now counts
        self._was_visited = tree.is_visited.copy()
        self._was_undecided = tree.is_undecided.copy()
        self._leaf_numbers = dict(zip(part.leaves.tolist(), range(len(tree)), strict=False))
        self._known_children: dict[int, dict[int, int]] = {}
        return np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)

    def prepare(self) -> tuple[np.ndarray, ContinuationRequest | None]:
        """Return the samples of the next request and the request, which stay as they are.

        All of them have one writer. The request is None for a writer that lists all tokens.
        """
        if self._prepared is None:
            active = self._finish_all(np.flatnonzero(~self.is_complete))
            stages = [self._tree.process.find_stage(step) for step in self._find_next(active)]
            # a text is visited by all of its samples together, so the first parts come first
            first = min(stages, key=lambda stage: stage.first, default=None)
            of_writer = [first is not None and each.writer is first.writer for each in stages]
            active = active[np.array(of_writer, dtype=bool)]
            is_served = first is not None and not first.lists_vocabulary
            self._prepared = active, self._build_request(active) if is_served else None
        return self._prepared

    def _find_next(self, samples: np.ndarray) -> list[int]:
        """Return the step of the next token of each sample."""
        steps: list[int] = (self._tree.step[self._row[samples]] + 1).tolist()
        return steps

    def run(self) -> Requests:
        """Yield requests until all samples are complete, or the work must stop."""
        while True:
            (active, request), self._prepared = self.prepare(), None
            if len(active) == 0:
                return
            if request is None:
                yield from self._advance(active)
                continue
            answer = yield request
            assert isinstance(answer, list)
            self._read(active[: len(answer)], answer)
            # the work stops before the answer is whole
            if len(answer) < len(active):
                return

    def _read(self, samples: np.ndarray, answer: Sequence[Continuation]) -> None:
        """Move samples along their continuations."""
        tree = self._tree
        visited, steps = tree.passes, tree.step[self._row[samples]].tolist()
        replies = dict(zip(samples.tolist(), map(_Reply, answer, steps), strict=True))
        self._seek(replies)
        self._follow(samples[~self._is_seeking[samples]], replies)
        # a token after one that decides the query costs the server as much
        tree.passes = visited + sum(len(each.tokens) for each in answer)

    def _finish_all(self, samples: np.ndarray) -> np.ndarray:
        """Complete the samples whose text is decided; return the others in order."""
        steps = self._tree.step[self._row[samples]]
        for step in np.unique(steps):
            self._finish_decided(samples[steps == step])
        others: np.ndarray = samples[~self.is_complete[samples]]
        return others

    def _build_request(self, samples: np.ndarray) -> ContinuationRequest:
        """Build a request with a task for each sample, in order."""
        tree, tasks = self._tree, []
        parts = [tree.parts[part] for part in tree.part[self._row[samples]].tolist()]
        rows = set(self._row[samples].tolist())
        texts = {row: tree.collect_continuations(np.array([row]))[0].tolist() for row in rows}
        known = {row: tuple(tree.find_known(row).tolist()) for row in rows}
        # samples of one text have consecutive seeds, so that a server may number them itself
        rank = np.empty(len(samples), dtype=np.int64)
        rank[np.argsort(self._row[samples], kind="stable")] = np.arange(len(samples))
        first_seed = self._first_seed + self._taken_seeds
        self._taken_seeds += 2 * len(samples)
        for sample, part, number in zip(samples.tolist(), parts, rank.tolist(), strict=True):
            row = int(self._row[sample])
            tasks.append(
                ContinuationTask(
                    tokens=tuple(texts[row]),
                    max_tokens=min(_MAX_TOKENS, part.stage.length - len(texts[row])),
                    seed=first_seed + number,
                    excluded=known[row] if self._is_rest[sample] else (),
                    second_seed=first_seed + len(samples) + number,
                )
            )
        return ContinuationRequest(tasks, parts)

    def _seek(self, replies: Mapping[int, _Reply]) -> None:
        """Find where samples begin that the server draws; the others begin the prompt again."""
        beginnings = {}
        for sample, reply in replies.items():
            if not self._is_seeking[sample]:
                continue
            row, is_rest = self._find_beginning(int(self._row[sample]), reply)
            self._row[sample], self._is_rest[sample] = row, is_rest
            if is_rest or not self._was_visited[row]:
                self._is_seeking[sample] = False
                beginnings[sample] = self._leaf_numbers[row]
        if beginnings:
            samples, numbers = np.array(list(beginnings.items())).T
            self._correct_beginnings(samples, numbers)

    def _find_beginning(self, row: int, reply: _Reply) -> tuple[int, bool]:
        """Return the first undecided text of a continuation, and whether it is in its rest.

        Args:
            row: the text before it, which is visited.

        Returns:
            The root for a continuation that the tree decides. The last text of one that ends
            before this is known.
        """
        while self._was_visited[row] and reply.has_token(int(self._tree.step[row])):
            child = self._find_child(row, reply.get_token(int(self._tree.step[row])))
            if child is None:
                # a rest of probability 0 is no leaf
                return (row, True) if row in self._leaf_numbers else (0, False)
            row = child
            if self._was_visited[row] and not self._was_undecided[row]:
                return 0, False
        return row, False

    def _find_child(self, row: int, token: int) -> int | None:
        """Return the row of a token after a text when the round was drawn; None without one."""
        if row not in self._known_children:
            children = self._tree.find_children(row)
            children = children[children < len(self._was_visited)]
            tokens = self._tree.token[children].tolist()
            self._known_children[row] = dict(zip(tokens, children.tolist(), strict=True))
        return self._known_children[row].get(token)

    def _follow(self, samples: np.ndarray, replies: Mapping[int, _Reply]) -> None:
        """Move samples along their continuations, text by text of one length."""
        tree = self._tree
        for step in range(tree.length + 1):
            group = samples[(tree.step[self._row[samples]] == step) & ~self.is_complete[samples]]
            if len(group):
                group = self._finish_decided(group)
            # a text whose part is whole goes on with the next part, which no reply is about
            group = group[tree.step[self._row[group]] == step]
            group = np.array([s for s in group.tolist() if replies[s].has_token(step)], dtype=int)
            if len(group) == 0:
                continue
            self._record(group)
            tokens = np.array([replies[s].get_token(step) for s in group.tolist()])
            is_rest = self._is_rest[group]
            self._leave_list(group[is_rest], tokens[is_rest])
            group, tokens = group[~is_rest], tokens[~is_rest]
            if len(group):
                self._move(group, tokens, [replies[s].get_list(step) for s in group.tolist()])

    def _leave_list(self, samples: np.ndarray, tokens: np.ndarray) -> None:
        """Move samples to texts with tokens that are not listed."""
        if len(samples):
            rows = self._tree.add_unlisted(self._row[samples], tokens)
            self._row[samples], self._is_rest[samples] = rows, False

    def _move(
        self,
        samples: np.ndarray,
        tokens: np.ndarray,
        lists: Sequence[tuple[np.ndarray, np.ndarray]],
    ) -> None:
        """Move samples by one token each, and add the control variates of the draws.

        Args:
            samples: samples whose texts have one length.
            tokens: (n,) int64, the tokens that the server drew.
            lists: the listed tokens and probabilities at the text of each sample.
        """
        rows, firsts, text = np.unique(self._row[samples], return_index=True, return_inverse=True)
        children = self._visit_texts(rows, [lists[first] for first in firsts])
        unlisted = []
        for index, row in enumerate(rows.tolist()):
            is_here = text == index
            is_listed = self._choose(row, children[row], samples[is_here], tokens[is_here])
            unlisted.append(np.flatnonzero(is_here)[~is_listed])
        others = np.concatenate(unlisted)
        # the value of these samples teaches the prediction of a rest too
        self._is_rest[samples[others]] = True
        self._record(samples[others])
        self._leave_list(samples[others], tokens[others])

    def _visit_texts(
        self, rows: np.ndarray, lists: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> dict[int, np.ndarray]:
        """Add the listed tokens of texts to the tree; return the rows of each text's tokens."""
        tree = self._tree
        is_new = ~tree.is_visited[rows]
        # an earlier sample may have visited a text
        found = {row: tree.find_children(row) for row in rows[~is_new].tolist()}
        if is_new.any():
            new = rows[is_new]
            request = tree.build_request(new)
            tokens, probabilities = (
                np.stack(column)
                for column in zip(*(lists[i] for i in np.flatnonzero(is_new).tolist()), strict=True)
            )
            added = tree.add_step(new, request, _build_step(request, tokens, probabilities))
            for row, first, count in zip(
                new.tolist(), added.firsts.tolist(), added.counts.tolist(), strict=True
            ):
                found[row] = np.arange(first, first + count)
        return found

    def _choose(
        self, row: int, listed: np.ndarray, samples: np.ndarray, tokens: np.ndarray
    ) -> np.ndarray:
        """Move samples on from one text by listed tokens, and complete those that decide.

        Args:
            row: the text.
            listed: (k,) int64, the rows of its listed tokens.
            samples, tokens: (n,) the samples of the text, and the tokens that they drew.

        Returns:
            (n,) bool, the samples whose token is listed.
        """
        tree, estimand = self._tree, self._estimand
        probabilities = tree.probability[listed]
        is_open = (tree.truth[:, listed] == UNDECIDED).any(axis=0)
        decided = listed[~is_open]
        weights = probabilities[~is_open]
        shares = estimand.compute_shares(tree.truth[:, decided], tree.scores[:, decided])
        average = shares @ weights / weights.sum() if len(decided) else np.zeros(len(shares))
        predictions = np.full(len(listed), average[0])
        predictions[is_open] = self._predict(listed[is_open], np.zeros(is_open.sum(), dtype=bool))
        (of_rest,) = self._predict(np.array([row]), np.ones(1, dtype=bool))
        mean = float(probabilities @ predictions + tree.rest[row] * of_rest)
        matches = tree.token[listed] == tokens[:, np.newaxis]
        is_listed: np.ndarray = matches.any(axis=1)
        place = matches.argmax(axis=1) if len(listed) else np.zeros(len(tokens), dtype=np.int64)
        drawn = np.full(len(tokens), of_rest)
        drawn[is_listed] = predictions[place[is_listed]]
        # a token that decides ends the sum, and moves the value between two numbers of its range
        undecided = predictions[is_open]
        self._correct(
            samples, drawn, mean, undecided.min(initial=of_rest), undecided.max(initial=of_rest)
        )
        is_over = np.zeros(len(tokens), dtype=bool)
        is_over[is_listed] = ~is_open[place[is_listed]]
        self._add(samples[is_over], np.repeat(average[:, np.newaxis], is_over.sum(), axis=1))
        self.is_complete[samples[is_over]] = True
        goes_on = is_listed & ~is_over
        self._row[samples[goes_on]] = listed[place[goes_on]]
        return is_listed


def _build_step(request: StepRequest, tokens: np.ndarray, probabilities: np.ndarray) -> StepResult:
    """Build the result of a first visit from listed tokens, without any draw.

    Args:
        request: the request of the visit.
        tokens, probabilities: (n, k) the listed tokens of each text.
    """
    classes = request.order.class_of[tokens]
    row_of = request.rows.row_of[:, np.newaxis]
    is_open = np.stack([row.is_undecided for row in request.rows.rows])[row_of, classes]
    # the values of a row are (values, classes), and become the last axis here
    values = request.values[row_of, :, classes]
    # rounding must not hide that other tokens exist
    unlisted = (1 - probabilities.sum(axis=1)).clip(min=LEAST_UNLISTED)
    nothing = np.zeros((len(tokens), 0))
    return StepResult(
        sums=(values * probabilities[:, :, np.newaxis]).sum(axis=1),
        tokens=tokens,
        probabilities=probabilities,
        undecided=(probabilities * is_open).sum(axis=1) + unlisted,
        undecided_rest=unlisted,
        rest=unlisted,
        drawn=nothing.astype(np.int64),
        positions=nothing.astype(np.int64),
        drawn_probabilities=nothing,
    )
