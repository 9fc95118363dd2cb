"""Suites on tiny models of ten families, each with a template that writes calls as its family."""

import json
from pathlib import Path

import pytest
import yaml
from helpers.architectures import tiny_network
from helpers.call_templates import CALL_WRITERS, build_template
from helpers.chat_tokenizers import build_tokenizer

from llmchecker.interfaces.cli.main import main

FAMILIES = {
    "qwen3": "Hermes, Qwen",
    "qwen3_moe": "Qwen3-Coder, Nemotron 3",
    "glm4": "GLM",
    "mistral": "Mistral",
    "gemma3_text": "FunctionGemma",
    "granite": "Granite 3, Phi-4-mini",
    "cohere2": "Command R7B",
    "gpt_oss": "gpt-oss",
    "lfm2": "LFM2",
    "llama": "Llama 3",
}
"""The format of calls of each architecture."""

NO_THOUGHT = (
    "{% if add_generation_prompt and enable_thinking is defined and not enable_thinking %}"
    "<think></think>{% endif %}"
)
SUITE = {
    "model": "./model",
    "template": {"enable_thinking": False},
    "stop": ":",
    "decoding": {"json_schema": {"enum": ["yes: warm", "no: cold"]}},
    "tools": [{"name": "weather", "parameters": {"type": "object", "properties": {"city": {}}}}],
    "length": 12,
    "budget": {"passes": 40},
    "cases": [
        {
            "user": "Is it warm?",
            "require": [
                # the schema allows two texts, which the stop ends
                {"matches": '^"(yes|no)$', "at_least": 0.999},
                {"ends": True, "at_least": 0.999},
                # and the schema allows no call
                "P<=0.001 [ F calls > 0 ]",
            ],
        }
    ],
}


@pytest.mark.long
@pytest.mark.parametrize("name", FAMILIES)
def test_a_newcomers_suite_runs_on_a_model_of_the_family(name, tmp_path, monkeypatch):
    """Template settings, a stop, a schema and tools together give the verdicts that they imply."""
    monkeypatch.chdir(tmp_path)
    template = build_template(CALL_WRITERS[FAMILIES[name]]) + NO_THOUGHT
    tokenizer = build_tokenizer(template)
    tokenizer.save_pretrained("model")
    network = tiny_network("causal", name, len(tokenizer))
    # a prompt with tools has hundreds of bytes
    network.config.max_position_embeddings = 1024
    for config in (network.config, network.generation_config):
        config.eos_token_id = tokenizer.eos_token_id
    network.save_pretrained("model")
    Path("suite.yaml").write_text(yaml.safe_dump(SUITE, sort_keys=False), encoding="utf-8")
    assert main(["test", "suite.yaml", "--json", "results.jsonl"]) == 0
    lines = Path("results.jsonl").read_text(encoding="utf-8").splitlines()
    answers = [entry["answer"] for entry in map(json.loads, lines) if "answer" in entry]
    assert [answer["certainty"] for answer in answers] == ["certain"] * 3
