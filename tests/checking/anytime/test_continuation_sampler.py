"""Samples that a server continues have the exact mean, and their values keep their range."""

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from helpers.anytime_checks import Kind, expected_score, plant, refine, serve
from helpers.random_tables import END, QUANTIFIERS, READ_QUANTIFIERS, table_model

from llmchecker.checking.anytime import continuation_sampler
from llmchecker.checking.anytime.answer_process import AnswerProcess
from llmchecker.checking.anytime.continuation_sampler import ContinuationRound
from llmchecker.checking.anytime.control_variates import (
    CORRECTION_LIMITS,
    Corrections,
    TextPredictor,
)
from llmchecker.checking.anytime.path_sampler import UndecidedPart, split_tree
from llmchecker.checking.anytime.step_request import ContinuationRequest
from llmchecker.models.continuation import Continuation, ContinuationTask

MANY_A = ("F", None, ("atom", "gender", ">", 1))
NO_D = ("G", None, ("atom", "polarity", ">=", 0))
MIXED = {**READ_QUANTIFIERS, "polarity": QUANTIFIERS["polarity"]}
KINDS = [
    Kind(MANY_A),
    Kind(MANY_A, quantifiers=QUANTIFIERS),
    Kind(NO_D, quantifiers=MIXED),
    Kind(("F", None, ("G", None, ("atom", "gender", ">", 0)))),
    expected_score(3),
]


class Beginnings:
    """A tree of a table that lists few tokens, and samples from its undecided part.

    Args:
        kind: the kind of query.
        seed: of the table.
        passes: the passes that have refined the tree.
    """

    def __init__(self, kind: Kind, seed: int = 5, passes: int = 2) -> None:
        self.table = table_model(seed)
        self.table.listed_tokens = 2
        self.tree, self.server = plant(kind.ask(), self.table)
        self.prompt, self.predictor = self.table.encode("a"), TextPredictor()
        while self.tree.passes < passes and refine(self.tree, self.server, 1):
            pass

    def start(self, count: int, first: int = 0) -> ContinuationRound:
        """Return a round that is not served yet."""
        part = split_tree(self.tree)
        return ContinuationRound(
            self.tree, self.tree.estimand, part, self.predictor, 0, first, count
        )

    def draw(self, count: int, first: int = 0) -> ContinuationRound:
        """Draw a round of samples."""
        samples = self.start(count, first)
        serve(samples.run(), self.server)
        return samples

    def enumerate(self, part: UndecidedPart) -> list[tuple[int, bool, list[int], Fraction]]:
        """Return every beginning, whether it is a rest, every continuation and its probability."""
        total = sum(map(Fraction, part.weights.tolist()))
        found = []
        for row, weight in zip(part.leaves.tolist(), part.weights.tolist(), strict=True):
            is_rest = bool(self.tree.is_visited[row])
            excluded = self.tree.find_known(row).tolist() if is_rest else []
            text = tuple(self.tree.collect_continuations(np.array([row]))[0].tolist())
            for path, chance in self.list_paths(text, excluded):
                found.append((row, is_rest, path, chance * Fraction(weight) / total))
        return found

    def list_paths(
        self, text: tuple[int, ...] = (), excluded: Sequence[int] = ()
    ) -> list[tuple[list[int], Fraction]]:
        """Return every continuation of a text and its probability."""
        found: list[tuple[list[int], Fraction]] = []
        paths: list[tuple[list[int], Fraction]] = [([], Fraction(1))]
        while paths:
            path, chance = paths.pop()
            is_over = len(text) + len(path) == self.tree.length
            if path and (is_over or path[-1] == END):
                found.append((path, chance))
                continue
            chances = self.chances((*text, *path), excluded if not path else [])
            paths += [([*path, t], chance * p) for t, p in chances.items()]
        return found

    def chances(self, text: tuple[int, ...], excluded: Sequence[int]) -> dict[int, Fraction]:
        """Return the exact probabilities of the next tokens, without excluded ones."""
        chances = map(Fraction, self.server.distribution(text))
        left = {t: p for t, p in enumerate(chances) if p > 0 and t not in excluded}
        return {t: p / sum(left.values()) for t, p in left.items()}

    def list_tokens(self, task: ContinuationTask, tokens: list[int]) -> Continuation:
        """Return a continuation with its lists, as a server writes it."""
        lists = []
        for position in range(bool(task.excluded), len(tokens)):
            weights = self.server.distribution((*task.tokens, *tokens[:position]))
            order = sorted(range(len(weights)), key=lambda t: (-weights[t], t))[:2]
            lists.append([(t, weights[t]) for t in order])
        pairs = np.array(lists, dtype=float).reshape(-1, 2, 2)
        return Continuation(np.array(tokens), pairs[..., 0].astype(np.int64), pairs[..., 1])

    def teach_at_random(self) -> None:
        """Teach the predictor random values."""
        chance = np.random.default_rng(0)
        situations = chance.integers(1 + self.tree.situation.max(), size=300)
        is_rest, values = chance.random(300) < 0.5, chance.random(300).round()
        self.predictor.learn(situations, is_rest, values)


