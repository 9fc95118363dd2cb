"""`loop-invariants` tells an outcome for every file, whatever becomes of the others."""

import json
import os
import signal
from pathlib import Path

import pytest
from helpers.compiled import needs_gcc
from helpers.marks import long

from loop_invariants.cli import verify_command
from loop_invariants.cli.main import main
from loop_invariants.verification.result import BUILTIN_SOURCES, Outcome, VerificationResult

NAMES = ("a", "b", "c", "d", "e")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / f"{name}.c").write_text("int main(void) { return 0; }")
    return tmp_path


def dying(file: Path, **_: object) -> VerificationResult:
    """Die as a process does to which the system gives no more memory."""
    if file.stem in ("b", "d"):
        os.kill(os.getpid(), signal.SIGKILL)
    return VerificationResult(Outcome.VERIFIED)


def out_of_memory(*_: object) -> VerificationResult:
    raise MemoryError


@pytest.mark.parametrize("jobs", [2, *long(1, 5)])
def test_a_worker_that_dies_ends_its_file_alone(programs, jobs, monkeypatch, capsys) -> None:
    """Each file whose worker dies is named as killed, and all others have their outcome."""
    monkeypatch.setattr(verify_command, "_verify_file", dying)
    assert main([str(programs), "--jobs", str(jobs)]) == 2
    *lines, total = capsys.readouterr().out.splitlines()
    told = {line.split("\t")[0]: line for line in lines}
    assert sorted(told) == list(NAMES)
    for name, line in told.items():
        expected = "killed" if name in ("b", "d") else "verified"
        assert line.split("\t")[1] == expected
    assert "because memory ran out" in told["b"]
    assert "3 verified, 2 killed" in total


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_ctrl_c_leaves_the_verdicts_so_far(programs, form, monkeypatch, capsys) -> None:
    """After Ctrl-C the summary counts the programs that have a verdict, and the status is 130."""

    def iter_some(verify, files, jobs):
        yield files[0], VerificationResult(Outcome.FALSE)
        yield files[1], VerificationResult(Outcome.VERIFIED)
        raise KeyboardInterrupt

    monkeypatch.setattr(verify_command, "_iter_results", iter_some)
    assert main([str(programs), *form]) == 130
    out, err = capsys.readouterr()
    assert err == "interrupted\n"
    if form:
        printed = json.loads(out)
        assert (printed["complete"], len(printed["programs"])) == (False, 2)
    else:
        assert "interrupted: 2 of 5 programs have a verdict" in out.splitlines()[-1]


def test_memory_that_runs_out_is_told(programs, monkeypatch, capsys) -> None:
    """A program that needs more memory than the machine has ends with a message."""
    monkeypatch.setattr("loop_invariants.verification.portfolio.read_original_text", out_of_memory)
    assert main([str(programs / "a.c")]) == 2
    assert "killed" in (line := capsys.readouterr().out)
    assert "more memory than the machine has" in line


MIXED = {
    "false": "int main() { int n; assume(n > 0); int i = 0; while (i < n) i++; assert(i < 3); }",
    "true": "int main() { int i = 0; while (i < 9) i++; assert(i == 9); }",
    "unread": "int main() { float x = 0; }",
}


SILENT = {
    "no loop": "int main(void) { return 0; }",
    "a loop": "int main(void) { int i = 0; while (i < 9) i++; return 0; }",
    "an index": "int main(void) { int a[3]; for (int i = 0; i < 3; i++) a[i] = i; }",
    "a pointer": "int main(void) { int x; int *p = &x; if (unknown()) p = 0; if (p) *p = 1; }",
    "an array of any length": "int main(void) { int n = 3; int a[n]; a[2] = 1; }",
    "a function that is not called": "void f(int x) { assert(x); } int main(void) { return 0; }",
    "a remark": "int main(void) { int x = 0; /* assert(x == 0); */ // assert(x == 0);\n}",
    "a text": 'int main(void) { printf("assert(0)"); return 0; }',
    "a check without a body": "void check(int); int main(void) { int x = 0; check(x); }",
    "a check that ends the run": "void check(int c) { if (!c) exit(1); } int main() { check(0); }",
    "a macro": "#define assert(x)\nint main(void) { int x = 0; assert(x == 1); }",
    "an assumption": "int main(void) { int x; assume(x > 0); }",
    "a failure that is only declared": "void reach_error(void); int main(void) { return 0; }",
}


