"""Witnesses have the form of SV-COMP's format 2.0, and claim what is true of the program's text.

The schema below was written for this test after the published description of the format
(https://sosy-lab.gitlab.io/benchmarking/sv-witnesses/yaml/violation-witnesses.html); none of its
text is copied. `format_witness.yml` is a witness that one of the format's authors wrote by hand: it
shows that the schema is not stricter than the format.
"""

import re
from functools import partial
from hashlib import sha256
from pathlib import Path

import jsonschema
import pytest
import yaml

from loop_invariants.cli.main import main

LOCATION = {
    "type": "object",
    "required": ["file_name", "line"],
    "additionalProperties": False,
    "properties": {
        "file_name": {"type": "string"},
        "line": {"type": "integer", "minimum": 1},
        "column": {"type": "integer", "minimum": 1},
        "function": {"type": "string"},
    },
}
METADATA = {
    "type": "object",
    "required": ["format_version", "uuid", "creation_time", "producer", "task"],
    "additionalProperties": False,
    "properties": {
        "format_version": {"const": "2.0"},
        "uuid": {"type": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
        "creation_time": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"},
        "producer": {
            "type": "object",
            "required": ["name", "version"],
            "additionalProperties": False,
            "properties": {
                key: {"type": "string"}
                for key in ("name", "version", "configuration", "command_line", "description")
            },
        },
        "task": {
            "type": "object",
            "additionalProperties": False,
            "required": [
                "input_files",
                "input_file_hashes",
                "specification",
                "data_model",
                "language",
            ],
            "properties": {
                "input_files": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                "input_file_hashes": {
                    "type": "object",
                    "additionalProperties": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                },
                "specification": {"type": "string"},
                "data_model": {"enum": ["ILP32", "LP64"]},
                "language": {"const": "C"},
            },
        },
    },
}
INVARIANT = {
    "type": "object",
    "required": ["invariant"],
    "additionalProperties": False,
    "properties": {
        "invariant": {
            "type": "object",
            "required": ["type", "location", "value", "format"],
            "additionalProperties": False,
            "properties": {
                "type": {"enum": ["loop_invariant", "location_invariant"]},
                "location": LOCATION,
                "value": {"type": "string", "minLength": 1},
                "format": {"const": "c_expression"},
            },
        }
    },
}


def waypoint(action: str, *kinds: str) -> dict:
    """The schema of a waypoint of these kinds."""
    return {
        "type": "object",
        "required": ["waypoint"],
        "additionalProperties": False,
        "properties": {"waypoint": {"oneOf": [WAYPOINTS[kind](action) for kind in kinds]}},
    }


def of_kind(kind: str, constraint: dict | None, action: str) -> dict:
    """The schema of what a waypoint of a kind holds."""
    stated = {"type": {"const": kind}, "action": {"const": action}, "location": LOCATION}
    if constraint is not None:
        stated["constraint"] = {
            "type": "object",
            "required": list(constraint),
            "additionalProperties": False,
            "properties": constraint,
        }
    return {
        "type": "object",
        "required": list(stated),
        "additionalProperties": False,
        "properties": stated,
    }


# What a constraint says depends on the kind: a condition in C, the branch that is taken, the value
# that a function returns. The other kinds have none.
CONSTRAINTS = {
    "assumption": {"value": {"type": "string"}, "format": {"const": "c_expression"}},
    "branching": {
        "value": {"anyOf": [{"type": "integer"}, {"enum": ["true", "false", "default"]}]}
    },
    "function_return": {
        "value": {"type": "string", "pattern": r"^\\result *(<|<=|>|>=|==|!=) *-?\d+$"},
        "format": {"const": "acsl_expression"},
    },
    "function_enter": None,
    "target": None,
}
WAYPOINTS = {kind: partial(of_kind, kind, stated) for kind, stated in CONSTRAINTS.items()}
PASSED = [kind for kind in CONSTRAINTS if kind != "target"]


def segment(*last: str) -> dict:
    """The schema of a segment: waypoints to avoid, then one to follow, of one of these kinds."""
    waypoints = {
        "type": "array",
        "minItems": 1,
        "items": {"anyOf": [waypoint("avoid", *PASSED), waypoint("follow", *last)]},
        "contains": waypoint("follow", *last),
        "maxContains": 1,
    }
    return {
        "type": "object",
        "required": ["segment"],
        "additionalProperties": False,
        "properties": {"segment": waypoints},
    }


def schema(kind: str, item: dict, fewest: int) -> dict:
    """The schema of a witness that is one entry of a kind."""
    return {
        "type": "array",
        "minItems": 1,
        "maxItems": 1,
        "items": {
            "type": "object",
            "required": ["entry_type", "metadata", "content"],
            "additionalProperties": False,
            "properties": {
                "entry_type": {"const": kind},
                "metadata": METADATA,
                "content": {"type": "array", "items": item, "minItems": fewest},
            },
        },
    }


SCHEMAS = {
    "invariant_set": schema("invariant_set", INVARIANT, 1),
    "violation_sequence": schema("violation_sequence", segment(*CONSTRAINTS), 1),
}
FINAL = segment("target")

TRUE = """int main(void) {
  int x = 0;
  int n = __VERIFIER_nondet_int();
  __VERIFIER_assume(n >= 0);
  while (x < n) { x = x + 1; }
  __VERIFIER_assert(x == n);
}
"""
FALSE = TRUE.replace("assert(x == n)", "assert(x < 4)")
OPEN = "int o();\n" + TRUE.replace("x < n)", "o() && x < n)").replace("x == n)", "x <= n)")


def validate(made: list, kind: str) -> None:
    """Hold a witness to the schema, and its segments to their order: only the last has a target."""
    jsonschema.validate(made, SCHEMAS[kind])
    if kind == "violation_sequence":
        *others, last = (item for entry in made for item in entry["content"])
        jsonschema.validate(last, FINAL)
        for item in others:
            jsonschema.validate(item, segment(*PASSED))
            assert item["segment"][-1]["waypoint"]["action"] == "follow"


def test_the_schema_accepts_a_witness_of_the_authors_of_the_format():
    """Their hand-made witness is valid; without its target, or with two, it is not."""
    text = Path(__file__).with_name("format_witness.yml").read_text(encoding="utf-8")
    theirs = yaml.load(text, yaml.BaseLoader)
    for place in (item["segment"] for item in theirs[0]["content"]):
        for point in (item["waypoint"] for item in place):  # as YAML has it: numbers
            point["location"] = {
                k: int(v) if v.isdigit() else v for k, v in point["location"].items()
            }
    validate(theirs, "violation_sequence")
    content = theirs[0]["content"]
    for wrong in (content[:-1], [content[-1], *content]):
        with pytest.raises(jsonschema.ValidationError):
            validate([{**theirs[0], "content": wrong}], "violation_sequence")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("text", "kind", "status"),
    [
        (TRUE, "invariant_set", 0),
        (FALSE, "violation_sequence", 1),
        (OPEN, "invariant_set", 0),
        (FALSE.replace("x < n)", "x < n && x++ < n)"), "violation_sequence", 1),
    ],
    ids=["true", "false", "true, written anew", "false, written anew"],
)
def test_witnesses_are_of_the_published_form(text, kind, status, tmp_path, capsys):
    """What is written for a verdict satisfies the schema, and names the very file by its digest."""
    (tmp_path / "program.c").write_text(text)
    out = tmp_path / "out" / "witness.yml"
    assert main([str(tmp_path / "program.c"), "--witness", str(out)]) == status
    made = yaml.safe_load(out.read_text())
    validate(made, kind)
    (entry,) = made
    hashes = entry["metadata"]["task"]["input_file_hashes"]
    assert hashes == {"program.c": sha256(text.encode()).hexdigest()}


