"""Suites on models that return texts alone: verdicts, costs, failures and what is stored."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.fake_provider import MODEL, FakeProvider, sample_table, share
from helpers.fake_server import Cut, Raw, Status, raising, running, times
from helpers.random_tables import table_model

from llmchecker.config import opening
from llmchecker.errors import ConfigError, InvalidQuery, LLMCheckerError
from llmchecker.interfaces.cli.main import main
from llmchecker.models.servers import text_client
from llmchecker.models.servers.http_client import RequestLimits
from llmchecker.models.servers.spending import parse_price
from llmchecker.suites.averages import AverageEstimator
from llmchecker.suites.cases import Suite
from llmchecker.suites.load import load_suite
from llmchecker.suites.markdown_summary import format_markdown
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.session import run_suite
from llmchecker.suites.statistic import Statistic
from llmchecker.suites.terminal_table import format_table
from llmchecker.suites.verdicts import CaseResult
from llmchecker.suites.verdicts import Status as CaseStatus
from llmchecker.utils.interval import PROBABILITIES, Interval

YES = {"equals": "yes", "at_least": 0.5}
APIS = ("openai-chat", "openai-completions", "anthropic", "ollama")
QUICK = RequestLimits(attempts=3, first_pause_seconds=0.001, max_bytes=10_000)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Repeat failed requests at once."""
    options = text_client.TextClient.__init__.__kwdefaults__
    monkeypatch.setitem(options, "limits", QUICK)


