"""A deployment opens a model of a directory, which its first use loads."""

import pytest

from llmchecker.config.keys import ExpansionConfig
from llmchecker.errors import ConfigError
from llmchecker.suites.deployments import open_deployment, resolve_deployment


def test_the_first_use_of_a_deployment_loads_its_model(random_model, tmp_path, monkeypatch):
    """An opened deployment has its decoding, and no model until that is used."""
    monkeypatch.chdir(tmp_path)
    directory, decoding = str(random_model("llama")), {"decoding": {"top_p": 0.5}}
    deployment = resolve_deployment("model", directory, None, tmp_path, None, decoding)
    opened = open_deployment(deployment, ExpansionConfig())
    assert not opened.is_loaded
    assert opened.model.is_truncated
    assert opened.is_loaded


def test_a_directory_without_a_model_is_refused(tmp_path):
    """A directory without config.json is no model."""
    deployment = resolve_deployment("model", str(tmp_path), None, tmp_path, None, {})
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        open_deployment(deployment, ExpansionConfig())
