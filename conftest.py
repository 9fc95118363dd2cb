"""Fixtures that several tests share."""

import gc
import os
import shutil
import subprocess
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent
SMOLLM2 = ROOT / "resources/models/smollm2-135m"
CHROMIUM_ABSENT = "chromium is absent; on Debian, `apt-get install -y chromium` installs it"
AXE = "4.14.1"

# bars of libraries that tests call would be lines of the log
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

# the machines that run these tests vary in speed; only what a test asserts may fail it
settings.register_profile("all", deadline=None, derandomize=True)
settings.register_profile("quick", settings.get_profile("all"), max_examples=20)


def pytest_configure(config):
    """Let Hypothesis try fewer examples where long tests are left out."""
    # the options of this run would change what the runs that tests start print
    os.environ.pop("PYTEST_ADDOPTS", None)
    settings.load_profile("quick" if "not long" in config.option.markexpr else "all")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the cases of a test as long, except as many as its mark `few` allows.

    Files with many tests that start Snakemake, then files with many long tests, come first: at the
    end, the other workers would wait for them.
    """
    with_mark = [item for item in items if item.get_closest_marker("few")]
    for _, cases in groupby(with_mark, key=lambda item: item.function):
        cases = [case for case in cases if not case.get_closest_marker("long")]
        count = cases[0].get_closest_marker("few").args[0] if cases else 0
        chosen = {i * len(cases) // count for i in range(count)}
        for i, case in enumerate(cases):
            if i not in chosen:
                case.add_marker("long")
    counts = {item.path: Counter() for item in items}
    for item in items:
        counts[item.path].update(mark.name for mark in item.iter_markers())
    items.sort(key=lambda item: (-counts[item.path]["slow"], -counts[item.path]["long"]))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect no garbage while tests are imported, of which nearly nothing is garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish():
    """Exempt all that is imported by now from garbage collections, each of which takes a second."""
    gc.freeze()


@pytest.fixture(scope="session")
def random_model(tmp_path_factory):
    """Directories of small random models by architecture, each made once."""
    # the process that only starts the workers needs no torch
    from helpers.random_models import ARCHITECTURES, save

    made = {}

    def directory(architecture: str) -> Path:
        assert architecture in ARCHITECTURES
        if architecture not in made:
            made[architecture] = save(architecture, tmp_path_factory.mktemp(architecture))
        return made[architecture]

    return directory


@pytest.fixture(scope="session")
def smollm2():
    """The directory of the real SmolLM2-135M, which `make test` fetches beforehand."""
    if not SMOLLM2.is_dir():
        pytest.skip(f"{SMOLLM2} is absent; `snakemake --cores all {SMOLLM2}` fetches it")
    return SMOLLM2


@pytest.fixture(scope="session")
def loaded_smollm2(smollm2):
    """SmolLM2 for tests that do not change it: a load takes as long as a hundred passes."""
    from llmchecker.models.transformers.load import load_model

    return load_model(smollm2)


def _skip_outside_of_ci(reason: str) -> None:
    """Skip a test whose program is absent; where changes are accepted, nothing is skipped."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


@pytest.fixture(scope="module")
def browser():
    """Chromium without a window."""
    program = shutil.which("chromium")
    if program is None:
        _skip_outside_of_ci(CHROMIUM_ABSENT)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """A function that returns the rules of axe-core that an open page violates."""
    npm = shutil.which("npm")
    if npm is None:
        _skip_outside_of_ci("npm is absent")
    folder = tmp_path_factory.mktemp("axe")
    command = [npm, "install", f"axe-core@{AXE}", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run(command, cwd=folder, check=True, timeout=120, capture_output=True)
    script = (folder / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")

    def find_violations(page) -> list[tuple[str, str]]:
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        page.evaluate(script + "; 0")
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert len(found["passes"]) > 20
        return [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]]

    return find_violations


@pytest.fixture
def open_judge(monkeypatch):
    """A function that lets every configured judge be a scripted one."""
    from llmchecker.config import judges
    from llmchecker.models.judges import TokenJudge

    monkeypatch.setattr(judges, "_accesses", {})

    def use(model):
        monkeypatch.setattr(judges, "_open_access", lambda *_: TokenJudge(model))
        return model

    return use


@pytest.fixture
def unloadable_model(tmp_path, monkeypatch):
    """A working directory with a model `m` that is described; to load it is an error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").mkdir()
    (tmp_path / "m/config.json").write_text("{}")
