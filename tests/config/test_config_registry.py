"""The registry of a configuration: models, start strings and quantifiers, without the plan."""

import subprocess
import sys

import pytest

from llmchecker.config.config import Config
from llmchecker.config.keys import ConfigKeys
from llmchecker.config.registry import Registry
from llmchecker.config.registry_keys import RegistryKeys
from llmchecker.errors import ConfigError

MODELS = "models: {small: {label: Small, source: 'path:models/small'}}\n"
BROKEN_PLANS = (
    "experiments: [{label: a}]",
    "figure4: 3",
    "topk: {source: nowhere}",
    "suites: {one: {}}",
    "invariants: {programs: 'path:absent'}",
    "answer: {passes: 0}",
)


def test_the_keys_that_the_registry_leaves_unread_are_those_of_the_plan():
    """Registry and plan together have all keys of a configuration."""
    assert {*RegistryKeys.model_fields, *RegistryKeys.unread_keys} == set(ConfigKeys.model_fields)
    assert not {*RegistryKeys.model_fields} & {*RegistryKeys.unread_keys}


@pytest.mark.parametrize("plan", BROKEN_PLANS)
def test_a_registry_does_not_depend_on_the_plan(tmp_path, plan):
    """An error in the plan is one of the workflow's configuration only."""
    file = tmp_path / "config.yaml"
    file.write_text(MODELS + plan + "\n", encoding="utf-8")
    assert list(Registry.read(file).models) == ["small"]
    with pytest.raises(ConfigError, match="line 2"):
        Config.read(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("experiments: [", "line 2: not YAML"),
        ("experiment: []", "line 2.*unknown key 'experiment', did you mean 'experiments'"),
        ("estimate: {}", "renamed"),
        ("quantifiers: {reply: {type: patern}}", "line 2: quantifiers.reply: .*'pattern'"),
        ("start_strings: {a: []}", "line 2: start_strings.a: .*too short"),
        ("models: {}", "line 2"),
    ],
)
def test_errors_of_a_registry_have_their_place(tmp_path, text, message):
    """An unreadable file, an unknown key and a wrong value are refused with file and line."""
    file = tmp_path / "config.yaml"
    file.write_text(MODELS + text + "\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as refused:
        Registry.read(file)
    assert str(refused.value).startswith(str(file))


def test_the_registry_imports_neither_plan_nor_programs():
    """A question waits for no module of experiments or C programs."""
    code = (
        "import sys, llmchecker.config.registry\n"
        "print([n for n in sys.modules if n.startswith('loop_invariants')"
        " or n in ('llmchecker.config.keys', 'llmchecker.config.experiments')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
