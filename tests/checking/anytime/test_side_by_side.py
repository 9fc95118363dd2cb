import gc
import pickle
import weakref
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from helpers.anytime_checks import FakeClock
from helpers.questions import check_anytime
from helpers.random_tables import QUANTIFIERS, table_model

from llmchecker.checking.answer import Answer
from llmchecker.checking.anytime import model_batches, side_by_side
from llmchecker.checking.anytime.anytime_check import AnytimeCheck
from llmchecker.checking.anytime.explored_tree import ExploredTree
from llmchecker.checking.budget import Budget
from llmchecker.checking.question import Question
from llmchecker.checking.runs import answer_side_by_side
from llmchecker.errors import CancelledCheck, CheckFailed, ConfigError, MachineLimit
from llmchecker.models.decoding.settings import Decoding
from llmchecker.models.transformers.load import load_model
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.utils.interval import PROBABILITIES

STARTS = ("a", "ab", "b", "bca", "abca", "d")
QUERIES = ("P=? [ F gender > 2 ]", "P>=0.4 [ G gender > -2 ]", "P=? [ F G polarity > 0 ]")


def question(start: str, query: str, passes: int = 60, seed: int = 3) -> Question:
    quantifiers = {name: value for name, value in QUANTIFIERS.items() if name in query}
    asked = Property(parse(query), quantifiers, 6)
    return Question(None, start, asked, Budget(passes=passes, confidence=0.9, seed=seed))


def figures(result: Answer) -> tuple:
    verdict = result
    return (
        verdict.lower,
        verdict.upper,
        verdict.low,
        verdict.high,
        result.passes,
        result.history[-1].samples,
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(5))
def test_questions_side_by_side_get_the_answers_that_each_gets_alone(seed):
    """Neither the company of other questions nor their order changes an answer by a bit."""
    model = table_model(seed)
    questions = [question(start, query) for start in STARTS for query in QUERIES]
    found = dict(answer_side_by_side(model, questions))
    assert sorted(found) == list(range(len(questions)))
    for index, each in enumerate(questions):
        alone = check_anytime(model, each.prompt, each.asked, each.budget)
        assert figures(found[index]) == figures(alone)
        assert found[index].evidence.scored.tree.digest == alone.evidence.scored.tree.digest


@pytest.mark.few(1)
@pytest.mark.parametrize("seconds", [1.5, 7, 40])
def test_a_deadline_is_kept_side_by_side(seconds, monkeypatch):
    """On a model of one second a text a question ends at most one text after its deadline, in
    the company of questions without one, and all answers are right."""
    model = table_model(2)
    questions = [question(start, QUERIES[0]) for start in ("a", "ab", "abca")]
    timed = Budget(seconds=seconds, confidence=0.9999)
    questions += [replace(each, budget=timed) for each in questions]
    expected = dict(answer_side_by_side(model, questions[:3]))
    exact = Budget(width=1e-9)
    truths = [check_anytime(model, q.prompt, q.asked, exact) for q in questions[3:]]
    clock = FakeClock(monkeypatch)
    found = {}
    for index, result in answer_side_by_side(clock.slow(model), questions):
        found[index] = result
        assert index < 3 or clock.now <= seconds + 1
    for index in range(3):
        assert figures(found[index]) == figures(expected[index])
    for index, truth in enumerate(truths, 3):
        verdict = found[index]
        assert verdict.lower <= truth.upper
        assert truth.lower <= verdict.upper
        if verdict.low is not None:
            assert verdict.low <= truth.upper
            assert truth.lower <= verdict.high


def test_a_far_deadline_changes_no_bit(monkeypatch):
    """Batches that a deadline limits give the answers of unlimited batches."""
    # every limited batch has one text
    monkeypatch.setattr(model_batches, "_BATCH_SECONDS", 0)
    questions = [question(start, query) for start in STARTS[:3] for query in QUERIES]
    late = [replace(q, budget=q.budget.model_copy(update={"seconds": 1e6})) for q in questions]
    model = _CountingModel(table_model(1))
    found = dict(answer_side_by_side(model, questions))
    batches, model.batches = model.batches.copy(), []
    split = dict(answer_side_by_side(model, late))
    assert len(model.batches) > len(batches)
    assert {index: figures(result) for index, result in split.items()} == {
        index: figures(result) for index, result in found.items()
    }