def write(folder: Path, address: str, case: dict[str, Any], **keys: Any) -> Path:
    """A suite of one case on a provider."""
    model = {"label": "P", "source": f"server:{address}", "api": "openai-chat"}
    model |= {"served_as": MODEL, "requests": 4} | keys.pop("model", {})
    config = {"models": {"provider": model}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    form = "start" if model["api"] == "openai-completions" else "user"
    content = {"model": "provider", "length": 3, "budget": {"answers": 60}} | keys
    content["cases"] = [{form: "Is it?"} | case]
    path = folder / "suite.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path


def load(folder: Path, address: str, *require: Any, **keys: Any) -> Suite:
    return load_suite(write(folder, address, {"require": list(require)}, **keys))


def run(folder: Path, provider: FakeProvider, *require: Any, **keys: Any) -> SuiteResult:
    with running(provider) as address:
        return run_suite(load(folder, address, *require, **keys))


def notes(result: SuiteResult) -> str:
    answers = [case.answer for case in result.results]
    return "\n".join(note for answer in answers if answer is not None for note in answer.notes)


@pytest.mark.few(2)
@pytest.mark.parametrize("api", APIS)
def test_every_api_gives_verdicts_with_confidence(api, tmp_path):
    """Each API decides what whole answers show, never certainly, and names its sampler."""
    provider = FakeProvider(api, share(1.0))
    never = {"contains": "no", "at_most": 0.5}
    result = run(
        tmp_path, provider, YES, never, {"ends": True, "at_least": 0.5}, model={"api": api}
    )
    assert [case.status for case in result.results] == [CaseStatus.HOLDS] * 3
    assert not any(case.is_certain for case in result.results)
    table = format_table(result)
    assert "with confidence 0.99" in table
    assert "certain [" not in table
    assert f"about the sampler of {MODEL}-2026 at http://127.0.0.1" in table


def test_requirements_on_one_prompt_read_the_same_answers_once(tmp_path):
    """Three requirements and a second run request no answer twice, even without the provider."""
    provider = FakeProvider("openai-chat", share(0.9))
    require = [YES, {"contains": "y", "at_least": 0.4}, {"max_words": 2, "at_least": 0.5}]
    with running(provider) as address:
        suite = load(tmp_path, address, *require)
        first = run_suite(suite)
        count = len(provider.questions)
        assert count <= 60
        read = [case.answer.costs.answers for case in first.results]
        assert max(read) <= count < sum(read)
    again = run_suite(suite)
    assert len(provider.questions) == count
    for case, other in zip(first.results, again.results, strict=True):
        assert (case.status, case.measurement) == (other.status, other.measurement)


def test_a_rare_requirement_states_what_it_needs_in_every_output(tmp_path):
    """Of two intervals at 0.99, one for P <= 0.001 needs ln(1 / 0.005) / 0.001 answers."""
    rare = {"contains": "no", "at_most": 0.001}
    result = run(tmp_path, FakeProvider("openai-chat", share(1.0)), rare, YES)
    (case,) = (each for each in result.results if each.status is CaseStatus.UNKNOWN)
    needed = case.forecast.samples_to_hold
    assert needed == pytest.approx(math.log(1 / 0.005) / 0.001, rel=0.001)
    assert case.forecast.seconds is None
    text = f"to hold it needs at least {needed:,} answers"
    assert text in format_table(result)
    assert text in format_markdown(result)
    assert case.answer.as_json()["forecast"]["samples_to_hold"] == needed
    # only a number above the 60 answers that it had may be promised
    assert case.forecast.passes is None or case.forecast.passes > 60


def test_a_violated_requirement_shows_answers_against_it(tmp_path):
    """The answers against a requirement are shown with their shares, most frequent first."""
    (result,) = run(
        tmp_path, FakeProvider("ollama", share(0.1)), YES, model={"api": "ollama"}
    ).results
    assert result.status is CaseStatus.VIOLATED
    assert result.witnesses[0].continuation == "no"
    assert 0.5 < result.witnesses[0].probability <= 1


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(4))
def test_intervals_cover_the_probabilities_of_a_table(seed, tmp_path):
    """The interval has the probability that the table gives its texts, by enumeration."""
    model, length = table_model(seed), 3
    texts: dict[tuple[str, bool], float] = {}

    def enumerate_texts(tokens: tuple[int, ...], probability: float) -> None:
        text = "".join(model.vocabulary[each] for each in tokens)
        for token, p in enumerate(model.distribution((0, *tokens))):
            if token in model.end_tokens:
                texts[text, True] = texts.get((text, True), 0) + probability * p
            elif len(tokens) + 1 < length:
                enumerate_texts((*tokens, token), probability * p)
            else:
                whole = text + model.vocabulary[token]
                texts[whole, False] = texts.get((whole, False), 0) + probability * p

    enumerate_texts((), 1.0)
    provider = FakeProvider("openai-chat", sample_table(model, (0,), length))
    average = {"has b": "mean P=? [ F b = 1 ]", "ends": 'mean P=? [ F "end" ]'}
    with running(provider) as address:
        path = write(
            tmp_path,
            address,
            {"average": average, "prompts": "rows.csv"},
            properties={"b": {"type": "pattern", "pattern": "b"}},
            budget={"answers": 100},
            length=length,
        )
        (tmp_path / "rows.csv").write_text("x\n1\n", encoding="utf-8")
        result = run_suite(load_suite(path))
    truths = (
        sum(p for (text, _), p in texts.items() if "b" in text),
        sum(p for (_, ended), p in texts.items() if ended),
    )
    assert sum(texts.values()) == pytest.approx(1)
    for case, mean, truth in zip(result.results, result.aggregates, truths, strict=True):
        for measurement in (case.measurement, mean.measurement):
            assert measurement.sampled.lower <= truth <= measurement.sampled.upper
            assert measurement.sampled.width < 0.5
            assert (measurement.certain.lower, measurement.certain.upper) == (0, 1)
        assert case.answer.sampled.estimate == pytest.approx(truth, abs=0.2)


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize("demand", ["mean polarity >= -20", "mean polarity <= 68"])
def test_a_mean_score_is_averaged_over_all_rows(demand, tmp_path):
    """The mean of scores is that of a table, and narrower than the mean of the rows' intervals."""
    from textblob import TextBlob

    provider = FakeProvider("openai-chat", share(0.75, "good", "bad"))
    rows = 8
    (tmp_path / "rows.csv").write_text("x\n" + "1\n" * rows, encoding="utf-8")
    case = {"average": {"mood": demand}, "prompts": "rows.csv"}
    with running(provider) as address:
        path = write(tmp_path, address, case, budget={"answers": 100})
        result = run_suite(load_suite(path))
    (mean,) = result.aggregates
    good, bad = (100 * TextBlob(word).sentiment.polarity for word in ("good", "bad"))
    truth = 0.75 * good + 0.25 * bad
    assert mean.status is CaseStatus.HOLDS
    assert mean.measurement.sampled.lower <= truth <= mean.measurement.sampled.upper
    assert (mean.measurement.certain.lower, mean.measurement.certain.upper) == (-100, 100)
    widths = [case.measurement.sampled.width for case in result.results]
    assert mean.measurement.sampled.width < sum(widths) / rows
    # rows that the verdict does not need are not read
    told = format_table(result)
    assert re.search(
        r"mood: mean of these 8 rows( \(\d read\))?: polarity of the answer, at ", told
    )