@pytest.mark.few(10)
@pytest.mark.parametrize(
    ("earlier", "meanwhile", "stop"),
    [(0, 0, 99), (0, 0, 1), (200, 0, 99), (200, 0, 1), (0, 200, 99), (200, 200, 1)],
)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.query)
def test_the_mean_over_all_continuations_is_the_truth(kind, earlier, meanwhile, stop):
    """Over every beginning and every continuation, weighted by its exact probability, the values
    have the enumerated mean for every limit of control variates and stay within their range; also
    in a tree that samples have extended, before the beginnings were drawn or while the server
    works on them, and if the server stops after each token."""
    setting = Beginnings(kind)
    if earlier:
        setting.draw(earlier, first=10_000)
    setting.teach_at_random()
    part = split_tree(setting.tree)
    paths = setting.enumerate(part)
    # a rest without any token counts as 2^-52
    assert 0 <= 1 - sum(chance for *_, chance in paths) < Fraction(1, 2**40)
    samples = setting.start(len(paths))
    # the draw of the beginning is enumerated too
    samples.corrections = Corrections(len(paths))
    samples._row = np.array([row for row, *_ in paths])
    samples._is_rest = np.array([is_rest for _, is_rest, *_ in paths])
    samples._is_seeking[:] = False
    starts = setting.tree.step[samples._row].tolist()
    requests = samples.run()
    request = next(requests)
    if meanwhile:
        setting.draw(meanwhile, first=20_000).learn(setting.predictor)
    while True:
        active = samples._finish_all(np.flatnonzero(~samples.is_complete))
        replies = []
        for sample, task in zip(active.tolist(), request.continuations, strict=True):
            done = len(task.tokens) - starts[sample]
            replies.append(setting.list_tokens(task, paths[sample][2][done : done + stop]))
        try:
            request = requests.send(replies)
        except StopIteration:
            break
    assert samples.is_complete.all()
    estimand, weights = setting.tree.estimand, [float(chance) for *_, chance in paths]
    truth = (float(kind.find_truth(setting.table)) - estimand.offset) / estimand.size
    assert samples.numerator.min() >= 0
    assert samples.numerator.max() <= 1 + 1e-12
    for (below, above), corrections in zip(
        CORRECTION_LIMITS, samples.corrections.sums, strict=True
    ):
        values = samples.numerator - corrections
        mean = np.dot(weights, values)
        assert part.numerator + part.total * mean == pytest.approx(truth, abs=1e-9)
        assert values.min() >= -above - 1e-12
        assert values.max() <= 1 + below + 1e-12
    if stop > 1:
        assert np.abs(samples.corrections.sums[-1]).max() > 0.01