class _CountingModel:
    """A model that counts the batches that it evaluates."""

    def __init__(self, model) -> None:
        self._model, self.batches = model, []

    def __getattr__(self, name):
        return getattr(self._model, name)

    def open_prefix(self, prompt, max_length=0, **options):
        prefix, batches = self._model.open_prefix(prompt, max_length, **options), self.batches

        class Prefix:
            def map_next(self, function, continuations, will_extend=False):
                batches.append(len(continuations))
                return prefix.map_next(function, continuations, will_extend)

            def read_ahead(self, continuations):
                prefix.read_ahead(continuations)

        return Prefix()


def test_texts_of_several_questions_share_batches():
    """Questions side by side need fewer and larger batches than one after the other."""
    model = _CountingModel(table_model(1))
    questions = [question("a" + rest, QUERIES[0]) for rest in ("b", "c", "d", "a")]
    list(answer_side_by_side(model, questions))
    together, model.batches = model.batches.copy(), []
    for each in questions:
        check_anytime(model, each.prompt, each.asked, each.budget)
    assert len(together) < len(model.batches)
    assert np.mean(together) > np.mean(model.batches)


def test_two_questions_about_one_prompt_pay_for_a_text_once():
    """A second equal question evaluates no text of the model, and both have the same answer."""
    model = _CountingModel(table_model(1))
    ((_, alone),) = answer_side_by_side(model, [question("ab", QUERIES[0], passes=20)])
    evaluated, model.batches = sum(model.batches), []
    found = dict(answer_side_by_side(model, [question("ab", QUERIES[0], passes=20)] * 2))
    assert sum(model.batches) == evaluated
    assert figures(found[0]) == figures(found[1]) == figures(alone)


def test_an_error_of_a_question_leaves_the_others():
    """A start string and a quantifier that fail end their own questions only."""

    def fail(start: str, continuation: str) -> int:
        raise ConfigError("score: no number; return an integer")

    fail.minimum = fail.maximum = None
    broken = Property(parse("P=? [ F gender > 0 ]"), {"gender": fail}, 6)
    questions = [
        question("a", QUERIES[0]),
        question("a?", QUERIES[0]),
        Question(None, "ab", broken, Budget(passes=20)),
        question("ac", QUERIES[1]),
    ]
    found = dict(answer_side_by_side(table_model(2), questions))
    assert isinstance(found[0], Answer)
    assert isinstance(found[3], Answer)
    assert "a?" in str(found[1]) or "?" in str(found[1])
    assert "no number" in str(found[2])


def check_with_failing_text(failure):
    """Check three questions of a model that fails on one text; return the outcomes by number."""
    model = table_model(4)

    class Picky(_CountingModel):
        def open_prefix(self, prompt, max_length=0, **options):
            prefix = self._model.open_prefix(prompt, max_length, **options)

            class Prefix:
                def map_next(self, function, continuations, will_extend=False):
                    texts = model.decode([[*prompt, *row] for row in continuations.tolist()])
                    if any(text.startswith("aab") for text in texts):
                        raise failure
                    return prefix.map_next(function, continuations, will_extend)

                def read_ahead(self, continuations):
                    raise failure

            return Prefix()

    questions = [question(start, QUERIES[0], passes=30) for start in ("aab", "aac", "aad")]
    return dict(answer_side_by_side(Picky(model), questions))


@pytest.mark.parametrize("failure", [CheckFailed("aab: refused"), RuntimeError("refused")])
def test_a_text_that_the_model_refuses_ends_its_own_question(failure):
    """If a batch fails, each of its questions is asked alone, and only the cause fails."""
    found = check_with_failing_text(failure)
    assert "refused" in str(found[0])
    assert all(isinstance(found[index], Answer) for index in (1, 2))


