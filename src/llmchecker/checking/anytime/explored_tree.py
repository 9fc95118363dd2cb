"""An explored tree: the texts that a check has visited, and the most probable next texts.

A visit evaluates the model on a text once. The whole vocabulary counts: tokens that decide the
query are added to sums and need no row. The most probable tokens become rows, and further tokens do
when a sample draws them. What is left of the undecided tokens is the text's *rest*, which another
visit splits. So the size of the tree is a small multiple of the number of passes.

Refinement and sampling share the tree, so that no text is paid for twice.
"""

import math
import operator
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import reduce

import numpy as np

from llmchecker.checking.anytime.estimand import Estimand
from llmchecker.checking.anytime.product_automaton import (
    MAX_ROW_ENTRIES,
    OPAQUE,
    ProductAutomaton,
    Row,
    SharedNumbers,
    TextRows,
    TextStates,
)
from llmchecker.checking.anytime.step_request import StepRequest
from llmchecker.checking.anytime.text_columns import TextColumns
from llmchecker.checking.anytime.text_scorer import TextScorer
from llmchecker.checking.anytime.token_step import ClassOrder, StepResult
from llmchecker.checking.decided_mass import UNDECIDED, DecidedMass, Mass
from llmchecker.checking.endings import Endings, build_endings
from llmchecker.checking.probabilities import MIN_NORMAL
from llmchecker.errors import InvalidDistribution
from llmchecker.models.transformers.batching import join_prompt
from llmchecker.processes.process import Part, Process, Stage
from llmchecker.properties.logic.monitor import PathMonitor
from llmchecker.properties.quantifiers.interface import BatchQuantifier, Quantifier
from llmchecker.trees.text_tree import NO_TOKEN

_LISTED_TOKENS = 32
"""The number of most probable tokens that a visit lists."""

_HEAVY_MASS, _HEAVY_LISTED_TOKENS = 2.0**-6, 512
"""The mass of a text from which on a visit lists more tokens, and their number.

Improbable tokens of few probable texts are among the most probable texts of all.
"""

_MIN_LISTED_SHARE = 2.0**-24
"""The least mass of a listed text as a share of all undecided mass.

A text of less mass stays in its parent's rest.

A later visit of the parent lists it. Few checks have enough passes to visit it.
"""

_LAW_TOKENS = 8
"""Number of tokens after a text whose scores are compared with plain calls."""
_NO_ROWS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Children:
    """The rows that a visit of n texts added.

    Attributes:
        firsts, counts: (n,) int64, the first row of each text's listed tokens, and their number.
        drawn: (n, draws) int64, the row of each drawn token. Arbitrary where no token is undecided
            or the model does not list the token.
    """

    firsts: np.ndarray
    counts: np.ndarray
    drawn: np.ndarray


class _Lexicon:
    """What a tree knows of the vocabulary of the writer of a stage.

    Attributes:
        automaton: the product automaton.
        order: the tokens by class.
        size: number of tokens.
        lists_vocabulary: whether the writer lists all of them.
        listed_tokens: number of most probable tokens that a visit lists.
    """

    def __init__(self, stage: Stage, automaton: ProductAutomaton, listed_tokens: int) -> None:
        model, self.lists_vocabulary = stage.writer, stage.lists_vocabulary
        self.automaton, self.order = automaton, ClassOrder(automaton.class_of)
        self.size = model.vocabulary_size
        # a server's listed tokens must all have a row, since only the others can be drawn there
        self.listed_tokens = (
            min(listed_tokens, self.size) if self.lists_vocabulary else model.listed_tokens
        )


