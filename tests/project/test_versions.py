"""Ranges of pyproject.toml, their lowest versions, and the versions that `make` installs."""

import csv
import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import llmchecker
from llmchecker.utils.optional_packages import EXTRAS
from llmchecker.utils.plugins import PLUGIN_EXTRAS

ROOT = Path(__file__).parents[2]
FOLDERS = [file.parent for file in sorted(ROOT.glob("packages/*/pyproject.toml"))]
"""Folders of the distributions with plug-ins of llmchecker."""


def read_pins(lines: list[str]) -> dict[str, Version]:
    """Version by normalised name; every line must name one exact version, and no name twice."""
    pins = {}
    for line in lines:
        requirement = Requirement(line)
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", f"{line!r} does not pin one exact version"
        name = canonicalize_name(requirement.name)
        assert name not in pins, f"{name} is pinned twice"
        pins[name] = Version(specifier.version)
    return pins


def read_constraints(name: str) -> dict[str, Version]:
    """Version by normalised name of a constraints file."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return read_pins([line for line in lines if line and not line.startswith("#")])


def read_project(folder: Path) -> dict:
    """The table `project` of a distribution's pyproject.toml."""
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def project() -> dict:
    """The table `project` of llmchecker."""
    return read_project(ROOT)


@pytest.fixture(scope="module")
def plugin_projects() -> dict[str, dict]:
    """The tables `project` of the distributions with plug-ins, by name."""
    projects = map(read_project, FOLDERS)
    return {project["name"]: project for project in projects}


@pytest.fixture(scope="module")
def groups(project, plugin_projects) -> dict[str, list[Requirement]]:
    """Requirements on other packages by extra of llmchecker or name of another distribution.

    The extra of the core is "".
    """
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    groups |= {name: each["dependencies"] for name, each in plugin_projects.items()}
    requirements = {extra: list(map(Requirement, lines)) for extra, lines in groups.items()}
    own = {"llmchecker", *plugin_projects}
    return {
        extra: [each for each in group if each.name not in own]
        for extra, group in requirements.items()
    }


@pytest.fixture(scope="module")
def ranges(groups) -> dict[str, Requirement]:
    """Requirements by normalised name."""
    return {canonicalize_name(each.name): each for group in groups.values() for each in group}


@pytest.fixture(scope="module")
def environment() -> dict:
    """environment.yml."""
    return yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))


def test_the_record_of_packages_has_each_that_users_install(groups):
    """The measured table of packages lacks none and has none that is required no more."""
    with (ROOT / "resources/measured/requirements.csv").open(encoding="utf-8", newline="") as file:
        recorded = {row["package"] for row in csv.DictReader(file)}
    required = {
        canonicalize_name(each.name)
        for name, group in groups.items()
        for each in group
        if name not in ("docs", "test")
    }
    assert recorded == required


def test_a_requirement_is_the_same_everywhere(groups, ranges):
    """A package that two groups require has one range and one marker."""
    for group in groups.values():
        assert all(each == ranges[canonicalize_name(each.name)] for each in group)


def test_make_installs_versions_in_the_ranges(ranges):
    """constraints.txt has a version of every requirement, within its range."""
    pins = read_constraints("constraints.txt")
    outside = [name for name, each in ranges.items() if pins.get(name) not in each.specifier]
    assert outside == []


def test_no_package_makes_imports_slow():
    """make does not install rfc3987-syntax, whose parsers cost seconds when jsonschema finds it."""
    assert "rfc3987-syntax" not in read_constraints("constraints.txt")


def test_the_lowest_versions_are_the_lower_ends(ranges):
    """constraints-lowest.txt has the lower end of every range."""
    ends = {
        name: Version(specifier.version)
        for name, each in ranges.items()
        for specifier in each.specifier
        if specifier.operator == ">="
    }
    assert read_constraints("constraints-lowest.txt") == ends


def test_conda_installs_the_versions_of_make(groups, environment):
    """environment.yml names every requirement but those of docs, as constraints.txt pins it."""
    ranges = {
        canonicalize_name(each.name): each
        for extra, group in groups.items()
        if extra != "docs"
        for each in group
    }
    (by_pip,) = (entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    pins = read_constraints("constraints.txt")
    assert read_pins(by_pip) == {name: pins[name] for name in ranges}
    markers = {canonicalize_name((each := Requirement(line)).name): each.marker for line in by_pip}
    assert markers == {name: each.marker for name, each in ranges.items()}


def test_conda_installs_the_python_that_the_project_requires(project, environment):
    """environment.yml names the oldest Python that pyproject.toml accepts."""
    python = project["requires-python"].removeprefix(">=")
    assert f"python={python}" in environment["dependencies"]


def test_every_python_that_is_promised_is_tested(project):
    """The jobs of tests.yml have the versions of Python in the classifiers."""
    prefix = "Programming Language :: Python :: 3."
    promised = [line for line in project["classifiers"] if line.startswith(prefix)]
    text = (ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8")
    tested = yaml.safe_load(text)["jobs"]["newest"]["strategy"]["matrix"]["python"]
    assert [line.rpartition(" ")[2] for line in promised] == tested


def test_all_has_every_extra_for_users(project):
    """The extra `all` names every extra but those of developers."""
    (line,) = project["optional-dependencies"]["all"]
    extras = project["optional-dependencies"].keys() - {"all", "docs", "test"}
    assert Requirement(line).extras == extras


def test_errors_about_optional_packages_name_their_extra(groups):
    """The extra in an error is the one whose requirements contain the package."""
    distributions = {"lingua": "lingua-language-detector", "pkg_resources": "setuptools"}
    for module, extra in EXTRAS.items():
        names = {canonicalize_name(each.name) for each in groups[extra]}
        assert distributions.get(module, module) in names


def test_extras_install_the_plugins(project, plugin_projects):
    """The extra in the error about an absent plug-in names the distribution that registers it."""
    entry_points = {
        (group, name): each["name"]
        for each in plugin_projects.values()
        for group, entries in each["entry-points"].items()
        for name in entries
    }
    for group, names in PLUGIN_EXTRAS.items():
        for name, extra in names.items():
            (line,) = project["optional-dependencies"][extra]
            assert Requirement(line).name == entry_points.pop((group, name))
    assert entry_points == {}


def test_the_distributions_are_released_together(project, plugin_projects):
    """Each has the version of llmchecker, requires it, and is required by an extra in it."""
    required = {f"{name}=={llmchecker.__version__}" for name in plugin_projects}
    lines = [line for group in project["optional-dependencies"].values() for line in group]
    assert required == {line for line in lines if Requirement(line).name in plugin_projects}
    for each in plugin_projects.values():
        assert each["version"] == llmchecker.__version__
        assert f"llmchecker=={llmchecker.__version__}" in each["dependencies"]
        for key in ("authors", "license", "requires-python", "urls"):
            assert each[key] == project[key]


def test_one_place_has_the_version(project):
    """pyproject.toml reads the version from the package; CITATION.cff has the same one."""
    assert "version" in project["dynamic"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == llmchecker.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", llmchecker.__version__)


def test_authors_are_those_of_the_citation(project):
    """pyproject.toml and CITATION.cff name the same authors."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert project["authors"] == citation["authors"]


def test_the_deposit_is_what_the_citation_names():
    """.zenodo.json has the title, version, licence and authors of CITATION.cff."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    deposit = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    for key in ("title", "version", "license"):
        assert deposit[key] == citation[key]
    assert deposit["creators"] == citation["authors"]
    (paper,) = citation["references"]
    assert deposit["related_identifiers"][0]["identifier"] == paper["notes"]
