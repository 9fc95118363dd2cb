"""Growing a tree where it narrows the bounds of a query, instead of everywhere alike.

Best first: of the batches of texts of one length, the next one is that which holds the most
undecided probability, where texts that are near the horizon count more. A text is looked at in up
to four looks, each of which selects more tokens; between two looks the tokens that are left share
its `rest`. A text that decides the query (see `decided`) is not looked at again. The result is a
`TextTree` like any other, in which a text that was never looked at has nothing but its `rest`.

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

from llmchecker.deciding.decided import UNDECIDED, distinct
from llmchecker.deciding.effort import Budget
from llmchecker.deployed.chat import Start
from llmchecker.models.pieces import BROKEN
from llmchecker.models.protocols import LanguageModel
from llmchecker.quantifiers.quantifier import Quantifier
from llmchecker.queries.formulas import STEP
from llmchecker.queries.reading import OpenReading, Reading
from llmchecker.scoring.scores import score_texts
from llmchecker.trees.expansion import EndOfSequence, selections
from llmchecker.trees.selection import Selection
from llmchecker.trees.store import StoredDistributions
from llmchecker.trees.text_tree import NO_TOKEN, Kind, TextTree, Truncation

LOOKS = ((0.99, 128), (0.9999, 2048), (0.99999, 16384), (1.0, 2**31 - 1))
"""Alpha and k of the first look at a text, of the second, of the third and of the last.

Few tokens hold nearly all probability after most texts, so that the first look is small. The third
saves half of the texts for the same bounds. The last one selects every token and leaves no `rest`.
Where only the most probable tokens are told, one look selects all of those.
"""

LOOKS_AT_LAST = ((0.999, 512), *LOOKS[1:])
"""The same where a text lacks its last token only: with these, bounds were a hundredth narrower."""

LOOKS_AT_FEW = ((1.0, 128), (1.0, 2**31 - 1))
"""The looks where decoding cuts all but a few tokens: one that selects these leaves no `rest`."""

MOST_TEXTS = 384
"""A batch holds at most this many texts, unless somebody asks for fewer."""

FEWEST_TEXTS = 128
"""The first batches may hold this many texts. A smaller batch takes a model about as long."""

MOST_FOUND = 2**22
"""Nor does a batch hold more texts than can together find this many, which is some gigabyte."""

SHARE = 4
"""Later batches may hold one text for every `SHARE` that were looked at before.

In a large first batch many texts would be those that its own answers show to matter little.
"""

SOONER = 1 / 4
"""What a text counts beside one that has a token more and holds as much undecided probability.

A look at a text that is one token before the horizon decides all that it holds, any other at first
only what the next token decides: with 1 the same passes gave wider bounds, from nine times as many
texts. The interval of an estimate is narrower with 1: expected is 0.34 of the width of plain
sampling instead of 0.38, for what is decided true early is what the samples need not find.
"""

NEAR = 4
"""Texts that lack more tokens than this before the last one count like those that lack as many."""

WORTHWHILE = 1 / 8
"""A text joins a batch if it holds this share of what the most undecided text of it holds.

