"""`check`, `compare` and the library on models that return texts alone."""

import itertools
import json
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest
from helpers.fake_provider import MODEL, FakeProvider, sample_table, share
from helpers.fake_server import Status, raising, running, slow, times
from helpers.random_tables import table_model

import llmchecker as lc
from llmchecker.config.deployment import resolve_deployment
from llmchecker.config.registry import Registry
from llmchecker.errors import ConfigError
from llmchecker.interfaces.cli.check_on_model import INTERRUPTED_NOTE
from llmchecker.interfaces.cli.main import main
from llmchecker.models.servers import text_client
from llmchecker.models.servers.http_client import RequestLimits

YES = "F (G yes > 0)"
PROMPT = ["--user", "Is it?", "--quantifier", "yes={type: words, words: [yes]}"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """An empty current folder; failed requests are repeated at once."""
    options = text_client.TextClient.__init__.__kwdefaults__
    quick = RequestLimits(attempts=2, first_pause_seconds=0.001, max_bytes=10_000)
    monkeypatch.setitem(options, "limits", quick)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def name(address: str, prefix: str = "--") -> list[str]:
    """The options of a model of the provider."""
    keys = {"model": address, "api": "openai-chat", "served-as": MODEL}
    return [f"{prefix}{key}={value}" for key, value in keys.items()]


def call(capsys, *arguments: str) -> tuple[int, str, str]:
    """The exit status and both outputs of a command."""
    status = main(list(arguments))
    printed = capsys.readouterr()
    return status, printed.out, printed.err


@pytest.mark.parametrize(("yes", "status", "word"), [(1.0, 0, "HOLDS"), (0.2, 1, "VIOLATED")])
def test_check_decides_with_confidence_and_pays_once(yes, status, word, folder, capsys):
    """Answers decide a requirement, never certainly; a second run requests none of them again."""
    provider = FakeProvider("openai-chat", share(yes))
    with running(provider) as address:
        arguments = ["check", f"P>=0.6 [ {YES} ]", *PROMPT, *name(address), "--json"]
        found, out, _ = call(capsys, *arguments, f"--html={folder / 'page.html'}")
        count = len(provider.questions)
        again = call(capsys, *arguments)
        shown = call(capsys, *arguments[:-1])[1]
    assert found == again[0] == status
    assert len(provider.questions) == count
    answer, second = json.loads(out), json.loads(again[1])
    assert answer["outcome"] == word
    assert answer["certainty"] == "with confidence 0.99"
    assert (answer["lower"], answer["upper"], answer["passes"]) == (False, True, None)
    assert answer["answers"] <= count
    assert answer | {"seconds": 0} == second | {"seconds": 0}
    assert f"about the sampler of {MODEL}-2026 at {address}" in shown
    assert "certain" not in shown
    assert "certain" not in (folder / "page.html").read_text().split("<main", 1)[-1]


def test_an_interval_of_check_has_the_probability_of_a_table(capsys):
    """The interval covers the share of texts that a table gives, and so does the library's."""
    model, length = table_model(1), 3
    truth, paths = 0.0, {(0,): 1.0}
    for _ in range(length):
        grown: dict[tuple[int, ...], float] = {}
        for tokens, mass in paths.items():
            for token, p in enumerate(model.distribution(tokens)):
                if token in model.end_tokens or p == 0:
                    continue
                if model.vocabulary[token] == "b":
                    truth += mass * p
                else:
                    grown[(*tokens, token)] = mass * p
        paths = grown
    provider = FakeProvider("openai-chat", sample_table(model, (0,), length))
    with running(provider) as address:
        options = ["--quantifier", "b={type: pattern, pattern: b}", f"--length={length}", "--json"]
        query = "P=? [ F b = 1 ]"
        out = call(capsys, "check", query, "--user=x", *options, *name(address), "--answers=80")[1]
        loaded = lc.load({"source": address, "api": "openai-chat", "served_as": MODEL})
        same = lc.check(query, loaded, user="x", b=lc.Pattern("b"), length=length, answers=80)
    found = json.loads(out)
    assert found["low"] <= truth <= found["high"]
    assert found["high"] - found["low"] < 0.5
    # the library reads the answers that the command stored
    assert (same.low, same.high, len(provider.questions)) == (found["low"], found["high"], 80)
    assert (same.lower, same.upper, lc.find_tree(same)) == (0, 1, None)
    assert "certain" not in repr(same) + str(same) + same._repr_html_()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--tokens=100000", r"estimate +\["),
        ("--tokens=420", "allows no further answer"),
        ("--dollars=1", "dollars: .* has no prices"),
        ("--answers=9", "answers: .* has probabilities"),
    ],
    ids=str,
)
def test_limits_of_costs_hold_for_a_paid_judge_of_a_model_in_process(
    option, words, folder, random_model, capsys
):
    """The judge's answers count in the tokens of the command, and their money needs prices."""
    provider = FakeProvider("openai-chat", lambda random: ("Yes", True))
    with running(provider) as address:
        judge = {"type": "judge", "question": "Is it polite?"}
        judge["model"] = {"source": address, "api": "openai-chat", "served_as": MODEL}
        options = [f"--quantifier=j={json.dumps(judge)}", "--length=2", "--passes=5", "--start=a"]
        query = "P=? [ X j > 0 ]"
        _, out, error = call(
            capsys, "check", query, *options, f"--model={random_model('gpt2')}", option
        )
    assert re.search(words, out + error)


