"""SARIF: annotations at the lines of the suite file."""

import yaml

import llmchecker as lc
from llmchecker.suites.sarif import format_sarif, write_sarif

SUITE = """\
# a comment
length: 5
budget: { answers: 60 }
cases:
  - name: capital
    user: Where?
    require:
      paris: { contains: Paris, at_least: 0.5 }
      rome:
        { contains: Rome, at_least: 0.5 }
  - name: rows
    prompts: rows.csv
    user: "{question}"
    average:
      mean: mean P=? [ F contains_x > 0 ] >= 0.9
    require:
      - { contains: Paris, at_least: 1 }
properties:
  contains_x: { type: pattern, pattern: Rome }
"""


def run(tmp_path, text: str = SUITE):
    (tmp_path / "rows.csv").write_text("question\nWho?\nWhat?\n")
    path = tmp_path / "a suite.yaml"
    path.write_text(text)
    model = lc.texts(lambda messages: "Paris", name="app")
    return lc.suite(path, models=[model]).run().result


def test_each_requirement_that_does_not_hold_is_at_its_line(tmp_path, monkeypatch):
    """Violated and unknown requirements, and averages, have the lines of the file; others none."""
    monkeypatch.chdir(tmp_path)
    result = run(tmp_path)
    (log,) = format_sarif(result)["runs"]
    lines = SUITE.splitlines()
    found = {}
    for each in log["results"]:
        (location,) = each["locations"]
        place = location["physicalLocation"]
        assert place["artifactLocation"] == {"uri": "a%20suite.yaml"}
        name = each["message"]["text"].splitlines()[0]
        found[name] = (each["ruleId"], each["level"], lines[place["region"]["startLine"] - 1])
    assert [value for name, value in found.items() if "rome" in name] == [
        ("VIOLATED", "error", "      rome:")
    ]
    assert [value[0::2] for name, value in found.items() if "mean" in name] == [
        ("VIOLATED", "      mean: mean P=? [ F contains_x > 0 ] >= 0.9")
    ]
    unknown = [value for value in found.values() if value[0] == "UNKNOWN"]
    assert unknown == [("UNKNOWN", "error", "      - { contains: Paris, at_least: 1 }")] * 2
    assert not any("paris" in name.split("[")[0].lower().split(": ")[2:] for name in found)
    assert {rule["id"] for rule in log["tool"]["driver"]["rules"]} == {
        *("VIOLATED", "UNKNOWN", "ERROR")
    }
    allowed = format_sarif(result, allow_unknown=True)["runs"][0]["results"]
    assert {each["level"] for each in allowed if each["ruleId"] == "UNKNOWN"} == {"note"}


def test_a_requirement_keeps_its_fingerprint_when_lines_move(tmp_path, monkeypatch):
    """Readers recognise an annotation after lines were added before it."""
    monkeypatch.chdir(tmp_path)
    logs = [format_sarif(run(tmp_path, f"{prefix}{SUITE}")) for prefix in ("", "# new\n\n")]
    first, second = (log["runs"][0]["results"] for log in logs)
    assert [each["partialFingerprints"] for each in first] == [
        each["partialFingerprints"] for each in second
    ]
    assert len({str(each["partialFingerprints"]) for each in first}) == len(first)


def test_a_suite_elsewhere_has_an_absolute_uri(tmp_path, monkeypatch):
    """The file is JSON, and a suite outside of the current folder is still found."""
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    write_sarif(run(tmp_path), "results.sarif")
    log = yaml.safe_load((tmp_path / "inside" / "results.sarif").read_text())
    location = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == (tmp_path / "a suite.yaml").as_uri()
