"""A partial tree: texts that grow visit by visit, and their decided mass.

A visit evaluates the model on a text once and adds the most probable next tokens as children. Each
later visit of the text adds more tokens; until then the remaining tokens share its `rest`. A text
that decides every formula needs no visit: its continuations have the same truth. Refinement and
sampling share the tree, so no text is paid for twice.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from llmchecker.checking.anytime.growing_table import GrowingTable
from llmchecker.checking.row_groups import group_rows
from llmchecker.models.interface import LanguageModel
from llmchecker.models.transformers.batching import join_prompt
from llmchecker.properties.logic.ast import STEP
from llmchecker.properties.logic.monitor import HorizonMonitor, Monitor
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.scores import score_texts
from llmchecker.trees.expansion import EndOfSequence, decode_texts
from llmchecker.trees.selection import Selection
from llmchecker.trees.text_tree import NO_TOKEN, StateKind, TextTree, Truncation

UNDECIDED = -1
"""The truth of a formula on a text that does not decide it."""

_TOKENS_PER_VISIT = (
    (0.99, 128),
    (0.999, 512),
    (0.9999, 2048),
    (0.99999, 16384),
    (1.0, 2**31 - 1),
)
"""Alpha and k of each visit of a text.

Few tokens have nearly all probability after most texts, so that the first visit is small. The last
but one saves half of the texts for the same bounds. The last visit selects every token and leaves
no `rest`. If the model lists only its most probable tokens, a single visit selects all of them.
"""

_TOKENS_PER_VISIT_AT_HORIZON = (*_TOKENS_PER_VISIT[1:], _TOKENS_PER_VISIT[-1])
"""The same for texts that lack their last token only.

With these values bounds were a hundredth narrower.
"""

_TOKENS_PER_VISIT_WHEN_CUT = ((1.0, 128), (1.0, 2**31 - 1))
"""Alpha and k of visits if decoding cuts all but a few tokens.

A visit that selects the remaining tokens leaves no `rest`.
"""

_MAX_SITUATION_SCORE = 8
"""Scores beyond this and its negative count as equal in a situation."""

_MAX_BATCH_CHILDREN = 2**22
"""The largest number of children of a batch, about a gigabyte."""


@dataclass(frozen=True)
class ModelRequest:
    """Texts of one length whose next tokens a visit selects.

    Attributes:
        continuations: (n, d) int64, the tokens after the prompt.
        alpha, k: as in `selection.select_tokens`.
        will_extend: whether longer continuations will follow.
        passes: the number of texts that no earlier request of the same round evaluated.
    """

    continuations: np.ndarray
    alpha: float
    k: int
    will_extend: bool
    passes: int


Selections = Iterable[tuple[np.ndarray, Selection]]
"""Pairs of rows of a request's continuations and the selections after them."""


@dataclass(frozen=True)
class TailRequest:
    """Texts of one length after which the model samples a token of their `rest`.

    Attributes:
        continuations: (n, d) int64, the tokens after the prompt.
        passes: the number of texts that no earlier request of the same round evaluated.
        excluded: the tokens of each text that must not be sampled.
        uniforms: (n,) random numbers from [0, 1) that choose the tokens.
    """

    continuations: np.ndarray
    passes: int
    excluded: list[np.ndarray]
    uniforms: np.ndarray

    def select(self, rows: np.ndarray) -> "TailRequest":
        """Return the request for some of the texts."""
        excluded = [self.excluded[row] for row in rows]
        return TailRequest(self.continuations[rows], self.passes, excluded, self.uniforms[rows])


@dataclass(frozen=True)
class Visit:
    """The children that one visit of a text added.

    Attributes:
        children: the rows of the children.
        rest: the probability of the tokens that this and earlier visits have not selected.
    """

    children: slice
    rest: float