class Letters:
    """The number of the letters b, from 1 to 4 as on a scale of grades."""

    minimum, maximum = 1, 4

    def __call__(self, start: str, continuation: str) -> int:
        return 1 + continuation.count("b")


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", [1, 2])
def test_an_expected_score_has_an_interval(seed):
    """The interval of a bounded score's mean has the mean of a table, by enumeration."""
    model, length = table_model(seed), 3
    truth, paths = 0.0, {(0,): 1.0}
    for step in range(length):
        grown: dict[tuple[int, ...], float] = {}
        for tokens, mass in paths.items():
            for token, p in enumerate(model.distribution(tokens)):
                has_ended = token in model.end_tokens
                text = [
                    model.vocabulary[each]
                    for each in (*tokens[1:], *([] if has_ended else [token]))
                ]
                if has_ended or step == length - 1:
                    truth += mass * p * (1 + text.count("b"))
                else:
                    grown[(*tokens, token)] = mass * p
        paths = grown
    provider = FakeProvider("openai-chat", sample_table(model, (0,), length))
    with running(provider) as address:
        loaded = lc.load({"source": address, "api": "openai-chat", "served_as": MODEL})
        options = {"user": "x", "length": length, "answers": 90}
        found = lc.ask('R{"b"}=? [ I=3 ]', loaded, b=Letters(), **options)
        with pytest.raises(lc.errors.InvalidQuery, match="write I=3, the horizon"):
            lc.ask('R{"b"}=? [ I=2 ]', loaded, b=Letters(), **options)
        with pytest.raises(lc.errors.InvalidQuery, match="no least or no greatest score"):
            lc.ask('R{"b"}=? [ I=3 ]', loaded, b=lambda start, text: 1, **options)
    assert found.low <= truth <= found.high
    assert 1 <= found.low < found.estimate < found.high <= 4
    assert found.high - found.low < 1.5
    assert found.estimate == pytest.approx(truth, abs=0.4)
    assert (found.lower, found.upper) == (1, 4)


def test_a_withheld_answer_counts_as_both_ends_of_a_score():
    """Ten withheld answers of sixty with the greatest score leave the mean of 3.5 possible."""
    provider = FakeProvider("openai-chat", share(1.0, "bbb"))
    withheld = {"finish_reason": "content_filter"}
    provider.fault = times(
        10, lambda server, reply: reply | {"choices": [reply["choices"][0] | withheld]}
    )
    with running(provider) as address:
        loaded = lc.load({"source": address, "api": "openai-chat", "served_as": MODEL})
        found = lc.ask('R{"b"}=? [ I=3 ]', loaded, user="x", length=3, b=Letters(), answers=60)
    assert found.low < 3.5 < found.high == 4


def test_compare_of_two_providers_reads_the_answers_of_check(capsys):
    """The difference is decided from both providers; the answers of `check` count too."""
    one, two = FakeProvider("openai-chat", share(0.9)), FakeProvider("openai-chat", share(0.2))
    with running(one) as address, running(two) as other:
        query = f"P=? [ {YES} ]"
        call(capsys, "check", query, *PROMPT, *name(other), "--answers=30")
        sides = [*PROMPT, *name(address), *name(other, "--versus-"), "--answers=60"]
        status, out, _ = call(capsys, "compare", query, *sides)
        found = json.loads(call(capsys, "compare", query, *sides, "--json")[1])
    assert status == 0
    assert "the first is more likely, with confidence 0.99" in out
    assert "certain [" not in out
    assert (len(one.questions), len(two.questions), found["answers"]) == (60, 60, 120)
    assert found["low"] <= 0.7 <= found["high"]


