"""Providers behind HTTP become applications where the mapping is plain, and are else listed."""

from decimal import Decimal
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from llmchecker.suites.load import load_suite
from llmchecker_promptfoo.convert import convert_promptfoo

PROVIDER = """
  - id: https://bot.example/ask
    config:
      method: POST
      headers:
        Content-Type: application/json
        X-Tenant: demo
        Authorization: 'Bearer {{env.BOT_KEY}}'
      body: { question: 'Q: {{ prompt }} {name}', n: [1] }
      transformResponse: json.choices[0]['a/b'].text
"""


def convert(folder: Path, provider: str, prompt: str = "Is {{x}} so?", model: str | None = None):
    """The keys of the model of the converted suite, and what is listed."""
    path = folder / "promptfooconfig.yaml"
    test = "tests: [{vars: {x: it}, assert: [{type: contains, value: yes}]}]"
    path.write_text(f"prompts: [{prompt!r}]\nproviders:{dedent(provider)}\n{test}\n")
    conversion = convert_promptfoo(path, Decimal("0.95"), model)
    content = yaml.safe_load(conversion.text)
    return content["model"], conversion


def test_a_plain_provider_is_an_application(tmp_path):
    """Its body, its path and its variable of the key are those of the api `json`."""
    model, conversion = convert(tmp_path, PROVIDER)
    assert model == {
        "source": "https://bot.example/ask",
        "api": "json",
        "body": {"question": "Q: {prompt} {{name}}", "n": [1]},
        "answer": "/choices/0/a~1b/text",
        "headers": {"X-Tenant": "demo"},
        "key_from": "BOT_KEY",
    }
    assert not conversion.omissions
    (tmp_path / "suite.yaml").write_text(conversion.text)
    (case,) = load_suite(tmp_path / "suite.yaml").cases
    assert case.deployment.model.source.address == "https://bot.example/ask"


def test_a_body_may_be_json_and_a_key_have_a_header_of_its_own(tmp_path):
    """The text of a body is parsed, and a header with a key keeps its place."""
    provider = """
  - id: https
    config:
      url: http://127.0.0.1:8000/
      headers: { X-Api-Key: '{{env.KEY}}' }
      body: '{"q": "{{prompt}}"}'
      transformResponse: json.text
"""
    model, _ = convert(tmp_path, provider)
    assert model["body"] == {"q": "{prompt}"}
    assert (model["headers"], model["key_from"]) == ({"X-Api-Key": "{key}"}, "KEY")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("POST", "GET", "a suite sends its requests by POST"),
        ("json.choices[0]['a/b'].text", "json.text.trim()", "transformResponse is no path"),
        ("{name}", "{{x}}", "a template in the body of the provider is not {{prompt}}"),
        ("Bearer {{env.BOT_KEY}}", "Bearer sk-1234", "the header Authorization may be a secret"),
        ("method: POST", "validateStatus: 'status < 500'", "validateStatus of the provider has no"),
        ("ask", "{{env.PATH}}", "the address of the provider is no constant"),
    ],
)
def test_a_provider_that_is_not_plain_is_listed(tmp_path, old, new, reason):
    """A program, another method, a template and a secret leave the placeholder, and no secret."""
    model, conversion = convert(tmp_path, PROVIDER.replace(old, new))
    assert model == "./model"
    assert any(reason in str(each) for each in conversion.omissions)
    assert "sk-1234" not in conversion.text


def test_chats_and_a_given_model_leave_the_provider_out(tmp_path):
    """A chat would be another text there, and `--model` names another model."""
    chat = '[{"role": "user", "content": "Is {{x}} so?"}]'
    model, conversion = convert(tmp_path, PROVIDER, chat)
    assert model == "./model"
    assert any("gets chats as one text" in str(each) for each in conversion.omissions)
    assert convert(tmp_path, PROVIDER, model="openai:m")[0] == "openai:m"


@pytest.mark.parametrize("name", ["python:bot.py", "python:bot.py:ask", "file://bot.py"])
def test_a_function_of_python_is_listed(tmp_path, name):
    """A file of Python does not run, its settings are its own, and the way to use it is named."""
    (tmp_path / "bot.py").write_text("raise SystemExit('the file runs')")
    provider = f"\n  - id: {name}\n    config: {{temperature: 0.5, mode: short}}\n"
    model, conversion = convert(tmp_path, provider)
    assert model == "./model"
    assert "decoding" not in yaml.safe_load(conversion.text)
    (listed,) = conversion.omissions
    assert listed.endswith("does not run; give its function to lc.texts")