@pytest.mark.long
@pytest.mark.parametrize(
    "decoding",
    [{"encoder_repetition_penalty": 5.0}, {"encoder_no_repeat_ngram_size": 1}, {}],
)
def test_decoding_that_compares_texts_with_the_prompt_gets_whole_prompts(random_model, decoding):
    """Tokens of a prompt count as the prompt's, also if another prompt has only some of them."""
    model = load_model(random_model("llama")).with_decoding(Decoding.from_settings(decoding))
    asked = Property(parse("P=? [ F step > 1 ]"), {}, 3)
    budget = Budget(passes=20, confidence=0.9)
    starts = ("The player", "The player won", "The judge won because")
    questions = [Question(model, start, asked, budget) for start in starts]
    found = dict(answer_side_by_side(model, questions))
    for index, each in enumerate(questions):
        alone = check_anytime(model, each.prompt, each.asked, each.budget)
        np.testing.assert_array_equal(
            found[index].evidence.scored.tree.parent, alone.evidence.scored.tree.parent
        )
        np.testing.assert_allclose(
            found[index].evidence.scored.tree.probability,
            alone.evidence.scored.tree.probability,
            rtol=1e-4,
        )


@pytest.mark.long
def test_the_query_of_a_question_is_built_when_its_check_begins():
    """Quantifiers are created once, and an error in it ends its own question only."""
    read = []

    asked = question("a", QUERIES[0]).asked

    class Late(Mapping):
        def __init__(self, number: int) -> None:
            self._number = number

        def __getitem__(self, name: str):
            read.append(self._number)
            if self._number == 1:
                raise ConfigError("pattern: unusable; write another")
            return asked.quantifiers[name]

        def __iter__(self):
            return iter(asked.quantifiers)

        def __len__(self) -> int:
            return len(asked.quantifiers)

    questions = [
        Question(None, "a", replace(asked, quantifiers=Late(number)), Budget(passes=20))
        for number in range(100)
    ]
    answers = answer_side_by_side(table_model(3), questions)
    index, error = next(answers)
    assert (index, "unusable" in str(error)) == (1, True)
    # the others wait for a free place
    assert len(read) < 100
    found = dict(answers)
    assert sorted(read) == list(range(100))
    assert all(isinstance(found[index], Answer) for index in range(2, 100))


def test_the_bounds_of_a_threshold_contain_the_bounds_of_its_probability():
    """The bounds of the probability of a threshold contain its value on the whole tree."""
    model = table_model(6)
    few = question("a", "P>=0.5 [ F gender > 2 ]", passes=10)
    threshold = check_anytime(model, "a", few.asked, few.budget)
    lower, upper = threshold.probability.lower, threshold.probability.upper
    assert 0 <= lower < upper <= 1
    whole = Property(parse("P=? [ F gender > 2 ]"), few.asked.quantifiers, few.asked.length)
    exact = check_anytime(model, "a", whole, Budget(width=1e-9))
    assert lower <= exact.lower <= exact.upper <= upper
    combined = question("a", "P>=0.5 [ F gender > 2 ] & P>=0.1 [ F gender > 1 ]")
    found = check_anytime(model, "a", combined.asked, combined.budget)
    assert found.probability == PROBABILITIES


def test_a_check_that_is_over_leaves_no_tree_in_memory(monkeypatch):
    """Without a garbage collection the trees of finished checks are gone."""
    trees, build = weakref.WeakSet(), ExploredTree.__init__

    def remember(tree, *arguments, **options):
        trees.add(tree)
        build(tree, *arguments, **options)

    monkeypatch.setattr(ExploredTree, "__init__", remember)
    questions = [question(start, query, passes=20) for start in STARTS[:3] for query in QUERIES]
    gc.collect()
    gc.disable()
    try:
        for outcome in answer_side_by_side(table_model(2), questions):
            del outcome
        check_anytime(table_model(2), "a", questions[0].asked, questions[0].budget)
        assert len(trees) == 0
    finally:
        gc.enable()


def failing_quantifier(failure: BaseException, *, calls: int = 0):
    """A quantifier that raises after a number of calls."""
    seen = []

    def fail(start: str, continuation: str) -> int:
        seen.append(continuation)
        if len(seen) > calls:
            raise failure
        return 0

    fail.minimum = fail.maximum = None
    return fail


