"""The settings of a server's program that OpenAI's API does not have."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.fake_provider import MODEL, FakeProvider, share
from helpers.fake_server import Status, running

import llmchecker as lc
from llmchecker.config.deployment import resolve_deployment
from llmchecker.config.judges import _open_access
from llmchecker.config.registry import Registry
from llmchecker.config.registry_keys import ExpansionConfig
from llmchecker.errors import ConfigError, RequestRefused
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.decoding.settings import Decoding
from llmchecker.models.judges import TextJudge
from llmchecker.models.servers.settings import ApiName
from llmchecker.models.servers.spending import Spending
from llmchecker.models.servers.text_apis import TEXT_APIS, TextRequest


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


SCHEMA = {"type": "object", "properties": {"b": {}, "a": {}}}
FORMAT = {
    "type": "json_schema",
    "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
}
SENT = [
    ("vllm", "openai-chat", {"json_schema": SCHEMA}, {"structured_outputs": {"json": SCHEMA}}),
    ("vllm", "openai-completions", {"regex": "a|b"}, {"structured_outputs": {"regex": "a|b"}}),
    ("vllm", "openai-chat", {"choice": ["a"]}, {"structured_outputs": {"choice": ["a"]}}),
    ("openai", "openai-chat", {"json_schema": SCHEMA}, {"response_format": FORMAT}),
    ("llamacpp", "openai-chat", {"json_schema": SCHEMA}, {"response_format": FORMAT}),
    ("llamacpp", "openai-completions", {"json_schema": SCHEMA}, {"json_schema": SCHEMA}),
    ("any", "ollama", {"json_schema": SCHEMA}, {"format": SCHEMA}),
    ("openai", "openai-chat", {"frequency_penalty": 1}, {"frequency_penalty": 1.0}),
    ("vllm", "openai-chat", {"ignore_eos": True}, {"ignore_eos": True}),
    (
        "vllm",
        "openai-completions",
        {"end_tokens": [2, 7]},
        {"ignore_eos": True, "stop_token_ids": [2, 7], "include_stop_str_in_output": True},
    ),
    ("openai", "openai-chat", {"logit_bias": {7: 1}}, {"logit_bias": {"7": 1.0}}),
    (
        "llamacpp",
        "openai-chat",
        {"presence_penalty": 1},
        {"presence_penalty": 1.0, "samplers": ["penalties", "temperature", "top_p"]},
    ),
]


@pytest.mark.parametrize(("program", "api", "settings", "sent"), SENT, ids=str)
def test_a_request_has_the_settings_of_its_server(
    program: str, api: ApiName, settings: Any, sent: dict[str, Any]
) -> None:
    """Grammars, penalties and end tokens have the server's names, and schemas their order."""
    request = TextRequest("x", 9, 1, Decoding.from_settings(settings), program)
    payload = TEXT_APIS[api].build_payload("m", request)
    assert {name: payload[name] for name in sent} == sent
    if "json_schema" in settings:
        assert not {"regex", "do_sample", "ignore_eos"} & payload.keys()
        assert '"b": {}, "a": {}' in json.dumps(payload)


@pytest.mark.parametrize(
    ("program", "api", "settings", "problem"),
    [
        ("openai", "openai-chat", {"regex": "a"}, "regex: .* only vLLM has it"),
        ("llamacpp", "openai-chat", {"choice": ["a"]}, "choice: .* only vLLM has it"),
        ("other", "openai-completions", {"json_schema": {}}, "json_schema: .* use openai-chat"),
        ("llamacpp", "openai-chat", {"ignore_eos": True}, "ignore_eos: .* only vLLM has it"),
        ("vllm", "openai-chat", {"end_tokens": ["</s>"]}, "'</s>' is a text; write the id"),
    ],
)
def test_a_setting_that_a_server_does_not_have_is_refused(
    program: str, api: ApiName, settings: Any, problem: str
) -> None:
    """A decoding without a name at the server is no part of a request that leaves it out."""
    request = TextRequest("x", 9, 1, Decoding.from_settings(settings), program)
    with pytest.raises(ConfigError, match=problem):
        TEXT_APIS[api].build_payload("m", request)


class DefaultsOnly(FakeProvider):
    """A provider whose model accepts only its default temperature."""

    def posted(self, path: str, question: dict[str, Any]) -> Any:
        """Refuse a request with a temperature."""
        if "temperature" in question:
            self.questions.append((path, question))
            message = "Unsupported value: 'temperature' does not support 0 with this model."
            raise Status(400, {"error": {"message": message}})
        return super().posted(path, question)


def judge_of(address: str, folder: Path, **decoding: Any) -> TextJudge:
    """Open a judge at a provider."""
    keys = {"source": address, "api": "openai-chat", **decoding}
    model = resolve_deployment("model", keys, Registry(), folder=folder).model
    access = _open_access(model, ExpansionConfig(), Spending())
    assert isinstance(access, TextJudge)
    return access


def test_a_judge_at_its_default_temperature_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge that refuses temperature 0 gives samples; a stated decoding is sent or refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    provider = DefaultsOnly("openai-chat", share(1.0))
    chats = [Chat((("user", text),)) for text in ("one", "two")]
    with running(provider) as address:
        judge = judge_of(address, tmp_path)
        assert judge.compute_masses(chats, ["yes", "no"]).tolist() == [[1, 0], [1, 0]]
        stated = judge_of(address, tmp_path, decoding={"temperature": 0.5})
        with pytest.raises(RequestRefused, match="'temperature' does not support 0"):
            stated.compute_masses(chats, ["yes", "no"])
    sent = [question.get("temperature") for _, question in provider.questions]
    assert {0.0, 0.5} < {*sent}
    assert sent.count(None) == 2


def test_a_model_at_its_default_temperature_is_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider that refuses to read temperature 1 samples at temperature 1 without it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    provider = DefaultsOnly("openai-chat", share(1.0))
    with running(provider) as address:
        model = lc.load({"source": address, "api": "openai-chat"})
        answer = lc.ask({"equals": "yes", "at_least": 0.01}, model, user="x", length=3, answers=20)
    assert answer.holds
    assert any("temperature" not in question for _, question in provider.questions)
