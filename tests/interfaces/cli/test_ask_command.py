"""`llmchecker check` without alpha and k: certain bounds, an interval, and an outcome."""

import contextlib
import json
import os
import re
import shutil
import signal

import pytest
import yaml

from llmchecker.interfaces.cli import check_on_model
from llmchecker.interfaces.cli.check_on_model import INTERRUPTED_NOTE
from llmchecker.interfaces.cli.main import main
from llmchecker.models.transformers.causal import CausalModel
from llmchecker.properties.logic.parser import parse

QUERY = "P=? [ F readability > 8000 ]"
START = "The player won because"
OPEN_PREFIX = CausalModel.open_prefix


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
    # an option may not be given twice
    usual = [("--length", "3"), ("--passes", "80")]
    limits = [word for pair in usual if pair[0] not in more for word in pair]
    return ["check", query, "--start", START, *limits, *more]


def answered(capfd, *more: str, status: int = 0, **changes: str) -> dict:
    capfd.readouterr()
    assert main(asked("--json", *more, **changes)) == status
    return json.loads(capfd.readouterr().out)


def after_batches(monkeypatch, count: int, act) -> None:
    """Call a function in place of the model's answer after some batches."""
    batches = []

    class ActingPrefix:
        """A prefix of the model that acts before its answers."""

        def __init__(self, prefix):
            self.prefix = prefix

        def __getattr__(self, name):
            return getattr(self.prefix, name)

        def map_next(self, *arguments):
            batches.append(arguments)
            if len(batches) > count:
                act()
            return self.prefix.map_next(*arguments)

    def open_acting(model, prompt, *arguments, **options):
        prefix = OPEN_PREFIX(model, prompt, *arguments, **options)
        # the check of a loaded model opens prompts of its own
        return ActingPrefix(prefix) if tuple(prompt) == model.encode(START) else prefix

    monkeypatch.setattr(CausalModel, "open_prefix", open_acting)


def test_a_query_and_a_text_are_enough(project, capfd):
    """With neither model nor tree named, the answer has bounds and, within them, an interval."""
    answer = answered(capfd)
    assert answer["model"] == "gpt2"
    assert answer["bounded"] is None
    assert 0 <= answer["lower"] <= answer["low"] <= answer["estimate"]
    assert answer["estimate"] <= answer["high"] <= answer["upper"] <= 1
    assert (answer["confidence"], answer["seed"]) == (0.99, 0)
    assert answer["samples"] > 1
    assert 0 < answer["passes"] <= 80


def test_the_same_seed_gives_the_same_answer(project, capfd):
    """Asked twice, with an empty and a full store, the answers differ in times alone."""
    first, second, other = (answered(capfd, "--seed", seed) for seed in ("1", "1", "2"))
    for answer in (first, second, other):
        for name in ("seconds", "encode_seconds", "check_seconds"):
            del answer[name]
    assert first == second
    assert other["seed"] != first["seed"]


def test_a_query_is_parsed_once(project, monkeypatch):
    """The text of a query is parsed once on its way to the answer."""
    parsed = []

    def parse_and_count(text):
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr("llmchecker.config.question.parse", parse_and_count)
    monkeypatch.setattr("llmchecker.properties.logic.parser.parse", parse_and_count)
    assert main(asked()) == 0
    assert parsed == [QUERY]


def test_the_length_end_asks_about_whole_answers(project, capfd):
    """The query requires the end of a text, up to the limit; another word is refused."""
    query = "P>=0.5 [ G readability < 8000 ]"
    printed = answered(capfd, "--length", "end:4", query=query, status=1)
    assert printed["query"] == 'P>=0.5 [ (G readability < 8000) & (F "end") ]'
    assert printed["L"] == 4
    assert main(asked("--length", "ends")) == 3
    assert "--length: 'ends' is no length; write a number of tokens" in capfd.readouterr().err


def test_a_question_does_not_depend_on_the_plan_of_the_workflow(project, capfd):
    """An invalid experiment refuses no question; an unreadable file does, with its line."""
    file = project / "config.yaml"
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    file.write_text(yaml.safe_dump(config | {"experiments": [{"label": ""}]}), encoding="utf-8")
    assert answered(capfd)["model"] == "gpt2"
    file.write_text("models: {}\nmodels: {}\n", encoding="utf-8")
    assert main(asked()) == 3
    assert "config.yaml, line 2: " in capfd.readouterr().err


def test_a_wrong_quantifier_refuses_the_questions_that_name_it(project, capfd):
    """A pattern that does not compile is refused with its line, and not where no query names it."""
    file = project / "config.yaml"
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    wrong = {**config["quantifiers"], "wrong": {"type": "pattern", "pattern": "("}}
    file.write_text(yaml.safe_dump(config | {"quantifiers": wrong}), encoding="utf-8")
    assert answered(capfd)["model"] == "gpt2"
    assert main(asked(query="P=? [ F wrong > 0 ]")) == 3
    assert re.search(r"config.yaml, line \d+: quantifiers.wrong: .*compile", capfd.readouterr().err)


