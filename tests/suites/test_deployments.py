"""A deployment opens a model of a directory, which its first use loads."""

import pytest
import yaml
from helpers.fake_server import running
from helpers.served_models import DIALECTS, TOLD, fake
from helpers.suites import load

from llmchecker.config.opening import open_model
from llmchecker.config.registry_keys import ExpansionConfig
from llmchecker.errors import ConfigError
from llmchecker.suites.deployments import resolve_deployment
from llmchecker.suites.session import run_suite
from llmchecker.suites.verdicts import Status


def test_the_first_use_of_a_deployment_loads_its_model(random_model, tmp_path, monkeypatch):
    """An opened deployment has its decoding, and no model until that is used."""
    monkeypatch.chdir(tmp_path)
    directory, decoding = str(random_model("llama")), {"decoding": {"top_p": 0.5}}
    deployment = resolve_deployment("model", directory, None, tmp_path, None, decoding)
    opened = open_model(deployment.model, ExpansionConfig())
    assert not opened.is_loaded
    assert opened.model.is_truncated
    assert opened.is_loaded


def test_a_directory_without_a_model_is_refused(tmp_path):
    """A directory without config.json is no model."""
    deployment = resolve_deployment("model", str(tmp_path), None, tmp_path, None, {})
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        open_model(deployment.model, ExpansionConfig())


@pytest.mark.parametrize("address", ["http://localhost:8000", "server:http://localhost:8000"])
def test_the_address_of_a_server_is_refused(tmp_path, address):
    """An address names neither API nor tokenizer, so the configuration must describe the server."""
    with pytest.raises(ConfigError, match="is a server; add it to `models`"):
        resolve_deployment("model", address, None, tmp_path, None, {})


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_suite_decides_requirements_of_a_served_model(tmp_path, dialect):
    """The bounds of a served model contain the probability that its table gives."""
    server = fake(tmp_path, dialect)
    table = server.model
    truth = table.distribution(table.encode("a"))[table.encode("b")[0]]
    with running(server) as address:
        entry = {"label": "T", "source": f"server:{address}", "api": dialect, "tokens": TOLD}
        entry["tokenizer"] = f"path:{tmp_path / 'tokenizer'}"
        config = {"models": {"table": entry}}
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        case = {"start": "a", "require": [f"P>={truth / 2:.3f} [ F b = 1 ]"], "length": 1}
        properties = {"b": {"type": "pattern", "pattern": "^b"}}
        suite = load(tmp_path, [case], model="table", properties=properties)
        (result,) = run_suite(suite).results
    assert result.status is Status.HOLDS
    assert result.measurement.certain.lower <= truth <= result.measurement.certain.upper
