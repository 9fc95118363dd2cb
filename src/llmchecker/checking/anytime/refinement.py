"""Best-first refinement: a tree that narrows the bounds of a query most.

The next batch contains texts of one length: the batch with the most undecided probability, where
texts near the horizon count more. A text is visited up to four times, and each visit selects more
tokens; between two visits the remaining tokens share its `rest`. A text that decides the query (see
`decided_mass`) is not visited again. The result is a `TextTree` like any other, in which a text
without a visit has nothing but its `rest`.

BEAVER (arXiv:2512.05439) expands one leaf a pass for prefix-closed constraints. Here a batch is
expanded at once, and the constraint is any path formula.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter

import numpy as np

from llmchecker.checking.anytime.budget import RefinementBudget
from llmchecker.checking.anytime.decided_mass import UNDECIDED, group_rows
from llmchecker.models.interface import LanguageModel
from llmchecker.models.transformers.batching import join_prompt
from llmchecker.models.transformers.token_pieces import REPLACEMENT_CHARACTER
from llmchecker.properties.logic.ast import STEP
from llmchecker.properties.logic.monitor import HorizonMonitor, Monitor
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.scores import score_texts
from llmchecker.trees.distribution_cache import PromptDistributions
from llmchecker.trees.expansion import EndOfSequence, iter_selections
from llmchecker.trees.selection import Selection
from llmchecker.trees.text_tree import NO_TOKEN, StateKind, TextTree, Truncation

_TOKENS_PER_VISIT = ((0.99, 128), (0.9999, 2048), (0.99999, 16384), (1.0, 2**31 - 1))
"""Alpha and k of the first, second, third and last visit of a text.

Few tokens have nearly all probability after most texts, so that the first visit is small. The third
saves half of the texts for the same bounds. The last visit selects every token and leaves no
`rest`. If the model lists only its most probable tokens, a single visit selects all of them.
"""

_TOKENS_PER_VISIT_AT_HORIZON = ((0.999, 512), *_TOKENS_PER_VISIT[1:])
"""The same for texts that lack their last token only.

With these values bounds were a hundredth narrower.
"""

_TOKENS_PER_VISIT_WHEN_CUT = ((1.0, 128), (1.0, 2**31 - 1))
"""Alpha and k of visits if decoding cuts all but a few tokens.

A visit that selects the remaining tokens leaves no `rest`.
"""

_MAX_BATCH_TEXTS = 384
"""The largest number of texts in a batch, unless the caller sets another."""

_MIN_BATCH_LIMIT = 128
"""The largest number of texts in the first batches.

A smaller batch takes a model about as long.
"""

_MAX_BATCH_CHILDREN = 2**22
"""The largest number of children of a batch, about a gigabyte."""

_BATCH_GROWTH_DIVISOR = 4
"""The number of earlier visits for each text of a later batch.

In a large first batch many texts would be texts that its own results show to matter little.
"""

HORIZON_WEIGHT = 1 / 4
"""The weight of a text relative to a text with one more token.

Both have equal undecided probability.

A visit of a text one token before the horizon decides all of its probability. A visit of any other
text decides at first only the probability of the next token. With 1 the same passes gave wider
bounds, from nine times as many texts. The interval of an estimate is narrower with 1: expected is
0.34 of the width of plain sampling instead of 0.38. The reason is that samples need not find the
mass that is decided true early.
"""

_HORIZON_CAP = 4
"""The largest counted number of tokens before the last that a text lacks."""

_BATCH_SHARE = 1 / 8
"""The least share of the largest gain for a text to join the batch.

