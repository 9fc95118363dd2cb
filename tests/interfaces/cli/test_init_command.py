"""`llmchecker init` writes a suite that loads and a workflow, and overwrites nothing."""

import json
import shutil
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from helpers.fake_hub import COMMIT, make_client_new, point_client_at, serving

from llmchecker.config.paths import judge_file, texts_directory
from llmchecker.interfaces.cli.main import main
from llmchecker.suites.load import load_suite

ROOT = Path(__file__).parents[3]
PROMPTFOO = """
prompts: ["Is {{city}} in {{country}}?"]
tests:
  - vars: { city: Madrid, country: Spain }
    assert: [{ type: icontains, value: "yes" }, { type: similar, value: "so" }]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}")
    (tmp_path / "model/model.safetensors").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def read_step(folder: Path) -> dict:
    """The step of the workflow that runs the suite."""
    workflow = yaml.safe_load((folder / ".github/workflows/llmchecker.yaml").read_text())
    return workflow["jobs"]["suite"]["steps"][1]


def install(monkeypatch, record: dict | None, urls: tuple[str, ...] = ()) -> None:
    """What pip recorded of the installed package."""

    class Package(metadata.Distribution):
        version = "1.2"

        def read_text(self, filename):
            if filename == "direct_url.json":
                return None if record is None else json.dumps(record)
            lines = [f"Project-URL: {url}" for url in urls]
            return "\n".join(["Metadata-Version: 2.1", "Name: llmchecker", *lines])

        def locate_file(self, path):
            raise NotImplementedError

    monkeypatch.setattr("llmchecker.utils.installation.distribution", lambda name: Package())


GIT = "git+https://github.com/owner/llmchecker"


@pytest.mark.parametrize(
    ("record", "urls", "action"),
    [
        (
            {"url": GIT[4:], "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
            (),
            f"owner/llmchecker@{COMMIT}",
        ),
        (None, (f"Repository, {GIT[4:]}",), "owner/llmchecker@v1.2"),
        ({"url": "file:///checkout", "dir_info": {}}, ("Paper, https://x.org",), None),
    ],
)
def test_the_new_suite_loads(folder, capfd, monkeypatch, record, urls, action):
    """Without options, the suite has the only model, and the workflow the installed repository."""
    install(monkeypatch, record, urls)
    assert main(["init"]) == 0
    out, err = capfd.readouterr()
    suite = load_suite("suite.yaml")
    assert len(suite.cases) == 2
    assert suite.deployments[0].model.directory == folder / "model"
    if action is None:
        assert out.split() == ["suite.yaml"]
        assert "no workflow: the repository of this installation is unknown" in err
        return
    assert out.split() == ["suite.yaml", ".github/workflows/llmchecker.yaml"]
    assert read_step(folder) == {"uses": action, "with": {"suite": "suite.yaml"}}


@pytest.mark.parametrize("is_given", [True, False])
def test_a_wheel_is_copied_next_to_the_action(folder, monkeypatch, is_given):
    """A wheel that is given, or that pip installed, is part of the repository with the action."""
    wheel = folder / "dist/llmchecker-1.2-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"wheel")
    install(monkeypatch, None if is_given else {"url": wheel.as_uri(), "archive_info": {}})
    assert main(["init", *(["--install", str(wheel)] if is_given else [])]) == 0
    action = folder / ".github/actions/llmchecker"
    assert read_step(folder)["uses"] == "./.github/actions/llmchecker"
    assert read_step(folder)["with"]["install"] == f"./.github/actions/llmchecker/{wheel.name}"
    assert (action / wheel.name).read_bytes() == b"wheel"
    assert (action / "action.yml").read_text() == (ROOT / "action.yml").read_text()


def test_the_hub_gives_the_commit_and_the_form_of_prompts(folder, monkeypatch, tmp_path):
    """The suite names the newest commit; a model without a chat template continues a text."""
    with serving() as hub:
        make_client_new(tmp_path / "client", monkeypatch)
        point_client_at(hub.address, monkeypatch)
        hub.files = {"config.json": b"{}", "tokenizer_config.json": b"{}"}
        for template, form in (("", "start"), ("{{ messages }}", "user")):
            hub.files["tokenizer_config.json"] = json.dumps({"chat_template": template}).encode()
            hub.commits.append(COMMIT if template else "a" * 40)
            (tmp_path / "cache").exists() and shutil.rmtree(tmp_path / "cache")
            assert main(["init", "--model", "hf:owner/name", "--directory", form]) == 0
            suite = yaml.safe_load((folder / form / "suite.yaml").read_text())
            assert suite["model"] == f"hf:owner/name@{hub.commits[-1]}"
            assert form in suite["cases"][0]


def test_a_server_has_its_api_and_tokenizer_in_the_suite(folder):
    """An address needs no configuration; the suite has all that names the server."""
    words = ["--model", "http://localhost:8000", "--api", "openai-chat"]
    assert main(["init", *words]) == 0
    suite = yaml.safe_load((folder / "suite.yaml").read_text())
    assert suite["model"] == {"source": "http://localhost:8000", "api": "openai-chat"}
    assert suite["budget"] == {"answers": 500}
    assert len(load_suite("suite.yaml").cases) == 2


@pytest.mark.parametrize("count", [0, 2])
def test_a_model_that_cannot_be_found_out_must_be_named(folder, capfd, count):
    """Without a model here, or with several, `init` writes nothing and names the choices."""
    if count == 0:
        (folder / "model/model.safetensors").unlink()
    else:
        (folder / "models").mkdir()
        shutil.copytree(folder / "model", folder / "models/other")
    assert main(["init"]) == 3
    found = "./model, ./models/other" if count else "no model is here"
    assert found in capfd.readouterr().err
    assert not (folder / "suite.yaml").exists()


def test_the_image_and_the_action_name_files_that_exist():
    """Each file that the image copies is in the repository; both copies of the action are equal."""
    words = [line.split() for line in (ROOT / "Dockerfile").read_text().splitlines()]
    copied = [path for line in words if line[:1] == ["COPY"] for path in line[1:-1]]
    assert copied
    assert all((ROOT / path).exists() for path in copied)
    packaged = ROOT / "src/llmchecker/suites/action.yml"
    assert packaged.read_text() == (ROOT / "action.yml").read_text()


def test_the_action_keeps_what_a_rerun_would_pay_for_again():
    """Stored answers and judgements are restored before the suite and saved even if it fails; the
    results so far are those of the same run."""
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    (decide,) = [step for step in steps if "llmchecker test" in step.get("run", "")]
    number = steps.index(decide)
    stores = [Path(texts_directory("m")), Path(judge_file("m", "0"))]
    for path in (*stores, Path("llmchecker-results/results.jsonl")):

        def keeps(step, path=path):
            patterns = step.get("with", {}).get("path", "").split()
            return any(
                fnmatch(f"/{each}", f"*/{p.removeprefix('**/')}")
                for p in patterns
                for each in (path, *path.parents)
            )

        (restored,) = [step for step in steps[:number] if keeps(step)]
        (saved,) = [s for s in steps[number:] if keeps(s) and s["uses"].startswith("actions/cache")]
        assert restored["uses"].startswith("actions/cache/restore@")
        assert saved["uses"].startswith("actions/cache/save@")
        assert saved["if"] == "always()"
        assert saved["with"]["key"] == restored["with"]["key"]
        assert saved["with"]["key"].startswith(restored["with"]["restore-keys"])
    # results of another run would hide what changed
    assert "github.run_id" in restored["with"]["restore-keys"]


def test_a_promptfoo_configuration_is_converted(folder, capfd):
    """The suite has the given probability; the terminal and a comment list the rest."""
    (folder / "promptfooconfig.yaml").write_text(PROMPTFOO)
    assert main(["init", "--from", "promptfooconfig.yaml", "--at-least", "0.9"]) == 0
    omission = "  line 5: similar has no counterpart\n"
    assert omission in capfd.readouterr().err
    assert f"# {omission}" in (folder / "suite.yaml").read_text()
    (case,) = load_suite("suite.yaml").cases
    assert case.question.query.text == "P>=0.9 [ F contains = 1 ]"
    assert case.prompt == "Is Madrid in Spain?"


def test_a_converted_suite_needs_no_other_file(folder):
    """In another folder than the configuration, the suite has the rows of its table."""
    (folder / "promptfooconfig.yaml").write_text("prompts: ['{{q}}']\ntests: tests.csv\n")
    (folder / "tests.csv").write_text('q,__expected\n"Is ""it"" so?",contains:Yes\n')
    arguments = ["init", "--from", "promptfooconfig.yaml", "--directory", "out", "--model"]
    assert main([*arguments, str(folder / "model")]) == 0
    (case,) = load_suite("out/suite.yaml").cases
    assert case.prompt == 'Is "it" so?'


def test_a_configuration_without_a_counterpart_is_an_error(folder, capfd):
    """The error has each reason with its line, and no file is written."""
    (folder / "promptfooconfig.yaml").write_text(PROMPTFOO.replace("icontains", "moderation"))
    assert main(["init", "--from", "promptfooconfig.yaml"]) == 3
    error = capfd.readouterr().err
    assert "line 5: moderation has no counterpart" in error
    assert "line 5: similar has no counterpart" in error
    assert not (folder / "suite.yaml").exists()


def test_a_probability_that_a_file_cannot_hold_is_an_error(folder, capfd):
    """No other probability than that of the command line is written."""
    (folder / "promptfooconfig.yaml").write_text(PROMPTFOO)
    probability = "0.99999999999999999999"
    assert main(["init", "--from", "promptfooconfig.yaml", "--at-least", probability]) == 3
    assert f"--at-least: {probability} has more digits" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--directory", "mine/out"], "--directory: mine is a file; name a directory"),
        (["--at-least", "0.9"], "--at-least: it is for the assertions of --from"),
        (["--format", "promptfoo"], "--format: it is the format of --from"),
    ],
)
def test_arguments_without_an_effect_are_errors(folder, capfd, arguments, reason):
    """A file in place of a directory, and a probability or a format without a file, are refused."""
    (folder / "mine").write_text("a text")
    assert main(["init", *arguments]) == 3
    assert reason in capfd.readouterr().err.replace(f"{folder}/", "")
    assert not (folder / "suite.yaml").exists()


@pytest.mark.parametrize("source", [[], ["--from", "promptfooconfig.yaml"]])
def test_a_model_of_the_current_folder_is_found_from_the_suite(folder, source):
    """The suite in another folder names the same directory; other names stay as they are."""
    (folder / "promptfooconfig.yaml").write_text(PROMPTFOO)
    for model, written in (
        ("./model", "../../model"),
        ("model", "../../model"),
        (str(folder / "model"), str(folder / "model")),
    ):
        out = folder / "out" / str(len(list(folder.rglob("suite.yaml"))))
        assert main(["init", *source, "--directory", str(out), "--model", model]) == 0
        assert yaml.safe_load((out / "suite.yaml").read_text())["model"] == written


def test_nothing_is_overwritten(folder, capfd):
    """An existing file is an error, and no other file is written."""
    (folder / "suite.yaml").write_text("mine")
    assert main(["init"]) == 3
    assert "exists" in capfd.readouterr().err
    assert (folder / "suite.yaml").read_text() == "mine"
    assert not (folder / ".github").exists()
