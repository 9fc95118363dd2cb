"""Conversations on servers that list few tokens: their samples have the exact mean, bounds and
intervals contain the enumerated truth, and models in the process may take part."""

import os
import random
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from helpers import oracle
from helpers.conversations import (
    Actor,
    ChatTable,
    Result,
    build_conversation,
    chat_table,
    enumerate_conversations,
)
from helpers.fake_server import running
from helpers.interval_watch import IntervalWatch
from helpers.marks import long
from helpers.questions import check_anytime, check_conversation
from helpers.random_tables import Balance, ReadBalance, ReadSpoilt, Spoilt
from helpers.served_models import DIALECTS, connected, fake_chat
from helpers.served_tables import ServedTable
from scipy.stats import binom

from llmchecker.checking.anytime.continuation_sampler import ContinuationRound
from llmchecker.checking.anytime.control_variates import CORRECTION_LIMITS, TextPredictor
from llmchecker.checking.anytime.path_sampler import split_tree
from llmchecker.checking.anytime.prompt_reader import PromptReader
from llmchecker.checking.anytime.refinement import select_batch
from llmchecker.checking.budget import Budget
from llmchecker.checking.conversations.conversation_process import ConversationProcess
from llmchecker.checking.question import Question
from llmchecker.checking.runs import answer_question, answer_side_by_side
from llmchecker.models.continuation import Continuation
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.processes.conversation import Conversation
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.pattern import Pattern

SEEDS = int(os.environ.get("COVERAGE_SEEDS", "40"))
OPAQUE = {"balance": Balance("a", "b"), "spoilt": Spoilt("b", "a")}
READ = {"balance": ReadBalance("a", "b"), "spoilt": ReadSpoilt("b", "a")}
BALANCE = ("atom", "balance", ">", 0)
SPOILT = ("atom", "spoilt", "=", 0)
SECOND = ("atom", "turn", "=", 2)
FORMULAS = [
    ("G", None, ("!", SPOILT)),
    ("F", None, ("&", SECOND, BALANCE)),
    ("X", SPOILT),
    ("G", None, ("=>", SECOND, BALANCE)),
    ("F", None, ("G", None, ("|", SPOILT, BALANCE))),
    ("W", ("label", "end"), SPOILT),
    ("G", None, ("!", SECOND)),
    ("|", ("!", SPOILT), ("X", ("G", None, ("!", SPOILT)))),
]


def remember(table: ChatTable) -> ChatTable:
    """The table, which computes each distribution once."""
    table.distribution = cache(table.distribution)
    return table


def find_truth(model: ChatTable, turns: list, formula: tuple, length: int) -> Fraction:
    # the first state is before the first answer
    return enumerate_conversations(model, turns, length, OPAQUE).probability_of(("X", formula))


def ask(formula: tuple, length: int, quantifiers: dict) -> Property:
    query = parse(f"P=? [ {oracle.written(formula)} ]")
    named = {name: each for name, each in quantifiers.items() if name in query.variables}
    return Property(query, named, length)


