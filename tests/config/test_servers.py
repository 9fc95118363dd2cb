"""Served models in a configuration: what is needed, what is refused, and by which key."""

import traceback

import pytest

from llmchecker.config.config import Config
from llmchecker.errors import ConfigError
from llmchecker.models.servers.settings import ServerSource

SERVED = {
    "label": "Served",
    "source": "server:http://127.0.0.1:8000",
    "api": "vllm",
    "tokenizer": "path:tokenizer",
    "tokens": 20,
}


def raw(k: int = 5, **changes) -> dict:
    """A configuration whose only model is served; a key that is changed to None is left out."""
    model = {key: value for key, value in (SERVED | changes).items() if value is not None}
    experiment = {"label": "E", "interest": "I", "start": "s", "alpha": 0.8, "k": k, "L": 2}
    return {
        "models": {"served": model},
        "start_strings": {"s": "The player"},
        "quantifiers": {"gender": {}},
        "experiments": [experiment | {"queries": ["P=? [ F gender > 0 ]"]}],
    }


def test_a_served_model_has_its_settings_and_none_of_weights():
    """What is not written has its default; dtype and device are those of the server."""
    model = Config.parse(raw(key_from="SERVER_KEY")).models["served"]
    assert isinstance(model.source, ServerSource)
    assert (model.source.address, model.source.tokens) == ("http://127.0.0.1:8000", 20)
    assert (model.source.concurrency, model.source.seconds) == (64, 60)
    assert (model.kind, model.dtype, model.device) == ("served", "as served", "server")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"api": None}, "models.served: server:.*: the key 'api' is missing"),
        ({"tokenizer": None}, "models.served: server:.*: the key 'tokenizer' is missing"),
        ({"api": "olama"}, "models.served.api: 'olama' is not one of vllm, llama.cpp"),
        ({"tokenizer": "hf:owner/name"}, "models.served: tokenizer: hf:owner/name is not"),
        ({"tokens": 0}, "models.served.tokens: 0 is too small"),
        ({"requests": 0}, "models.served.requests: 0 is too small"),
        ({"dtype": "float32"}, "models.served: dtype: .* the key is for local weights"),
        ({"kind": "masked"}, "models.served: kind: .* the key is for local weights"),
        ({"sha256": "0" * 64}, "models.served: sha256: .* the key is for local weights"),
        ({"source": "server:http://user:word@host"}, "models.served: source .*without user"),
        ({"source": "server:ftp://host"}, "models.served: source .*http://"),
        ({"source": "server:http://host?key=1"}, "models.served: source "),
        ({"source": "path:directory"}, "models.served: api: path:directory is not a server"),
    ],
)
def test_a_served_model_that_cannot_be_asked_is_refused_by_its_key(changes, message):
    """Each mistake is one message that names the key, before anything is asked."""
    with pytest.raises(ConfigError, match=message):
        Config.parse(raw(**changes))


def test_a_key_that_is_written_where_a_variable_belongs_is_not_repeated():
    """A message about `key_from` does not say what was written there: it may be a key."""
    with pytest.raises(ConfigError, match="environment variable") as caught:
        Config.parse(raw(key_from="sk-5ecret"))
    assert "5ecret" not in str(caught.value)


def test_a_key_is_not_in_the_traceback_of_another_mistake():
    """Whatever else is wrong with a model, the traceback does not quote its other keys."""
    secret = "sk-5ecret"  # not in the line of the call, which the traceback quotes
    for mistake in ({"api": "olama"}, {"unknown": 1}, {"label": None}):
        with pytest.raises(ConfigError) as caught:
            Config.parse(raw(key_from=secret, **mistake))
        assert "5ecret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("section", ["experiments", "figure4", "topk"])
def test_a_k_beyond_what_is_told_is_refused(section):
    """Experiments, Figure 4 and the top-k statistics select among what the server tells."""
    known = raw()
    if section == "experiments":
        known = raw(k=21)
    elif section == "figure4":
        about = {"starts": ["s"], "query": "P=? [ F gender > 0 ]", "alpha": 0.8, "L": 2}
        known["figure4"] = about | {"k": 21}
    else:
        known["topk"] = {"source": "path:prompts.csv", "column": "act", "maximum_k": 21}
    with pytest.raises(ConfigError, match=rf"{section}.*k: 21 exceeds models.served.tokens"):
        Config.parse(known)


WRITER = {"label": "Writer", "source": "server:https://host/api", "api": "openai-chat"}


def with_programs(tmp_path, **models) -> dict:
    """A configuration without experiments that has programs, and these models."""
    (tmp_path / "loop.c").write_text("int main() { return 0; }\n", encoding="utf-8")
    invariants = {"programs": f"path:{tmp_path}", "models": list(models)}
    return raw() | {"models": models, "experiments": [], "invariants": invariants}


@pytest.mark.parametrize("api", ["vllm", "llama.cpp", "openai-completions", "openai-chat"])
def test_any_server_is_asked_for_invariants(api, tmp_path):
    """Whatever writes texts may propose; one that only writes needs no tokenizer."""
    model = raw()["models"]["served"] | {"api": api}
    if api.startswith("openai"):
        model = WRITER | {"api": api}
    config = Config.parse(with_programs(tmp_path, asked=model))
    assert config.sections["invariants"].models == ("asked",)
    assert list(config.distribution_models) == ([] if api.startswith("openai") else ["asked"])


def test_a_server_that_only_writes_has_no_part_in_trees():
    """An experiment asks the other models; one that names it is refused, by its key."""
    known = raw()
    known["models"]["writer"] = WRITER
    config = Config.parse(known)
    assert {check.tree.model for check in config.checks} == {"served"}
    known["experiments"][0]["models"] = ["writer"]
    with pytest.raises(
        ConfigError, match=r"experiments\[0\].models: the interface of writer returns only texts"
    ):
        Config.parse(known)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"tokenizer": "path:tokenizer"},
            "models.asked: tokenizer: the api openai-chat returns only texts",
        ),
        ({"api": "openai-completions", "tokens": 9}, "models.asked: tokens: the api openai-comp"),
        ({"dtype": "float32"}, "models.asked: dtype: .* the key is for local weights"),
        ({"key_from": "sk-5ecret"}, "models.asked: key_from: something else is not the name"),
    ],
)
def test_a_writer_that_cannot_be_asked_is_refused_by_its_key(changes, message, tmp_path):
    """Each mistake is one message that names the key, before anything is asked."""
    with pytest.raises(ConfigError, match=message):
        Config.parse(with_programs(tmp_path, asked=WRITER | changes))