About as many passes then lead to the same width as with one text at a time, and batches are full:
with 1/2 they were half as full.
"""


@dataclass(frozen=True)
class Refining:
    """How far a refinement has come after a batch.

    Attributes:
        passes: how many texts the model was asked about so far.
        lower, upper: the bounds of each formula.
    """

    passes: int
    lower: tuple[float, ...]
    upper: tuple[float, ...]

    @property
    def width(self) -> float:
        """The width of the widest bounds."""
        return max(up - low for low, up in zip(self.lower, self.upper, strict=True))


def refine(
    model: LanguageModel,
    start: Start,
    readings: Sequence[Reading | OpenReading],
    quantifiers: Mapping[str, Quantifier],
    budget: Budget,
    end_of_sequence: EndOfSequence = "terminal",
    progress: Callable[[Refining], None] = lambda refining: None,
    stored: StoredDistributions | None = None,
    stopped: Callable[[], bool] = lambda: False,
    most_texts: int = MOST_TEXTS,
    sooner: float = SOONER,
) -> TextTree:
    """Grow a tree after `start` where this narrows the bounds of some path formulas most.

    All formulas share the tree. A text is looked at again as long as some formula is undecided on
    it. The order of looks depends on the model's answers alone, and not on threads or memory.

    Args:
        model: the language model.
        start: the start string.
        readings: of the path formulas, all with the same horizon.
        quantifiers: the quantifiers that the formulas name, by name.
        budget: when to stop. With neither passes nor seconds the tree grows until the width is
            reached or everything is decided.
        end_of_sequence: as in `expansion.grow_tree`.
        progress: called after every batch.
        stored: as in `expansion.grow_tree`.
        stopped: called between batches; when it returns true, the tree is returned as it is.
        most_texts: the largest number of texts of a batch.
        sooner: from 0 to 1, as `SOONER`; with 1 undecided probability alone counts.
    """
    began = time.monotonic()
    looks, last = (LOOKS_AT_FEW, LOOKS_AT_FEW) if model.is_cut else (LOOKS, LOOKS_AT_LAST)
    if model.told < model.vocabulary_size:
        looks = last = ((1.0, model.told),)
    growth = _Growth(model, start, readings, quantifiers, end_of_sequence, len(looks))
    continuations = cache(lambda: model.continuations(growth.prompt))
    while True:
        now = growth.refining()
        progress(now)
        late = budget.seconds is not None and time.monotonic() - began >= budget.seconds
        left = math.inf if budget.passes is None else budget.passes - now.passes
        if now.width <= budget.width or late or left <= 0 or stopped():
            break
        most = max(FEWEST_TEXTS, now.passes // SHARE)
        batch = growth.most_undecided(min(most_texts, left, most), sooner)
        if len(batch) == 0:
            break
        extended = growth.step[batch[0]] + 1 < growth.length
        alpha, k = (looks if extended else last)[growth.looks[batch[0]]]
        batch = batch[: max(1, MOST_FOUND // min(k, model.told))]
        asked = (growth.suffixes(batch), alpha, k, extended)
        growth.add(batch, selections(continuations, stored, *asked))
    return growth.tree()


class _Growth:
    """The texts that a refinement has found so far, as columns.

    Each text is a row. A `rest` has no row, since it may still be split; `tree` adds it at the end.
    """

    def __init__(
        self,
        model: LanguageModel,
        start: Start,
        readings: Sequence[Reading | OpenReading],
        quantifiers: Mapping[str, Quantifier],
        end_of_sequence: EndOfSequence,
        most_looks: int,
    ) -> None:
        self.length = readings[0].length
        self._most_looks = most_looks
        self.prompt = model.encode(start)
        self._model = model
        self._readings = readings
        self._quantifiers = quantifiers
        self._ends = sorted(model.end_tokens) if end_of_sequence == "terminal" else []
        self._passes = 0
        self._sums = [[0.0, 0.0] for _ in readings]  # decided false, decided true
        self._started = model.decode([self.prompt])[0]
        n = len(readings)
        self.parent, self.step, self.token, self.looks, self.selected = np.zeros(
            (5, 0), dtype=np.int64
        )
        self.probability, self.mass, self.rest = np.zeros((3, 0))
        self.kind = np.zeros(0, dtype=np.int8)
        self.text = np.zeros(0, dtype=object)
        self.pending, self.truth = np.zeros((2, n, 0), dtype=np.int64)
        self._append(
            parent=np.array([-1]),
            token=np.array([NO_TOKEN]),
            probability=np.ones(1),
            pending=np.array([[reading.start] for reading in readings]),
            truth=np.full((n, 1), UNDECIDED),
        )

    def refining(self) -> Refining:
        """How far the refinement has come."""
        lower = tuple(satisfied for _, satisfied in self._sums)
        upper = tuple(1 - violated for violated, _ in self._sums)
        return Refining(self._passes, lower, upper)

    def most_undecided(self, most: int, sooner: float) -> np.ndarray:
        """The uids of the next batch, at most `most` of them.

        A batch holds texts of one length that have had equally many looks, so that the model and
        the selection can treat them together: those which hold a worthwhile share of what the most
        undecided one of them holds. The batch that holds most comes next.
        """
        uids = np.flatnonzero(self._open & (self.mass * self.rest > 0))
        lacking = np.minimum(self.length - 1 - self.step[uids], NEAR)
        gain = self.mass[uids] * self.rest[uids] * np.power(sooner, lacking)
        batches = []
        for alike, _ in distinct(self.step[uids], self.looks[uids]):
            members = alike[gain[alike] >= WORTHWHILE * gain[alike].max()]
            # stable, so that of equal masses the text that was found first comes first
            members = members[np.argsort(-gain[members], kind="stable")[:most]]
            batches.append((gain[members].sum(), members))
        return uids[max(batches, key=itemgetter(0))[1]] if batches else uids

    @property
    def _open(self) -> np.ndarray:
        """(n,) bool: the texts on which another look can decide something."""
        undecided = (self.truth == UNDECIDED).any(axis=0)
        left = (self.step < self.length) & (self.looks < self._most_looks)
        return undecided & (self.kind == Kind.TEXT) & left

    def suffixes(self, uids: np.ndarray) -> np.ndarray:
        """(n, d) int64: the tokens after the prompt of texts of one length."""
        columns = []
        for _ in range(self.step[uids[0]]):
            columns.append(self.token[uids])
            uids = self.parent[uids]
        return np.column_stack(columns[::-1]) if columns else np.empty((len(uids), 0), np.int64)

    def add(self, parents: np.ndarray, selections: Iterable[tuple[np.ndarray, Selection]]) -> None:
        """Add the children that a look at some texts found and that earlier looks had not found.

        Args:
            parents: the uids of the texts.
            selections: pairs of positions in `parents` and what is selected after these texts.
        """
        found = []
        for rows, selection in selections:
            uids, places = parents[rows], np.arange(selection.tokens.shape[1])
            # a later look selects the same tokens first, so that what is new comes after them
            new = (places >= self.selected[uids, np.newaxis]) & (
                places < selection.counts[:, np.newaxis]
            )
            among = np.broadcast_to(rows[:, np.newaxis], new.shape)[new]
            found.append((among, selection.tokens[new], selection.probabilities[new]))
            self.selected[uids], self.rest[uids] = selection.counts, selection.rest
        self.looks[parents] += 1
        self._passes += len(parents)
        row, token, probability = map(np.concatenate, zip(*found, strict=True))
        # `selections` yields stored answers first; the order of the tree must not depend on that
        order = np.argsort(row, kind="stable")
        parent = parents[row[order]]
        self._append(
            parent=parent,
            token=token[order],
            probability=probability[order],
            pending=self.pending[:, parent],
            truth=self.truth[:, parent],
        )

    def _append(
        self,
        parent: np.ndarray,
        token: np.ndarray,
        probability: np.ndarray,
        pending: np.ndarray,
        truth: np.ndarray,
    ) -> None:
        """Add texts of one length, and find out what each of them decides.

        Args:
            parent: (n,) the uids of the texts' parents; -1 for the root.
            token: (n,) the last token of each text.
            probability: (n,) of each text given its parent.
            pending: (formulas, n) what is pending at the texts' own step.
            truth: (formulas, n) what their parents decide.
        """
        if len(parent) == 0:
            return
        root = parent[0] < 0
        step = 0 if root else int(self.step[parent[0]]) + 1
        mass = probability if root else probability * self.mass[parent]
        kind = np.where(np.isin(token, self._ends), Kind.END, Kind.TEXT).astype(np.int8)
        started = np.array([self._started], dtype=object)
        text = started if root else self._texts(parent, token)
        self._decide(step, kind, mass, text, pending := pending.copy(), truth := truth.copy())
        n = len(parent)
        for name, column in {
            "parent": parent,
            "step": np.full(n, step),
            "token": token,
            "looks": np.zeros(n, dtype=np.int64),
            "selected": np.zeros(n, dtype=np.int64),
            "probability": probability,
            "mass": mass,
            "rest": np.ones(n),
            "kind": kind,
            "text": text,
        }.items():
            setattr(self, name, np.concatenate([getattr(self, name), column]))
        self.pending = np.concatenate([self.pending, pending], axis=1)
        self.truth = np.concatenate([self.truth, truth], axis=1)

    def _texts(self, parent: np.ndarray, token: np.ndarray) -> np.ndarray:
        """(n,) str: the texts of parents with one more token each."""
        pieces = getattr(self._model, "pieces", None)
        if pieces is None:
            return self._decoded(parent, token)
        text = self.text[parent]
        added = pieces.of(token)
        broken = np.zeros(len(self.text), dtype=bool)
        for uid in np.unique(parent):
            broken[uid] = self.text[uid].endswith(BROKEN)
        apart = broken[parent] | np.equal(added, None)
        text[~apart] += added[~apart]
        if apart.any():
            text[apart] = self._decoded(parent[apart], token[apart])
        return text

    def _decoded(self, parent: np.ndarray, token: np.ndarray) -> np.ndarray:
        """The same, decoded from the first token on."""
        parents, place = np.unique(parent, return_inverse=True)
        before = np.broadcast_to(self.prompt, (len(token), len(self.prompt)))
        sequences = np.column_stack([before, self.suffixes(parents)[place], token])
        text = np.empty(len(token), dtype=object)
        text[:] = self._model.decode(sequences.tolist())
        return text

    def _decide(
        self,
        step: int,
        kind: np.ndarray,
        mass: np.ndarray,
        text: np.ndarray,
        pending: np.ndarray,
        truth: np.ndarray,
    ) -> None:
        """Read the texts' own step in every formula.

        `pending` and `truth` are changed in place: what was pending at the texts becomes what is
        pending after them, and what they decide is filled in. The sums of decided mass grow.
        """
        texts = text.tolist()
        columns = {
            name: score_texts(quantifier, self._started, texts, name)
            for name, quantifier in self._quantifiers.items()
        } | {STEP: np.full(len(texts), step)}
        terminal = (kind == Kind.END) | (step == self.length)
        for number, reading in enumerate(self._readings):
            words = reading.words(columns, kind == Kind.END)
            undecided = truth[number] == UNDECIDED
            for places, (waiting, word, ends) in distinct(pending[number], words, terminal):
                after = reading.after(waiting, word)
                found = (
                    reading.forever(waiting, word) if ends else reading.truth(after, step + 1, word)
                )
                pending[number][places] = after
                if found is not None:
                    new = places[undecided[places]]
                    truth[number][new] = found
                    self._sums[number][found] = math.fsum([self._sums[number][found], *mass[new]])

    def tree(self) -> TextTree:
        """The texts and their `rest` in the order of a tree."""
        goes_on = (self.kind == Kind.TEXT) & (self.step < self.length) & (self.rest > 0)
        resting = np.flatnonzero(goes_on)
        n, m = len(self.parent), len(resting)
        parent = np.concatenate([self.parent, resting])
        step = np.concatenate([self.step, self.step[resting] + 1])
        text = np.concatenate([self.text, np.full(m, None, dtype=object)])
        place = np.full(n, -1)  # of each text in the tree
        rows = []
        for depth in range(step.max() + 1):
            # a `rest` comes after its siblings, because its row comes after all texts
            level = np.flatnonzero(step == depth)
            above = place[parent[level]] if depth else np.zeros(1)
            level = level[np.argsort(above, kind="stable")]
            known = level < n
            first = sum(map(len, rows))
            place[level[known]] = first + np.flatnonzero(known)
            rows.append(level)
        order = np.concatenate(rows)
        above = parent[order]
        return TextTree(
            model=self._model.name,
            truncation=Truncation(1.0, max(1, int(self.selected.max())), self.length),
            parent=np.where(above < 0, -1, place[above]),
            step=step[order],
            token=np.concatenate([self.token, np.full(m, NO_TOKEN)])[order],
            probability=np.concatenate([self.probability, self.rest[resting]])[order],
            kind=np.concatenate([self.kind, np.full(m, Kind.REST, dtype=np.int8)])[order],
            text=text[order],
        )