def test_a_row_that_failed_counts_as_any_score(tmp_path):
    """A row without an answer leaves the mean of scores wide, and no verdict is wrong."""
    failed = CaseResult("a", "m", CaseStatus.ERROR, error="x")
    scores = Interval(-100.0, 100.0)
    assert AverageEstimator(Statistic(), None, 0.01, scores, 0).measure([failed]).sampled == scores
    mean = AverageEstimator(Statistic(), None, 0.01, PROBABILITIES, 0).measure([failed])
    assert mean.sampled == PROBABILITIES


@pytest.mark.parametrize(
    ("demand", "message"),
    [
        ("mean gender >= 1", "gender has no least or no greatest score"),
        ("mean mood >= 1", "mood is neither step nor a known quantifier"),
        ("mean polarity", None),
        ("mean polarity is 3", "is no mean; write"),
        ("mean polarity >= x", "no threshold"),
    ],
)
def test_a_mean_without_a_range_or_a_name_is_refused(demand, message, tmp_path):
    """A score needs a known quantifier with a range; without a threshold it is reported."""
    (tmp_path / "rows.csv").write_text("x\n1\n", encoding="utf-8")
    case = {"average": {"mood": demand}, "prompts": "rows.csv"}
    path = write(tmp_path, "http://127.0.0.1:9", case)
    if message is None:
        assert load_suite(path).averages[0].threshold is None
        return
    with pytest.raises(LLMCheckerError, match=message):
        load_suite(path)


def change(**fields: Any) -> Callable[[Any, Any], Any]:
    return lambda provider, reply: reply | fields


def change_choice(**fields: Any) -> Callable[[Any, Any], Any]:
    return lambda provider, reply: reply | {"choices": [reply["choices"][0] | fields]}


HALF_STREAM = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"cho'