def test_a_model_with_probabilities_is_compared_with_texts_alone(folder):
    """One side has certain bounds, the other an interval; both limits hold."""
    coin = lc.TableModel(["x", " yes", " no"], lambda tokens: [0, 0.5, 0.5])
    provider = FakeProvider("openai-completions", share(0.0))
    with running(provider) as address:
        model = lc.load({"source": address, "api": "openai-completions", "served_as": MODEL})
        words = {"yes": lc.Words(["yes"])}
        options = {"length": 2, "passes": 20, "answers": 60, **words}
        found = lc.compare(f"P=? [ {YES} ]", coin, "x", versus_model=model, **options)
    assert found.outcome.name == "FIRST"
    assert (found.first.lower, found.first.upper) == pytest.approx((0.75, 0.75))
    assert found.low <= 0.75 <= found.high
    assert found.versus.costs.answers == found.answers == 60
    figures = dict(line.split("  ", 1) for line in str(found).splitlines() if "  " in line)
    assert figures["P(first)"].lstrip().startswith("certain [0.7")
    assert figures["P(versus)"].lstrip().startswith("estimate [")


def test_ctrl_c_leaves_the_answer_so_far(capsys):
    """Ctrl-C ends `check` and `compare` by texts alone with what they have, and status 130."""
    query = ["P=? [ F (G yes > 0) ]", *PROMPT, "--json"]
    for command in ("check", "compare"):
        provider = FakeProvider("openai-chat", share(0.5))
        written = itertools.count(1)

        def press(server, answer, written=written):
            if next(written) == 40:
                os.kill(os.getpid(), signal.SIGINT)
            return answer

        provider.fault = press
        with running(provider) as address:
            more = ["--versus-user=Or not?"] if command == "compare" else []
            status, out, err = call(capsys, command, *query, *name(address), *more)
        found = json.loads(out)
        assert status == 130
        assert err.endswith("interrupted\n")
        assert INTERRUPTED_NOTE in (found["first"] if more else found)["notes"]
        assert found["answers"] < 500


def test_a_second_ctrl_c_does_not_wait_for_the_provider(capsys):
    """While a slow answer is awaited, the second Ctrl-C ends the command at once."""
    provider = FakeProvider("openai-chat", share(0.5))
    provider.fault = slow(3.0)
    presses = [threading.Timer(wait, os.kill, (os.getpid(), signal.SIGINT)) for wait in (0.5, 0.51)]
    with running(provider) as address:
        for press in presses:
            press.start()
        start_time = time.monotonic()
        status, out, err = call(capsys, "check", "P=? [ F (G yes > 0) ]", *PROMPT, *name(address))
        seconds = time.monotonic() - start_time
    assert (status, out) == (130, "")
    assert err.endswith("interrupted\n")
    assert seconds < 2.5


