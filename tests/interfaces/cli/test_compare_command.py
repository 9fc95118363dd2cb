"""`llmchecker compare`: one query on two models, texts or decodings."""

import json

import pytest
import yaml

from llmchecker.checking.comparison import SideLabel
from llmchecker.checking.comparison_formatting import describe_sides
from llmchecker.config.opening import open_model
from llmchecker.interfaces.cli.arguments import parse_question, parse_versus
from llmchecker.interfaces.cli.commands import build_parser
from llmchecker.interfaces.cli.main import main
from llmchecker.models.decoding.chat_template import Chat

QUERY = "P=? [ F readability > 8000 ]"
START, OTHER = "The player won because", "The player lost because"


@pytest.fixture
def project(tmp_path, random_model, monkeypatch):
    """A project with one model as the current directory."""
    config = {
        "models": {"gpt2": {"label": "Small GPT-2", "source": f"path:{random_model('gpt2')}"}},
        "start_strings": {"player": START},
        "quantifiers": {"gender": {}, "readability": {}},
        "experiments": [],
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def arguments(*more: str, query: str = QUERY) -> list[str]:
    passes = [] if "--passes" in more else ["--passes", "90"]
    return ["compare", query, "--start", START, "--length", "3", *passes, *more]


def compared(capfd, *more: str, status: int) -> dict:
    capfd.readouterr()
    assert main(arguments("--json", *more)) == status
    return json.loads(capfd.readouterr().out)


def test_two_texts_are_compared(project, capfd):
    """The object has both sides and their difference; one pass of each decides nothing."""
    few = ("--versus-start", OTHER, "--passes", "4")
    found = compared(capfd, *few, status=2)
    assert (found["first"]["start"], found["versus"]["start"]) == (START, OTHER)
    assert found["lower"] <= found["first"]["lower"] - found["versus"]["upper"]
    assert (found["outcome"], found["certainty"]) == ("UNKNOWN", None)
    assert found["passes"] == found["first"]["passes"] + found["versus"]["passes"] <= 4
    assert main(arguments(*few)) == 2
    lines = capfd.readouterr().out.splitlines()
    assert lines[1:4] == [
        "both            Small GPT-2",
        f'first           "{START}"',
        f'versus          "{OTHER}"',
    ]
    assert "verdict         undecided: the difference may be 0" in lines
    assert lines[5].startswith("first − versus  certain [-")


def test_the_sides_name_what_differs(project, capfd):
    """What both sides have is shown once; an assertion stands for the query of both."""
    words = ["compare", "--contains", "a", "--start", START, "--top-k", "2", "--length", "2"]
    assert main([*words, "--versus-top-k", "1", "--passes", "90"]) in (0, 2)
    out, err = capfd.readouterr()
    lines = out.splitlines()
    assert lines[:5] == [
        "query           P=? [ F contains = 1 ]",
        'assertion       contains "a"',
        f'both            Small GPT-2, "{START}"',
        "first           top_k 2",
        "versus          top_k 1",
    ]
    assert "the same as llmchecker compare 'P=? [ F contains = 1 ]' --quantifier" in err
    sides = [
        SideLabel("m", "", Chat((*system, ("user", "x")))) for system in ((("system", "s"),), ())
    ]
    assert describe_sides(sides) == {
        "both": 'm, user "x"',
        "first": 'system "s"',
        "versus": "no system prompt",
    }


def test_more_passes_decide(project, capfd):
    """The interval is within the certain bounds, and its sign is the outcome."""
    found = compared(capfd, "--versus-start", OTHER, "--versus-greedy", status=0)
    assert found["lower"] <= found["low"] <= found["high"] <= found["upper"]
    assert found["first"]["confidence"] == pytest.approx(0.995)
    assert found["outcome"] == ("FIRST" if found["low"] > 0 else "VERSUS")
    assert found["certainty"] in ("certain", "with confidence 0.99")


def test_a_second_decoding_replaces_the_first(project, capfd):
    """A greedy first side and a second side with other settings differ in their decodings."""
    found = compared(capfd, "--greedy", "--versus-top-k", "2", status=0)
    assert found["first"]["decoding"] == {"do_sample": False}
    assert found["versus"]["decoding"] == {"top_k": 2}
    assert found["certainty"] == "certain"
    again = compared(capfd, "--top-k", "2", "--versus-greedy", status=0)
    assert (again["lower"], again["upper"]) == (-found["upper"], -found["lower"])


def test_each_side_has_the_model_of_its_own_directory(project, random_model, monkeypatch):
    """Two directories are two models, although the command line names neither."""
    opened = []

    def open_and_record(model, *others):
        opened.append(model.directory)
        return open_model(model, *others)

    monkeypatch.setattr("llmchecker.interfaces.cli.compare_command.open_model", open_and_record)
    directories = [random_model(name) for name in ("gpt2", "llama")]
    words = ["--model", str(directories[0]), "--versus-model", str(directories[1])]
    assert main(arguments(*words, "--passes", "4")) in (0, 2)
    assert opened == directories


def test_another_user_replaces_messages(project, capfd):
    """The second side has its own chat, also where a file has the first one's."""
    (project / "chat.json").write_text('[{"system": "Be kind."}, {"user": "Is it so?"}]')
    parser = build_parser(["compare"])
    words = ["compare", QUERY, "--messages", "chat.json", "--versus-user", "And now?"]
    parsed = parser.parse_args(words)
    registry, first = parse_question(parsed)
    versus = parse_versus(parsed, registry, first)
    assert first.prompt == Chat((("system", "Be kind."), ("user", "Is it so?")))
    assert versus.prompt == Chat((("system", "Be kind."), ("user", "And now?")))


@pytest.mark.parametrize(
    ("words", "query", "message"),
    [
        ([], QUERY, "both sides are the same; change the model"),
        (["--versus-start", START], QUERY, "both sides are the same; change the model"),
        (
            ["--versus-model", "gpt3"],
            QUERY,
            "--versus-model: 'gpt3' is no model and no directory in ",
        ),
        (["--versus-top-p", "4"], QUERY, "error: --versus-top-p: 4 is too large"),
        (
            ["--versus-model", "gpt2", "--versus-api", "vllm"],
            QUERY,
            "error: --versus-api: 'gpt2' is",
        ),
        (["--versus-start", "a", "--versus-user", "b"], QUERY, "--versus-start: user is given too"),
        (
            ["--versus-system", "a"],
            QUERY,
            "--versus-system: it belongs to a chat",
        ),
        (["--versus-greedy", "--versus-top-k", "2"], QUERY, "--versus-greedy: the most probable"),
        (["--versus-start", "a"], "P>=0.5 [ F gender > 0 ]", "needs a number; write =?"),
        (["--versus-start", "a"], 'R{"gender"}=? [ I=3 ]', "use a quantifier with a range"),
    ],
)
def test_what_cannot_be_compared_is_refused(project, capfd, words, query, message):
    """Equal sides, contradictions, thresholds and bad limits are refused by name, with status 3."""
    assert main(arguments(*words, query=query)) == 3
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err