@pytest.mark.few(3)
@pytest.mark.parametrize("case", SILENT)
@pytest.mark.parametrize("asked", ["assert", "reach"])
def test_a_program_without_assertion_is_not_verified(case, asked, tmp_path, capsys) -> None:
    """Where no called function asserts anything, there is no verdict, and a status 2."""
    (tmp_path / "p.c").write_text(SILENT[case])
    assert main([str(tmp_path / "p.c"), "--property", asked, "--json"]) == 2
    (told,) = json.loads(capsys.readouterr().out)["programs"]
    assert (told["outcome"], told["verdict"]) == ("no assertion", "unknown")
    assert told["message"] == (
        "p: no called function has a known assertion or failure call; add one, or name it by "
        "--errors"
    )


STATED = {
    "a dead branch": "int main(void) { if (0) assert(0); }",
    "behind the end": "int main(void) { return 0; assert(0); }",
    "a remark of ACSL": "int main(void) { int x = 0; //@ assert x == 0;\n}",
    "a called function": "void f(int x) { assert(x); } int main(void) { f(1); }",
    "a constant": "int main(void) { assert(1); }",
    "a failure": "int main(void) { int x = 0; if (x) reach_error(); }",
}


@pytest.mark.few(1)
@pytest.mark.parametrize("case", STATED)
def test_an_assertion_that_is_never_reached_is_verified(case, tmp_path, capsys) -> None:
    """An assertion counts wherever a called function contains it, reached by a run or not."""
    (tmp_path / "p.c").write_text(STATED[case])
    assert main([str(tmp_path / "p.c")]) == 0
    assert capsys.readouterr().out.split("\t")[1] == "verified"


def test_what_c_forbids_needs_no_assertion(tmp_path, capsys) -> None:
    """A run out of an array is false without an assertion, and overflow is asked of any text."""
    (tmp_path / "p.c").write_text("int main(void) { int a[3]; int i = 3; a[i] = 1; }")
    (tmp_path / "q.c").write_text("int main(void) { return 0; }")
    assert main([str(tmp_path / "p.c")]) == 1
    asked = ["--property", "no-overflow", "--semantics", "int32"]
    assert main([str(tmp_path / "q.c"), *asked]) == 0


@pytest.mark.long
@pytest.mark.parametrize(("names", "status"), [(("true", "silent"), 2), (("false", "silent"), 1)])
def test_a_program_without_assertion_hides_among_no_others(names, status, tmp_path, capsys) -> None:
    """One program without assertion leaves a directory without the status of verified ones."""
    for name in names:
        (tmp_path / f"{name}.c").write_text(MIXED.get(name, SILENT["a loop"]))
    assert main([str(tmp_path)]) == status
    assert "1 no assertion" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("names", "status"), [(("true",), 0), (("true", "unread"), 2), (tuple(MIXED), 1)]
)
def test_the_exit_status_tells_the_verdict(names, status, tmp_path, capsys) -> None:
    """0 if all are verified, 1 if one is false, 2 if there is no verdict on one."""
    for name in names:
        (tmp_path / f"{name}.c").write_text(MIXED[name])
    assert main([str(tmp_path)]) == status


