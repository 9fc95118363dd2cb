"""`llmchecker check --contains …`: an assertion stands for a query, which is printed."""

import json
import shlex

import pytest

from llmchecker.interfaces.cli.main import main

START = "The player won because"


@pytest.fixture
def check(tmp_path, random_model, monkeypatch, capfd):
    """A function that checks without a configuration, and returns the answer and the log."""
    monkeypatch.chdir(tmp_path)

    def check(*arguments: str) -> tuple[dict, str]:
        capfd.readouterr()
        model = ["--model", str(random_model("gpt2")), "--start", START]
        assert main(["check", *model, "--length", "2", "--passes", "40", "--json", *arguments]) < 3
        printed = capfd.readouterr()
        return json.loads(printed.out), printed.err

    return check


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        (["--contains", "a b", "--at-least", "0.95"], "P>=0.95 [ F contains = 1 ]"),
        (["--not-contains", "a", "--at-most", "0.5"], "P<=0.5 [ G contains = 0 ]"),
        (["--contains-any", "a", "b c"], "P=? [ F contains = 1 ]"),
        (["--not-icontains-all", "a", "b"], "P=? [ G contains = 0 ]"),
        (["--matches", "^a"], "P=? [ F (G matches = 1) ]"),
        (["--max-words", "3"], "P=? [ G words <= 3 ]"),
        (["--max-characters", "80"], "P=? [ G characters <= 80 ]"),
        (["--min-characters", "3"], "P=? [ F characters >= 3 ]"),
        (["--max-sentences", "2"], "P=? [ G sentences <= 2 ]"),
        (["--min-sentences", "2"], "P=? [ F sentences >= 2 ]"),
        (["--refuses"], "P=? [ F refuses = 1 ]"),
        (["--not-ends"], 'P=? [ G !"end" ]'),
    ],
)
def test_an_assertion_prints_the_query_that_it_stands_for(check, arguments, query):
    """The answer is that of the query, and the printed command gives the same answer."""
    answer, log = check(*arguments)
    assert answer["query"] == query
    command = shlex.split(log.partition("the same as ")[2].splitlines()[0])
    assert command[:2] == ["llmchecker", "check"]
    again, log = check(*command[2:])
    assert "the same as" not in log
    assert (again["query"], again["lower"], again["low"]) == (query, answer["lower"], answer["low"])


def test_a_schema_and_a_quantifier_come_from_the_command_line(check, tmp_path):
    """--json-schema reads a file, and --quantifier defines a quantifier of the query."""
    (tmp_path / "schema.json").write_text('{"type": "object"}')
    answer, log = check("--json-schema", "schema.json")
    assert answer["query"] == "P=? [ F (G json = 2) ]"
    assert '"schema": {"type": "object"}' in log
    answer, _ = check("P=? [ F long > 3 ]", "--quantifier", "long={type: length, unit: characters}")
    assert 0 <= answer["lower"] <= answer["upper"] <= 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('[{"role": "user", "content": "So?"}]', "chat template"),
        ("[", "has no JSON"),
    ],
)
def test_messages_are_read_from_a_file(random_model, tmp_path, monkeypatch, capfd, content, reason):
    """--messages reads several turns, which a model without a chat template rejects."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chat.json").write_text(content)
    model = ["--model", str(random_model("gpt2")), "--messages", "chat.json"]
    assert main(["check", *model, "--contains", "a"]) >= 2
    assert reason in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--api", "vlm"], "--model: api: 'vlm' is not one of vllm, llama.cpp"),
        (
            ["--api", "openai-completions"],
            "--model: tokenizer: the api openai-comp",
        ),
    ],
)
def test_a_server_is_refused_by_its_option(tmp_path, monkeypatch, capfd, options, message):
    """An unknown or text-only API has the option as its place, and no key of a configuration."""
    monkeypatch.chdir(tmp_path)
    server = ["--model", "http://localhost:1", "--tokenizer", "words", *options]
    assert main(["check", *server, "--start", START, "--contains", "a"]) == 3
    assert message in capfd.readouterr().err


KEYS = "{source: http://localhost:1/v1, api: openai-chat, served_as: MODEL}"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (["http://localhost:1/v1"], f"no api; write {KEYS}, or api: vllm with a tokenizer"),
        (["http://localhost:1", "--api=vllm"], "no tokenizer; add"),
        ([KEYS.replace("}", ", key_from: NO_KEY}")], "the variable NO_KEY holds no key"),
        ([KEYS.replace("api", "apis")], "--model: unknown key 'apis', did you mean 'api'"),
        ([KEYS.strip("}")], "--model, line 1: not YAML"),
        ([KEYS, "--key-from=A"], "--key-from: the model has keys; write it as one of these"),
    ],
)
def test_a_model_of_the_shell_may_have_the_keys_of_a_suite(
    tmp_path, monkeypatch, capfd, model, message
):
    """What the message on an address says is what `--model` takes, and mistakes are named."""
    monkeypatch.chdir(tmp_path)
    question = ["--user", "Hi?", "--contains=a", "--at-least=0.5"]
    assert main(["check", "--model", *model, *question]) >= 2
    assert message in capfd.readouterr().err