COUNTED = {
    "filtered": (change_choice(finish_reason="content_filter"), "withheld by a content filter"),
    "filter status": (
        raising(lambda: Status(400, {"error": {"message": "content_filter triggered"}})),
        "withheld by a content filter",
    ),
    "no choice": (change(choices=[]), "missing in the provider's responses"),
    "no reason, no count": (
        lambda provider, reply: change(usage=None)(
            provider, change_choice(finish_reason=None)(provider, reply)
        ),
        "missing in the provider's responses",
    ),
    "call": (
        change_choice(message={"content": None, "tool_calls": [{}]}, finish_reason="tool_calls"),
        "ended in a call of a tool",
    ),
    "no text": (change_choice(message={"content": None}), "missing in the provider's responses"),
    "cut": (raising(Cut), "requested again after one was lost"),
    "half a stream": (raising(lambda: Raw([HALF_STREAM])), "requested again after one was lost"),
    "not JSON": (lambda provider, reply: b"<html>", "requested again after one was lost"),
    "gateway time": (raising(lambda: Status(504)), "requested again after one was lost"),
    "another form": (change(choices=3), "requested again after one was lost"),
    "NaN": (lambda provider, reply: b'{"choices": NaN}', "requested again after one was lost"),
    "too large": (lambda provider, reply: b" " * 20_000, "requested again after one was lost"),
    "list of parts": (
        change_choice(message={"content": [{"text": "yes"}]}),
        "requested again after one was lost",
    ),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", COUNTED)
def test_an_answer_that_is_no_sample_counts_for_neither_side(name, tmp_path):
    """Answers that were not received whole widen the interval, and are counted."""
    fault, words = COUNTED[name]
    provider = FakeProvider("openai-chat", share(1.0))
    provider.fault = times(2, fault)
    (case,) = (result := run(tmp_path, provider, {"equals": "yes", "at_least": 0.99})).results
    assert case.status is CaseStatus.UNKNOWN
    found = [line for line in notes(result).splitlines() if words in line]
    assert found
    assert found[0].endswith("counted neither for nor against")
    assert 1 <= int(found[0].split()[0]) <= 2
    assert case.answer.sampled.estimate < 1


HARMLESS = {
    "rate limit": raising(lambda: Status(429, {"error": {"message": "slow"}}, Retry_After="0")),
    "overload": raising(lambda: Status(503)),
    "two choices": lambda provider, reply: (
        reply
        | {
            "choices": [
                reply["choices"][0],
                reply["choices"][0] | {"index": 1, "message": {"content": "no"}},
            ]
        }
    ),
    "no usage": change(usage=None),
    "further keys": change(citations=["x"]),
    "only tokens show the end": change_choice(finish_reason=None),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", HARMLESS)
def test_what_loses_no_answer_changes_no_value(name, tmp_path):
    """After limits of rate and with odd replies, all answers are samples."""
    provider = FakeProvider("openai-chat", share(1.0))
    # one fewer than the attempts, since one request may meet all of them
    provider.fault = times(QUICK.attempts - 1, HARMLESS[name])
    result = run(tmp_path, provider, YES)
    assert result.results[0].status is CaseStatus.HOLDS
    assert result.results[0].answer.sampled.estimate == 1
    assert "counted neither" not in notes(result)
    assert ("came with others" in notes(result)) == (name == "two choices")


def test_a_refusal_of_the_model_is_its_answer(tmp_path):
    """A refusal in the reply's own field is the text, and not an empty one."""
    provider = FakeProvider("openai-chat", share(1.0))
    provider.fault = change_choice(message={"content": None, "refusal": "I cannot help with that."})
    (case,) = run(tmp_path, provider, {"refuses": True, "at_least": 0.5}).results
    assert case.status is CaseStatus.HOLDS


@pytest.mark.parametrize("require", [{"not_contains": "zebra"}, {"not_refuses": True}], ids=str)
def test_calls_in_place_of_answers_satisfy_no_requirement(require, tmp_path):
    """A provider that only calls its tools leaves what answers must not contain unknown."""
    provider = FakeProvider("openai-chat", share(1.0))
    provider.fault = change_choice(
        message={"content": None, "tool_calls": [{}]}, finish_reason="tool_calls"
    )
    result = run(tmp_path, provider, require | {"at_least": 0.5})
    (case,) = result.results
    assert case.status is CaseStatus.UNKNOWN
    assert "ended in a call of a tool, counted neither for nor against" in notes(result)


def test_cut_answers_are_counted_and_warned_of(tmp_path):
    """A verdict that longer answers may change says how many of them were cut."""
    provider = FakeProvider("openai-chat", share(1.0))
    refused = {"not_contains": "zebra", "at_least": 0.5}
    for folder in ("whole", "cut"):
        (tmp_path / folder).mkdir()
    whole = run(tmp_path / "whole", provider, refused).results[0].answer
    provider.fault = change_choice(finish_reason="length")
    cut = run(tmp_path / "cut", provider, refused).results[0].answer
    assert whole.endings.counted == (0, whole.costs.answers)
    assert whole.warning is None
    assert cut.endings.counted == (cut.costs.answers,) * 2
    assert cut.warning.startswith("After 3 tokens no answer had ended: this is about beginnings.")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("down", raising(lambda: Status(500))),
        ("always JSON of another form", change(choices=3)),
        ("key refused", raising(lambda: Status(401))),
        ("redirects", raising(lambda: Status(302, Location="http://elsewhere"))),
    ],
)
def test_a_provider_that_fails_keeps_what_is_decided(name, fault, tmp_path):
    """The decided case stays, the others are errors with status 3, and a rerun continues."""
    provider = FakeProvider("openai-chat", share(1.0))
    provider.fault = lambda server, reply: fault(server, reply) if broken[0] else reply
    broken = [False]
    with running(provider) as address:
        suite = load(
            tmp_path, address, YES, {"contains": "y", "at_least": 0.9}, budget={"answers": 600}
        )
        run_suite(load(tmp_path, address, YES))
        broken[0], before = True, len(provider.questions)
        first = run_suite(suite, log=tmp_path / "log.jsonl")
        assert [case.status.name for case in first.results] == ["HOLDS", "ERROR"]
        assert first.counts.exit_status() == 3
        assert address in first.results[1].error
        broken[0], provider.questions = False, []
        again = run_suite(suite, log=tmp_path / "log.jsonl")
    assert [case.status.name for case in again.results] == ["HOLDS", "HOLDS"]
    answers = again.results[1].answer.costs.answers
    assert len(provider.questions) <= answers - before + 2 * 4 + answers // 2