class Round:
    """A round of a conversation of two turns, whose samples are all of its conversations.

    Args:
        formula: the formula.
        quantifiers: the quantifiers.
        passes: the passes that have refined the tree.
    """

    TURNS = ("ab", "b{1}")

    def __init__(self, formula: tuple, quantifiers: dict, passes: int) -> None:
        self.table = remember(chat_table(11))
        self.model = ServedTable(self.table, 2)
        self.length, conversation = 2, build_conversation(self.TURNS)[0]
        self.process = ConversationProcess(self.model, conversation, self.length, {})
        self.tree = self.process.create_tree(ask(formula, self.length, quantifiers))
        self.reader, self.predictor = PromptReader(self.process), TextPredictor()
        self.truth = float(find_truth(self.table, list(self.TURNS), formula, self.length))
        while self.tree.passes < passes and len(rows := select_batch(self.tree, 1)):
            self.tree.score(rows)
            if self.tree.is_undecided[rows].all():
                request = self.tree.build_request(rows)
                self.tree.add_step(rows, request, self.reader.answer(request, np.array([0])))

    def draw(self, count: int, first: int) -> ContinuationRound:
        """Serve a round of random samples."""
        samples = ContinuationRound(
            self.tree, self.tree.estimand, split_tree(self.tree), self.predictor, 0, first, count
        )
        requests, answer = samples.run(), None
        with self.model.open_prefix(()).open_stream() as stream:
            while True:
                try:
                    request = requests.send(answer)
                except StopIteration:
                    return samples
                answer = list(stream.continue_texts(request.prompted))

    def enumerate(self, part) -> list[tuple[int, bool, dict[int, list[int]], Fraction]]:
        """Every beginning, whether it is a rest, the tokens of each turn, and the probability."""
        total, found = sum(map(Fraction, part.weights.tolist())), []
        for row, weight in zip(part.leaves.tolist(), part.weights.tolist(), strict=True):
            self.tree.score(np.array([row]))
            excluded = self.tree.find_known(row).tolist() if self.tree.is_visited[row] else []
            at = self.tree.parts[self.tree.part[row]]
            tokens = self.tree.collect_continuations(np.array([row]))[0].tolist()
            texts = [given.text for given in at.given]
            for turns, chance in self.list_paths(texts, tokens, excluded):
                share = chance * Fraction(weight) / total
                found.append((row, bool(self.tree.is_visited[row]), turns, share))
        return found

    def list_paths(self, texts: list[str], tokens: list[int], excluded: list[int]):
        """Every continuation: the tokens of each turn from this one on, and the probability."""
        turn = len(texts) + 1
        is_over = bool(tokens) and (tokens[-1] in self.table.end_tokens or len(tokens) == 2)
        if is_over and turn == 2:
            yield {turn: tokens}, Fraction(1)
        elif is_over:
            text = "".join(self.table.vocabulary[t] for t in tokens if t != 3)
            for later, chance in self.list_paths([*texts, text], [], []):
                yield {turn: tokens, **later}, chance
        else:
            messages = [("user", self.TURNS[0])]
            for text in texts:
                messages += [("assistant", text), ("user", self.TURNS[1].replace("{1}", text))]
            prompt = self.table.encode(Chat(tuple(messages)))
            weights = dict(enumerate(map(Fraction, self.table.distribution((*prompt, *tokens)))))
            left = {t: p for t, p in weights.items() if p > 0 and t not in excluded}
            for token, share in left.items():
                for path, chance in self.list_paths(texts, [*tokens, token], []):
                    yield path, chance * share / sum(left.values())

    def reply(self, request, paths, active, stop: int) -> list[Continuation]:
        """The next tokens of the samples' own conversations, with their lists."""
        replies = []
        for sample, task, part in zip(active, request.continuations, request.parts, strict=True):
            done, tokens = len(task.tokens), paths[sample][2][part.stage.turn]
            tokens = tokens[done : done + min(stop, task.max_tokens)]
            lists = [
                self.model.open_prefix(())._list((*part.prompt, *task.tokens, *tokens[:position]))
                for position in range(bool(task.excluded), len(tokens))
            ]
            pairs = np.array(lists, dtype=float).reshape(len(lists), 2, 2)
            replies.append(
                Continuation(np.array(tokens), pairs[:, 0].astype(np.int64), pairs[:, 1])
            )
        return replies