About as many passes then lead to the same width as with one text at a time, and batches are full:
with 1/2 they were half as full.
"""


@dataclass(frozen=True)
class RefinementProgress:
    """The progress of a refinement after a batch.

    Attributes:
        passes: number of texts that the model evaluated so far.
        lower, upper: the bounds of each formula.
    """

    passes: int
    lower: tuple[float, ...]
    upper: tuple[float, ...]

    @property
    def width(self) -> float:
        """The width of the widest bounds."""
        return max(upper - lower for lower, upper in zip(self.lower, self.upper, strict=True))


def refine(
    model: LanguageModel,
    prompt: Sequence[int],
    monitors: Sequence[Monitor | HorizonMonitor],
    quantifiers: Mapping[str, Quantifier],
    budget: RefinementBudget,
    end_of_sequence: EndOfSequence = "terminal",
    progress: Callable[[RefinementProgress], None] = lambda refining: None,
    distributions: PromptDistributions | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
    max_texts: int = _MAX_BATCH_TEXTS,
    horizon_weight: float = HORIZON_WEIGHT,
) -> TextTree:
    """Build a tree that narrows the bounds of path formulas most.

    All formulas share the tree. A text is visited again as long as any formula is undecided on
    it. The order of visits depends on the model's results alone, and not on threads or memory.

    Args:
        model: the language model.
        prompt: the tokens of the start string.
        monitors: monitors of the path formulas, all with the same horizon.
        quantifiers: the quantifiers that the formulas name, by name.
        budget: the limits. With neither passes nor seconds the tree grows until it reaches the
            width or everything is decided.
        end_of_sequence: as in `expansion.build_tree`.
        progress: called after every batch.
        distributions: as in `expansion.build_tree`.
        is_cancelled: called between batches; when it returns true, the tree is returned as it is.
        max_texts: the largest number of texts in a batch.
        horizon_weight: from 0 to 1, as `HORIZON_WEIGHT`; with 1 only undecided probability counts.
    """
    start_time = time.monotonic()
    tokens_per_visit, horizon_tokens_per_visit = (
        (_TOKENS_PER_VISIT_WHEN_CUT, _TOKENS_PER_VISIT_WHEN_CUT)
        if model.is_truncated
        else (_TOKENS_PER_VISIT, _TOKENS_PER_VISIT_AT_HORIZON)
    )
    if model.listed_tokens < model.vocabulary_size:
        # a second visit would select the same tokens again
        tokens_per_visit = horizon_tokens_per_visit = ((1.0, model.listed_tokens),)
    refinement = _Refinement(
        model, prompt, monitors, quantifiers, end_of_sequence, len(tokens_per_visit)
    )
    # opened on first use: cached distributions may make the prefix unnecessary
    continuations = cache(lambda: model.open_prefix(prompt))
    while True:
        current_progress = refinement.compute_progress()
        progress(current_progress)
        is_late = budget.seconds is not None and time.monotonic() - start_time >= budget.seconds
        remaining_passes = (
            math.inf if budget.passes is None else budget.passes - current_progress.passes
        )
        if (
            current_progress.width <= budget.width
            or is_late
            or remaining_passes <= 0
            or is_cancelled()
        ):
            break
        # batches grow, since earlier results choose the texts of later ones better
        batch_limit = max(_MIN_BATCH_LIMIT, current_progress.passes // _BATCH_GROWTH_DIVISOR)
        batch = refinement.select_batch(
            min(max_texts, remaining_passes, batch_limit), horizon_weight
        )
        if len(batch) == 0:
            break
        will_extend = refinement.step[batch[0]] + 1 < refinement.length
        alpha, k = (tokens_per_visit if will_extend else horizon_tokens_per_visit)[
            refinement.visits[batch[0]]
        ]
        # a limit of memory; a single text is always allowed
        batch = batch[: max(1, _MAX_BATCH_CHILDREN // min(k, model.listed_tokens))]
        request = (refinement.collect_continuations(batch), alpha, k, will_extend)
        refinement.add_children(batch, iter_selections(continuations, distributions, *request))
    return refinement.build_tree()


class _Refinement:
    """The texts of a refinement so far, as columns.

    Each text is a row. A `rest` has no row, since it may still be split; `build_tree` adds it at
    the end.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompt: Sequence[int],
        monitors: Sequence[Monitor | HorizonMonitor],
        quantifiers: Mapping[str, Quantifier],
        end_of_sequence: EndOfSequence,
        max_visits: int,
    ) -> None:
        self.length = monitors[0].length
        self._max_visits = max_visits
        self._prompt = prompt
        self._model = model
        self._monitors = monitors
        self._quantifiers = quantifiers
        self._end_tokens = sorted(model.end_tokens) if end_of_sequence == "terminal" else []
        self._passes = 0
        self._decided_masses = [[0.0, 0.0] for _ in monitors]  # decided false, decided true
        self._start_text = model.decode([prompt])[0]
        n = len(monitors)
        self.parent, self.step, self.token, self.visits, self.selected_counts = np.zeros(
            (5, 0), dtype=np.int64
        )
        self.probability, self.mass, self.rest = np.zeros((3, 0))
        self.kind = np.zeros(0, dtype=np.int8)
        self.text = np.zeros(0, dtype=object)
        self.obligations, self.truth = np.zeros((2, n, 0), dtype=np.int64)
        self._append(
            parent=np.array([-1]),
            token=np.array([NO_TOKEN]),
            probability=np.ones(1),
            obligations=np.array([[monitor.initial_obligation] for monitor in monitors]),
            truth=np.full((n, 1), UNDECIDED),
        )

    def compute_progress(self) -> RefinementProgress:
        """Compute the progress of the refinement."""
        lower = tuple(satisfied for _, satisfied in self._decided_masses)
        # a formula may hold on all mass that is not decided false
        upper = tuple(1 - violated for violated, _ in self._decided_masses)
        return RefinementProgress(self._passes, lower, upper)

    def select_batch(self, max_texts: int, horizon_weight: float) -> np.ndarray:
        """Select the uids of the next batch, at most `max_texts`.

        A batch contains texts of one length with equally many visits, so that the model and the
        selection can treat them together. Each has at least `_BATCH_SHARE` of the largest gain
        among them. The batch with the largest total gain comes next.
        """
        # a visit has no effect if the text or its rest has probability 0
        uids = np.flatnonzero(self._open_texts & (self.mass * self.rest > 0))
        # beyond the cap, a longer distance to the horizon lowers the weight no further
        missing_tokens = np.minimum(self.length - 1 - self.step[uids], _HORIZON_CAP)
        gain = self.mass[uids] * self.rest[uids] * np.power(horizon_weight, missing_tokens)
        batches = []
        for group, _ in group_rows(self.step[uids], self.visits[uids]):
            members = group[gain[group] >= _BATCH_SHARE * gain[group].max()]
            # stable, so that of equal masses the text that was found first comes first
            members = members[np.argsort(-gain[members], kind="stable")[:max_texts]]
            batches.append((gain[members].sum(), members))
        return uids[max(batches, key=itemgetter(0))[1]] if batches else uids

    @property
    def _open_texts(self) -> np.ndarray:
        """(n,) bool: the texts on which another visit can decide a formula."""
        is_undecided = (self.truth == UNDECIDED).any(axis=0)
        # a text at the horizon has no children
        has_visits = (self.step < self.length) & (self.visits < self._max_visits)
        return is_undecided & (self.kind == StateKind.TEXT) & has_visits

    def collect_continuations(self, uids: np.ndarray) -> np.ndarray:
        """Return (n, d) int64: the tokens after the prompt of texts of one length."""
        columns = []
        for _ in range(self.step[uids[0]]):
            columns.append(self.token[uids])
            uids = self.parent[uids]
        # the tokens were collected from the last to the first
        return np.column_stack(columns[::-1]) if columns else np.empty((len(uids), 0), np.int64)

    def add_children(
        self, parents: np.ndarray, selections: Iterable[tuple[np.ndarray, Selection]]
    ) -> None:
        """Add the children that are new in this visit of the texts.

        Args:
            parents: the uids of the texts.
            selections: pairs of positions in `parents` and the selection after these texts.
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
        self._passes += len(parents)
        row, token, probability = map(np.concatenate, zip(*parts, strict=True))
        # `selections` yields cached texts first; the order of the tree must not depend on the cache
        order = np.argsort(row, kind="stable")
        parent = parents[row[order]]
        self._append(
            parent=parent,
            token=token[order],
            probability=probability[order],
            obligations=self.obligations[:, parent],
            truth=self.truth[:, parent],
        )

    def _append(
        self,
        parent: np.ndarray,
        token: np.ndarray,
        probability: np.ndarray,
        obligations: np.ndarray,
        truth: np.ndarray,
    ) -> None:
        """Add texts of one length, and decide the formulas on them where possible.

        Args:
            parent: (n,) the uids of the texts' parents; -1 for the root.
            token: (n,) the last token of each text.
            probability: (n,) the probability of each text given its parent.
            obligations: (formulas, n) the obligations at the texts' own step.
            truth: (formulas, n) the decisions of their parents.
        """
        # a visit may find no new child
        if len(parent) == 0:
            return
        is_root = parent[0] < 0
        step = 0 if is_root else int(self.step[parent[0]]) + 1
        mass = probability if is_root else probability * self.mass[parent]
        kind = np.where(np.isin(token, self._end_tokens), StateKind.END, StateKind.TEXT).astype(
            np.int8
        )
        start_texts = np.array([self._start_text], dtype=object)
        text = start_texts if is_root else self._extend_texts(parent, token)
        self._decide_texts(
            step, kind, mass, text, obligations := obligations.copy(), truth := truth.copy()
        )
        n = len(parent)
        for name, column in {
            "parent": parent,
            "step": np.full(n, step),
            "token": token,
            "visits": np.zeros(n, dtype=np.int64),
            "selected_counts": np.zeros(n, dtype=np.int64),
            "probability": probability,
            "mass": mass,
            # before its first visit the rest of a text is all of its probability
            "rest": np.ones(n),
            "kind": kind,
            "text": text,
        }.items():
            setattr(self, name, np.concatenate([getattr(self, name), column]))
        self.obligations = np.concatenate([self.obligations, obligations], axis=1)
        self.truth = np.concatenate([self.truth, truth], axis=1)

    def _extend_texts(self, parent: np.ndarray, token: np.ndarray) -> np.ndarray:
        """Return (n,) str: the texts of parents with one more token each."""
        detokenizer = getattr(self._model, "detokenizer", None)
        # without token pieces only a whole sequence can be decoded
        if detokenizer is None:
            return self._decode_texts(parent, token)
        text = self.text[parent]
        suffixes = detokenizer.decode_tokens(token)
        is_incomplete = np.zeros(len(self.text), dtype=bool)
        for uid in np.unique(parent):
            # a character of several tokens is complete only after its last token
            is_incomplete[uid] = self.text[uid].endswith(REPLACEMENT_CHARACTER)
        # these texts do not follow from their parent's text
        is_separate = is_incomplete[parent] | np.equal(suffixes, None)
        text[~is_separate] += suffixes[~is_separate]
        if is_separate.any():
            text[is_separate] = self._decode_texts(parent[is_separate], token[is_separate])
        return text

    def _decode_texts(self, parent: np.ndarray, token: np.ndarray) -> np.ndarray:
        """Return the same texts, decoded from the first token on."""
        parents, parent_index = np.unique(parent, return_inverse=True)
        continuations = np.column_stack([self.collect_continuations(parents)[parent_index], token])
        sequences = join_prompt(self._prompt, continuations)
        text = np.empty(len(token), dtype=object)
        text[:] = self._model.decode(sequences.tolist())
        return text

    def _decide_texts(
        self,
        step: int,
        kind: np.ndarray,
        mass: np.ndarray,
        text: np.ndarray,
        obligations: np.ndarray,
        truth: np.ndarray,
    ) -> None:
        """Progress every formula by the texts' own step.

        `obligations` and `truth` are changed in place: the obligations at the texts become the
        obligations after them, and new decisions are filled in. The sums of decided mass grow.
        """
        texts = text.tolist()
        columns = {
            name: score_texts(quantifier, self._start_text, texts, name)
            for name, quantifier in self._quantifiers.items()
        } | {STEP: np.full(len(texts), step)}
        # texts at the horizon stay as they are, like ended texts
        is_terminal = (kind == StateKind.END) | (step == self.length)
        for index, monitor in enumerate(self._monitors):
            letters = monitor.compute_letters(columns, kind == StateKind.END)
            is_undecided = truth[index] == UNDECIDED
            # few situations differ, so the monitor reads each only once
            for positions, (obligation, letter, is_final) in group_rows(
                obligations[index], letters, is_terminal
            ):
                next_obligation = monitor.progress(obligation, letter)
                decision = (
                    monitor.holds_under_stutter(obligation, letter)
                    if is_final
                    else monitor.decide(next_obligation, step + 1, letter)
                )
                obligations[index][positions] = next_obligation
                if decision is not None:
                    # decided mass counts at the first text that decides it, not again at its
                    # children
                    newly_decided = positions[is_undecided[positions]]
                    truth[index][newly_decided] = decision
                    self._decided_masses[index][decision] = math.fsum(
                        [self._decided_masses[index][decision], *mass[newly_decided]]
                    )

    def build_tree(self) -> TextTree:
        """Return the texts and their `rest` in the order of a tree."""
        # a text whose tokens were all selected has no `rest`
        has_rest = (self.kind == StateKind.TEXT) & (self.step < self.length) & (self.rest > 0)
        rest_parents = np.flatnonzero(has_rest)
        n, m = len(self.parent), len(rest_parents)
        parent = np.concatenate([self.parent, rest_parents])
        step = np.concatenate([self.step, self.step[rest_parents] + 1])
        text = np.concatenate([self.text, np.full(m, None, dtype=object)])
        uids = np.full(n, -1)  # of each text in the tree
        rows = []
        for depth in range(step.max() + 1):
            # a `rest` comes after its siblings, because its row comes after all texts
            level = np.flatnonzero(step == depth)
            parent_uids = uids[parent[level]] if depth else np.zeros(1)
            level = level[np.argsort(parent_uids, kind="stable")]
            is_text = level < n
            first = sum(map(len, rows))
            uids[level[is_text]] = first + np.flatnonzero(is_text)
            rows.append(level)
        order = np.concatenate(rows)
        parent_uids = parent[order]
        return TextTree(
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
