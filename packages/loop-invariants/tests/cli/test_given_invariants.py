"""Invariants that people and models give, and the witness that takes them to other tools."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from helpers.compiled import needs_gcc, violations
from helpers.fake_server import running
from helpers.fake_writer import FakeWriter

import loop_invariants
from llmchecker.errors import ConfigError
from loop_invariants.cli.main import main
from loop_invariants.ir.expressions import Semantics
from loop_invariants.verification.result import Outcome

ROOT = Path(__file__).parents[4]
FRAMA_C, WHY3 = shutil.which("frama-c"), shutil.which("why3")
SUM = """#include <assert.h>
extern int __VERIFIER_nondet_int(void);
int main(void)
{
    int limit = __VERIFIER_nondet_int();
    int i = 0;
    while (i < limit)
        i++;
    assert(limit < 0 || i == limit);
    return 0;
}
"""
FILLED = """extern int __VERIFIER_nondet_int(void);
int main(void)
{
    int n = __VERIFIER_nondet_int(), i = 0, k, a[10];
    if (n > 10) n = 10;
    __invariant(i >= 0);
    __invariant(__forall(&k, !(k >= 0 && k < i) || a[k] == 7));
    while (i < n) { a[i] = 7; i++; }
    if (n > 3) __ESBMC_assert(a[2] == 7, "filled");
    return 0;
}
"""
GIVEN = "limit < 0 || i <= limit"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "sum.c"
    path.write_text(SUM)
    return path


def test_a_wrong_invariant_proves_nothing(program) -> None:
    """A given condition that is no invariant is part of no proof."""
    program.write_text(SUM.replace("i == limit", "i == limit + 1"))
    wrong = loop_invariants.prove(program, invariants=["line 7: i == limit + 1"])
    assert wrong.outcome is Outcome.FALSE
    assert not wrong.invariants


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("i <= limit", "names no line"),
        ("line 3: i <= limit", "no loop begins there; name one of the lines 7"),
        ("line 7: j <= limit", "'j'"),
        ("line 7: 3", "compares no variable"),
        ("line 7: i++", "an increment"),
    ],
)
def test_an_unusable_invariant_is_refused(given, message, program) -> None:
    """An invariant without a loop, or that is no condition on its variables, is named."""
    with pytest.raises(ConfigError, match=r"^invariant '") as caught:
        loop_invariants.prove(program, invariants=[given])
    assert message in str(caught.value)


@pytest.mark.long
def test_a_quantified_invariant_of_the_text_is_used(tmp_path) -> None:
    """`__invariant(__forall(...))` before a loop is a candidate like ESBMC's own function."""
    path = tmp_path / "filled.c"
    path.write_text(FILLED)
    result = loop_invariants.prove(path, semantics="integers")
    assert result.outcome is Outcome.VERIFIED
    assert any("forall" in each.text for each in result.invariants)


@pytest.mark.long
@needs_gcc
def test_a_witness_holds_in_compiled_runs(program, capsys) -> None:
    """The witness states each invariant at its loop, and compiled runs at that place agree."""
    target = program.with_suffix(".yml")
    assert main([str(program), "--witness", str(target)]) == 0, capsys.readouterr()
    (entry,) = yaml.safe_load(target.read_text())
    assert entry["entry_type"] == "invariant_set"
    assert entry["metadata"]["task"]["specification"] == "CHECK( init(main()), LTL(G assert) )"
    stated = [each["invariant"] for each in entry["content"]]
    assert stated
    lines = SUM.splitlines()
    for each in stated:
        line = each["location"]["line"] - 1
        # the condition is evaluated before each evaluation of the guard
        assert lines[line].lstrip().startswith("while (")
        condition = f"__VERIFIER_assert({each['value']})"
        lines[line] = lines[line].replace("while (", f"while ({condition}, ", 1)
    declared = "\n".join(["extern void __VERIFIER_assert(int);", *lines])
    assert violations(declared, Semantics.INT32, program.parent) == 0
    wrong = declared.replace("__VERIFIER_assert((", "__VERIFIER_assert(!(")
    assert violations(wrong, Semantics.INT32, program.parent)