BILLING = "https://platform.openai.com/docs/guides/error-codes"
NO_ACCOUNT = {
    "OpenAI's quota": (
        429,
        {
            "message": f"You exceeded your current quota, please check your plan. See {BILLING}.",
            "type": "insufficient_quota",
            "param": None,
            "code": "insufficient_quota",
        },
        "insufficient_quota: the quota of the account is used up",
    ),
    "OpenAI's limit": (
        429,
        {"message": "Billing hard limit", "code": "billing_hard_limit_reached"},
        "billing_hard_limit_reached: the limit of the account's costs",
    ),
    "OpenAI's account": (
        429,
        {"message": "Your account is not active", "code": "billing_not_active"},
        "billing_not_active: the account",
    ),
    "Anthropic's credit": (
        400,
        {"type": "invalid_request_error", "message": "Your credit balance is too low to access"},
        "the account has no credit",
    ),
    "OpenRouter's credit": (402, {"code": 402, "message": "Insufficient credits"}, "no credit"),
    "Google's day": (
        429,
        {
            "code": 429,
            "status": "RESOURCE_EXHAUSTED",
            "details": [{"violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}]}],
        },
        "the quota of the day is used up",
    ),
}


@pytest.mark.parametrize("case", NO_ACCOUNT)
def test_an_account_that_cannot_pay_is_no_rate_limit(case, capsys, monkeypatch):
    """What no waiting changes is requested once, and the error says what to do."""
    status, error, message = NO_ACCOUNT[case]
    provider = FakeProvider("openai-chat", share(1.0))
    provider.fault = raising(lambda: Status(status, {"error": error}))
    # a retry would take minutes
    limits = RequestLimits(attempts=8, first_pause_seconds=60.0)
    monkeypatch.setitem(text_client.TextClient.__init__.__kwdefaults__, "limits", limits)
    with running(provider) as address:
        found, _, err = call(capsys, "check", f"P=? [ {YES} ]", *PROMPT, *name(address))
    assert found == 3
    assert message in err
    assert len(provider.questions) <= 16


@pytest.mark.parametrize(
    "error",
    [
        {"message": "Rate limit reached for requests", "code": "rate_limit_exceeded"},
        {"message": "RESOURCE_EXHAUSTED", "details": [{"quotaId": "RequestsPerMinute"}]},
        {"message": "Overloaded", "type": "overloaded_error"},
    ],
)
def test_a_rate_limit_is_waited_for(error, capsys):
    """A limit that passes is requested again, whatever else has its status."""
    provider = FakeProvider("openai-chat", share(1.0))
    # each request has two attempts, so that one fault alone never fails a request
    provider.fault = times(1, raising(lambda: Status(429, {"error": error})))
    with running(provider) as address:
        arguments = ["check", f"P=? [ {YES} ]", *PROMPT, *name(address), "--answers=30", "--json"]
        found, out, _ = call(capsys, *arguments)
    assert found == 0
    assert json.loads(out)["answers"] == 30


def test_a_budget_of_money_limits_a_check(capsys):
    """A check ends before its money is exceeded, and names the limit."""
    provider = FakeProvider("openai-chat", share(0.9))
    prices = ["--prices", "1 USD / 1M tokens", "1 USD / 1M tokens"]
    with running(provider) as address:
        arguments = ["check", f"P=? [ {YES} ]", *PROMPT, *name(address), *prices]
        status, out, _ = call(capsys, *arguments, "--dollars=0.001")
    assert status == 0
    assert "the budget of 0.001 dollars allows no further answer" in out
    # an answer of the provider has 12 tokens
    assert 0 < 12 * len(provider.questions) <= 1_000


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--passes=9"], "--passes: .* returns texts alone; limit answers"),
        (["--certain"], "--certain: .* returns texts alone, which prove nothing"),
        (["--dollars=1"], "--dollars: .* has no prices"),
        (["--tokens=0"], "--tokens: 0 is too small; it must be at least 1"),
        (["--answers=0"], "--answers: 0 is too small; it must be at least 1"),
        (["--key-from=NO_SUCH_KEY"], "NO_SUCH_KEY holds no key"),
        (["--alpha=0.5", "--k=3", "--length=3"], "returns only texts; a tree needs"),
        (["--prices", "1 USD / 1M tokens", "2"], "^error: --prices: '2' is no price with a unit"),
    ],
)
def test_mistakes_are_named_before_a_request(options, problem, capsys):
    """A limit without an effect, a missing price and a missing key cost no answer."""
    provider = FakeProvider("openai-chat", share(1.0))
    with running(provider) as address:
        query = f"P=? [ {YES} ]"
        status, _, printed = call(capsys, "check", query, *PROMPT, *name(address), *options)
    assert status == 3
    assert provider.questions == []
    assert re.search(problem, printed)


def test_a_prompt_and_a_query_that_texts_cannot_answer_are_refused(capsys):
    """A chat continues no text, and tokens are not seen."""
    base = ["check", f"P=? [ {YES} ]", *PROMPT[2:], *name("http://127.0.0.1:1")]
    assert "--start: the api openai-chat of" in call(capsys, *base, "--start=x")[2]
    steps = ["check", "P=? [ F step = 3 ]", "--user=x", *name("http://127.0.0.1:1")]
    assert "needs the number of tokens" in call(capsys, *steps)[2]
    local = ["check", f"P=? [ {YES} ]", *PROMPT, "--model=./absent", "--served-as=x"]
    assert "--served-as: './absent' is no address" in call(capsys, *local)[2]


SHORT = {
    "openai:gpt-4o-mini": ("https://api.openai.com", "openai-chat", "gpt-4o-mini"),
    "anthropic:claude-x": ("https://api.anthropic.com", "anthropic", "claude-x"),
    "openrouter:qwen/qwen3-8b": ("https://openrouter.ai/api", "openai-chat", "qwen/qwen3-8b"),
    "ollama:llama3.2:3b": ("http://127.0.0.1:11434", "ollama", "llama3.2:3b"),
}
KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
KEYS["openrouter"] = "OPENROUTER_API_KEY"