def test_a_model_that_changes_under_its_name_is_named(tmp_path):
    """Answers of two models are not mixed: the error has both names, and what to delete."""
    provider = FakeProvider("openai-chat", share(1.0))
    with running(provider) as address:
        assert run_suite(load(tmp_path, address, YES)).counts.holds == 1
        provider.answered_as = "provider-2"
        (case,) = run_suite(load(tmp_path, address, {"equals": "yes", "at_least": 0.97})).results
    assert case.status is CaseStatus.ERROR
    assert f"{MODEL}-2026" in case.error
    assert "provider-2" in case.error
    assert "results/texts/provider" in case.error


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ({"tokens": 4_000}, "budget of 4,000 tokens"),
        ({"dollars": 0.004}, "budget of 0.004 dollars"),
    ],
)
def test_a_budget_of_tokens_or_money_is_never_exceeded(budget, words, tmp_path):
    """The run ends undecided before the limit, and names it; the worst case counts."""
    prices = {"input": "1 USD / 1M tokens", "output": "$1/1M tokens"}
    provider = FakeProvider("openai-chat", share(0.8))
    require = {"equals": "yes", "at_least": 0.8}
    result = run(
        tmp_path, provider, require, model={"prices": prices}, budget={"answers": 9999} | budget
    )
    assert result.results[0].status is CaseStatus.UNKNOWN
    assert words in notes(result)
    # an answer of the provider has 12 tokens, and 3 answers cost more than a tenth of the budget
    assert 100 < 12 * len(provider.questions) <= 4_000


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"budget": {"dollars": 2}}, "budget.dollars: P has no prices"),
        ({"model": {"prices": {"input": "0.15", "output": "1"}}}, "no price with a unit"),
        ({"model": {"key_from": "NO_SUCH_KEY"}}, "NO_SUCH_KEY holds no key"),
        ({"model": {"served_as": "provider-l"}}, "'provider-l' is unknown, did you mean"),
        ({"decoding": {"typical_p": 0.5}}, "the api openai-chat has no such setting"),
        ({"model": {"api": "anthropics"}}, "'anthropics' is not one of"),
    ],
)
def test_mistakes_are_named_before_an_answer_is_paid(keys, problem, tmp_path):
    """Prices, keys, models and settings are checked without a request for an answer."""
    provider = FakeProvider("openai-chat", share(1.0))
    with running(provider) as address:
        try:
            result = run_suite(load(tmp_path, address, YES, **keys))
            message = result.results[0].error
            assert result.counts.exit_status() == 3
        except ConfigError as error:
            message = str(error)
    assert problem in message
    assert provider.questions == []


