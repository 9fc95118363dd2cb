"""Settings of chat templates in suites, in the shell and in requests to servers."""

import json
from pathlib import Path

import pytest
import yaml
from helpers.fake_provider import FakeProvider, share
from helpers.fake_server import running
from helpers.scripted_models import build_scripted_model

import llmchecker as lc
from llmchecker.config.deployment import resolve_deployment
from llmchecker.config.opening import open_tree_builder
from llmchecker.config.prompt import parse_prompt
from llmchecker.config.registry import Registry
from llmchecker.config.registry_keys import ExpansionConfig
from llmchecker.errors import LLMCheckerError
from llmchecker.interfaces.cli.main import main
from llmchecker.interfaces.snakemake.answer_jobs import _compute_fingerprint
from llmchecker.trees.text_tree import Truncation

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{{ '<|off|>' if enable_thinking is false else '<|on|>' }}"
)
CHAIN = {"<|on|>": {"Yes.": 1.0}, "<|off|>": {"No.": 1.0}}
SUITE = {
    "model": "./model",
    "length": 2,
    "cases": [{"name": "no", "user": "Is it?", "require": [{"equals": "No.", "at_least": 0.9}]}],
}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with a model whose answer depends on a setting, as the current directory."""
    monkeypatch.chdir(tmp_path)
    network, tokenizer = build_scripted_model(CHAIN, TEMPLATE, ["<|on|>", "<|off|>"])
    network.save_pretrained("model")
    tokenizer.save_pretrained("model")
    return tmp_path


def run_suite(**changes) -> int:
    """Run a suite with changes; return the exit status."""
    Path("suite.yaml").write_text(yaml.safe_dump(SUITE | changes), encoding="utf-8")
    return main(["test", "suite.yaml"])


def test_a_suite_gives_settings_to_the_template(folder, capsys):
    """The verdict is that of the template with the settings of the suite, or of the model."""
    off = {"template": {"enable_thinking": False}}
    model = {"source": "./model"}
    assert run_suite() == 1
    assert run_suite(**off) == 0
    assert run_suite(model=model | off) == 0
    assert run_suite(model=model | off, template={"enable_thinking": True}) == 1
    assert run_suite(template={"thinking": False}) >= 3
    assert "template.thinking: the chat template of" in capsys.readouterr().out


def test_the_shell_gives_settings_to_the_template(folder, capsys):
    """`--template` is a setting, and a result contains it."""
    asked = ["check", "--equals", "No.", "--at-least", "0.9", "--user", "Is it?", "--length", "2"]
    asked += ["--model", "./model"]
    assert main(asked) == 1
    capsys.readouterr()
    assert main([*asked, "--template", "enable_thinking=false", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["template"] == {"enable_thinking": False}
    assert main([*asked, "--template", "thinking"]) >= 3
    assert "--template: 'thinking' is no setting" in capsys.readouterr().err


def test_settings_are_a_part_of_fingerprints(folder):
    """A tree with other settings is another one, and so are answers and distributions."""
    found = {}
    for template in ({}, {"enable_thinking": False}, {"enable_thinking": True}):
        keys = {"source": "./model", "template": template}
        model = resolve_deployment("model", keys, Registry()).model
        builder = open_tree_builder(model, ExpansionConfig())
        start, truncation = parse_prompt([{"user": "Is it?"}]), Truncation(1, 2, 2)
        found[json.dumps(template)] = (
            builder.compute_fingerprint(start, truncation),
            builder.lazy_model.model_fingerprint,
            _compute_fingerprint(builder.lazy_model, []),
            str(model.display_name()),
        )
    assert all(len(set(column)) == 3 for column in zip(*found.values(), strict=True))


def test_a_server_gets_the_settings(tmp_path, monkeypatch):
    """Requests have `chat_template_kwargs`, and answers with other settings are others."""
    monkeypatch.chdir(tmp_path)
    provider = FakeProvider("openai-chat", share(1.0))
    with running(provider) as address:
        for template in ({}, {"enable_thinking": False}):
            suite = SUITE | {
                "model": {"source": address, "api": "openai-chat"},
                "budget": {"answers": 8},
                "template": template,
            }
            Path("suite.yaml").write_text(yaml.safe_dump(suite), encoding="utf-8")
            lc.suite("suite.yaml").run()
    sent = [question.get("chat_template_kwargs") for _, question in provider.questions]
    assert {json.dumps(each) for each in sent} == {"null", '{"enable_thinking": false}'}
    assert sent.count(None) == sent.count({"enable_thinking": False})


@pytest.mark.parametrize(
    ("api", "template", "words"),
    [
        ("anthropic", {"enable_thinking": False}, "the api anthropic has no such setting"),
        ("openai-chat", {"date": "2026-11-28"}, "template.date: a server writes its own date"),
    ],
)
def test_settings_that_a_server_does_not_have_are_refused(tmp_path, api, template, words):
    """No setting is dropped without a word."""
    model = {"source": "http://localhost:1", "api": api, "served_as": "m", "template": template}
    with pytest.raises(LLMCheckerError, match=words):
        lc.load(model)