def test_an_invariant_stands_at_its_loop(tmp_path, capsys):
    """The invariant of the counter is a C expression at the line of the `while`."""
    (tmp_path / "program.c").write_text(TRUE)
    main([str(tmp_path / "program.c"), "--witness", str(tmp_path / "w.yml")])
    ((entry,)) = yaml.safe_load((tmp_path / "w.yml").read_text())
    (invariant,) = [item["invariant"] for item in entry["content"]]
    assert invariant["value"] == "x <= n"
    assert invariant["location"]["line"] == 5


def test_a_violation_has_the_values_at_the_loop_and_its_line(tmp_path, capsys):
    """The run reaches the loop with the values that are told, and fails at the assertion's line."""
    (tmp_path / "program.c").write_text(FALSE)
    main([str(tmp_path / "program.c"), "--witness", str(tmp_path / "w.yml")])
    (entry,) = yaml.safe_load((tmp_path / "w.yml").read_text())
    first, last = [item["segment"][0]["waypoint"] for item in entry["content"]]
    values = dict(re.findall(r"(\w+) == (\d+)", first["constraint"]["value"]))
    assert first["location"]["line"] == 5
    assert values["x"] == "0"
    assert int(values["n"]) >= 4
    assert (last["type"], last["location"]["line"]) == ("target", 6)


@pytest.mark.long
def test_nothing_is_claimed_of_a_program_that_was_written_anew(tmp_path, capsys):
    """Where loops and names are not those of the text, the witness names no invariant or value."""
    for text in (OPEN, FALSE.replace("x < n)", "x < n && x++ < n)")):
        (tmp_path / "program.c").write_text(text)
        main([str(tmp_path / "program.c"), "--witness", str(tmp_path / "w.yml")])
        (entry,) = yaml.safe_load((tmp_path / "w.yml").read_text())
        (item,) = entry["content"]
        if entry["entry_type"] == "invariant_set":  # which must hold one, so it says what is true
            assert (item["invariant"]["type"], item["invariant"]["value"]) == (
                "location_invariant",
                "1",
            )
        else:
            (only,) = item["segment"]
            assert only["waypoint"]["type"] == "target"


def test_no_verdict_has_no_witness(tmp_path, capsys):
    """A program that is not covered gets no witness, and the exit status of what is unknown."""
    (tmp_path / "program.c").write_text("int main(void) { float x; }")
    status = main([str(tmp_path / "program.c"), "--witness", str(tmp_path / "w.yml")])
    assert status == 2
    assert not (tmp_path / "w.yml").exists()
