"""Applications: functions that answer messages are models that return texts alone."""

import asyncio
import random
import threading
import time

import pytest
import yaml
from helpers.text_sampler import TextSampler

import llmchecker as lc
from llmchecker.errors import ConfigError, InterruptedCheck, LLMCheckerError, SourceUnavailable
from llmchecker.models.text_answer import TextStream

PARIS = {"contains": "Paris"}
STREAM = TextStream("Where is the Louvre?", 40, 0)


def read(model, number: int, must_stop=lambda: False) -> list:
    """The first answers of a sequence."""
    items = iter((STREAM, each) for each in range(number))
    return [answer for _, answer in model.iter_answers(lambda: next(items, None), must_stop)]


def draw(seed: int) -> str:
    return random.Random(seed).choice(["Paris", "Rome"])


def test_functions_of_both_kinds_answer_like_a_sampler():
    """A function, a coroutine function and an object give the figures of the same answers."""

    async def awaited(messages, *, seed):
        await asyncio.sleep(random.Random(seed).random() / 100)
        return draw(seed)

    class Called:
        async def __call__(self, messages, seed):
            return draw(seed)

    answers = []

    def called(messages, seed):
        answers.append((seed, draw(seed)))
        return draw(seed)

    found = [
        lc.ask(PARIS, lc.texts(each, name="app"), user="Where?", answers=60)
        for each in (called, awaited, Called())
    ]
    assert len({seed for seed, _ in answers}) == 60
    # calls begin in any order, and their answers count in the order of their numbers
    assert len({(each.low, each.high, each.sampled.estimate) for each in found}) == 1
    texts = iter([text for _, text in answers])
    sampler = TextSampler(lambda stream, chance: (next(texts), True), 1)
    assert lc.ask(PARIS, sampler, user="Where?", answers=60).sampled.estimate == pytest.approx(
        found[0].sampled.estimate
    )


def test_messages_and_options_reach_the_function():
    """The function gets the whole chat, and only the options that it takes."""
    seen = []

    def app(messages, max_tokens=0):
        seen.append((messages, max_tokens))
        return "Paris"

    lc.ask(PARIS, lc.texts(app), user="Where?", system="Be brief.", length=9, answers=1)
    assert seen == [
        (
            [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Where?"},
            ],
            9,
        )
    ]
    assert "ends its answers itself" not in lc.texts(app).description
    assert "ends its answers itself" in lc.texts(lambda messages: "").description


def test_answers_are_in_the_order_of_their_requests():
    """A slow answer is not overtaken, since fast ones may be other answers."""

    async def app(messages, seed):
        await asyncio.sleep(0.05 if seed % 2 else 0)
        return str(seed)

    model = lc.texts(app, concurrency=8)
    assert [each.text for each in read(model, 30)] == [each.text for each in read(model, 30)]


def test_calls_run_at_once_and_within_the_limit():
    """As many calls run at once as `concurrency` allows, and never more."""
    lock, running, most = threading.Lock(), [], []

    def app(messages):
        with lock:
            running.append(1)
            most.append(len(running))
        time.sleep(0.01)
        with lock:
            running.pop()
        return ""

    read(lc.texts(app, concurrency=5), 25)
    assert max(most) == 5


def test_an_answer_in_place_of_a_lost_one_is_no_sample(monkeypatch):
    """A call that fails is repeated, and its answer counts neither for nor against."""
    monkeypatch.setattr("llmchecker.models.application._FIRST_PAUSE_SECONDS", 0.001)
    calls = []

    def app(messages):
        calls.append(1)
        if len(calls) == 3:
            raise ValueError("busy")
        return "Paris"

    answers = read(lc.texts(app, concurrency=1), 5)
    assert [each.is_repeated for each in answers] == [False, False, True, False, False]
    calls.clear()
    answer = lc.ask(PARIS, lc.texts(app, concurrency=1), user="Where?", answers=20)
    assert answer.high == 1
    assert answer.low < 0.8
    assert any("requested again" in note for note in answer.notes)


def test_an_application_that_fails_leaves_the_answer_so_far():
    """After the last attempt the error has the application's message, and the answers before."""
    calls = []

    def app(messages):
        calls.append(1)
        if len(calls) > 20:
            raise ValueError("the index is gone")
        return "Paris"

    model = lc.texts(app, concurrency=1, attempts=1)
    with pytest.raises(InterruptedCheck, match="app: ValueError: the index is gone") as caught:
        lc.ask(PARIS, model, user="Where?")
    assert caught.value.result.samples == 20
    with pytest.raises(SourceUnavailable, match="index is gone"):
        lc.ask(PARIS, model, user="Where?")


def test_a_call_without_an_end_is_abandoned():
    """A time limit, and a deadline of the question, end the wait for a function that hangs."""

    def hang(messages):
        time.sleep(3600)

    with pytest.raises(SourceUnavailable, match=r"no answer within 0\.05 s"):
        lc.ask(PARIS, lc.texts(hang, seconds=0.05, attempts=1), user="Where?")
    answer = lc.ask(PARIS, lc.texts(hang), user="Where?", seconds=0.2)
    assert answer.samples is None


def test_stored_answers_are_asked_for_once(tmp_path):
    """A second run calls nothing, another version everything, and figures stay the same."""
    calls = []

    def app(messages, seed):
        calls.append(seed)
        return draw(seed)

    options = {"store": tmp_path / "texts", "name": "app"}
    found = [
        lc.ask(PARIS, lc.texts(app, **options, version=version), user="Where?", answers=30)
        for version in ("1", "1", "2")
    ]
    assert len(calls) == 60
    assert (found[0].low, found[0].high) == (found[1].low, found[1].high)
    assert "Where" not in "".join(path.read_text() for path in (tmp_path / "texts").iterdir())


