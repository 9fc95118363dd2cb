"""What a run needs of this machine is looked at before its first job."""

import copy
from pathlib import Path

import pytest
from helpers.project import EMPTY
from helpers.random_models import save

from llmchecker.config.config import Config
from llmchecker.errors import ChecksumMismatch, ConfigError, LLMCheckerError, UnusableText
from llmchecker.interfaces.snakemake.preflight import (
    begin_run,
    check_directory,
    check_inputs,
    check_run,
)
from llmchecker.properties.quantifier_state import hash_quantifiers


@pytest.fixture
def config(tmp_path, monkeypatch) -> dict:
    """A configuration whose model and prompts are there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one").mkdir()
    (tmp_path / "prompts.csv").write_text("act,prompt\na,b\nc,d\n")
    return copy.deepcopy(EMPTY) | {"topk": {"source": "path:prompts.csv", "column": "prompt"}}


def test_what_is_there_passes(config):
    """A model and prompts that are there, with column and rows, are let pass."""
    config["topk"]["rows"] = 2
    check_inputs(Config.parse(config))


@pytest.mark.parametrize(
    ("content", "change", "message"),
    [
        (None, {}, "topk.source: "),
        ("act,prompt\na,b\n", {"column": "prompts"}, "no column 'prompts', did you mean 'prompt'"),
        ("act,prompt\na,b\n", {"rows": 3}, "1 row instead of 3"),
        ("act,prompt\na,b\n", {"sha256": "0" * 64}, "not the expected 000000"),
        ("act,prompt\n", {}, "a header and no rows"),
        ("act,prompt\na\n", {}, "row 1 has 1 values, but the header names 2 columns"),
        ("", {}, "does not name each column once"),
        ("act,prompt\na,f\xfcr\n", {}, "not CSV in UTF-8"),
    ],
)
def test_prompts_that_cannot_be_used_are_named(content, change, message, config, tmp_path):
    """Prompts that are absent or no table with the column and rows are refused by their key."""
    (tmp_path / "prompts.csv").unlink()
    if content is not None:
        (tmp_path / "prompts.csv").write_text(content, encoding="latin-1")
    config["topk"] |= change
    with pytest.raises(LLMCheckerError) as caught:
        check_inputs(Config.parse(config))
    assert str(caught.value).startswith("topk")
    assert message in str(caught.value)


def test_a_model_that_is_absent_is_named(config, tmp_path):
    """A directory that is not there is refused, unless the model was fetched from it before."""
    (tmp_path / "one").rmdir()
    with pytest.raises(LLMCheckerError, match=r"models\.one\.source: .*/one is absent"):
        check_inputs(Config.parse(config))
    (tmp_path / "resources/models/one").mkdir(parents=True)
    check_inputs(Config.parse(config))


def test_fetched_prompts_need_their_source_no_more(config, tmp_path):
    """Prompts that were fetched are used although the place that they came from is gone."""
    (tmp_path / "prompts.csv").unlink()
    (tmp_path / "resources/datasets").mkdir(parents=True)
    (tmp_path / "resources/datasets/prompts.csv").write_text("prompt\na\n")
    check_inputs(Config.parse(config))


@pytest.fixture
def asked(config) -> dict:
    """A configuration whose model is to answer messages."""
    experiment = {"label": "E", "interest": "I", "start": "chat", "alpha": 1, "k": 2, "L": 1}
    config["start_strings"] = config["start_strings"] | {"chat": [{"user": "Is it so?"}]}
    config["quantifiers"] = {"gender": {}}
    config["experiments"] = [experiment | {"queries": ["P=? [ F gender > 0 ]"]}]
    return config


def test_a_model_that_is_to_answer_messages_has_a_template(asked, tmp_path):
    """Where its directory is known, a model without a chat template is named before any job."""
    config = asked
    said = "start_strings.chat: these are messages, and models.one has no chat template"
    with pytest.raises(ConfigError, match=said):
        check_inputs(Config.parse(config))
    template = tmp_path / "one/chat_template.jinja"
    template.write_text("{{ messages }}")
    check_inputs(Config.parse(config))
    (tmp_path / "resources/models/one").mkdir(parents=True)
    settings = tmp_path / "resources/models/one/tokenizer_config.json"
    settings.write_text('{"chat_template": null}')
    with pytest.raises(ConfigError, match=said):
        check_inputs(Config.parse(config))
    settings.write_text('{"chat_template": "{{ messages }}"}')
    check_inputs(Config.parse(config))
    config["models"]["one"]["kind"] = "masked"
    with pytest.raises(ConfigError, match="is a masked model, which answers no"):
        check_inputs(Config.parse(config))


def test_a_template_that_fails_is_told_before_any_job(asked, tmp_path):
    """Where the model is there, its template gets the messages; what it raises has their key."""
    save("llama", tmp_path / "one")
    template = tmp_path / "one/chat_template.jinja"
    template.write_text("{{ raise_exception('a system prompt is required') }}")
    said = "start_strings.chat: chat template of models.one: it rejects .* is required"
    with pytest.raises(UnusableText, match=said):
        check_inputs(Config.parse(asked))
    template.write_text("{% for message in messages %}{{ message.content }}{% endfor %}")
    check_inputs(Config.parse(asked))


def test_a_decoding_that_a_model_cannot_have_is_told_before_any_job(asked, tmp_path):
    """Where the model is there, tokens that it has not and settings it has not are named by key."""
    save("llama", tmp_path / "one")
    (tmp_path / "one/chat_template.jinja").write_text("{{ messages[0].content }}")
    (tmp_path / "one/generation_config.json").write_text('{"eos_token_id": 2}')
    model, experiment = asked["models"]["one"], asked["experiments"][0]
    model["decoding"] = "as_published"
    with pytest.raises(
        ConfigError, match=r"models\.one\.decoding: as_published: .* no decoding settings"
    ):
        check_inputs(Config.parse(asked))
    model["decoding"] = {"suppress_tokens": [10**6]}
    with pytest.raises(
        ConfigError, match=r"models\.one\.decoding: suppress_tokens: .* is not a token"
    ):
        check_inputs(Config.parse(asked))
    del model["decoding"]
    experiment["decoding"] = {"bad_words_ids": [[10**6]]}
    with pytest.raises(ConfigError, match="experiments: the decoding after 'chat': bad_words_ids"):
        check_inputs(Config.parse(asked))
    experiment["decoding"] = {"bad_words_ids": [[3, 4]]}
    check_inputs(Config.parse(asked))


def test_a_folder_without_a_configuration_is_refused(tmp_path, monkeypatch):
    """The message has the option, and a folder with a configuration."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"no config\.yaml here; .*--directory /checkout$"):
        check_directory(Path("/checkout"))
    (tmp_path / "config.yaml").write_text("")
    check_directory(Path("/checkout"))


def test_a_job_goes_on_only_with_what_its_run_began_with(config, monkeypatch):
    """A configuration or a word list that changed is named; a new time is no change."""
    monkeypatch.delenv("LLMCHECKER_RUN", raising=False)
    words = Path("list.txt")
    words.write_text("he")
    config["quantifiers"]["listed"] = {"type": "words", "file": "list.txt"}
    read = Config.parse(config)

    def compute_states() -> dict:
        return {"one": hash_quantifiers({"listed": read.quantifiers["listed"]})}

    # a job that was started by hand has nothing to compare with
    check_run(read, compute_states())
    begin_run(read.sha256, compute_states())
    words.touch()
    check_run(read, compute_states())
    words.write_text("she")
    with pytest.raises(ChecksumMismatch, match=r"'listed': a file changed .*list\.txt"):
        check_run(read, compute_states())
    words.write_text("he")
    config["start_strings"]["player"] = "The players"
    with pytest.raises(ChecksumMismatch, match="the configuration changed during the run"):
        check_run(Config.parse(config), compute_states())