def test_json_holds_what_is_printed(tmp_path, capsys) -> None:
    """One JSON object has verdicts, invariants with line and sources, and the run that fails."""
    for name, text in MIXED.items():
        (tmp_path / f"{name}.c").write_text(text)
    assert main([str(tmp_path), "--json", "--semantics", "integers"]) == 1
    told = json.loads(capsys.readouterr().out)
    by_name = {p["program"]: p for p in told["programs"]}
    assert {n: p["verdict"] for n, p in by_name.items()} == {
        "false": "false",
        "true": "true",
        "unread": "unknown",
    }
    (invariant,) = by_name["true"]["invariants"]
    assert (invariant["line"], invariant["text"]) == (1, "i <= 9")
    heads = [event["values"] for event in by_name["false"]["run"] if "values" in event]
    assert [head["i"] for head in heads] == list(range(heads[0]["n"] + 1))
    assert heads[0]["n"] >= 3


def counted(file: Path, **_: object) -> VerificationResult:
    """Verify a program whose text does not contain `bad`, and write its name to a file."""
    with (file.parent / "verified.txt").open("a") as output:
        output.write(f"{file.stem}\n")
    outcome = Outcome.FALSE if "bad" in file.read_text() else Outcome.VERIFIED
    return VerificationResult(outcome)


def pop_verified(programs: Path) -> list[str]:
    """Return the names of the programs that were verified since the last call."""
    file = programs / "verified.txt"
    names = sorted(file.read_text().split()) if file.exists() else []
    file.unlink(missing_ok=True)
    return names


def test_json_lines_have_a_line_for_each_program(tmp_path, monkeypatch, capsys) -> None:
    """`--jsonl` prints the records of `--json`, one a line, and the summary apart from them."""
    monkeypatch.setattr(verify_command, "_verify_file", counted)
    for name in ("bad", "good"):
        (tmp_path / f"{name}.c").write_text(f"// {name}")
    assert main([str(tmp_path), "--jsonl"]) == 1
    captured = capsys.readouterr()
    records = [json.loads(line) for line in captured.out.splitlines()]
    assert {r["program"]: r["verdict"] for r in records} == {"bad": "false", "good": "true"}
    assert "2 programs over int32: 1 " in captured.err
    with pytest.raises(SystemExit):
        main([str(tmp_path), "--jsonl", "--json"])


def test_a_resumed_run_verifies_the_other_programs_only(programs, monkeypatch, capsys) -> None:
    """Programs of the file are skipped, and count in the summary and in the exit status."""
    monkeypatch.setattr(verify_command, "_verify_file", counted)
    (programs / "b.c").write_text("bad")
    log = programs / "verdicts.jsonl"
    resumed = [str(programs), "--jobs", "1", "--resume", str(log)]
    assert main([str(programs / "b.c"), "--resume", str(log)]) == 1
    pop_verified(programs)
    # the line of a killed run
    with log.open("a") as output:
        output.write('{"program": "a", "file')
    capsys.readouterr()
    assert main(resumed) == 1
    assert pop_verified(programs) == ["a", "c", "d", "e"]
    *lines, total = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["a", "c", "d", "e"]
    assert total == f"5 programs over int32, 1 of them from {log}: 4 verified, 1 false"
    assert [json.loads(line)["program"] for line in log.read_text().splitlines()] == [*"bacde"]
    assert main([*resumed, "--json"]) == 1
    assert pop_verified(programs) == []
    found = json.loads(capsys.readouterr().out)
    assert [record["program"] for record in found["programs"]] == list(NAMES)
    assert found["summary"] == {"verified": 4, "false": 1}


def test_a_changed_question_is_not_resumed(programs, monkeypatch) -> None:
    """Another text, header or setting is verified again, and so is what memory ended."""
    monkeypatch.setattr(verify_command, "_verify_file", counted)
    (programs / "c.c").write_text('#include "h.h"')
    (programs / "h.h").write_text("")
    resumed = [str(programs), "--jobs", "1", "--resume", str(programs / "v.jsonl")]
    main(resumed)
    assert pop_verified(programs) == list(NAMES)
    (programs / "b.c").write_text("int main(void) { return 1; }")
    (programs / "h.h").write_text("int x;")
    main(resumed)
    assert pop_verified(programs) == ["b", "c"]
    main([*resumed, "--semantics", "integers"])
    assert pop_verified(programs) == list(NAMES)
    monkeypatch.setattr(verify_command, "_verify_file", dying)
    main([*resumed, "--seconds", "7"])
    monkeypatch.setattr(verify_command, "_verify_file", counted)
    main([*resumed, "--seconds", "7"])
    assert pop_verified(programs) == ["b", "d"]


