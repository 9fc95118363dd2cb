"""Suites with judges: verdicts, notes in all outputs, and errors with their places."""

import pytest
import yaml
from helpers.fake_provider import MODEL, FakeProvider
from helpers.fake_server import running
from helpers.judging import ScriptedJudge, judged_text
from helpers.suites import HE, load, run, words_model, write_suite

import llmchecker as lc
from llmchecker.config.registry import Registry
from llmchecker.errors import ConfigError, UnknownName
from llmchecker.properties.quantifier_state import hash_quantifiers
from llmchecker.suites.html_page import format_html
from llmchecker.suites.junit import format_junit
from llmchecker.suites.load import load_suite
from llmchecker.suites.markdown_summary import format_markdown
from llmchecker.suites.session import run_suite
from llmchecker.suites.terminal_table import format_table

QUESTION = "Is it about her?"
NOTE = "graded by the judge {}, whose own error is not in the confidence"
OWN = "warning: the judge m is the judged model, and may share its errors"


@pytest.fixture
def her(tmp_path, open_judge):
    """A judge that says yes to texts with `she`, next to the suite."""
    (tmp_path / "j").mkdir()
    (tmp_path / "j/config.json").write_text("{}")
    return open_judge(ScriptedJudge(lambda text: {"Yes" if " she" in text else "No": 0.9}))


def require(bound: str, probability: float, **settings) -> dict:
    settings = {"model": "./j", "question": QUESTION} | settings
    return {"judge": {k: v for k, v in settings.items() if v is not None}, bound: probability}


@pytest.mark.parametrize(
    ("entry", "status"),
    [
        (require("at_least", HE - 0.05), "HOLDS"),
        (require("at_most", HE - 0.05), "VIOLATED"),
        ({"not_judge": {"model": "./j", "question": QUESTION}, "at_most": 0.45}, "HOLDS"),
        (require("at_least", 0.99, rubric="r", scale="yes/no", question=None, grade=0), "HOLDS"),
    ],
    ids=str,
)
def test_an_assertion_is_about_the_grade_of_the_whole_answer(tmp_path, her, entry, status):
    """The judge says yes to as many answers as enumeration counts."""
    suite = load(tmp_path, [{"start": "once", "require": [entry]}], budget={"passes": 400})
    (result,) = run(suite).results
    assert (result.status, result.error) == (status, None)


def test_every_text_is_judged_once(tmp_path, her):
    """Two requirements on one judge share its grades, and no text is graded twice."""
    entries = [require("at_least", 0.5), require("at_most", 0.6)]
    run(load(tmp_path, [{"start": "once", "require": entries}]))
    read = [(judged_text(chat), chat.messages[0][1]) for chat in her.chats]
    assert len(set(read)) == len(read)


def test_all_outputs_name_the_judge(tmp_path, her):
    """Each output has the note once, and with the judged model as its judge a warning."""
    entries = [require("at_least", 0.5), require("at_least", 0.4, model="./m")]
    suite = load(tmp_path, [{"start": "once", "require": entries}])
    result = run(suite)
    outputs = [
        format_table(result),
        format_markdown(result),
        format_html(result),
        format_junit(result).decode(),
    ]
    for output in outputs:
        for note in (NOTE.format("j"), NOTE.format("m"), OWN):
            assert output.replace("\\", "").count(note) == 1, output
    first, second = (each.answer.as_json()["notes"] for each in result.results)
    assert first == [NOTE.format("j")]
    assert second == [NOTE.format("m"), OWN]


def test_suites_without_a_judge_have_no_note(tmp_path):
    """No other quantifier adds a note."""
    suite = load(tmp_path, [{"start": "once", "require": [{"contains": "he", "at_least": 0.4}]}])
    assert "judge" not in format_table(run(suite))