ASSIGNED = {"clock": "minute, hour", "count_to_limit": "count", "transfer": "first, second"}
"""What the loop of a program of resources/programs/ changes."""
CONTRACT = "/*@ assigns \\nothing; ensures c != 0; */ extern void __VERIFIER_assume(int c);"


@pytest.mark.long
@pytest.mark.skipif(FRAMA_C is None or WHY3 is None, reason="there is no Frama-C with Why3")
@pytest.mark.parametrize("name", ASSIGNED)
def test_frama_c_proves_what_a_witness_states(name, tmp_path, capsys) -> None:
    """Frama-C, which shares no code with the proof, proves each invariant and the assertions."""
    source = ROOT / f"resources/programs/{name}.c"
    target = tmp_path / "witness.yml"
    assert main([str(source), "--witness", str(target)]) == 0, capsys.readouterr()
    (entry,) = yaml.safe_load(target.read_text())
    lines = source.read_text().splitlines()
    places = {each["invariant"]["location"]["line"] for each in entry["content"]}
    (line,) = places
    stated = "".join(f"loop invariant {each['invariant']['value']}; " for each in entry["content"])
    lines.insert(line - 1, f"/*@ {stated}loop assigns {ASSIGNED[name]}; */")
    text = "\n".join(lines).replace("extern void __VERIFIER_assume(int);", CONTRACT)
    annotated = tmp_path / "annotated.c"
    annotated.write_text(text)
    environment = os.environ | {"HOME": str(tmp_path)}
    subprocess.run([WHY3, "config", "detect"], env=environment, capture_output=True, check=True)
    command = [FRAMA_C, "-wp", "-wp-prover", "z3", "-wp-timeout", "20", annotated]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    proved, goals = re.search(r"Proved goals: +(\d+) / (\d+)", told).groups()
    assert proved == goals, told
    # one goal for each claim that an invariant holds at first, and one that it stays
    assert int(goals) > 2 * len(entry["content"])


@pytest.mark.parametrize(
    ("changes", "options", "reason"),
    [
        ({"i == limit": "i == limit + 1"}, [], "a witness needs a proof"),
        ({}, ["--semantics", "integers"], "none of the C program"),
    ],
)
def test_no_witness_is_written_without_a_proof_of_c(
    changes, options, reason, program, capsys
) -> None:
    """A witness that would claim more than was proved is not written, and the reason is said."""
    text = SUM
    for old, new in changes.items():
        text = text.replace(old, new)
    program.write_text(text)
    target = program.with_suffix(".yml")
    main([str(program), "--witness", str(target), *options])
    assert reason in capsys.readouterr().err
    assert not target.exists()


def test_a_model_proposes_invariants_from_the_shell(program, monkeypatch, capsys) -> None:
    """`--model` asks a model of the configuration, and its condition carries the proof."""
    monkeypatch.chdir(program.parent)
    with running(FakeWriter(lambda prompt: f"{GIVEN});\nint")) as address:
        Path("config.yaml").write_text(
            "models:\n  writer: { label: Writer, source: 'server:"
            f"{address}', api: openai-completions }}\n"
        )
        status = main(
            [str(program), "--model", "writer", "--answers", "1", "--semantics", "integers"]
        )
    line, errors = capsys.readouterr()
    assert status == 0, line + errors
    assert "[sampled" in line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--answers", "3"], "--answers: no model answers; add --model"),
        (["--seed", "3"], "--seed: no model answers; add --model"),
        (["--model", "nobody"], "--model: 'nobody' is no model"),
    ],
)
def test_settings_of_a_model_need_one(options, message, program, monkeypatch, capsys) -> None:
    """Settings of answers without a model, and unknown models, are refused before any proof."""
    monkeypatch.chdir(program.parent)
    assert main([str(program), *options]) == 3
    assert message in capsys.readouterr().err
