"""Jobs create their quantifiers from params, with judges among the configured models."""

from pathlib import Path

import yaml

from llmchecker.config.config import Config
from llmchecker.interfaces.snakemake.plan_params import describe_checks
from llmchecker.interfaces.snakemake.quantifier_params import list_judges, parse_quantifiers

CHAT = Path(__file__).parents[3] / "config/chat.yaml"


def test_a_job_has_the_quantifiers_of_the_configuration():
    """Snakemake gives a job the configuration as plain data, of which a judge's model is a part."""
    raw = yaml.safe_load(CHAT.read_text(encoding="utf-8"))
    config = Config.read(CHAT)
    settings = {name: raw["quantifiers"][name] for name in config.quantifiers}
    created = parse_quantifiers(settings, raw)
    assert created == config.quantifiers
    assert created["polite"].model.name == "SmolLM2-135M-Instruct"


def test_the_judges_of_a_model_are_inputs_of_its_jobs():
    """The example judges itself; without the experiment no model is a judge."""
    config = Config.read(CHAT)
    assert list_judges(config, "smollm2-135m") == ["smollm2-135m"]
    other = Config.read(CHAT, changes={"experiments": []})
    assert list_judges(other, "smollm2-135m") == []


def test_a_check_has_the_notes_of_its_judges():
    """An answer of the workflow names its judge, and warns of one that judges itself."""
    config = Config.read(CHAT)
    checks = describe_checks(config, "smollm2-135m")
    judged = [check for check in checks if "polite" in check["query"]]
    assert len(judged) == 1
    (named, warning) = judged[0]["notes"]
    assert "SmolLM2-135M-Instruct, whose own error is not in the confidence" in named
    assert warning.startswith("warning: the judge")
    assert all(check["notes"] == [] for check in checks if check not in judged)