def test_an_answer_off_the_scale_is_the_error_of_its_case(tmp_path, her, open_judge):
    """The case fails with the judge's name and the text; other cases have their verdicts."""
    open_judge(ScriptedJudge({}, {"nothing": 0.9}))
    cases = [{"start": "once", "require": [require("at_least", 0.5), {"ends": True, "at_most": 1}]}]
    judged, other = run(load(tmp_path, cases)).results
    assert judged.status == "ERROR"
    assert "quantifier 'judged': judge scripted: its answer to" in judged.error
    assert other.status == "HOLDS"


@pytest.mark.parametrize(
    ("judge", "problem"),
    [
        ({"model": "./absent", "question": "q"}, "model: './absent' is no model and no directory"),
        ({"question": "q"}, "is no judge; write model"),
        ({"model": "./j", "question": "q", "rubric": "r", "grade": 1}, "both of them"),
        ({"model": "./j", "rubric": "r", "scale": "1 to 5"}, "grade: it is missing"),
        ({"model": "./j", "rubric": "r", "grade": 2}, "scale: the rubric has none"),
        ({"model": "./j", "rubric": "r", "scale": "5 to 1", "grade": 2}, "it has 0 grades"),
        ({"model": "./j", "rubric": "r", "scale": "1 to 12", "grade": 2}, "several characters"),
        ({"model": "./j", "question": "q", "tone": 1}, "unknown setting 'tone'"),
        ({"model": {"source": "./j", "kind": "masked"}, "question": "q"}, "is a masked model"),
        (
            {
                "model": {
                    "source": "http://127.0.0.1:9",
                    "api": "openai-completions",
                    "served_as": "x",
                },
                "question": "q",
            },
            "accepts no messages",
        ),
    ],
    ids=str,
)
def test_an_unusable_judge_is_named_with_its_line(tmp_path, her, judge, problem):
    """The suite is refused before any model is opened, with file and line of the requirement."""
    cases = [{"start": "once", "require": [{"judge": judge, "at_least": 0.5}]}]
    with pytest.raises(ConfigError) as error:
        load_suite(write_suite(tmp_path, {"cases": cases}))
    assert problem in str(error.value)
    assert "suite.yaml, line" in str(error.value)
    assert "require[0]" in str(error.value)
    assert not her.chats


def test_a_judge_of_a_configuration_is_one_of_its_models(tmp_path, monkeypatch):
    """A name that is no model is refused with the closest one."""
    (tmp_path / "m").mkdir()
    monkeypatch.chdir(tmp_path)
    raw = yaml.safe_load("""
        models: {small: {label: S, source: "path:m"}}
        quantifiers: {polite: {type: judge, model: smal, question: "Is it polite?"}}
    """)
    with pytest.raises(UnknownName, match=r"quantifiers.polite: .*'smal' .*did you mean 'small'"):
        Registry.parse(raw)
    raw["quantifiers"]["polite"]["model"] = "small"
    judge = Registry.parse(raw).quantifiers["polite"]
    assert (judge.model.name, judge.minimum, judge.maximum) == ("S", 0, 1)


LOCAL = {"source": "path:m"}
SERVED = {"source": "server:http://127.0.0.1:9", "api": "openai-chat", "served_as": "x"}


@pytest.mark.parametrize(
    ("model", "keys", "is_same"),
    [
        (LOCAL, {"template": {"enable_thinking": False}}, False),
        (LOCAL, {"dtype": "bfloat16"}, False),
        (LOCAL, {"decoding": {"temperature": 0.5}}, True),
        (LOCAL, {"stop": "User:"}, True),
        (SERVED, {"template": {"enable_thinking": False}}, False),
        (SERVED, {"decoding": {"temperature": 0.5}}, False),
        (SERVED, {"max_tokens": 9}, False),
        (SERVED, {"requests": 3}, True),
    ],
)
def test_settings_that_determine_grades_are_a_part_of_the_quantifier(model, keys, is_same):
    """A judge that may grade otherwise has another state, so that stored grades are not its own."""
    states = []
    for each in (model, model | keys):
        raw = {"models": {"small": {"label": "S", **each}}}
        raw["quantifiers"] = {"polite": {"type": "judge", "model": "small", "question": QUESTION}}
        states.append(hash_quantifiers(Registry.parse(raw).quantifiers))
    assert (states[0] == states[1]) is is_same