@pytest.mark.parametrize(("earlier", "meanwhile", "stop"), [(0, 0, 99), (200, 200, 1)])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.query)
def test_a_server_that_draws_the_beginnings_keeps_the_mean(
    kind, earlier, meanwhile, stop, monkeypatch
):
    """Over every continuation of the prompt, weighted by its exact probability, those that are
    not dropped have the undecided probability of the tree and the enumerated mean; also in a tree
    that grows while the server works, and if the server stops after each token."""
    setting = Beginnings(kind)
    if earlier:
        setting.draw(earlier, first=10_000)
    setting.teach_at_random()
    part = split_tree(setting.tree)
    paths = setting.list_paths()
    with monkeypatch.context() as patch:
        patch.setattr(continuation_sampler, "_MIN_USEFUL_SHARE", 0.0)
        samples, is_dropped = setting.start(len(paths)), np.zeros(len(paths), dtype=bool)
    requests = samples.run()
    request = next(requests)
    if meanwhile:
        setting.draw(meanwhile, first=20_000).learn(setting.predictor)
    while not (samples.is_complete | is_dropped).all():
        active = samples._finish_all(np.flatnonzero(~samples.is_complete))
        replies = []
        for sample, task in zip(active.tolist(), request.continuations, strict=True):
            done = len(task.tokens)
            replies.append(setting.list_tokens(task, paths[sample][0][done : done + stop]))
        try:
            request = requests.send(replies)
        except StopIteration:
            break
        # a dropped sample begins the prompt again
        is_dropped |= samples._is_seeking & (samples._row == 0)
    assert not earlier or is_dropped.any()
    is_kept, weights = ~is_dropped, np.array([float(chance) for _, chance in paths])
    assert weights[is_kept].sum() == pytest.approx(part.total, abs=1e-9)
    estimand = setting.tree.estimand
    truth = (float(kind.find_truth(setting.table)) - estimand.offset) / estimand.size
    for corrections in samples.corrections.sums:
        values = (samples.numerator - corrections)[is_kept]
        assert part.numerator + weights[is_kept] @ values == pytest.approx(truth, abs=1e-9)


def test_control_variates_remove_variance():
    """With what earlier samples showed, values vary less than the truth of single texts."""
    setting = Beginnings(Kind(MANY_A, length=4))
    for number in range(4):
        setting.draw(200, first=1000 * number).learn(setting.predictor)
    samples = setting.draw(1000, first=9000)
    best = min((samples.numerator - each).std() for each in samples.corrections.sums)
    mean = float(samples.numerator.mean())
    assert best < 0.7 * (mean * (1 - mean)) ** 0.5


def test_each_sample_has_a_seed_of_its_own():
    """No two tasks of a check share a seed, and those of one text are consecutive."""
    setting, seeds = Beginnings(Kind(MANY_A, length=4)), []
    for number in range(3):
        requests = setting.start(50, first=50 * number).run()
        try:
            request = next(requests)
            while True:
                tasks = request.continuations
                seeds += [seed for task in tasks for seed in (task.seed, task.second_seed)]
                in_order = sorted(tasks, key=lambda task: task.seed)
                changes = sum(a.tokens != b.tokens for a, b in itertools.pairwise(in_order))
                assert changes < len({(task.tokens, task.excluded) for task in tasks}) + 1
                assert in_order[-1].seed - in_order[0].seed == len(tasks) - 1
                request = requests.send(setting.server.answer(request))
        except StopIteration:
            pass
    assert len(set(seeds)) == len(seeds) >= 300


def test_a_stopped_answer_leaves_the_other_samples_incomplete():
    """If a server's answer has fewer continuations than tasks, only these samples count."""
    setting = Beginnings(Kind(MANY_A, length=4))
    samples = setting.start(20)
    requests = samples.run()
    request = next(requests)
    with pytest.raises(StopIteration):
        requests.send(setting.server.answer(request)[:7])
    assert 0 < samples.is_complete.sum() <= 20 - (len(request.continuations) - 7)


def test_every_token_of_the_server_is_a_pass():
    """Tokens after a decision cost as many passes as those before it."""
    setting = Beginnings(Kind(MANY_A, length=4))
    passes, counts, answer = setting.tree.passes, [], setting.server.answer

    def count(request):
        reply = answer(request)
        counts.extend(len(each.tokens) for each in reply)
        return reply

    setting.server.answer = count
    setting.draw(30)
    assert setting.tree.passes - passes == sum(counts) > 30


def test_a_budget_shortens_continuations():
    """A request for at most some passes shares them equally, and none is left without a token."""
    tasks = [ContinuationTask((1,), 5, 7), ContinuationTask((1, 2), 1, 8)]
    part = AnswerProcess(table_model(5), "a", 6).first
    request = ContinuationRequest(tasks, [part, part])
    assert request.limit_passes(float("inf")) is request
    assert [t.max_tokens for t in request.limit_passes(7).continuations] == [3, 1]
    assert request.limit_passes(1) is None
