"""One set of versions, named in three places."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
EXACT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[a-z-]+\])?==([0-9][A-Za-z0-9.!+]*)")


def pins(requirements: list[str]) -> dict[str, str]:
    """Version by normalised name; every requirement must be exact, on any platform, named once."""
    versions = {}
    for requirement in requirements:
        match = EXACT.fullmatch(requirement.partition(";")[0])
        assert match, f"{requirement!r} does not pin one exact version"
        name = re.sub(r"[-_.]+", "-", match[1]).lower()
        assert name not in versions, f"{name} is pinned twice"
        versions[name] = match[2]
    return versions


@pytest.fixture(scope="module")
def declared() -> dict:
    """What pyproject.toml says of the project."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def project(declared) -> dict[str, str]:
    """The pins of pyproject.toml, those of the tests included."""
    return pins(declared["dependencies"] + declared["optional-dependencies"]["test"])


@pytest.fixture(scope="module")
def slurm(declared) -> dict[str, str]:
    """The pins of pyproject.toml that only a Slurm cluster needs."""
    return pins(declared["optional-dependencies"]["slurm"])


@pytest.fixture(scope="module")
def environment() -> dict:
    """environment.yml."""
    return yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))


def test_conda_installs_what_the_project_pins(project, environment):
    """environment.yml hands to pip exactly the requirements of pyproject.toml."""
    (by_pip,) = (entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    assert pins(by_pip) == project


def test_constraints_hold_what_the_project_pins(project, slurm):
    """constraints.txt pins every requirement of pyproject.toml to the same version."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    constrained = pins([line for line in lines if line and not line.startswith("#")])
    pinned = project | slurm
    assert {name: constrained.get(name) for name in pinned} == pinned


def test_conda_installs_the_python_that_the_project_requires(declared, environment):
    """environment.yml names the oldest Python that pyproject.toml accepts."""
    python = declared["requires-python"].removeprefix(">=")
    assert f"python={python}" in environment["dependencies"]