@pytest.mark.parametrize("short", SHORT)
def test_a_short_name_has_the_keys_of_its_provider(short):
    """A short name has address, API, model and key variable, in a configuration as elsewhere."""
    configured = Registry.parse({"models": {"m": {"label": "M", "source": short}}}).models["m"]
    priced = {"source": short, "requests": 3}
    for model in (
        resolve_deployment("model", short, Registry()).model,
        resolve_deployment("model", priced, Registry()).model,
        configured,
    ):
        source = model.source
        assert (source.address, source.api, source.served_as) == SHORT[short]
        assert source.key_from == KEYS.get(short.partition(":")[0])
        assert model.is_text_only
    # the number of connections distinguishes no answers
    names = [resolve_deployment("model", each, Registry()).model.name for each in (short, priced)]
    assert names[0] == names[1]
    assert resolve_deployment("model", short, Registry()).name == short
    assert lc.load(short).name == names[0]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("openai:", "'openai:' names no model; write openai:MODEL"),
        ({"source": "openai:x", "api": "ollama"}, "api: openai:x names the API"),
        ({"source": "ollama:x", "served_as": "y"}, "served_as: ollama:x names the API"),
    ],
)
def test_a_short_name_that_is_contradicted_is_refused(given, problem):
    """A key that a short name has itself must be absent."""
    with pytest.raises(ConfigError, match=problem):
        resolve_deployment("model", given, Registry())


def test_the_library_refuses_what_has_no_effect(folder):
    """Arguments of local models, limits of the other kind and a tree of texts are refused."""
    model = lc.load("ollama:x")
    (folder / "a").mkdir()
    coin = lc.TableModel(["x", "y"], lambda tokens: [0.5, 0.5])
    for problem, attempt in {
        "threads: ollama:x is served by another": lambda: lc.load("ollama:x", threads=2),
        "127.0.0.1:1: no api": lambda: lc.load("http://127.0.0.1:1"),
        "unknown key 'prics'": lambda: lc.load({"source": "ollama:x", "prics": 2}),
        "dollars: a costs none": lambda: lc.load("a", dollars=2),
        "dollars: .* has no prices": lambda: lc.load("ollama:x", dollars=2),
        "answers: .* has probabilities": lambda: lc.ask(
            "P=? [ F gender > 0 ]", coin, "x", answers=3
        ),
        "passes: .* returns texts alone": lambda: lc.ask(
            "P=? [ F gender > 0 ]", model, user="x", passes=3
        ),
        "is not a language model": lambda: lc.grow(model, "x", alpha=1, k=2, length=2),
    }.items():
        with pytest.raises(ConfigError, match=problem):
            attempt()


def test_options_of_stops_and_thoughts(capsys):
    """Stops and marks of the command line leave the answer, of which a query is about."""
    text = "<think>yes</think> No.User: yes"
    provider = FakeProvider("openai-chat", lambda drawn: (text, True))
    query = ["check", f"P>=0.5 [ {YES} ]", *PROMPT, "--length=9", "--answers=20"]
    with running(provider) as address:
        asked = [*query, *name(address), "--stop=User:"]
        assert call(capsys, *asked, "--thought", "<think>", "</think>")[0] == 1
        assert provider.questions[-1][1]["stop"] == ["User:"]
        assert call(capsys, *asked, "--no-thought")[0] == 0
        status, _, error = call(capsys, *asked, "--include-stop")
        assert status == 3
        assert "--include-stop: providers return texts without the stop" in error
        status, _, error = call(capsys, *asked, "--no-thought", "--thought", "<t>", "</t>")
        assert status == 3
        assert "--no-thought: the option --thought has marks" in error


def test_max_tokens_of_a_deployment_ends_the_answers_of_a_provider(capsys):
    """The provider gets the smaller number, and an answer that it cuts there counts as a whole one;
    one that the horizon cuts is a beginning."""
    provider = FakeProvider("openai-chat", lambda drawn: ("no yes", False))
    query = ["check", 'P>=0.5 [ F ("end" & yes > 0) ]', *PROMPT, "--answers=20"]
    with running(provider) as address:
        asked = [*query, *name(address), "--max-tokens=7"]
        status, output, _ = call(capsys, *asked, "--length=9")
        assert status == 0
        assert provider.questions[-1][1]["max_tokens"] == 7
        (count, ended) = re.search(r"max_tokens ended (\d+) of (\d+) answers", output).groups()
        assert count == ended
        assert f"which cut 0 of {count} answers" in output
        status, output, _ = call(capsys, *asked, "--length=5")
        assert provider.questions[-1][1]["max_tokens"] == 5
        assert status == 1
        assert "max_tokens ended" not in output