@pytest.mark.few(8)
@pytest.mark.parametrize(("earlier", "meanwhile"), [(0, 0), (100, 0), (100, 100)])
@pytest.mark.parametrize("stop", [1, 99])
@pytest.mark.parametrize("quantifiers", [OPAQUE, READ], ids=["opaque", "read"])
@pytest.mark.parametrize("formula", FORMULAS[:5], ids=oracle.written)
def test_the_mean_over_all_conversations_is_the_truth(
    formula, quantifiers, stop, earlier, meanwhile
):
    """Over every beginning and every conversation, weighted by its exact probability, the values
    have the enumerated mean for every limit of control variates, and keep their range."""
    setting = Round(formula, quantifiers, passes=6)
    if earlier:
        setting.draw(earlier, 10_000).learn(setting.predictor)
    part = split_tree(setting.tree)
    paths = setting.enumerate(part)
    samples = ContinuationRound(
        setting.tree, setting.tree.estimand, part, setting.predictor, 0, 0, len(paths)
    )
    samples.corrections.sums[:] = 0.0
    samples._row = np.array([row for row, *_ in paths])
    samples._is_rest = np.array([is_rest for _, is_rest, *_ in paths])
    samples._is_seeking[:] = False
    requests = samples.run()
    request = next(requests)
    if meanwhile:
        setting.draw(meanwhile, 20_000).learn(setting.predictor)
    while not samples.is_complete.all():
        active = samples._finish_all(np.flatnonzero(~samples.is_complete)).tolist()
        try:
            request = requests.send(setting.reply(request, paths, active, stop))
        except StopIteration:
            break
    assert samples.is_complete.all()
    weights = np.array([float(chance) for *_, chance in paths])
    # a rest without any token counts as 2^-52
    assert weights.sum() == pytest.approx(1, abs=1e-9)
    assert samples.numerator.min() >= 0
    assert samples.numerator.max() <= 1 + 1e-12
    for (below, above), sums in zip(CORRECTION_LIMITS, samples.corrections.sums, strict=True):
        values = samples.numerator - sums
        mean = part.numerator + part.total * float(weights @ values)
        assert mean == pytest.approx(setting.truth, abs=1e-9)
        assert values.min() >= -above - 1e-12
        assert values.max() <= 1 + below + 1e-12


@dataclass(frozen=True)
class Setting:
    """A conversation of which at least one model is on a server.

    Attributes:
        model: the model.
        turns: as in `enumerate_conversations`.
        formula: the formula.
        length: the largest number of tokens of an answer.
        quantifiers: the quantifiers.
    """

    model: ChatTable
    turns: list
    formula: tuple
    length: int
    quantifiers: dict

    @classmethod
    def at_random(cls, seed: int) -> "Setting":
        """A random table with random turns, served or not."""
        chance = random.Random(seed)
        is_truncated = chance.random() < 0.3
        table = remember(chat_table(seed, calls=True, is_truncated=is_truncated))
        model = ServedTable(table, chance.choice([1, 2, 3])) if chance.random() < 0.8 else table
        actor = remember(chat_table(1000 + seed, is_truncated=chance.random() < 0.3))
        # one of the two models is on a server
        if model is table or chance.random() < 0.5:
            actor = ServedTable(actor, chance.choice([1, 2, 3]))
        user = Actor(actor, "b", chance.choice([1, 2]))
        kinds = [
            (["ab", "b{1}"], 3),
            (["ab", "c{1}a", "b{1}"], 1),
            (["ab", Result("b{1}")], 2),
            (["ab", user], 2),
            (["ab", Result("a"), user], 1),
            (["ab", user, user], 1),
        ]
        turns, length = kinds[seed % len(kinds)] if model is not table else kinds[3 + seed % 3]
        formula = FORMULAS[seed // 6 % len(FORMULAS)]
        return cls(model, turns, formula, length, chance.choice([OPAQUE, READ]))

    @property
    def truth(self) -> Fraction:
        """The probability of the formula."""
        return find_truth(self.model, self.turns, self.formula, self.length)

    def check(self, **limits):
        """Check the formula."""
        watch = limits.pop("watch", lambda progress: None)
        conversation, users = build_conversation(self.turns)
        asked = ask(self.formula, self.length, self.quantifiers)
        budget = Budget(**limits)
        return check_conversation(self.model, conversation, asked, budget, users, watch=watch)


@pytest.mark.parametrize("seed", [*range(24), *long(*range(24, 120))])
def test_certain_bounds_contain_the_truth_after_any_number_of_passes(seed):
    """Whatever is on a server and whenever the work stops, the certain bounds hold, and so does an
    interval of high confidence."""
    setting = Setting.at_random(seed)
    truth, seen = setting.truth, []
    for passes in (1, random.Random(seed).randrange(2, 30), 120):
        answer = setting.check(
            passes=passes, seed=seed, confidence=1 - 1e-9, watch=lambda each: seen.append(each)
        )
        assert Fraction(answer.lower) <= truth <= Fraction(answer.upper)
        assert answer.passes <= passes
        if answer.samples:
            assert answer.low - 1e-9 <= truth <= answer.high + 1e-9
    assert all(each.certain.lower - 1e-9 <= truth <= each.certain.upper + 1e-9 for each in seen)


def find_setting(kind: str) -> Setting:
    """A conversation of a kind, whose truth is neither near 0 nor near 1."""
    for seed in range(100):
        table, actor = remember(chat_table(seed)), remember(chat_table(500 + seed))
        served, served_actor = ServedTable(table, 2), ServedTable(actor, 2)
        models = {
            "scripted": (served, ["ab", "b{1}"]),
            "served user": (served, ["ab", Actor(served_actor, "b", 2)]),
            "user in the process": (served, ["ab", Actor(actor, "b", 2)]),
            "model in the process": (table, ["ab", Actor(served_actor, "b", 2)]),
        }
        setting = Setting(*models[kind], ("F", None, ("&", SECOND, BALANCE)), 3, READ)
        if 0.1 <= setting.truth <= 0.9:
            return setting
    raise AssertionError("no table suits the formula")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "kind", ["scripted", "served user", "user in the process", "model in the process"]
)
def test_intervals_cover_the_truth_at_all_times(kind):
    """Misses at any time are not significantly more frequent than the confidence allows."""
    setting, confidence = find_setting(kind), 0.8
    truth, misses, samples = float(setting.truth), 0, 0
    for seed in range(SEEDS):
        watch = IntervalWatch(truth)
        samples += setting.check(passes=80, confidence=confidence, seed=seed, watch=watch).samples
        misses += watch.has_missed
    assert binom.sf(misses - 1, SEEDS, 1 - confidence) > 1e-4
    assert samples > 8 * SEEDS