@pytest.mark.parametrize("content", ["int main(void) {}", "3\n", '{"a": 1}\n', "{\n{\n"])
def test_a_file_without_verdicts_is_not_resumed(content, programs, capsys) -> None:
    """A file with other lines stays as it is, and the message names it."""
    log = programs / "other.txt"
    log.write_text(content)
    assert main([str(programs), "--resume", str(log)]) == 3
    assert f"{log}: it contains other lines than verdicts; name" in capsys.readouterr().err
    assert log.read_text() == content


def test_a_violation_is_printed_as_a_run(tmp_path, capsys) -> None:
    """Below the verdict stand the values drawn, the values at each loop's head, and what fails."""
    (tmp_path / "false.c").write_text(MIXED["false"])
    main([str(tmp_path / "false.c")])
    first, *run = capsys.readouterr().out.splitlines()
    assert first.startswith("false\tfalse\t")
    assert run[0].startswith("    n draws ")
    assert any(event.endswith("line 1, loop: i = 0, n = " + run[0].split()[-1]) for event in run)
    assert run[-1] == "    line 1: the assertion fails"


@pytest.mark.long
@needs_gcc
def test_a_run_too_long_to_write_down_has_its_inputs_in_the_message(tmp_path, capsys) -> None:
    """Only the compiled program makes ten million rounds, which have no line each."""
    path = tmp_path / "late.c"
    path.write_text(
        "int main() { int n = __VERIFIER_nondet_int(), i = 0; __VERIFIER_assume(n == 7);"
        "while (i < 10000000) i++; assert(i < 10000000); }"
    )
    assert main([str(path), "--json"]) == 1
    (told,) = json.loads(capsys.readouterr().out)["programs"]
    assert told["message"] == "late: line 1: the assertion fails with the inputs 7"
    assert (told["kind"], told["inputs"], told["run"]) == ("assertion", [7], [])


def test_numbers_without_borders_are_not_asked_for_overflow(tmp_path, capsys) -> None:
    """Overflow is a question about machine integers, and it is answered there."""
    (tmp_path / "p.c").write_text("int main() { int i = 2147483647; i = i + 1; }")
    asked = [str(tmp_path / "p.c"), "--property", "no-overflow"]
    assert main([*asked, "--semantics", "integers"]) == 3
    assert "--semantics int32" in capsys.readouterr().err
    assert main(asked) == 1


NAMED = """
struct word { unsigned number : 4, rest : 4; };
int main(void) {
    struct word w = {0, 0};
    for (int i = 0; i < 3; i++) w.number++;
    klee_assert(w.number == VALUE);
    return 0;
}
"""


@pytest.mark.long
@needs_gcc
def test_named_errors_have_verdicts_of_the_search(tmp_path, capsys):
    """A text that the front end refuses is decided by all its runs, with the names' meaning."""
    for value, status, outcome in ((3, 0, "verified"), (4, 1, "false")):
        (tmp_path / "p.c").write_text(NAMED.replace("VALUE", str(value)))
        arguments = [str(tmp_path / "p.c"), "--semantics", "int32", "--errors", "klee"]
        assert main([*arguments, "--json"]) == status
        (told,) = json.loads(capsys.readouterr().out)["programs"]
        assert told["outcome"] == outcome
        assert told["all_runs"] is (outcome == "verified")


def test_wrong_names_of_errors_are_refused(tmp_path, capsys):
    """A name that is neither a set nor a function or label ends with a message."""
    (tmp_path / "p.c").write_text("int main(void) { return 0; }")
    assert main([str(tmp_path / "p.c"), "--errors", "mine"]) not in (0, 1)
    assert "--errors" in capsys.readouterr().err