class PartialTree:
    """The texts of a partial tree as columns, and the decided mass of path formulas.

    Each text is a row. A `rest` has no row, since it may still be split; `build_tree` adds it.

    Attributes:
        monitors: one for each path formula, all with the horizon `length`.
        passes: number of texts that the model evaluated so far.
        lists_vocabulary: whether the model lists all tokens of a distribution.
        parent: (n,) int64, the row of the parent; -1 for the root.
        step, token, kind: (n,) as in a `TextTree`.
        visits: (n,) int64, the number of visits of each text.
        probability: (n,) float64, of the text given its parent.
        mass: (n,) float64, of the path from the root.
        rest: (n,) float64, of all tokens that no visit has selected, given the text.
        text: (n,) str, as `expansion.decode_texts` returns it.
        is_incomplete: (n,) bool, whether the tokens end within a character, which the text leaves
            out. False if each text is decoded from all of its tokens.
        scores: (quantifiers, n) int64, in the order of the quantifiers.
        situation: (n,) int64, a number for the text's step, obligations, letters and scores.
        is_listed: (n,) bool, whether the probability of the text is known; see `add_unlisted`.
        obligations: (formulas, n) int64, the obligation after the text's own step.
        truth: (formulas, n) int64: 0, 1 or `UNDECIDED`.
        truth_if_ended: (formulas, n) bool, the truth of each formula if the text's last letter
            repeats for ever.

    Args:
        model: the language model.
        prompt: the tokens of the start string.
        monitors: monitors of the path formulas.
        quantifiers: the quantifiers that the formulas name, by name.
        end_of_sequence: as in `expansion.build_tree`.
    """

    parent: np.ndarray
    step: np.ndarray
    token: np.ndarray
    kind: np.ndarray
    visits: np.ndarray
    selected_counts: np.ndarray
    probability: np.ndarray
    mass: np.ndarray
    rest: np.ndarray
    text: np.ndarray
    is_incomplete: np.ndarray
    scores: np.ndarray
    situation: np.ndarray
    is_listed: np.ndarray
    obligations: np.ndarray
    truth: np.ndarray
    truth_if_ended: np.ndarray

    def __init__(
        self,
        model: LanguageModel,
        prompt: Sequence[int],
        monitors: Sequence[Monitor | HorizonMonitor],
        quantifiers: Mapping[str, Quantifier],
        end_of_sequence: EndOfSequence = "terminal",
    ) -> None:
        self.monitors = tuple(monitors)
        self.length = monitors[0].length
        self.passes = 0
        self.lists_vocabulary = model.listed_tokens == model.vocabulary_size
        self._model, self._prompt, self._quantifiers = model, prompt, dict(quantifiers)
        self._stages = _choose_stages(model)
        self._end_tokens = sorted(model.end_tokens) if end_of_sequence == "terminal" else []
        (self._start_text,) = model.decode_unfinished([prompt])
        self._decided_masses = [[0.0, 0.0] for _ in monitors]  # decided false, decided true
        self._visit_records: dict[tuple[int, int], Visit] = {}
        self._unlisted_texts: dict[tuple[int, int], int] = {}
        self._situations: dict[tuple[int, ...], int] = {}
        self._table = GrowingTable()
        self._append(np.array([-1]), np.array([NO_TOKEN]), np.ones(1))

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def max_visits(self) -> int:
        """The number of visits after which nothing of a text is left to select."""
        return len(self._stages[0])

    @property
    def situation_count(self) -> int:
        """The number of situations so far."""
        return len(self._situations)

    def satisfied_mass(self, formula: int = 0) -> float:
        """Return D, the mass that is decided true."""
        return self._decided_masses[formula][True]

    def violated_mass(self, formula: int = 0) -> float:
        """Return V, the mass that is decided false."""
        return self._decided_masses[formula][False]

    @property
    def is_undecided(self) -> np.ndarray:
        """(n,) bool: the texts on which at least one formula is undecided."""
        return (self.truth == UNDECIDED).any(axis=0)

    @property
    def is_open(self) -> np.ndarray:
        """(n,) bool: undecided texts that another visit can extend."""
        # a text at the horizon has no children
        has_visits = (self.step < self.length) & (self.visits < self.max_visits)
        return self.is_undecided & (self.kind == StateKind.TEXT) & has_visits

    def split_batches(self, uids: np.ndarray) -> list[np.ndarray]:
        """Split texts into groups of one length and number of visits."""
        groups = group_rows(self.step[uids], self.visits[uids])
        batches = []
        for positions, (step, visits) in groups:
            k = min(self._select_stage(step, visits)[1], self._model.listed_tokens)
            # a limit of memory; a single text is always allowed
            size = max(1, _MAX_BATCH_CHILDREN // k)
            batches += [
                uids[positions[first : first + size]] for first in range(0, len(positions), size)
            ]
        return batches

    def build_request(self, uids: np.ndarray, passes: int | None = None) -> ModelRequest:
        """Build the request of a visit of texts of one length and number of visits.

        Args:
            uids: the rows of the texts.
            passes: as in `ModelRequest`; None for all texts.
        """
        step, visits = int(self.step[uids[0]]), int(self.visits[uids[0]])
        alpha, k = self._select_stage(step, visits)
        passes = len(uids) if passes is None else passes
        continuations = self.collect_continuations(uids)
        return ModelRequest(continuations, alpha, k, step + 1 < self.length, passes)

    def _select_stage(self, step: int, visits: int) -> tuple[float, int]:
        return self._stages[0 if step + 1 < self.length else 1][visits]

    def collect_continuations(self, uids: np.ndarray) -> np.ndarray:
        """Return (n, d) int64: the tokens after the prompt of texts of one length."""
        columns = []
        for _ in range(self.step[uids[0]]):
            columns.append(self.token[uids])
            uids = self.parent[uids]
        # the tokens were collected from the last to the first
        return np.column_stack(columns[::-1]) if columns else np.empty((len(uids), 0), np.int64)

    def add_children(
        self, parents: np.ndarray, selections: Selections, passes: int | None = None
    ) -> None:
        """Add the children that are new in this visit of the texts.

        Args:
            parents: the rows of the texts, all of one length and number of visits.
            selections: pairs of positions in `parents` and the selection after these texts.
            passes: as in `ModelRequest`; None for all texts.
        """
        parts = []
        for rows, selection in selections:
            uids, positions = parents[rows], np.arange(selection.tokens.shape[1])
            # a later visit selects the same tokens first, so that new tokens come after them
            is_new = (positions >= self.selected_counts[uids, np.newaxis]) & (
                positions < selection.counts[:, np.newaxis]
            )
            new_rows = np.broadcast_to(rows[:, np.newaxis], is_new.shape)[is_new]
            parts.append((new_rows, selection.tokens[is_new], selection.probabilities[is_new]))
            self.selected_counts[uids], self.rest[uids] = selection.counts, selection.rest
        self.visits[parents] += 1
        self.passes += len(parents) if passes is None else passes
        row, token, probability = map(np.concatenate, zip(*parts, strict=True))
        # cached texts come first in `selections`; the tree must not depend on the cache
        order = np.argsort(row, kind="stable")
        boundaries = len(self) + np.searchsorted(row[order], np.arange(len(parents) + 1))
        visit = int(self.visits[parents[0]])
        for uid, (first, stop) in zip(parents.tolist(), pairwise(boundaries.tolist()), strict=True):
            self._visit_records[uid, visit] = Visit(slice(first, stop), float(self.rest[uid]))
        self._append(parents[row[order]], token[order], probability[order])

    def find_visit(self, uid: int, number: int) -> Visit | None:
        """Return a visit of a text by its number, 1 for the first; None if it is missing."""
        return self._visit_records.get((uid, number))

    def child_tokens(self, uid: int, visit_count: int) -> np.ndarray:
        """Return the tokens that the first visits of a text have selected."""
        visits = (self._visit_records[uid, number + 1] for number in range(visit_count))
        return np.concatenate([self.token[visit.children] for visit in visits])

    def add_unlisted(self, parents: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Add texts with a token that the model does not list, and return their rows.

        The probability of such a text is unknown, so it has the mass 0 and is not in `build_tree`.
        """
        keys = list(zip(parents.tolist(), tokens.tolist(), strict=True))
        new_keys = [key for key in dict.fromkeys(keys) if key not in self._unlisted_texts]
        if new_keys:
            first = len(self)
            self._unlisted_texts |= {key: first + i for i, key in enumerate(new_keys)}
            new_parents, new_tokens = np.array(new_keys).T
            self._append(new_parents, new_tokens, np.zeros(len(new_keys)))
        return np.array([self._unlisted_texts[key] for key in keys])

    def _append(self, parent: np.ndarray, token: np.ndarray, probability: np.ndarray) -> None:
        """Add texts of one length, and decide the formulas on them where possible."""
        # a visit may find no new child
        if len(parent) == 0:
            return
        n, is_root = len(parent), parent[0] < 0
        step = 0 if is_root else int(self.step[parent[0]]) + 1
        mass = probability if is_root else probability * self.mass[parent]
        kind = np.where(np.isin(token, self._end_tokens), StateKind.END, StateKind.TEXT)
        text, is_incomplete = (
            self._decode_root() if is_root else self._extend_texts(parent, token, kind)
        )
        scores = self._score_texts(text)
        if is_root:
            obligations = np.array([[monitor.initial_obligation] for monitor in self.monitors])
            truth = np.full((len(self.monitors), 1), UNDECIDED)
        else:
            obligations, truth = self.obligations[:, parent], self.truth[:, parent]
        letters, truth_if_ended = self._decide_texts(step, kind, mass, scores, obligations, truth)
        is_listed = probability > 0 if is_root else self.is_listed[parent] & (probability > 0)
        self._table.append(
            parent=parent,
            step=np.full(n, step),
            token=token,
            kind=kind.astype(np.int8),
            visits=np.zeros(n, dtype=np.int64),
            selected_counts=np.zeros(n, dtype=np.int64),
            probability=probability,
            mass=mass,
            # before its first visit the rest of a text is all of its probability
            rest=np.ones(n),
            text=text,
            is_incomplete=is_incomplete,
            scores=scores,
            situation=self._number_situations(step, obligations, letters, scores),
            is_listed=is_listed,
            obligations=obligations,
            truth=truth,
            truth_if_ended=truth_if_ended,
        )
        for name, column in self._table.columns.items():
            setattr(self, name, column)

    def _decode_root(self) -> tuple[np.ndarray, np.ndarray]:
        """Return `text` and `is_incomplete` of the root."""
        sequences = np.array([self._prompt], dtype=np.int64)
        return np.array([self._start_text], dtype=object), self._find_incomplete(sequences)

    def _extend_texts(
        self, parent: np.ndarray, token: np.ndarray, kind: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return `text` and `is_incomplete` of parents with one more token each."""
        detokenizer = getattr(self._model, "detokenizer", None)
        # without token pieces only a whole sequence can be decoded
        if detokenizer is None:
            sequences = self._collect_sequences(parent, token)
            return decode_texts(self._model, sequences, kind), self._find_incomplete(sequences)
        text, is_incomplete = self.text[parent], np.zeros(len(token), dtype=bool)
        suffixes = detokenizer.decode_tokens(token)
        # a character of several tokens is complete only after its last token
        is_separate = (
            self.is_incomplete[parent]
            | detokenizer.find_incomplete(token)
            | np.equal(suffixes, None)
        )
        text[~is_separate] += suffixes[~is_separate]
        # these texts do not follow from their parent's text
        if is_separate.any():
            sequences = self._collect_sequences(parent[is_separate], token[is_separate])
            text[is_separate] = decode_texts(self._model, sequences, kind[is_separate])
            is_incomplete[is_separate] = self._find_incomplete(sequences)
        return text, is_incomplete

    def _find_incomplete(self, sequences: np.ndarray) -> np.ndarray:
        """Return (n,) bool: the `is_incomplete` of token sequences."""
        detokenizer = getattr(self._model, "detokenizer", None)
        # without token pieces no text follows from its parent's
        if detokenizer is None:
            return np.zeros(len(sequences), dtype=bool)
        characters = map(detokenizer.character_ends.find_incomplete, sequences.tolist())
        return np.array([character is not None for character in characters], dtype=bool)

    def _collect_sequences(self, parent: np.ndarray, token: np.ndarray) -> np.ndarray:
        """Return (n, length) int64: the tokens of prompt, parent and one more token each."""
        parents, parent_index = np.unique(parent, return_inverse=True)
        continuations = np.column_stack([self.collect_continuations(parents)[parent_index], token])
        return join_prompt(self._prompt, continuations)

    def _score_texts(self, text: np.ndarray) -> np.ndarray:
        """Return (quantifiers, n) int64: the scores of texts."""
        texts = text.tolist()
        scores = [
            score_texts(quantifier, self._start_text, texts, name)
            for name, quantifier in self._quantifiers.items()
        ]
        return np.array(scores, dtype=np.int64).reshape(len(scores), len(texts))

    def _decide_texts(
        self,
        step: int,
        kind: np.ndarray,
        mass: np.ndarray,
        scores: np.ndarray,
        obligations: np.ndarray,
        truth: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Progress every formula by the texts' own step.

        Returns (formulas, n) the texts' letters, and (formulas, n) the truth if they ended.

        `obligations` and `truth` are changed in place: the obligations at the texts become the
        obligations after them, and new decisions are filled in. The sums of decided mass grow.
        """
        columns = dict(zip(self._quantifiers, scores, strict=True))
        columns[STEP] = np.full(len(kind), step)
        # texts at the horizon stay as they are, like ended texts
        is_terminal = (kind == StateKind.END) | (step == self.length)
        letters, truth_if_ended = np.empty_like(truth), np.empty(truth.shape, dtype=bool)
        for index, monitor in enumerate(self.monitors):
            letters[index] = monitor.compute_letters(columns, kind == StateKind.END)
            is_undecided = truth[index] == UNDECIDED
            # few situations differ, so the monitor reads each only once
            for positions, (obligation, letter, is_final) in group_rows(
                obligations[index], letters[index], is_terminal
            ):
                next_obligation = monitor.progress(obligation, letter)
                decision = (
                    monitor.holds_under_stutter(obligation, letter)
                    if is_final
                    else monitor.decide(next_obligation, step + 1, letter)
                )
                obligations[index][positions] = next_obligation
                truth_if_ended[index][positions] = monitor.holds_under_stutter(obligation, letter)
                if decision is not None:
                    # decided mass counts at the first text that decides it, not again at its
                    # children
                    newly_decided = positions[is_undecided[positions]]
                    truth[index][newly_decided] = decision
                    self._decided_masses[index][decision] = math.fsum(
                        [self._decided_masses[index][decision], *mass[newly_decided]]
                    )
        return letters, truth_if_ended

    def _number_situations(
        self, step: int, obligations: np.ndarray, letters: np.ndarray, scores: np.ndarray
    ) -> np.ndarray:
        """Return (n,) int64: equal numbers for texts whose continuations matter alike."""
        # scores far apart would give every text a situation of its own
        near_scores = np.clip(scores, -_MAX_SITUATION_SCORE, _MAX_SITUATION_SCORE)
        numbers = np.empty(obligations.shape[1], dtype=np.int64)
        for positions, row in group_rows(*obligations, *letters, *near_scores):
            numbers[positions] = self._situations.setdefault((step, *row), len(self._situations))
        return numbers

    def build_tree(self) -> tuple[TextTree, dict[str, np.ndarray]]:
        """Return the texts and their `rest` as a tree, and its scores by name."""
        # a text whose tokens were all selected has no `rest`
        is_listed = self.is_listed
        has_rest = (self.kind == StateKind.TEXT) & (self.step < self.length) & (self.rest > 0)
        rest_parents = np.flatnonzero(has_rest & is_listed)
        n, m = len(self), len(rest_parents)
        parent = np.concatenate([self.parent, rest_parents])
        step = np.concatenate([self.step, self.step[rest_parents] + 1])
        text = np.concatenate([self.text, np.full(m, None, dtype=object)])
        uids = np.full(n, -1)  # of each text in the tree
        rows = []
        for depth in range(step.max() + 1):
            # a `rest` comes after its siblings, because its row comes after all texts
            level = np.flatnonzero((step == depth) & np.append(is_listed, np.ones(m, dtype=bool)))
            parent_uids = uids[parent[level]] if depth else np.zeros(1)
            level = level[np.argsort(parent_uids, kind="stable")]
            is_text = level < n
            first = sum(map(len, rows))
            uids[level[is_text]] = first + np.flatnonzero(is_text)
            rows.append(level)
        order = np.concatenate(rows)
        parent_uids = parent[order]
        # a `rest` has no score; callers ignore its placeholder
        scores = np.concatenate([self.scores, np.zeros((len(self.scores), m), np.int64)], axis=1)
        tree = TextTree(
            model=self._model.name,
            # a refined tree has no alpha and k of its own; these allow all of its children
            truncation=Truncation(1.0, max(1, int(self.selected_counts.max())), self.length),
            parent=np.where(parent_uids < 0, -1, uids[parent_uids]),
            step=step[order],
            token=np.concatenate([self.token, np.full(m, NO_TOKEN)])[order],
            probability=np.concatenate([self.probability, self.rest[rest_parents]])[order],
            kind=np.concatenate([self.kind, np.full(m, StateKind.REST, dtype=np.int8)])[order],
            text=text[order],
        )
        return tree, dict(zip(self._quantifiers, scores[:, order], strict=True))


def _choose_stages(model: LanguageModel) -> tuple[Sequence[tuple[float, int]], ...]:
    """Return alpha and k of each visit, for texts before the last token and at it."""
    if model.listed_tokens < model.vocabulary_size:
        # a second visit would select the same tokens again
        return ((1.0, model.listed_tokens),), ((1.0, model.listed_tokens),)
    if model.is_truncated:
        return _TOKENS_PER_VISIT_WHEN_CUT, _TOKENS_PER_VISIT_WHEN_CUT
    return _TOKENS_PER_VISIT, _TOKENS_PER_VISIT_AT_HORIZON