def test_a_limit_of_money_needs_the_prices_of_the_judge(tmp_path, her):
    """Without prices nothing would limit what a judge behind an API costs."""
    source = {"source": "http://127.0.0.1:9", "api": "openai-chat", "served_as": "x"}
    cases = [{"start": "once", "require": [require("at_least", 0.5, model=source)]}]
    load_suite(write_suite(tmp_path, {"cases": cases, "budget": {"passes": 10, "tokens": 100}}))
    budget = {"passes": 10, "dollars": 1}
    with pytest.raises(ConfigError, match=r"budget\.dollars: .*x.* has no prices"):
        load_suite(write_suite(tmp_path, {"cases": cases, "budget": budget}))


@pytest.mark.parametrize(("tokens", "is_enough"), [(100_000, True), (420, False)])
def test_answers_of_a_judge_count_in_the_tokens_of_the_run(tmp_path, tokens, is_enough):
    """A judge that returns texts alone requests no answer beyond the limit of the run."""
    provider = FakeProvider("openai-chat", lambda random: ("Yes", True))
    with running(provider) as address:
        judge = {"source": address, "api": "openai-chat", "served_as": MODEL, "requests": 1}
        cases = [{"start": "once", "require": [require("at_least", 0.5, model=judge)]}]
        content = {"cases": cases, "length": 2, "budget": {"passes": 50, "tokens": tokens}}
        (result,) = run(load_suite(write_suite(tmp_path, content))).results
        count = len([path for path, _ in provider.questions if "chat" in path])
    if is_enough:
        assert (result.status, result.error) == ("HOLDS", None)
        assert count > 1
    else:
        assert "allows no further answer" in result.error
        assert "raise the limit" in result.error
        # before it is sent, a request may cost 411 to 413 tokens; its answer costs 12
        assert count <= 1


def test_a_judge_reads_the_chat_of_a_model_that_returns_texts_alone(tmp_path, her):
    """Each answer is graded once, as a whole, after its messages; the verdict has the note."""
    config = {"source": None, "api": "openai-chat", "served_as": MODEL, "requests": 4}
    content = {"budget": {"answers": 60}, "system": "Be short."}
    provider = FakeProvider("openai-chat", lambda random: (" she", True))
    with running(provider) as address:
        content["model"] = config | {"source": address}
        content["cases"] = [{"user": "Is it?", "require": [require("at_least", 0.5)]}]
        result = run_suite(load_suite(write_suite(tmp_path, content)))
    (case,) = result.results
    assert (case.status, case.error) == ("HOLDS", None)
    (chat,) = her.chats
    assert chat.messages[0] == ("user", "Prompt:\nsystem: Be short.\nuser: Is it?\n")
    assert judged_text(chat) == " she"
    assert format_table(result).count(NOTE.format("j")) == 1


def test_the_library_names_the_judge_too():
    """`check` on a model and on its tree has the notes; a model that judges itself a warning."""
    judge = lc.Judge(ScriptedJudge({}, {"Yes": 1.0}), question=QUESTION)
    model = words_model()
    answer = lc.check("P=? [ F (G her = 1) ]", model, "once", length=2, passes=50, her=judge)
    assert NOTE.format("scripted") in answer.notes
    tree = lc.grow(model, "once", alpha=1, k=4, length=2)
    assert NOTE.format("scripted") in lc.check("P=? [ F her = 1 ]", tree, her=judge).notes
    own = lc.Judge(model, question=QUESTION)
    assert "warning: the judge table is the judged model, and may share its errors" in (
        own.build_notes(model)
    )