@pytest.mark.parametrize(
    ("require", "problem"),
    [
        ("P>=0.5 [ F step = 3 ]", "`step = 3` needs the number of tokens"),
        ("P>=0.5 [ F<=2 gender > 0 ]", "F<=2 here needs the division into tokens"),
        ("P>=0.5 [ X gender > 0 ]", "X here needs the division into tokens"),
        ("P>=0.5 [ gender > 0 U gender < 0 ]", "U here needs the division into tokens"),
        ("P>=0.5 [ F (P>=0.5 [ F gender > 0 ]) ]", "inside another needs probabilities"),
        ('P>=0.5 [ F "rest" ]', '"rest" needs probabilities'),
        ("E [ F gender > 0 ]", "texts alone decide only a single P"),
    ],
)
def test_a_query_about_tokens_is_refused_by_name(require, problem, tmp_path):
    """A requirement that needs the division into tokens is refused with its part."""
    with pytest.raises(InvalidQuery, match=r"cases\[0\]\.require\[0\]") as caught:
        load(tmp_path, "http://127.0.0.1:1", require)
    assert problem in str(caught.value)


def test_a_prompt_in_the_form_of_another_api_is_refused(tmp_path):
    """A chat continues no text."""
    path = write(tmp_path, "http://127.0.0.1:1", {"require": [YES]})
    path.write_text(path.read_text().replace("user:", "start:"))
    with pytest.raises(ConfigError, match="start: the api openai-chat of provider"):
        load_suite(path)


def test_no_key_and_no_prompt_is_in_any_file_or_output(tmp_path, monkeypatch, capsys):
    """The key reaches the provider alone; answers are inert in every output."""
    monkeypatch.setenv("PROVIDER_KEY", "sk-5ecret")
    provider = FakeProvider("openai-chat", share(0.5, "<b>\x1b[31myes"))
    provider.key = "sk-5ecret"
    with running(provider) as address:
        path = write(tmp_path, address, {"require": [YES]}, model={"key_from": "PROVIDER_KEY"})
        outputs = [f"--{each}={tmp_path / each}" for each in ("junit", "markdown", "html", "json")]
        assert main(["test", str(path), *outputs]) == 1
        # the provider quotes the key that it refuses
        provider.key = "other"
        stored = list((tmp_path / "results/texts").rglob("*.jsonl"))
        for file in stored:
            assert "Is it?" not in file.read_text()
            file.unlink()
        (tmp_path / "json").unlink()
        assert main(["test", str(path), *outputs]) == 3
    assert stored
    printed = capsys.readouterr()
    assert "5ecret" not in printed.out + printed.err
    assert "\x1b[31m" not in printed.out
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or "5ecret" not in file.read_text()
    assert "<b>" not in (tmp_path / "html").read_text().split("<body", 1)[1].replace("<b>", "", 0)


def has_answer(line: str, number: int | None = None) -> bool:
    """Whether a line of a store is an answer, of any number or of a certain one."""
    content = json.loads(line)
    return "text" in content and number in (None, content["number"])


def test_a_store_that_a_kill_cut_short_continues(tmp_path):
    """A request without its answer is sent again, and its new answer counts for neither side."""
    provider = FakeProvider("openai-chat", share(1.0))
    with running(provider) as address:
        suite = load(tmp_path, address, YES)
        run_suite(suite)
        (file,) = (tmp_path / "results/texts/provider").iterdir()
        lines = file.read_text().splitlines(keepends=True)
        # answer 1 was under way when others arrived, and the kill cut the line of answer 3
        lost = [line for line in lines if has_answer(line, 1) or has_answer(line, 3)]
        kept = [line for line in lines if line not in lost]
        file.write_text("".join(kept) + lost[-1][:40])
        provider.questions = []
        again = run_suite(suite)
        assert again.counts.holds == 1
        assert "2 of" in notes(again)
        assert "requested again after one was lost, counted neither" in notes(again)
        numbers = [json.loads(line)["number"] for line in file.open() if has_answer(line)]
        assert len(set(numbers)) == len(numbers)
        # the others were not requested again
        assert len(provider.questions) <= len(numbers) - len(kept) // 2 + 2
        file.write_text(lines[0] + "".join(lines[1:]).replace('"ended"', '"else"'))
        assert "damaged" in run_suite(suite).results[0].error


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("0.15 USD / 1M tokens", 0.15e-6),
        ("$3 per million tokens", 3e-6),
        ("2 dollars/1K tokens", 2e-3),
        (".5 usd / M tokens", 0.5e-6),
    ],
)
def test_prices_have_units(text, price):
    """A price is an amount of dollars for a number of tokens."""
    assert parse_price("input", text) == pytest.approx(price)