def test_a_finish_that_the_function_returns_counts():
    """A filtered answer is open, and a cut one has not ended."""
    filtered = lc.texts(lambda messages: lc.TextAnswer("", lc.Finish.FILTERED))
    assert lc.ask(PARIS, filtered, user="Where?", answers=9).low == 0
    cut = lc.texts(lambda messages: lc.TextAnswer("Paris", lc.Finish.TRUNCATED))
    answer = lc.ask(PARIS, cut, user="Where?", answers=9)
    assert answer.endings.counted == (9, 9)


def test_conversations_and_comparisons_take_applications():
    """Each turn is a call with all messages before it, and two versions can be compared."""
    seen = []

    def app(messages):
        seen.append([each["content"] for each in messages])
        return f"answer {len(messages)}"

    query = "P>=0.5 [ F (turn = 2 & late = 1) ]"
    late = {"late": lc.Pattern("3")}
    assert lc.ask(query, lc.texts(app), user="Where?", turns=["And?"], quantifiers=late)
    assert ["Where?", "answer 1", "And?"] in seen
    compared = lc.compare(
        PARIS,
        lc.texts(lambda messages: "Paris", name="old"),
        versus_model=lc.texts(lambda messages: "Rome", name="new"),
        user="Where?",
        answers=60,
    )
    assert compared.low > 0.5


def test_columns_are_arguments(tmp_path):
    """Parameters get the columns of their names from tables, cases and questions."""
    seen = []

    def app(messages, context, user_id="none", *, seed):
        seen.append((messages[-1]["content"], context, user_id))
        return "Paris"

    (tmp_path / "rows.jsonl").write_text(
        '{"q": "Where?", "context": ["Louvre", 1.5]}\n{"q": "Who?", "context": "Rome"}\n'
    )
    requirement = {"contains": "Paris", "at_least": 0.5}
    cases = [
        {"prompts": "rows.jsonl", "user": "{q}", "require": requirement},
        {"user": "When?", "columns": {"context": "x", "user id": "u1"}, "require": requirement},
    ]
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump({"cases": cases}))
    report = lc.suite(path, models=[lc.texts(app)]).run()
    assert report.holds
    assert {repr(each) for each in seen} == {
        repr(("Where?", ["Louvre", 1.5], "none")),
        repr(("Who?", "Rome", "none")),
        repr(("When?", "x", "u1")),
    }
    lc.ask(PARIS, lc.texts(app), user="Where?", columns={"context": 3}, answers=1)
    assert seen[-1] == ("Where?", 3, "none")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (None, "columns: app takes context; add the column"),
        ({"context": "", "rank": 1}, "columns: app has no parameter rank"),
        ({"context": "", "seed": 1}, "columns: app has no parameter seed"),
        ({"context": {1}}, "columns.context: .* is no JSON"),
        ([("context", 1)], "columns: .* is no mapping"),
    ],
)
def test_columns_without_a_parameter_are_refused(columns, message):
    """A missing argument and one without a parameter are named before a call."""

    def app(messages, context, seed):
        raise AssertionError

    with pytest.raises(ConfigError, match=message):
        lc.ask(PARIS, lc.texts(app), user="Where?", columns=columns)


def test_columns_of_a_model_without_an_application_are_refused(random_model):
    """A chat template has no place for columns, so they are never ignored."""
    model = lc.load(random_model("gpt2"))
    with pytest.raises(LLMCheckerError, match="columns: only applications get them"):
        lc.ask(PARIS, model, user="Where?", columns={"context": "x"}, passes=5)


def test_suites_in_python_gate_an_application(tmp_path):
    """An application is the model of a suite, whose results continue for one version alone."""
    calls = []

    def app(messages):
        calls.append(messages)
        return "Rome"

    path, results = tmp_path / "suite.yaml", tmp_path / "results.jsonl"
    case = {"user": "Where?", "require": [{"contains": "Paris", "at_least": 0.5}]}
    path.write_text(yaml.safe_dump({"cases": [case]}))
    counts = []
    for version in ("1", "1", "2"):
        model = lc.texts(app, version=version)
        report = lc.suite(path, models=[model]).run(results=results.with_suffix(f".{version}"))
        assert report.exit_status == 1
        assert "app" in str(report)
        counts.append(len(calls))
    assert counts[0] == counts[1] < counts[2]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"decoding": {"temperature": 0.5}}, "decoding: app has its own decoding"),
        ({"template": {"date": "2026-01-01"}}, "template: app has its own template"),
        ({"stop": "\n"}, "stop: app returns its answers alone"),
    ],
)
def test_keys_that_an_application_has_itself_are_refused(tmp_path, keys, message):
    """A suite's decoding, template and stop would have no effect on an application."""
    case = {"user": "Where?", "require": [{"contains": "Paris", "at_least": 0.5}]}
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump({"cases": [case], **keys}))
    with pytest.raises(LLMCheckerError, match=message):
        lc.suite(path, models=[lc.texts(lambda messages: "", name="app")])


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (3, {}, "function: 3 is no function"),
        (str, {"concurrency": 0}, "concurrency: 0 is below 1"),
        (str, {"attempts": 0}, "attempts: 0 is below 1"),
        (str, {"seconds": float("nan")}, "seconds: nan is not above 0"),
    ],
)
def test_bad_options_are_refused(function, options, message):
    """Each value that cannot work is named."""
    with pytest.raises(ConfigError, match=message):
        lc.texts(function, **options)


def test_what_is_no_text_is_named():
    """A function that returns nothing is an error at once, never the answer ""."""
    calls = []
    with pytest.raises(SourceUnavailable, match="it returned None; return a text"):
        lc.ask(PARIS, lc.texts(lambda messages: calls.append(1), concurrency=1), user="Where?")
    assert len(calls) == 1
