import numpy as np
import pytest
from helpers.random_tables import QUANTIFIERS, table_model

from llmchecker.checking.anytime.answer import AnytimeResult, check_anytime
from llmchecker.checking.anytime.budget import AnswerBudget
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.anytime.side_by_side import Question, check_side_by_side
from llmchecker.errors import CheckFailed, ConfigError, MachineLimit
from llmchecker.properties.logic.parser import parse

STARTS = ("a", "ab", "b", "bca", "abca", "d")
QUERIES = ("P=? [ F gender > 2 ]", "P>=0.4 [ G gender > -2 ]", "P=? [ F G polarity > 0 ]")


def question(start: str, query: str, passes: int = 60, seed: int = 3) -> Question:
    quantifiers = {name: value for name, value in QUANTIFIERS.items() if name in query}
    asked = CheckedQuery(parse(query), quantifiers, 6)
    return Question(start, asked, AnswerBudget(passes=passes, confidence=0.9, seed=seed))


def figures(result: AnytimeResult) -> tuple:
    verdict = result.verdict
    return (
        verdict.lower,
        verdict.upper,
        verdict.low,
        verdict.high,
        result.passes,
        result.history[-1].samples,
    )


@pytest.mark.parametrize("seed", range(5))
def test_questions_side_by_side_get_the_answers_that_each_gets_alone(seed):
    """Neither the company of other questions nor their order changes an answer by a bit."""
    model = table_model(seed)
    questions = [question(start, query) for start in STARTS for query in QUERIES]
    found = dict(check_side_by_side(model, questions))
    assert sorted(found) == list(range(len(questions)))
    for index, each in enumerate(questions):
        alone = check_anytime(model, each.start, each.asked, each.budget)
        assert figures(found[index]) == figures(alone)
        assert found[index].tree.digest == alone.tree.digest


class _CountingModel:
    """A model that counts the batches that it evaluates."""

    def __init__(self, model) -> None:
        self._model, self.batches = model, []

    def __getattr__(self, name):
        return getattr(self._model, name)

    def open_prefix(self, prompt, max_length=0):
        prefix, batches = self._model.open_prefix(prompt, max_length), self.batches

        class Prefix:
            def map_next(self, function, continuations, will_extend=False):
                batches.append(len(continuations))
                return prefix.map_next(function, continuations, will_extend)

        return Prefix()


def test_texts_of_several_questions_share_batches():
    """Questions side by side need fewer and larger batches than one after the other."""
    model = _CountingModel(table_model(1))
    questions = [question("a" + rest, QUERIES[0]) for rest in ("b", "c", "d", "a")]
    list(check_side_by_side(model, questions))
    together, model.batches = model.batches.copy(), []
    for each in questions:
        check_anytime(model, each.start, each.asked, each.budget)
    assert len(together) < len(model.batches)
    assert np.mean(together) > np.mean(model.batches)


def test_an_error_of_a_question_leaves_the_others():
    """A start string and a quantifier that fail end their own questions only."""

    def fail(start: str, continuation: str) -> int:
        raise ConfigError("score: no number; return an integer")

    fail.minimum = fail.maximum = None
    broken = CheckedQuery(parse("P=? [ F gender > 0 ]"), {"gender": fail}, 6)
    questions = [
        question("a", QUERIES[0]),
        question("a?", QUERIES[0]),
        Question("ab", broken, AnswerBudget(passes=20)),
        question("ac", QUERIES[1]),
    ]
    found = dict(check_side_by_side(table_model(2), questions))
    assert isinstance(found[0], AnytimeResult)
    assert isinstance(found[3], AnytimeResult)
    assert "a?" in str(found[1]) or "?" in str(found[1])
    assert "no number" in str(found[2])


def test_a_text_that_the_model_refuses_ends_its_own_question():
    """If a batch fails, each of its questions is asked alone, and only the cause fails."""
    model = table_model(4)

    class Picky(_CountingModel):
        def open_prefix(self, prompt, max_length=0):
            prefix = self._model.open_prefix(prompt, max_length)

            class Prefix:
                def map_next(self, function, continuations, will_extend=False):
                    texts = model.decode([[*prompt, *row] for row in continuations.tolist()])
                    if any(text.startswith("aab") for text in texts):
                        raise CheckFailed("aab: refused")
                    return prefix.map_next(function, continuations, will_extend)

            return Prefix()

    questions = [question(start, QUERIES[0], passes=30) for start in ("aab", "aac", "aad")]
    found = dict(check_side_by_side(Picky(model), questions))
    assert "refused" in str(found[0])
    assert all(isinstance(found[index], AnytimeResult) for index in (1, 2))


def test_missing_memory_ends_all_questions():
    """A limit of the machine is no property of a question."""
    model = table_model(5)

    def fail(start: str, continuation: str) -> int:
        raise MachineLimit("memory: exhausted; use a smaller model")

    fail.minimum = fail.maximum = None
    asked = CheckedQuery(parse("P=? [ F gender > 0 ]"), {"gender": fail}, 6)
    with pytest.raises(MachineLimit):
        list(check_side_by_side(model, [Question("a", asked, AnswerBudget(passes=20))]))