def test_a_missing_tool_is_the_outcome_of_its_programs(tmp_path, monkeypatch, capsys):
    """Without ESBMC a run still decides programs, and the others name the tool."""
    monkeypatch.setenv("ESBMC", "/nowhere/esbmc")
    for name, text in MIXED.items():
        (tmp_path / f"{name}.c").write_text(text)
    assert main([str(tmp_path), "--json", "--semantics", "integers"]) == 1
    found = {p["program"]: p for p in json.loads(capsys.readouterr().out)["programs"]}
    assert found["false"]["outcome"] == "false"
    assert found["true"]["outcome"] == "esbmc error"
    assert "not at /nowhere/esbmc" in found["true"]["message"]


NO_C = {
    "a null character": "int main(void) { return 0; }\0",
    "an apostrophe in a word": "This isn't a program, and it won't be.",
    "a mail address": "write to me@example.org",
    "Markdown": "Some `code` here",
    "Python": "# a comment\ndef main():\n    return 0\n",
    "a script": "#!/bin/sh\necho 1\n",
    "a dash": "A page — not found",
    "letters beyond ASCII": "Schöner Text, der kein Programm ist.",
    "JSON": '{"a": 1}',
}


@pytest.mark.few(3)
@pytest.mark.parametrize("case", NO_C)
def test_a_text_that_is_no_c_is_unreadable(case, tmp_path, capsys):
    """A file of another language or kind is unreadable, not unsupported."""
    (tmp_path / "p.c").write_text(NO_C[case])
    assert main([str(tmp_path / "p.c")]) == 2
    assert capsys.readouterr().out.split("\t")[1] == "unreadable"


@pytest.mark.parametrize("constant", ["L'a'", "u'a'", "U'a'", "é"])
def test_c_beyond_the_covered_part_is_unsupported(constant, tmp_path, capsys):
    """C with wide characters or other letters is C, of which nothing is proven."""
    (tmp_path / "p.c").write_text(f"int main(void) {{ int x = {constant}; assert(x); }}")
    assert main([str(tmp_path / "p.c"), "--semantics", "integers"]) == 2
    assert capsys.readouterr().out.split("\t")[1] == "unsupported"


def test_a_device_is_not_read_to_its_end(capsys):
    """A file without an end is too large."""
    assert main(["/dev/zero"]) == 2
    assert "larger than 1,000,000 bytes" in capsys.readouterr().out


SUM = """extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);
int main(void) {
    int n = __VERIFIER_nondet_int(), i = 0, s = 0;
    __VERIFIER_assume(n >= 0);
    while (i < n) { s += i; i++; }
    assert(2 * s == n * (n - 1));
}
"""


def test_a_given_invariant_is_proven_and_named(tmp_path, capsys):
    """The invariants of a person prove the program, and the line names their source."""
    (tmp_path / "sum.c").write_text(SUM)
    given = ["line 6: 2*s == i*(i-1)", "line 6: i >= 0 && i <= n"]
    options = [part for text in given for part in ("--invariant", text)]
    path = str(tmp_path / "sum.c")
    sources = [part for source in BUILTIN_SOURCES for part in ("--without", str(source))]
    assert main(["prove", path, "--semantics", "integers", *options, *sources]) == 0
    assert capsys.readouterr().out.count("[given]") == 2
    assert main(["prove", path, "--invariant", "line 7: i <= n"]) == 3
    assert "name one of the lines 6" in capsys.readouterr().err


@needs_gcc
def test_a_line_names_the_semantics_and_the_assumptions(tmp_path, capsys):
    """A proof that rests on another file's function says so."""
    text = "extern int sensor(void); int main(void) { int x = sensor(); assert(x == x); }"
    (tmp_path / "p.c").write_text(text)
    assert main([str(tmp_path / "p.c")]) == 0
    _, outcome, _, semantics, details = capsys.readouterr().out.split("\t")
    assert (outcome, semantics) == ("verified", "int32")
    assert details.startswith("all runs searched; assuming that sensor returns any value")
