"""`llmchecker check` without alpha and k: bounds that are certain, and an estimate beside them."""

import json
import os
import shutil
import signal

import pytest
import yaml

from llmchecker.checking.anytime import refinement
from llmchecker.interfaces.cli.main import main

QUERY = "P=? [ F readability > 8000 ]"
START = "The player won because"


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


def asked(*more: str, query: str = QUERY) -> list[str]:
    return ["check", query, "--start", START, "--length", "3", "--passes", "240", *more]


def answered(capfd, *more: str, **changes: str) -> dict:
    capfd.readouterr()
    assert main(asked("--json", *more, **changes)) == 0
    return json.loads(capfd.readouterr().out)


def test_a_query_and_a_text_are_enough(project, capfd):
    """With neither model nor tree named, the answer has bounds and, within them, an interval."""
    answer = answered(capfd)
    assert answer["model"] == "gpt2"
    assert answer["value"] is None
    assert 0 <= answer["lower"] <= answer["low"] <= answer["estimate"]
    assert answer["estimate"] <= answer["high"] <= answer["upper"] <= 1
    assert (answer["confidence"], answer["seed"]) == (0.99, 0)
    assert answer["samples"] > 1
    assert 0 < answer["passes"] <= 240


def test_the_same_seed_gives_the_same_answer(project, capfd):
    """Asked twice, with an empty and a full store, the answers differ in times alone."""
    first, second, other = (answered(capfd, "--seed", seed) for seed in ("1", "1", "2"))
    for answer in (first, second, other):
        for name in ("seconds", "encode_seconds", "check_seconds"):
            del answer[name]
    assert first == second
    assert other["lower"] == first["lower"]
    assert other["seed"] != first["seed"]


def test_certain_means_without_samples(project, capfd):
    """--certain gives bounds alone, and spends all passes on them."""
    answer = answered(capfd, "--certain")
    assert answer["estimate"] is answer["low"] is answer["high"] is answer["samples"] is None
    assert answer["upper"] - answer["lower"] <= 1


def test_an_exact_answer_has_no_interval_of_confidence(project, capfd):
    """Where every text is decided nothing was sampled, and the answer says so in words."""
    exact = answered(capfd, "--greedy")
    assert (exact["lower"], exact["samples"]) == (exact["upper"], 0)
    assert main(asked("--greedy")) == 0
    printed = capfd.readouterr().out
    assert "estimate     not needed: every text is decided" in printed
    assert "confidence" not in printed


@pytest.mark.parametrize(
    ("query", "estimate"),
    [
        ("P>=0.0001 [ F step = 3 ]", True),
        ("P<0.0001 [ F step = 3 ]", False),
        ("P=? [ F readability > 8000 || F step = 2 ]", float),
        ("A [ F readability > 8000 ]", None),
        ("P=? [ F (P>0.5 [ X readability > 8000 ]) ]", None),
        ('R{"readability"}=? [ I=3 ]', None),
    ],
)
def test_what_samples_can_tell(project, capfd, query, estimate):
    """Thresholds become true or false with confidence, conditionals get an interval; what no
    single text decides gets bounds alone."""
    answer = answered(capfd, query=query)
    found = answer["estimate"]
    assert type(found) is estimate if estimate is float else found is estimate
    assert (answer["confidence"] is None) == (estimate is None)
    assert answer["lower"] is not None or "R{" in query


def test_a_person_reads_what_is_certain_and_what_is_estimated(project, capfd):
    """The two intervals stand on lines of their own, with what they rest on."""
    assert main(asked()) == 0
    lines = dict(line.split(None, 1) for line in capfd.readouterr().out.splitlines()[:9])
    assert lines["certain"].startswith("[")
    assert " with confidence 0.99, from " in lines["interval"]
    assert "value" not in lines