def test_a_configuration_without_models_needs_one_by_option(project, random_model, capfd):
    """A configuration may have quantifiers alone, if the question names its model."""
    (project / "config.yaml").write_text("quantifiers: {readability: {}}\n", encoding="utf-8")
    directory = random_model("gpt2")
    assert answered(capfd, "--model", str(directory))["model"] == directory.name
    assert main(asked()) == 3
    assert "--model: the configuration has no model; name a directory" in capfd.readouterr().err


def test_certain_means_without_samples(project, capfd):
    """--certain gives bounds alone, and spends all passes on them."""
    answer = answered(capfd, "--certain")
    assert answer["estimate"] is answer["low"] is answer["high"] is answer["samples"] is None
    assert answer["upper"] - answer["lower"] <= 1


def test_an_exact_answer_has_no_interval_of_confidence(project, capfd):
    """Where every text is decided no interval of samples is printed."""
    exact = answered(capfd, "--greedy")
    assert exact["lower"] == exact["upper"]
    assert main(asked("--greedy")) == 0
    printed = capfd.readouterr().out
    assert "estimate     not needed: every text is decided" in printed
    assert "confidence" not in printed


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("query", "estimate"),
    [
        ("P=? [ F readability > 8000 || F step = 2 ]", True),
        ("P=? [ F (P>0.5 [ X readability > 8000 ]) ]", False),
        ('R{"readability"}=? [ I=3 ]', False),
    ],
)
def test_a_number_has_an_estimate_if_samples_allow_it(project, capfd, query, estimate):
    """Conditionals get an interval; what no single text decides gets bounds alone; both exit 0."""
    answer = answered(capfd, query=query)
    assert (answer["confidence"] is not None) == estimate
    assert answer["lower"] is not None or "R{" in query
    assert answer["outcome"] is answer["certainty"] is None


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("query", "status", "verdict"),
    [
        ("P>=0.0001 [ F step = 3 ]", 0, "HOLDS, certain"),
        ("P<0.0001 [ F step = 3 ]", 1, "VIOLATED, certain"),
        ("P>=0.0001 [ F readability > 8000 ]", 0, None),
        ("P>=0.9999 [ F readability > 8000 ]", 1, None),
        ("E [ F gender > 1000 ]", 2, "UNKNOWN"),
    ],
)
def test_a_threshold_has_an_outcome_and_its_exit_status(project, capfd, query, status, verdict):
    """0 means that a query holds, 1 that it is violated, 2 that this is unknown, by any output."""
    answer = answered(capfd, query=query, status=status)
    assert answer["outcome"] == ("HOLDS", "VIOLATED", "UNKNOWN")[status]
    words = ", ".join(filter(None, (answer["outcome"], answer["certainty"])))
    assert verdict in (None, words)
    assert answer["certainty"] in (None, "certain", "with confidence 0.99")
    assert main(asked(query=query)) == status
    if answer["certainty"] == "certain":
        words += " (proven for the whole model)"
    assert f"verdict      {words}" in capfd.readouterr().out.splitlines()


@pytest.mark.long
def test_a_wide_interval_has_a_forecast(project, capfd):
    """An interval wider than wanted is followed by the passes that its width would need."""
    # enough passes for a trend of several rounds
    limits = ("--width", "0.01", "--passes", "1000")
    answer = answered(capfd, *limits)
    assert answer["forecast"]["width"] == 0.01
    assert answer["forecast"]["passes"] > answer["passes"]
    assert main(asked(*limits)) == 0
    out = capfd.readouterr().out
    assert "forecast     about " in out
    assert " for a width of 0.01" in out
    assert answered(capfd)["forecast"] is None


def test_a_person_reads_what_is_certain_and_what_is_estimated(project, capfd):
    """The two intervals stand on lines of their own, with what they rest on."""
    assert main(asked()) == 0
    lines = dict(line.split(None, 1) for line in capfd.readouterr().out.splitlines()[:9])
    assert lines["certain"].startswith("[")
    assert re.match(r"\[.*\] with confidence 0.99, point estimate .*, from ", lines["estimate"])
    assert "bounded" not in " ".join(lines)


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_ends_with_the_answer_so_far(project, capfd, monkeypatch):
    """Interrupted after some batches, the command marks the answer that it has, with status 130."""
    after_batches(monkeypatch, 3, press_ctrl_c)
    answer = answered(capfd, "--html=page.html", status=130)
    assert 0 < answer["passes"] < 80
    assert answer["lower"] <= answer["upper"]
    assert answer["notes"][0] == INTERRUPTED_NOTE
    assert INTERRUPTED_NOTE in (project / "page.html").read_text()
    after_batches(monkeypatch, 3, press_ctrl_c)
    assert main(asked()) == 130
    out, err = capfd.readouterr()
    assert "certain      [" in out
    assert INTERRUPTED_NOTE in out
    assert err.endswith("interrupted\n")
    assert "Traceback" not in err