@pytest.mark.few(4)
@pytest.mark.parametrize("calls", [0, 5])
@pytest.mark.parametrize(
    "failure",
    [
        MachineLimit("memory: exhausted; use a smaller model"),
        MemoryError(),
        OverflowError("math range error"),
        RecursionError("maximum recursion depth exceeded"),
        SystemExit(0),
    ],
)
def test_any_exception_of_a_question_is_its_result(failure, calls):
    """A quantifier that raises, on the start string or on a later text in a shared batch, changes
    no bit of the answers of the other questions."""
    model = table_model(5)
    quantifier = failing_quantifier(failure, calls=calls)
    asked = Property(parse("P=? [ F gender > 0 ]"), {"gender": quantifier}, 6)
    broken = Question(None, "a", asked, Budget(passes=20))
    others = [question(start, QUERIES[0], passes=20) for start in ("a", "ab")]
    found = dict(answer_side_by_side(model, [others[0], broken, others[1]]))
    assert isinstance(found[1], Exception | SystemExit)
    expected = dict(answer_side_by_side(model, others))
    assert [figures(found[index]) for index in (0, 2)] == [figures(expected[i]) for i in (0, 1)]


def test_an_exception_in_a_step_of_a_check_is_its_result(monkeypatch):
    """An arithmetic error between two requests of a check ends its own question only."""
    model, rounds = table_model(5), []
    compute = AnytimeCheck.compute_progress

    def fail(check):
        rounds.append(check)
        if check is rounds[0] and len(rounds) > 4:
            raise OverflowError("math range error")
        return compute(check)

    monkeypatch.setattr(AnytimeCheck, "compute_progress", fail)
    found = dict(answer_side_by_side(model, [question(start, QUERIES[0]) for start in "ab"]))
    assert isinstance(found[0], OverflowError)
    assert isinstance(found[1], Answer)


def test_an_interrupt_ends_all_questions():
    """An error that was raised while Ctrl-C was handled is not the result of a question."""
    failure = ImportError("a module is half imported")
    failure.__context__ = KeyboardInterrupt()
    asked = Property(parse("P=? [ F gender > 0 ]"), {"gender": failing_quantifier(failure)}, 6)
    with pytest.raises((ImportError, ConfigError), match="half imported"):
        list(answer_side_by_side(table_model(5), [Question(None, "a", asked, Budget(passes=20))]))


def test_memory_that_a_batch_lacks_ends_its_own_question():
    """If memory runs out in a shared batch, each question is asked alone."""
    found = check_with_failing_text(MemoryError())
    assert isinstance(found[0], MemoryError)
    assert all(isinstance(found[index], Answer) for index in (1, 2))


def test_questions_that_are_not_needed_are_cancelled_or_not_begun(monkeypatch):
    """The first answer ends the others: active ones have right bounds, later ones have no result.

    The question that is still needed has the answer of a run alone.
    """
    monkeypatch.setattr(side_by_side, "_MAX_ACTIVE", 4)
    model = table_model(1)
    questions = [question("ab", QUERIES[0], passes=4)]
    questions += [question(start, QUERIES[0], passes=400) for start in ("ab", "abca") * 5]
    found: dict[int, object] = {}
    for index, outcome in answer_side_by_side(
        model, questions, is_wanted=lambda index: not found or index == 2
    ):
        found[index] = outcome
    assert sorted(found) == [0, 1, 2, 3]
    alone = check_anytime(model, questions[2].prompt, questions[2].asked, questions[2].budget)
    assert figures(found[2]) == figures(alone)
    whole = dict(answer_side_by_side(model, [questions[1], questions[3]]))
    for index, exact in zip((1, 3), whole.values(), strict=True):
        cancelled = found[index]
        assert isinstance(cancelled, CancelledCheck)
        assert cancelled.result.passes < exact.passes
        assert cancelled.result.lower <= exact.upper
        assert exact.lower <= cancelled.result.upper
        assert pickle.loads(pickle.dumps(cancelled)).result.passes == cancelled.result.passes