def test_ctrl_c_ends_with_the_answer_so_far(project, capfd, monkeypatch):
    """Interrupted after the first batch, the command prints the bounds that it has, and no
    estimate."""
    most = refinement._Refinement.select_batch

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return most(*arguments)

    monkeypatch.setattr(refinement._Refinement, "select_batch", interrupted)
    answer = answered(capfd)
    assert answer["passes"] == 1
    assert answer["estimate"] is None
    assert answer["lower"] <= answer["upper"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--alpha", "0.5"), "--k: missing"),
        (("--confidence", "1"), "confidence is 1.0; it must be from 0.001 to 0.999999999"),
        (("--width", "-1"), "width is -1.0; it must be from 0 to 1"),
        (("--passes", "0"), "passes is 0; it must be at least 1"),
        (("--seconds", "nan"), "seconds is nan; it must be above 0"),
        (("--seed", "-1"), "seed is -1; it must be from 0"),
    ],
)
def test_an_impossible_effort_is_refused(project, capfd, words, said):
    """What cannot be asked for is named with what can, before a model is loaded."""
    assert main(asked(*words)) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert said in err


def test_cut_tokens_make_the_answer_exact(project, capfd):
    """Where decoding leaves few tokens, the bounds meet, and no sample is drawn."""
    answer = answered(capfd, "--temperature", "0.7", "--top-k", "3", "--top-p", "0.9")
    assert answer["decoding"] == {"temperature": 0.7, "top_k": 3, "top_p": 0.9}
    assert answer["upper"] == pytest.approx(answer["lower"], rel=1e-12, abs=0)
    assert answer["samples"] == 0
    assert answered(capfd, "--greedy")["lower"] in (0.0, 1.0)
    assert main(asked("--min-p", "0.2")) == 0
    assert "Small GPT-2, min_p 0.2, 3 tokens" in capfd.readouterr().out


TEMPLATE = (
    "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}assistant:"
)


@pytest.fixture
def chatting(project, random_model):
    """The project with a model that has a chat template."""
    model = shutil.copytree(random_model("gpt2"), project / "chatting")
    (model / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    config = yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))
    config["models"]["gpt2"]["source"] = f"path:{model}"
    (project / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return project


def test_a_question_is_asked_as_a_user_asks_it(chatting, capfd):
    """--user and --system make a chat, whose answer is that to the text of the template."""
    asking = ["check", QUERY, "--length", "2", "--top-k", "3", "--passes", "500", "--json"]
    assert main([*asking, "--system", "Be kind.", "--user", "Is it so?"]) == 0
    chat = json.loads(capfd.readouterr().out)
    assert chat["start"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Is it so?"},
    ]
    assert main([*asking, "--start", "system: Be kind.\nuser: Is it so?\nassistant:"]) == 0
    text = json.loads(capfd.readouterr().out)
    assert (chat["lower"], chat["upper"]) == (text["lower"], text["upper"])
    tree = ["--alpha", "1", "--k", "3"]
    assert main([*asking[:-3], *tree, "--user", "Is it so?"]) == 0
    assert 'text         user "Is it so?"' in capfd.readouterr().out


def test_a_chat_needs_a_user_and_a_template(project, capfd):
    """--system without --user is refused, and so is a chat with a model that has no template."""
    assert main(asked("--system", "Be kind.")) == 2
    assert "--system: it belongs to a chat" in capfd.readouterr().err
    assert main(["check", QUERY, "--user", "Is it so?"]) == 2
    assert "gpt2: no chat template" in capfd.readouterr().err
    for words in (["--user", "Hi", "--start", START], ["--system", "Be kind."]):
        with pytest.raises(SystemExit, match="2"):
            main(["check", QUERY, *words])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--temperature", "0"), "--temperature: temperature: 0.0 is not above 0"),
        (("--greedy", "--top-p", "0.5"), "--top-p, --greedy: top_p: no effect with greedy"),
        (("--top-k", "-4"), "--top-k: top_k: -4"),
    ],
)
def test_an_impossible_decoding_is_refused(project, capfd, words, said):
    """A value that `generate` would not take is named by its option, before a model is loaded."""
    assert main(asked(*words)) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert said in err
