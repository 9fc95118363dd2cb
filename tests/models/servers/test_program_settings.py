"""The settings of a server's program that OpenAI's API does not have."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.fake_provider import MODEL, FakeProvider, share
from helpers.fake_server import running

import llmchecker as lc


class OwnedProvider(FakeProvider):
    """A provider whose list of models names the program that serves them."""

    def __init__(self, api: str, owner: str) -> None:
        super().__init__(api, share(1.0))
        self.owner = owner

    def got(self, path: str) -> Any:
        """Return the list of models."""
        return {"data": [{"id": MODEL, "owned_by": self.owner}]}


NEUTRAL = {
    "vllm": {
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    },
    "llamacpp": {"samplers": ["temperature", "top_p"]},
    "openai": {},
}
EXTRA_KEYS = {key for settings in NEUTRAL.values() for key in settings}


@pytest.mark.parametrize("api", ["openai-chat", "openai-completions"])
@pytest.mark.parametrize("owner", NEUTRAL)
@pytest.mark.parametrize("decoding", [None, {"temperature": 0.5}, "as_published"])
def test_a_program_gets_its_own_settings_and_no_other_server_does(
    tmp_path: Path, api: str, owner: str, decoding: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM and llama.cpp sample without their defaults, unless these are wanted; OpenAI's API,
    which rejects unknown settings, gets none."""
    provider = OwnedProvider(api, owner)
    form = "user" if api == "openai-chat" else "start"
    monkeypatch.chdir(tmp_path)
    with running(provider) as address:
        model = {"source": address, "api": api}
        suite = {
            "model": model if decoding is None else model | {"decoding": decoding},
            "length": 3,
            "budget": {"answers": 8},
            "cases": [{form: "Is it?", "require": [{"equals": "yes", "at_least": 0.01}]}],
        }
        Path("suite.yaml").write_text(yaml.safe_dump(suite), encoding="utf-8")
        lc.suite("suite.yaml").run()
    assert provider.questions
    for _, question in provider.questions:
        found = {key: question[key] for key in EXTRA_KEYS & question.keys()}
        assert found == ({} if decoding == "as_published" else NEUTRAL[owner])