@pytest.mark.parametrize("seed", range(4))
def test_a_conversation_of_one_turn_is_an_answer(seed):
    """Bounds and endings of one turn are those of the same query on the answer's tokens, digit for
    digit, and the interval of the samples is about as wide."""
    model = ServedTable(remember(chat_table(seed)), 2)
    conversation, _ = build_conversation(["ab"])
    query = parse('P=? [ F ("end" & balance > 0) ]')
    asked, limits = Property(query, {"balance": READ["balance"]}, 4), Budget(passes=60, seed=seed)
    alone = check_anytime(model, conversation.chat, asked, limits)
    turn = check_conversation(model, conversation, asked, limits)
    assert (turn.certain, turn.endings) == (alone.certain, alone.endings)
    assert turn.sampled is not None
    assert alone.sampled is not None
    assert abs(turn.sampled.interval.width - alone.sampled.interval.width) < 0.2


def test_questions_side_by_side_get_the_answers_that_each_gets_alone():
    """Conversations and answers about one served model have the bounds and intervals of each."""
    model = ServedTable(remember(chat_table(7)), 2)
    quantifiers, questions = {"b": Pattern("b")}, []
    for turns, query in ((["ab", "b{1}"], "F b = 1"), (["ab"], "G b = 0"), (["b", "a"], "X b = 1")):
        conversation, _ = build_conversation(turns)
        questions.append(
            Question(
                model=None,
                prompt=conversation.chat,
                conversation=conversation if len(turns) > 1 else None,
                asked=Property(parse(f"P=? [ {query} ]"), quantifiers, 3),
                budget=Budget(passes=90),
            )
        )
    found = dict(answer_side_by_side(model, questions))
    for index, question in enumerate(questions):
        alone = answer_question(replace(question, model=model))
        assert found[index].certain == alone.certain
        assert found[index].sampled == alone.sampled
        assert found[index].passes == alone.passes


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_server_holds_conversations(tmp_path, dialect):
    """Over HTTP each part continues the prompt that the template writes, and both bounds contain
    the truth."""
    setting = find_setting("scripted")
    truth, chat = float(setting.truth), Chat((("user", "ab"),))
    conversation = Conversation(chat, build_conversation(setting.turns)[0].later_turns)
    asked = ask(setting.formula, setting.length, setting.quantifiers)
    server = fake_chat(tmp_path, setting.model, dialect)
    with running(server) as address:
        model = connected(tmp_path, server, address, seconds=5)
        for seed in range(4):
            limits = Budget(passes=80, confidence=1 - 1e-6, seed=seed)
            answer = check_conversation(model, conversation, asked, limits)
            assert answer.lower - 1e-9 <= truth <= answer.upper + 1e-9
            assert answer.low <= truth <= answer.high
            assert answer.samples > 8
