"""The benchmark that measures required packages finds each with its extra and its users."""

import requirements


def test_packages_have_the_extras_that_install_them():
    """A package of the core has no extra, one of another distribution that of the distribution."""
    found = dict(requirements.list_requirements())
    assert found["torch"] == ""
    assert found["quickjs-ng"] == ""
    assert found["matplotlib"] == "workflow"
    assert found["z3-solver"] == "programs"
    assert not found.keys() & {"pytest", "mkdocs", *requirements.DISTRIBUTIONS}


def test_users_are_what_imports_a_package():
    """A package is used by folders that import it, and if none does by packages that require it."""
    assert requirements.find_users("stormpy", ["stormpy"]) == ["llmchecker/checking"]
    assert "jsonschema" in requirements.find_users("fqdn", ["fqdn"])


def test_size_and_import_are_measured():
    """A package has files, and an import of it takes time."""
    assert requirements.measure_megabytes("jinja2") > 0.1
    assert requirements.measure_import(["jinja2"]) > 0