class ExploredTree(TextColumns):
    """The explored texts as columns, and the sums of what they decide.

    Attributes:
        process: the process of the texts.
        parts: the parts that texts have reached, by their number.
        automaton: the product automaton of the query on answers.
        estimand: the quantity whose decided sums are kept.
        model_name: the name of the language model.
        quantifiers: the quantifiers that the formulas name, by name.
        length: the horizon in tokens.
        passes: number of texts that the model evaluated so far.
        lists_vocabulary: whether all models list all tokens of a distribution.
        batch_texts: number of texts that take the model about as long as one.
        scores_children: whether the listed tokens of a visit are decoded and scored at once.
        end_scores: names of the quantifiers whose scores of beginnings no formula depends on.
        decided: (outcomes,) float64, the sums of the estimand's shares over decided texts, weighted
            by their probabilities.
    Args:
        process: the process of the texts.
        estimand: the quantity whose decided sums are kept.
        quantifiers: the quantifiers that the formulas name, by name.
        listed_tokens: number of most probable tokens that a visit lists.
        min_share: the least mass of a text that a first visit lists, as a share of what stays
            undecided.
        end_scores: names of the quantifiers whose scores of beginnings no formula depends on.
    """

    def __init__(
        self,
        process: Process,
        estimand: Estimand,
        quantifiers: Mapping[str, Quantifier],
        *,
        listed_tokens: int = _LISTED_TOKENS,
        min_share: float = _MIN_LISTED_SHARE,
        end_scores: Collection[str] = (),
    ) -> None:
        monitors: tuple[PathMonitor, ...] = estimand.monitors
        self.process, model = process, process.model
        self.length, self.passes = process.length, 0
        self.lists_vocabulary = all(stage.lists_vocabulary for stage in process.stages)
        self.batch_texts = model.batch_texts
        self.quantifiers, self.model_name = dict(quantifiers), model.name
        self.estimand, self.end_scores = estimand, frozenset(end_scores)
        numbers = SharedNumbers()
        lexicons: dict[tuple[int, bool], _Lexicon] = {}
        for stage in process.stages:
            key = id(stage.writer), stage.is_answer
            if key not in lexicons:
                automaton = ProductAutomaton(
                    process,
                    stage,
                    monitors,
                    quantifiers,
                    keeps_scores=not end_scores,
                    numbers=numbers,
                )
                lexicons[key] = _Lexicon(stage, automaton, listed_tokens)
        self._lexicons = {
            stage: lexicons[id(stage.writer), stage.is_answer] for stage in process.stages
        }
        self.automaton = self._lexicons[process.stages[0]].automaton
        # A call of a batch quantifier, such as a network, costs as much as a pass. Any other call
        # costs little, so that what a visit lists is scored before a sample chooses among it.
        has_batches = any(isinstance(each, BatchQuantifier) for each in quantifiers.values())
        self.scores_children = None in self.automaton.tables and not has_batches
        self._scores_whole = not has_batches
        self._use_more = listed_tokens == _LISTED_TOKENS
        self._min_share = min_share
        self.parts: list[Part] = [process.first]
        self._scorers: dict[int, TextScorer] = {}
        # the texts that end with a part which only its text shows to be the last one
        self._last_rows: list[int] = []
        self.decided = np.zeros(len(monitors) + 1)
        # the mass of texts that were visited before the last token, and what next tokens decided
        self._early_visited = self._early_decided = 0.0
        # a small product may be computed as 0, so that a sum of 0 may have terms
        self._has_terms = np.zeros(len(self.decided), dtype=bool)
        self._row_shares: dict[int, np.ndarray] = {}
        self._unlisted_rows: dict[tuple[int, int], int] = {}
        # the rows of each text's tokens, in ranges of a first row and the row after the last
        self._children: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._has_differences = False
        # of each outcome, the text whose next tokens decide it with the greatest probability
        self._likeliest = [(0.0, 0), (0.0, 0)]
        super().__init__()
        self._append_root()

    @property
    def start_text(self) -> str:
        """The text of the first prompt."""
        return self._get_scorer(0).start_text

    @property
    def messages(self) -> str | None:
        """The messages before the first part, as quantifiers read them; None without a chat."""
        return self.parts[0].messages

    @property
    def states(self) -> TextStates:
        """The states of all texts."""
        return TextStates(**{field.name: getattr(self, field.name) for field in fields(TextStates)})

    @property
    def lists_next(self) -> np.ndarray:
        """(n,) bool: whether the model of the next token lists all tokens."""
        return self.process.find_listing(self.step)

    @property
    def is_terminal(self) -> np.ndarray:
        """(n,) bool: the texts whose part is whole, and which no part follows so far."""
        ends = np.array([part.stage.end for part in self.parts])
        terminal: np.ndarray = self.has_ended | (self.step == ends[self.part])
        return terminal

    @property
    def early_decided_share(self) -> float:
        """The share of the mass of visited texts that next tokens before the last one decided."""
        return self._early_decided / self._early_visited if self._early_visited else 0.0

    @property
    def rounding_error(self) -> float:
        """A limit above the relative rounding error of the sums.

        A sum of n positive terms, one after another, is wrong by at most n u of its value, u =
        2^-53 (Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 4.2). The mass
        of a text is a product of as many probabilities as it has tokens.
        """
        terms = max(
            lexicon.order.max_terms
            + min(max(lexicon.listed_tokens, _HEAVY_LISTED_TOKENS), lexicon.size)
            for lexicon in self._lexicons.values()
        )
        unit = float(np.finfo(np.float64).eps) / 2
        return unit * (terms + 64) * (self.length + 2)

    @property
    def difference_error(self) -> float:
        """A limit above the error of undecided mass from which drawn tokens were subtracted."""
        unit = float(np.finfo(np.float64).eps) / 2
        return unit * 8 * (self.length + 2) if self._has_differences else 0.0

    def find_masses(self) -> tuple[DecidedMass, ...]:
        """Return the decided and the undecided mass of each formula."""
        error = 2 * self.rounding_error
        outcomes = [
            Mass(value, error, MIN_NORMAL * has_terms)
            for value, has_terms in zip(
                self.decided.tolist(), self._has_terms.tolist(), strict=True
            )
        ]
        undecided_mass = self.undecided_mass

        def add(truth: np.ndarray, value: int) -> Mass:
            total = float(np.where(truth == value, undecided_mass, 0.0).sum())
            return Mass(total, error, self.difference_error * (total > 0))

        # a text satisfies at most one formula, and may decide one of them before the other
        return tuple(
            DecidedMass(
                outcomes[index] + add(truth, 1),
                reduce(operator.add, outcomes[:index] + outcomes[index + 1 :]) + add(truth, 0),
                add(truth, UNDECIDED),
            )
            for index, truth in enumerate(self.truth)
        )

    def collect_continuations(self, rows: np.ndarray) -> np.ndarray:
        """Return (n, d) int64: the tokens after the prompts of texts of one length and stage."""
        columns = []
        for _ in range(self.step[rows[0]] - self.parts[self.part[rows[0]]].stage.first):
            columns.append(self.token[rows])
            rows = self.parent[rows]
        # the tokens were collected from the last to the first
        return np.column_stack(columns[::-1]) if columns else np.empty((len(rows), 0), np.int64)

    def score(self, rows: np.ndarray) -> None:
        """Find the states of texts of one length by their characters, where they are unknown.

        Texts that decide the query are visited by that, and their values join the sums.
        """
        rows = rows[~self.is_scored[rows]]
        if len(rows) == 0:
            return
        step = int(self.step[rows[0]])
        stage = self.process.find_stage(step)
        automaton = self._lexicons[stage].automaton
        texts = self._read(rows, automaton)
        # a stop may have ended texts
        has_ended = self.has_ended[rows]
        is_whole = stage.find_whole(step, has_ended)
        is_last = np.array(
            [
                whole and self.process.ends_text(self.parts[part], text)
                for whole, part, text in zip(is_whole, self.part[rows], texts, strict=True)
            ],
            dtype=bool,
        )
        if stage.is_last is None:
            self._last_rows += rows[is_last].tolist()
        parents = self.parent[rows]
        is_root = parents < 0
        initial = np.array([[monitor.initial_obligation] for monitor in automaton.monitors])
        truth, obligations, truth_if_ended = automaton.decide(
            step,
            has_ended,
            is_last,
            self.scores[:, rows],
            np.where(is_root, initial, self.obligations[:, parents]),
            np.where(is_root, UNDECIDED, self.truth[:, parents]),
            automaton.find_limits(
                self.controls[:, rows],
                self.counts[:, rows],
                # further bytes may change characters that bytes wrote, also in the prompt
                self.is_open_ended[rows] & ~is_root & automaton.has_piece[self.token[rows]],
            ),
        )
        self.truth[:, rows], self.obligations[:, rows] = truth, obligations
        self.truth_if_ended[:, rows] = truth_if_ended
        self.is_scored[rows] = True
        is_open = is_whole & (truth == UNDECIDED).any(axis=0)
        for position in np.flatnonzero(is_open).tolist():
            self._begin_part(int(rows[position]), texts[position])
        for group in (rows[is_open], rows[~is_open]):
            if len(group):
                self.situation[group] = automaton.number_situations(
                    int(self.step[group[0]]),
                    self.obligations[:, group],
                    self.truth_if_ended[:, group],
                    self.scores[:, group],
                )
        decided = rows[~(truth == UNDECIDED).any(axis=0)]
        self.is_visited[decided], self.is_undecided[decided] = True, False
        self.undecided_rest[decided] = self.undecided_mass[decided] = 0.0
        decided = decided[self.is_listed[decided]]
        shares = self.estimand.compute_shares(self.truth[:, decided], self.scores[:, decided])
        self._add_decided(shares, self.mass[decided])

    def _read(self, rows: np.ndarray, automaton: ProductAutomaton) -> list[str]:
        """Find scores, ends and states of texts of one length by their characters.

        Returns:
            The released text of the last part of each.
        """
        step = int(self.step[rows[0]])
        stage = self.process.find_stage(step)
        continuations = [""] * len(rows)
        for scorer, positions in self._group_by_part(rows):
            group = rows[positions]
            sequences = self._collect_sequences(group)
            # a text that is cut at its last token may end in part of a character
            self.has_ended[group] = stage.find_ended(step, self.has_ended[group])
            texts = scorer.decode(sequences, self.has_ended[group])
            self.is_open_ended[group] = scorer.find_open_ends(sequences)
            pairs = [scorer.split(text) for text in texts]
            for row, text in zip(group.tolist(), texts, strict=True):
                self.has_ended[row] |= scorer.read(text, is_whole=False).has_stopped
            is_whole = stage.find_whole(step, self.has_ended[group])
            for position, text, whole in zip(
                positions.tolist(), texts, is_whole.tolist(), strict=True
            ):
                continuations[position] = scorer.read(text, is_whole=whole).output
            if not scorer.part.stage.is_answer:
                continue
            self.reading[group] = [automaton.start_reading(pair[1]) for pair in pairs]
            for index, name in enumerate(self.quantifiers):
                self.scores[index, group] = scorer.score(name, texts, is_whole)
                states = [automaton.start(*pair, index) for pair in pairs]
                self.controls[index, group], self.counts[index, group] = np.array(states).T
        return continuations

    def _begin_part(self, row: int, text: str) -> None:
        """Let a text with a whole part go on with the next part.

        Args:
            row: the text.
            text: the text of its last part.
        """
        part = self.process.follow(
            self.parts[self.part[row]],
            text,
            has_ended=bool(self.has_ended[row]),
            scores=self.scores[:, row].tolist(),
        )
        self.part[row], self.step[row], self.has_ended[row] = (
            len(self.parts),
            part.stage.first,
            False,
        )
        self.parts.append(part)
        self.is_open_ended[row], self.reading[row] = True, 0
        if not part.stage.is_answer:
            self.scores[:, row] = self.controls[:, row] = self.counts[:, row] = 0
            return
        scorer, automaton = self._get_scorer(len(self.parts) - 1), self.automaton
        for index, name in enumerate(self.quantifiers):
            self.scores[index, row] = scorer.score_empty(name)
            self.controls[index, row], self.counts[index, row] = automaton.start(
                part.messages or "", "", index
            )

    def _get_scorer(self, part: int) -> TextScorer:
        """Return the scorer of the texts of a part, by its number."""
        if part not in self._scorers:
            self._scorers[part] = TextScorer(self.parts[part], self.quantifiers, self.end_scores)
        return self._scorers[part]

    def _group_by_part(self, rows: np.ndarray) -> Iterator[tuple[TextScorer, np.ndarray]]:
        """Yield the scorer of each part of texts, and the positions of its texts."""
        parts, number = np.unique(self.part[rows], return_inverse=True)
        for index, part in enumerate(parts.tolist()):
            yield self._get_scorer(part), np.flatnonzero(number.reshape(-1) == index)

    def build_request(
        self,
        rows: np.ndarray,
        uniforms: np.ndarray | None = None,
        is_drawn: np.ndarray | None = None,
        predict: Callable[[Row], np.ndarray] | None = None,
    ) -> StepRequest:
        """Build the request of a visit of texts of one length, whose states are known.

        Args:
            rows: the texts.
            uniforms, is_drawn: (n, draws), as in `StepRequest`; None for no draws.
            predict: returns (classes,) a further value of a row, 0 for decided classes.
        """
        step = int(self.step[rows[0]])
        if uniforms is None or is_drawn is None:
            uniforms, is_drawn = np.zeros((len(rows), 0)), np.zeros((len(rows), 0), dtype=bool)
        lexicon = self._find_lexicon(step + 1)
        text_rows = lexicon.automaton.find_rows(self.states.select(rows), step)
        values = np.stack([self._find_shares(row) for row in text_rows.rows])
        if predict is not None:
            predictions = np.stack([predict(row) for row in text_rows.rows])
            values = np.concatenate([values, predictions[:, np.newaxis]], axis=1)
        parts, part_of = np.unique(self.part[rows], return_inverse=True)
        count = lexicon.listed_tokens
        use_more = (self.mass[rows] >= _HEAVY_MASS) & self._use_more & (count == _LISTED_TOKENS)
        return StepRequest(
            continuations=self.collect_continuations(rows),
            parts=tuple(self.parts[part] for part in parts.tolist()),
            part_of=part_of.reshape(-1),
            will_extend=step + 1 < self.process.find_stage(step + 1).end,
            order=lexicon.order,
            rows=text_rows,
            values=values,
            known=[self._find_counted(row) for row in rows.tolist()],
            uniforms=uniforms,
            is_drawn=is_drawn,
            k=np.where(use_more, _HEAVY_LISTED_TOKENS, count),
        )

    def add_step(self, rows: np.ndarray, request: StepRequest, result: StepResult) -> Children:
        """Add what a visit of texts found.

        Args:
            rows: the texts.
            request, result: the request of the visit, and its answer.
        """
        result = self._keep_masses(rows, request, result)
        self.passes += len(rows)
        is_new = ~self.is_visited[rows]
        # a later visit sees the decided tokens again
        is_counted = is_new & self.is_listed[rows]
        shares = result.sums[is_counted, : len(self.decided)].T
        counted = self.mass[rows[is_counted]]
        self._add_decided(shares, counted)
        if self.step[rows[0]] < self.length - 1:
            self._early_visited += float(counted.sum())
            self._early_decided += float((counted * shares).sum())
        self._find_likeliest(rows[is_counted], shares)
        self.is_visited[rows] = True
        masses = self.mass[rows, np.newaxis] * result.probabilities
        ranks = np.arange(result.tokens.shape[1])
        is_kept = (result.probabilities > 0) & (ranks < request.k[:, np.newaxis])
        lexicon = self._find_lexicon(int(self.step[rows[0]]) + 1)
        if lexicon.lists_vocabulary:
            # a later visit keeps tokens of any mass, so that a refinement reaches all texts
            others = self.undecided_mass.sum() - self.undecided_mass[rows].sum()
            undecided = max(0.0, float(others + self.mass[rows] @ result.undecided))
            is_kept &= (masses >= self._min_share * undecided) | ~is_new[:, np.newaxis]
        # the tokens are in the order of their probabilities, so the first ones are kept
        counts = is_kept.sum(axis=1)
        firsts = len(self) + np.cumsum(counts) - counts
        text, position = np.nonzero(is_kept)
        self._append_children(
            rows[text],
            result.tokens[text, position],
            result.probabilities[text, position],
            request.rows,
            text,
        )
        dropped = np.where(is_kept, 0.0, result.probabilities)
        is_open = self._find_open(request, result)
        dropped_open = np.where(is_open, dropped, 0.0)
        self.rest[rows] = result.rest + dropped.sum(axis=1)
        self.undecided_rest[rows] = result.undecided_rest + dropped_open.sum(axis=1)
        drawn = self._find_drawn(rows, request, result, firsts, counts)
        rest = self.undecided_rest[rows]
        exists = self.is_undecided[rows] & self.is_listed[rows] & (rest > 0)
        self.undecided_mass[rows] = _keep_positive(self.mass[rows] * rest, exists)
        self._score_children(firsts[text] + position, lexicon)
        return Children(firsts, counts, drawn)

    def _find_lexicon(self, step: int) -> _Lexicon:
        """Return the vocabulary of the last token of texts, by the number of their step."""
        return self._lexicons[self.process.find_stage(step)]

    def _score_children(self, rows: np.ndarray, lexicon: _Lexicon) -> None:
        """Score the listed tokens of a visit that a sample may choose among.

        A server chooses itself. What a sample then predicts may depend on no other sample, so the
        next parts begin here, and not where a sample reaches them.
        """
        if not self.scores_children and len(rows):
            stage = self.process.find_stage(int(self.step[rows[0]]))
            is_whole = stage.find_whole(int(self.step[rows[0]]), self.has_ended[rows])
            begins = is_whole & self._scores_whole & (not lexicon.lists_vocabulary)
            rows = rows[begins]
        if len(rows):
            self.score(rows)

    def _find_likeliest(self, rows: np.ndarray, shares: np.ndarray) -> None:
        """Find the texts whose next tokens decide an outcome with the greatest probability."""
        for outcome, (greatest, _) in enumerate(self._likeliest):
            masses = self.mass[rows] * shares[outcome]
            if len(rows) and masses.max() > greatest:
                self._likeliest[outcome] = float(masses.max()), int(rows[masses.argmax()])

    def build_listing(self, truth: int) -> tuple[int, StepRequest] | None:
        """Build the request that lists all next tokens of a text, of which one decides the formula.

        Args:
            truth: 1 for tokens that satisfy the formula, 0 for tokens that violate it.

        Returns:
            The text and the request. None if the tree has a decided text of this kind, and if no
            token is known to decide.
        """
        mass, row = self._likeliest[1 - truth]
        has_text = (self.is_listed & self.is_scored & (self.truth[0] == truth)).any()
        if mass == 0 or has_text or not self.lists_next[row]:
            return None
        request = self.build_request(np.array([row]))
        return row, replace(request, k=np.array([len(request.order.class_of)]))

    def add_listing(
        self, row: int, request: StepRequest, result: StepResult, truth: int, count: int = 3
    ) -> None:
        """Add the most probable texts that a listing decides.

        Their masses are in the sums already, since the tokens of a visited text count at the visit.

        Args:
            row, request, truth: as in `build_listing`.
            result: the answer to the request.
            count: the largest number of texts.
        """
        self.passes += 1
        classes, entry = request.order.class_of[result.tokens[0]], request.rows[0]
        decides = entry.is_known[classes] & (entry.truth[0][classes] == truth)
        chosen = np.flatnonzero(decides & (result.probabilities[0] > 0))[:count]
        probabilities = result.probabilities[0, chosen]
        parents = np.full(len(chosen), row)
        self._append_children(
            parents, result.tokens[0, chosen], probabilities, request.rows, np.zeros_like(parents)
        )
        self.rest[row] = _keep_positive(self.rest[row] - probabilities.sum())

    def _keep_masses(
        self, rows: np.ndarray, request: StepRequest, result: StepResult
    ) -> StepResult:
        """Return a result whose probabilities add up to what the tree has left for each text.

        In another batch an accelerator computes other bits. Then a second evaluation of a text only
        splits the probability that the first one left: of decided and of undecided tokens.

        Raises:
            InvalidDistribution: the second evaluation has no undecided token left.
        """
        left, rest = self.undecided_rest[rows], self.rest[rows]
        is_again = self.is_visited[rows] & self.is_listed[rows]
        differs = is_again & (np.abs(left - result.undecided) > self.rounding_error)
        differs |= is_again & (np.abs(rest - result.mass) > self.rounding_error)
        if not differs.any():
            return result
        if (is_lost := differs & (left > self.rounding_error) & (result.undecided == 0)).any():
            text = self.decode(rows)[int(np.argmax(is_lost))]
            raise InvalidDistribution(
                f"{self.model_name}: its decoding leaves no token after {text!r} in a second "
                "batch, where probabilities differ; use the dtype float32"
            )
        undecided = np.divide(
            left, result.undecided, out=np.ones(len(rows)), where=differs & (result.undecided > 0)
        )
        # a difference that is all rounding is no probability of decided tokens
        decided_mass = result.mass - result.undecided
        decided = np.divide(
            np.maximum(rest - left, 0.0),
            decided_mass,
            out=np.ones(len(rows)),
            where=differs & (decided_mass > self.rounding_error),
        )
        scaled = result.scale(undecided, decided, self._find_open(request, result))
        others = np.maximum(rest - scaled.probabilities.sum(axis=1), scaled.undecided_rest)
        return replace(scaled, rest=np.where(differs, others, result.rest))

    def _find_open(self, request: StepRequest, result: StepResult) -> np.ndarray:
        """Return (n, k) bool: whether each listed token leaves the query undecided."""
        return request.rows.gather(
            "is_undecided",
            np.arange(len(result.tokens))[:, np.newaxis],
            request.order.class_of[result.tokens],
        )

    def _find_drawn(
        self,
        rows: np.ndarray,
        request: StepRequest,
        result: StepResult,
        firsts: np.ndarray,
        counts: np.ndarray,
    ) -> np.ndarray:
        """Return the rows of drawn tokens; new rows for tokens that are not kept.

        Args:
            rows, request, result: of the visit.
            firsts, counts: (n,) int64, the first row of each text's kept tokens, and their number.
        """
        found: np.ndarray = firsts[:, np.newaxis] + result.positions
        is_new = (result.positions >= counts[:, np.newaxis]) & (result.drawn_probabilities > 0)
        text, draw = np.nonzero(is_new & request.is_drawn)
        # several samples may draw the same token
        keys = np.stack([text, result.drawn[text, draw]])
        distinct, first, inverse = np.unique(keys, axis=1, return_index=True, return_inverse=True)
        text_of, tokens = distinct
        probabilities = result.drawn_probabilities[text[first], draw[first]]
        found[text, draw] = len(self) + inverse.reshape(-1)
        parents = rows[text_of]
        self._append_children(parents, tokens, probabilities, request.rows, text_of)
        self._has_differences = self._has_differences or len(parents) > 0
        np.subtract.at(self.rest, parents, probabilities)
        np.subtract.at(self.undecided_rest, parents, probabilities)
        # rounding may leave nothing of tokens that exist; the next visit sums them again
        self.rest[parents] = _keep_positive(self.rest[parents])
        self.undecided_rest[parents] = _keep_positive(self.undecided_rest[parents])
        return found

    def add_unlisted(self, parents: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Add texts with a token that the model does not list, and return their rows.

        The probability of such a text is unknown, so it has the mass 0 and is not in `build_tree`.
        """
        keys = list(zip(parents.tolist(), tokens.tolist(), strict=True))
        new_keys = [key for key in dict.fromkeys(keys) if key not in self._unlisted_rows]
        if new_keys:
            self._unlisted_rows |= {key: len(self) + i for i, key in enumerate(new_keys)}
            new_parents, new_tokens = np.array(new_keys).T
            states = self.states.select(new_parents)
            step = int(self.step[parents[0]])
            rows = self._find_lexicon(step + 1).automaton.find_rows(states, step)
            self._append_children(
                new_parents, new_tokens, np.zeros(len(new_keys)), rows, np.arange(len(new_keys))
            )
        return np.array([self._unlisted_rows[key] for key in keys])

    def find_known(self, row: int) -> np.ndarray:
        """Return the tokens of a text that have a row, but for unlisted ones."""
        # several visits of an unlisted text list the same tokens
        return np.unique(self.token[self.find_children(row)])

    def find_children(self, row: int) -> np.ndarray:
        """Return the rows of a text's tokens, but for unlisted ones."""
        ranges = self._children.get(row, ())
        return np.concatenate([np.arange(*each) for each in ranges]) if ranges else _NO_ROWS

    def _find_counted(self, row: int) -> np.ndarray:
        """Return the tokens that a visit of a text leaves out, since they have counted before."""
        # nothing counts of an unlisted text, so that each sample that reaches it needs all tokens
        if not self.is_listed[row]:
            return _NO_ROWS
        # its tokens are distinct, since each visit leaves out those before
        counted: np.ndarray = self.token[self.find_children(row)]
        return counted

    def _find_shares(self, row: Row) -> np.ndarray:
        """Return (outcomes, classes) the estimand's shares of a row, 0 for undecided classes."""
        if row.number not in self._row_shares:
            if len(self._row_shares) * self.automaton.class_count > MAX_ROW_ENTRIES:
                self._row_shares.clear()
            shares = self.estimand.compute_shares(row.truth, row.scores)
            self._row_shares[row.number] = np.where(row.is_undecided, 0.0, shares)
        return self._row_shares[row.number]

    def _add_decided(self, shares: np.ndarray, masses: np.ndarray) -> None:
        """Add (outcomes, n) shares of n masses to the sums."""
        self._has_terms |= (shares > 0).any(axis=1)
        self.decided = np.array(
            [
                math.fsum([total, *terms.tolist()])
                for total, terms in zip(self.decided, shares * masses, strict=True)
            ]
        )

    def _append_root(self) -> None:
        quantifiers, formulas = len(self.quantifiers), len(self.automaton.monitors)
        self._append(
            parent=np.array([-1]),
            part=np.zeros(1, dtype=np.int64),
            has_ended=np.zeros(1, dtype=bool),
            step=np.zeros(1, dtype=np.int64),
            token=np.array([NO_TOKEN]),
            probability=np.ones(1),
            mass=np.ones(1),
            is_scored=np.zeros(1, dtype=bool),
            is_listed=np.ones(1, dtype=bool),
            controls=np.full((quantifiers, 1), OPAQUE, dtype=np.int32),
            counts=np.zeros((quantifiers, 1), dtype=np.int64),
            scores=np.zeros((quantifiers, 1), dtype=np.int64),
            obligations=np.zeros((formulas, 1), dtype=np.int64),
            truth=np.full((formulas, 1), UNDECIDED, dtype=np.int8),
            truth_if_ended=np.zeros((formulas, 1), dtype=np.int8),
            situation=np.zeros(1, dtype=np.int64),
            is_open_ended=np.zeros(1, dtype=bool),
            reading=np.zeros(1, dtype=np.int32),
        )
        self.score(np.zeros(1, dtype=np.int64))

    def _append_children(
        self,
        parents: np.ndarray,
        tokens: np.ndarray,
        probabilities: np.ndarray,
        rows: TextRows,
        text: np.ndarray,
    ) -> None:
        """Add texts of one length.

        Args:
            parents, tokens, probabilities: (n,) the parent's row, the last token and its
                probability.
            rows: the rows of the automaton of visited texts.
            text: (n,) int64, the index of each parent among the visited texts.
        """
        if len(parents) == 0:
            return
        # the texts of a parent follow each other
        is_first = np.diff(parents, prepend=-1) != 0
        firsts = np.flatnonzero(is_first)
        ends = len(self) + np.append(firsts[1:], len(parents))
        for parent, first, end, probability in zip(
            parents[firsts].tolist(),
            (len(self) + firsts).tolist(),
            ends.tolist(),
            probabilities[firsts].tolist(),
            strict=True,
        ):
            if probability > 0:
                self._children[parent].append((first, end))
        step = self.step[parents] + 1
        lexicon = self._find_lexicon(int(step[0]))
        classes = lexicon.order.class_of[tokens]

        def collect(name: str) -> np.ndarray:
            return rows.gather(name, text, classes)

        self._append(
            parent=parents,
            part=self.part[parents],
            step=step,
            token=tokens,
            has_ended=collect("has_ended"),
            probability=probabilities,
            mass=self.mass[parents] * probabilities,
            is_scored=collect("is_known"),
            is_listed=self.is_listed[parents] & (probabilities > 0),
            controls=collect("controls"),
            counts=self.counts[:, parents] + collect("gains"),
            scores=collect("scores"),
            obligations=collect("obligations"),
            truth=collect("truth"),
            truth_if_ended=collect("truth_if_ended"),
            situation=collect("situations"),
            is_open_ended=np.ones(len(parents), dtype=bool),
            reading=collect("reading"),
        )

    def _append(self, **columns: np.ndarray) -> None:
        mass = columns["mass"]
        is_undecided = (columns["truth"] == UNDECIDED).any(axis=0)
        self.append(
            **columns,
            # a decided text counted at its parent
            is_visited=~is_undecided,
            is_undecided=is_undecided,
            undecided_rest=np.where(is_undecided, 1.0, 0.0),
            rest=np.ones(len(mass)),
            undecided_mass=_keep_positive(mass, is_undecided & columns["is_listed"]),
        )

    def find_limited(self) -> np.ndarray:
        """Return (n,) bool: the answers without an end or a stop, which `max_tokens` ended."""
        stages = [part.stage for part in self.parts]
        limits = np.array([stage.end if stage.is_limited else -1 for stage in stages])
        is_limited: np.ndarray = self.is_scored & self.has_ended
        is_limited &= self.step == limits[self.part]
        is_limited &= ~np.isin(self.token, list(self.process.model.end_tokens))
        if any(stage.reader.stop for stage in stages):
            for scorer, positions in self._group_by_part(rows := np.flatnonzero(is_limited)):
                group = rows[positions]
                if len(group) == 0:
                    continue
                texts = scorer.decode(self._collect_sequences(group), self.has_ended[group])
                is_limited[group] = [
                    not scorer.read(text, is_whole=True).has_stopped for text in texts
                ]
        return is_limited

    def measure_endings(self) -> Endings:
        """Measure how much of the texts had ended, and how much the horizon may cut."""
        is_terminal = self.is_terminal
        is_decided = self.is_scored & ~self.is_undecided
        has_cut = np.array([part.cut_count > 0 for part in self.parts])[self.part]
        is_answer = np.array([part.stage.is_answer for part in self.parts])[self.part]
        # an undecided text at the horizon of an answer is scored later
        is_cut = (is_terminal & ~self.has_ended & is_answer) | (has_cut & is_decided)
        ends_text = np.array([part.stage.is_last is True for part in self.parts])[self.part]
        is_complete = is_terminal & ends_text
        is_complete[self._last_rows] = True
        must_end = self.process.stages[0].is_limited
        # the ends of earlier answers of a conversation are not kept
        is_known = must_end and len(self.process.stages) == 1
        return build_endings(
            self.mass,
            self.has_ended & is_complete & ~has_cut,
            is_cut,
            is_decided & ~is_complete & ~is_cut,
            can_end=len(self.process.model.end_tokens) > 0
            or any(stage.reader.stop for stage in self.process.stages),
            must_end=must_end,
            is_thinking=None
            if self.process.stages[0].reader.marks is None
            else np.where(
                has_cut,
                np.array([part.is_thought_cut for part in self.parts])[self.part],
                self.automaton.find_thinking(self.reading),
            ),
            is_limited=self.find_limited() if is_known else None,
        )

    def check_law(self, count: int = 64) -> None:
        """Compare the scores of a few texts with the quantifiers' plain calls.

        Some of the texts were visited. Others have a last token of any probability, because the
        automaton decides improbable tokens too, which no sample may draw.

        Args:
            count: the largest number of visited texts, and of others.

        Raises:
            ConfigError: a transducer and its quantifier disagree.
        """
        stages = [part.stage for part in self.parts]
        is_answer = np.array([stage.is_answer for stage in stages])[self.part]
        begins = self.step == np.array([stage.first for stage in stages])[self.part]
        # a later part that no request has read may have a prompt that its model rejects
        is_checked = is_answer & ~(begins & ~self.is_visited & (self.part > 0))
        rows = _spread(np.flatnonzero(self.is_listed & self.is_scored & is_checked), count)
        for step in np.unique(self.step[rows]):
            self.score_plainly(rows[self.step[rows] == step])
        # without a transducer nothing is decided ahead
        if None not in self.automaton.tables:
            self._check_next_tokens(is_checked, count)

    def _check_next_tokens(self, is_checked: np.ndarray, count: int) -> None:
        """Compare the scores after a token of any class with the quantifiers' plain calls.

        Args:
            is_checked: (n,) bool, the texts that may be read.
            count: as in `check_law`.
        """
        is_open = self.is_listed & self.is_scored & self.is_undecided & ~self.is_terminal
        is_open &= is_checked
        texts = _spread(np.flatnonzero(is_open), max(1, count // _LAW_TOKENS))
        generator = np.random.default_rng(0)
        tokens = generator.permutation(np.flatnonzero(self.automaton.has_piece))
        classes, first = np.unique(self.automaton.class_of[tokens], return_index=True)
        # an ended text keeps its score
        tokens = generator.permutation(tokens[first[~self.automaton.has_ended[classes]]])
        for index, row in enumerate(texts.tolist()):
            chosen = np.roll(tokens, -index * _LAW_TOKENS)[:_LAW_TOKENS]
            rows = self.automaton.find_rows(
                self.states.select(np.array([row])), int(self.step[row])
            )
            of_first, of_class = np.zeros_like(chosen), self.automaton.class_of[chosen]
            before = self._collect_sequences(np.array([row]))
            sequences = np.column_stack([before.repeat(len(chosen), axis=0), chosen])
            scorer = self._get_scorer(int(self.part[row]))
            is_cut = int(self.step[row]) + 1 == scorer.part.stage.end
            scorer.compare(
                scorer.decode(sequences, np.zeros(len(chosen), dtype=bool)),
                np.full(len(chosen), is_cut),
                rows.gather("scores", of_first, of_class),
                rows.gather("is_known", of_first, of_class),
            )

    def decode(self, rows: np.ndarray) -> list[str]:
        """Return the texts of rows of one length, as a person receives them.

        Each is from the first token of its prompt on.
        """
        texts, is_terminal = self._decode_raw(rows), self.is_terminal[rows].tolist()
        for scorer, positions in self._group_by_part(rows):
            for position in positions.tolist():
                texts[position] = scorer.show(texts[position], is_whole=is_terminal[position])
        return texts

    def _decode_raw(self, rows: np.ndarray) -> list[str]:
        """Return the texts of rows of one length with all that the model wrote."""
        texts = [""] * len(rows)
        for scorer, positions in self._group_by_part(rows):
            group = rows[positions]
            decoded = scorer.decode(self._collect_sequences(group), self.has_ended[group])
            for position, text in zip(positions.tolist(), decoded, strict=True):
                texts[position] = text
        return texts

    def decode_parts(self, rows: np.ndarray) -> list[str]:
        """Return the texts of the last parts of rows of one length."""
        texts = self.decode(rows)
        for scorer, positions in self._group_by_part(rows):
            for position in positions.tolist():
                texts[position] = scorer.split(texts[position])[1]
        return texts

    def score_plainly(self, rows: np.ndarray) -> tuple[list[str], np.ndarray]:
        """Return texts of one length, and (quantifiers, n) their scores by plain calls.

        Raises:
            ConfigError: a transducer and its quantifier disagree.
        """
        texts = self._decode_raw(rows)
        plain = np.zeros((len(self.quantifiers), len(rows)), dtype=np.int64)
        is_terminal = self.is_terminal[rows]
        for scorer, positions in self._group_by_part(rows):
            group = rows[positions]
            plain[:, positions] = scorer.compare(
                [texts[position] for position in positions.tolist()],
                is_terminal[positions],
                self.scores[:, group],
                self.is_scored[group],
            )
        return self.decode(rows), plain

    def _collect_sequences(self, rows: np.ndarray) -> np.ndarray:
        """Return (n, length) int64: the tokens of texts of one length and part, with its prompt."""
        prompt = self.parts[self.part[rows[0]]].prompt
        return join_prompt(prompt, self.collect_continuations(rows))


def _spread(rows: np.ndarray, count: int) -> np.ndarray:
    """Return some rows, spread over all of them, the first and the last included."""
    positions = np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(np.int64)
    chosen: np.ndarray = rows[np.unique(positions)]
    return chosen


def _keep_positive(mass: np.ndarray, exists: np.ndarray | bool = True) -> np.ndarray:
    """Return masses that are above 0 where they exist, and 0 elsewhere.

    A mass of 0 means that no text is left. Rounding and underflow may not show this: the bounds 0
    and 1 would be taken for certain.
    """
    kept: np.ndarray = np.where(exists, mass.clip(min=MIN_NORMAL), 0.0)
    return kept
