"""The packages as pip installs them: all that they need is in the wheel, and work in any folder."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import llmchecker

ROOT = Path(__file__).parents[2]
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE")
FOLDERS = {
    "llmchecker": ROOT,
    "llmchecker_promptfoo": ROOT / "packages/llmchecker-promptfoo",
    "loop_invariants": ROOT / "packages/loop-invariants",
}
"""The folder of each distribution, by the name of its package."""
ENTRY_POINTS = {
    "llmchecker": {"llmchecker = llmchecker.interfaces.cli.entry:run"},
    "llmchecker_promptfoo": {"promptfoo = llmchecker_promptfoo.convert:convert_promptfoo"},
    "loop_invariants": {
        "loop-invariants = loop_invariants.cli.main:run",
        "verify = loop_invariants.cli.main:add_verify_command",
        "invariants = loop_invariants.workflow.config_section:InvariantsConfig",
        "provable = loop_invariants:Provable",
    },
}
"""Entry points of each package, as lines of the metadata."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, Path]:
    """The wheels that `make dist` builds from the archives of the sources, by their packages."""
    directory = tmp_path_factory.mktemp("dist")
    # a copy, since building leaves files behind; licenses are links to the one of the repository
    source, ignored = directory / "source", shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("src", "packages"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    for name in BUILT_FROM:
        shutil.copy2(ROOT / name, source / name)
    wheels = {}
    for name, folder in FOLDERS.items():
        built = directory / name
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", built]
        command.append(source / folder.relative_to(ROOT))
        subprocess.run(command, check=True, capture_output=True)
        (wheels[name],) = built.glob(f"{name}-*.whl")
        assert len(list(built.glob(f"{name}-*.tar.gz"))) == 1
    return wheels


@pytest.fixture(scope="module")
def wheel(wheels) -> Path:
    """The wheel of llmchecker."""
    return wheels["llmchecker"]


@pytest.fixture(scope="module")
def installed(wheels, tmp_path_factory) -> Path:
    """What the wheels of this checkout install, in a folder that holds nothing else."""
    directory = tmp_path_factory.mktemp("site")
    for wheel in wheels.values():
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(directory)
    return directory


def python(installed: Path, code: str, *arguments: str, cwd: Path) -> str:
    """What code prints that uses the installed package, without a network or a checkout."""
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(installed), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.long
@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_contains_every_file_of_its_package(installed, name):
    """Schema, word lists, templates, stub and marker come along; plug-ins are registered."""
    package = FOLDERS[name] / "src" / name
    expected = {
        str(path.relative_to(package))
        for path in package.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    found = {
        str(path.relative_to(installed / name))
        for path in (installed / name).rglob("*")
        if path.is_file()
    }
    assert found == expected
    (metadata,) = installed.glob(f"{name}-*.dist-info")
    lines = (metadata / "entry_points.txt").read_text(encoding="utf-8").splitlines()
    assert set(lines) >= ENTRY_POINTS[name]
    assert (metadata / "licenses/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.long
def test_pip_installs_the_command(wheel, random_model, tmp_path):
    """In an empty environment, the installed command has a version, a help and an answer.

    Asked anywhere, it keeps models and trees next to the configuration that it is given.
    """
    environment = tmp_path / "environment"
    venv.create(environment)
    python = environment / "bin/python"
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    subprocess.run([*command, "--no-index", wheel], check=True)
    # the packages that it needs are those of this environment
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "needed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    (tmp_path / "project").mkdir()
    (tmp_path / "elsewhere").mkdir()

    def run(*arguments: str, status: int = 0) -> str:
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        run = subprocess.run(
            [environment / "bin/llmchecker", *arguments],
            cwd=tmp_path / "elsewhere",
            env={**clean, "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert run.returncode == status, run.stderr
        return run.stdout

    where = [python, "-c", "import llmchecker; print(llmchecker.__file__)"]
    found = subprocess.check_output(where, cwd=tmp_path, encoding="utf-8", env={})
    assert Path(found).is_relative_to(environment)
    assert run("--version") == f"llmchecker {llmchecker.__version__}\n"
    assert run("--help").startswith("usage: llmchecker")
    config = {
        "models": {"small": {"label": "Small", "source": f"path:{random_model('gpt2')}"}},
        "start_strings": {"player": "The player won because"},
        "quantifiers": {"gender": {}},
        "experiments": [],
    }
    (tmp_path / "project/config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    words = ["--config", "../project/config.yaml", "--model", "small"]
    words += ["--start", "The player won because", "--alpha", "0.8", "--k", "3", "--length", "2"]
    answer = json.loads(run("check", "P=? [ F gender = 0 ]", *words, "--json"))
    assert answer["bounded"] == 1
    assert (tmp_path / "project" / answer["tree"]).is_file()
    assert (tmp_path / "project/resources/models/small").is_dir()
    run("check", "P<1 [ F gender = 0 ]", *words, status=1)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def run_action(folder: Path, action: Path, inputs: dict[str, str], environment: dict[str, str]):
    """Run the commands of an action that need no GitHub, with the values of its inputs."""
    definition = yaml.safe_load(action.read_text(encoding="utf-8"))
    values = {name: str(entry["default"]) for name, entry in definition["inputs"].items()} | inputs

    def evaluate(match: re.Match[str]) -> str:
        return values[match[1]]

    for step in definition["runs"]["steps"]:
        if "run" not in step or "if" in step:
            continue
        variables = {
            name: re.sub(r"\$\{\{ inputs\.([a-z-]+)(?: \|\| [a-z._]+)? \}\}", evaluate, value)
            for name, value in step.get("env", {}).items()
        }
        assert "${{" not in "".join([step["run"], *variables.values()])
        subprocess.run(
            ["bash", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder,
            env={**environment, **variables, "PIP_EXTRA_INDEX_URL": ""},
            check=True,
        )


@pytest.mark.long
def test_the_files_of_init_run(wheel, random_model, tmp_path):
    """In an empty folder, the workflow installs the wheel and decides the suite of `init`."""
    # the packages that the wheel needs are those of this environment
    venv.create(tmp_path / "environment", symlinks=True)
    binaries = tmp_path / "environment/bin"
    (site,) = (tmp_path / "environment").glob("lib/python*/site-packages")
    (site / "needed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    folder = tmp_path / "empty"
    folder.mkdir()
    shutil.copytree(random_model("gpt2"), folder / "model")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {
        **clean,
        "HF_HUB_OFFLINE": "1",
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "PATH": f"{binaries}{os.pathsep}{clean['PATH']}",
    }
    pip = [sys.executable, "-m", "pip", "--python", binaries / "python", "install", "--quiet"]
    subprocess.run([*pip, "--force-reinstall", wheel], env=environment, check=True)
    subprocess.run([binaries / "llmchecker", "init"], cwd=folder, env=environment, check=True)
    workflow = yaml.safe_load((folder / ".github/workflows/llmchecker.yaml").read_text())
    (step,) = [step for step in workflow["jobs"]["suite"]["steps"] if "with" in step]
    subprocess.run([*pip[:-2], "uninstall", "--yes", "llmchecker"], env=environment, check=True)
    run_action(folder, folder / step["uses"] / "action.yml", step["with"], environment)
    found = {path.name for path in (folder / "llmchecker-results").iterdir()}
    assert found == {"results.xml", "results.jsonl", "summary.md", "results.html"}
    assert "2 hold" in (tmp_path / "summary.md").read_text(encoding="utf-8")


LIBRARY = """
import sys
import llmchecker as lc
print(lc.__file__)
tree = lc.grow(lc.load(sys.argv[1]), "The player won because", alpha=0.8, k=3, length=2)
print(lc.check("P=? [ F gender = 0 ]", tree).bounded)
print(len(tree.frame(gender=lc.Gender())) == len(tree))
"""


@pytest.mark.long
def test_the_library_needs_no_checkout(installed, random_model, tmp_path):
    """In an empty folder, a tree is grown, checked and scored by the package of the wheel."""
    said = python(installed, LIBRARY, str(random_model("gpt2")), cwd=tmp_path).splitlines()
    assert Path(said[0]).is_relative_to(installed)
    assert said[1:] == ["1.0", "True"]
    assert list(tmp_path.iterdir()) == []