@pytest.mark.parametrize(
    "text", ["3", "3 USD", "3 / 1M tokens", "3 EUR / 1M tokens", "-1 USD / 1M"]
)
def test_a_price_without_a_unit_is_refused(text):
    """A number alone may be dollars per thousand or million tokens."""
    with pytest.raises(ConfigError, match=r"no price with a unit; write it as 0\.15 USD"):
        parse_price("input", text)


def test_opening_a_provider_requests_nothing(tmp_path):
    """A model is opened without a server, a key or a file."""
    suite = load(tmp_path, "http://127.0.0.1:1", YES)
    opening.open_model(suite.deployments[0].model, suite.expansion, text_client.Spending())
    assert not (tmp_path / "results").exists()


def test_a_suite_describes_a_provider_without_a_configuration(tmp_path):
    """The keys of a model in the suite are enough, and prompts may differ by row."""
    provider = FakeProvider("openai-chat", share(1.0))
    with running(provider) as address:
        model = {"source": address, "api": "openai-chat", "served_as": MODEL}
        content = {"model": model, "length": 3, "budget": {"answers": 30}}
        case = {"prompts": "rows.csv", "user": "Is {x}?", "average": {"a": "mean P=? [ F y > 0 ]"}}
        content |= {"properties": {"y": {"type": "pattern", "pattern": "yes"}}, "cases": [case]}
        (tmp_path / "rows.csv").write_text("x\n1\n1\n2\n", encoding="utf-8")
        (tmp_path / "suite.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
        result = run_suite(load_suite(tmp_path / "suite.yaml"))
    (average,) = result.aggregates
    assert average.measurement.sampled.lower > 0.5
    # equal prompts of two rows have answers of their own, so that their samples are independent
    assert len(provider.questions) == 90


@pytest.mark.parametrize(
    ("api", "find"),
    [
        ("openai-chat", lambda payload: payload["stop"]),
        ("openai-completions", lambda payload: payload["stop"]),
        ("anthropic", lambda payload: payload["stop_sequences"]),
        ("ollama", lambda payload: payload["options"]["stop"]),
    ],
)
def test_stops_are_passed_on_and_applied(api, find, tmp_path):
    """Each API gets the stops, and what a provider writes after a stop is not read."""
    provider = FakeProvider(api, lambda drawn: ("no.User: yes", True))
    keys = {"model": {"api": api, "stop": ["User:"]}}
    result = run(tmp_path, provider, {"not_icontains": "yes", "at_least": 0.5}, **keys)
    assert [case.status for case in result.results] == [CaseStatus.HOLDS]
    assert find(provider.questions[-1][1]) == ["User:"]


def test_requirements_on_texts_are_about_the_answer_after_a_thought(tmp_path):
    """A thought between stated marks is not part of an answer of texts alone."""
    text = "<think>I could say yes, but it is wrong.</think>\nNo."
    provider = FakeProvider("openai-chat", lambda drawn: (text, True))
    thought = {"begin": "<think>", "end": "</think>"}
    require = [
        {"starts_with": "No", "at_least": 0.5},
        {"icontains": "yes", "at_least": 0.5},
    ]
    result = run(tmp_path, provider, *require, thought=thought)
    assert [case.status for case in result.results] == [CaseStatus.HOLDS, CaseStatus.VIOLATED]
    result = run(tmp_path, provider, *require, thought=False)
    assert [case.status for case in result.results] == [CaseStatus.VIOLATED, CaseStatus.HOLDS]
    # the usual marks need no key
    result = run(tmp_path, provider, *require)
    assert [case.status for case in result.results] == [CaseStatus.HOLDS, CaseStatus.VIOLATED]


MESSAGES = {
    "openai-chat": lambda reply: reply["choices"][0]["message"].update(reasoning_content="yes?"),
    "anthropic": lambda reply: reply["content"].insert(0, {"type": "thinking", "thinking": "yes?"}),
    "ollama": lambda reply: reply["message"].update(thinking="yes?"),
}
IN_THOUGHT = {"in_thought": {"type": "pattern", "pattern": "yes", "of": "thought"}}


@pytest.mark.parametrize("thought", [None, {"begin": "[T]", "end": "[/T]"}, False], ids=str)
@pytest.mark.parametrize("api", MESSAGES)
def test_a_thought_that_a_provider_returns_apart_is_the_part_thought(api, thought, tmp_path):
    """Whatever the marks, requirements on the thought read it, others do not, and turns after it
    have no thought in their messages."""

    def add_thought(provider, reply):
        MESSAGES[api](reply)
        return reply

    provider = FakeProvider(api, lambda drawn: ("No.", True))
    provider.fault = add_thought
    require = [{"icontains": "yes", "at_most": 0.5}]
    if thought is not False:
        require.append("P>=0.5 [ F (G in_thought = 1) ]")
    keys = {} if thought is None else {"thought": thought}
    keys |= {"properties": IN_THOUGHT, "model": {"api": api}}
    result = run(tmp_path, provider, *require, **keys)
    assert [case.status for case in result.results] == [CaseStatus.HOLDS] * len(require)
    with running(provider) as address:
        turns = [{"user": "Is it?"}, {"user": "Why {answer 1}"}]
        case = {"turns": turns, "require": [{"not_contains": "zebra", "at_least": 0.5}]}
        path = write(tmp_path, address, case, **keys)
        content = yaml.safe_load(path.read_text())
        del content["cases"][0]["user"]
        path.write_text(yaml.safe_dump(content))
        result = run_suite(load_suite(path))
    assert [case.status for case in result.results] == [CaseStatus.HOLDS]
    # what is shown is what was sent
    shown = "\n".join(text.text for text in result.results[0].witnesses)
    assert shown.count("Why No.") == shown.count("Why ")
    chats = [question["messages"] for _, question in provider.questions]
    said = [each["content"] for each in max(chats, key=len)]
    assert said == ["Is it?", "No.", "Why No."]


def test_a_requirement_on_a_thought_that_is_not_there_is_refused(tmp_path):
    """Without stated marks, an answer without a thought is no empty thought."""
    provider = FakeProvider("openai-chat", lambda drawn: ("No.", True))
    (case,) = run(tmp_path, provider, "P<=0.5 [ F in_thought = 1 ]", properties=IN_THOUGHT).results
    assert case.status is CaseStatus.ERROR
    assert "the answers have no known thoughts" in str(case.error)


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("text", "is_noted"),
    [
        ('{"a": 1}', False),
        ('<think>No?</think>{"a": 1}', False),
        ('{"a": "1"}', True),
        ("No", True),
    ],
)
def test_a_provider_that_does_not_obey_a_schema_is_noted(text, is_noted, tmp_path):
    """A note counts the answers that do not satisfy the schema which the provider has got."""
    provider = FakeProvider("openai-chat", lambda drawn: (text, True))
    result = run(
        tmp_path, provider, {"ends": True, "at_least": 0.5}, decoding={"json_schema": SCHEMA}
    )
    found = [note for note in result.results[0].answer.notes if "does not obey" in note]
    assert len(found) == is_noted
    assert all("do not satisfy `json_schema`" in note for note in found)