@pytest.mark.parametrize("query", ["P>=0 [ F readability > 8000 ]", "P<0 [ F readability > 0 ]"])
def test_ctrl_c_has_its_status_whatever_the_verdict(query, project, capfd, monkeypatch):
    """A verdict that the answer so far decides is printed, but the status is that of Ctrl-C."""
    monkeypatch.setattr(check_on_model, "load_opened_model", pressing(check_on_model))
    answer = answered(capfd, status=130, query=query)
    assert answer["outcome"] == ("HOLDS" if ">=" in query else "VIOLATED")
    assert answer["notes"][0] == INTERRUPTED_NOTE


def pressing(module):
    """The module's function that loads a model, whose check begins with Ctrl-C."""
    load = module.load_opened_model

    def load_pressing(opened):
        model = load(opened)
        encode = model.encode

        def press_and_encode(*arguments, **options):
            press_ctrl_c()
            model.encode = encode
            return encode(*arguments, **options)

        model.encode = press_and_encode
        return model

    return load_pressing


def test_compare_says_that_it_was_interrupted(project, capfd, monkeypatch):
    """Ctrl-C leaves the difference so far, marked, with status 130, as text and as JSON."""
    compared = ["compare", QUERY, "--start", START, "--versus-start", "The queen said"]
    for form in ([], ["--json"]):
        after_batches(monkeypatch, 3, press_ctrl_c)
        assert main([*compared, "--length", "3", "--passes", "80", *form]) == 130
        out, err = capfd.readouterr()
        assert INTERRUPTED_NOTE in out
        assert err.endswith("interrupted\n")
    assert json.loads(out)["passes"] < 80


def test_commands_without_an_answer_so_far_say_that_they_were_interrupted(
    project, capfd, monkeypatch
):
    """Ctrl-C while a tree grows has the status 130 and one line, for `tree` and for `check`."""
    drawn = ["tree", "--start", START, "--alpha", "0.9", "--k", "3", "--length", "3"]
    checked = ["check", QUERY, *drawn[1:]]
    for arguments in (drawn, checked):
        monkeypatch.setattr(CausalModel, "open_prefix", lambda *_, **__: press_ctrl_c())
        assert main(arguments) == 130
        out, err = capfd.readouterr()
        assert (out, err.splitlines()[-1]) == ("", "interrupted")
        assert "Traceback" not in err


def test_a_second_ctrl_c_ends_at_once(project, capfd, monkeypatch):
    """A second interrupt before the end of the batch ends the command without an answer."""

    def interrupt_twice():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    after_batches(monkeypatch, 1, interrupt_twice)
    assert main(asked()) == 130
    out, err = capfd.readouterr()
    assert out == ""
    assert err.endswith("interrupted\n")


def test_progress_has_intervals_passes_rate_and_time(project, capfd, monkeypatch):
    """The line of progress has certain bounds, the passes, their rate and the time left."""
    texts = []

    @contextlib.contextmanager
    def show_status():
        yield texts.append

    monkeypatch.setattr("llmchecker.utils.job_logging.show_status", show_status)
    answered(capfd, "--seconds", "600")
    pattern = r"certain \[.*\], estimate \[.*\], [\d,]+ passes, [\d,]+ a second, \d+ s left"
    assert re.fullmatch(pattern, texts[-1])


def test_cut_tokens_make_the_answer_exact(project, capfd):
    """Where decoding leaves few tokens, the bounds meet."""
    answer = answered(capfd, "--temperature", "0.7", "--top-k", "3", "--top-p", "0.9")
    assert answer["decoding"] == {"temperature": 0.7, "top_k": 3, "top_p": 0.9}
    assert answer["upper"] == pytest.approx(answer["lower"], rel=1e-12, abs=0)
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
    # a quantifier of the answer alone: the start string of a chat has no template's marks
    query = "P=? [ F length > 9 ]"
    asking = ["check", query, "--length", "2", "--top-k", "3", "--passes", "500", "--json"]
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
    assert 'text                   user "Is it so?"' in capfd.readouterr().out


def test_a_chat_needs_a_user_and_a_template(project, capfd):
    """--system without --user is refused, and so is a chat with a model that has no template."""
    assert main(asked("--system", "Be kind.")) == 3
    assert "--system: it belongs to a chat, not to a start string" in capfd.readouterr().err
    assert main(["check", QUERY, "--user", "Is it so?"]) == 3
    assert "gpt2: no chat template" in capfd.readouterr().err
    for words in (["--user", "Hi", "--start", START], ["--system", "Be kind."]):
        with pytest.raises(SystemExit, match="3"):
            main(["check", QUERY, *words])
