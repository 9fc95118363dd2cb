"""Stored results are compared only with cases that ask the same, and the rest is listed."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from helpers.suites import load, run, words_model, write_suite

from llmchecker.errors import ConfigError
from llmchecker.suites.fingerprint import Fingerprints
from llmchecker.suites.html_page import format_html
from llmchecker.suites.json_lines import iter_lines, read_results
from llmchecker.suites.junit import format_junit
from llmchecker.suites.load import load_suite
from llmchecker.suites.markdown_summary import format_markdown
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.selection import select_by_name
from llmchecker.suites.terminal_table import format_table
from llmchecker.utils.interval import Interval

CASE = {"name": "won", "start": "once", "require": {"he": "P>=0.5 [ F he = 1 ]"}}
PROPERTIES = {"he": {"type": "pattern", "pattern": " he"}}
ROWS = "start,answer\nonce, he\nonce she, she\n"


def compare(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> SuiteResult:
    """Store the results of a suite, and compare another suite with them."""
    log = folder / "old.jsonl"
    log.unlink(missing_ok=True)
    files = {"rows_csv": ROWS}
    run(load_suite(write_suite(folder, {"properties": PROPERTIES, **old}, **files)), log=log)
    suite = write_suite(folder, {"properties": PROPERTIES, **new}, **files)
    return run(load_suite(suite, has_baseline=True), words_model(0.5), baseline=log)


def list_missing(result: SuiteResult) -> list[tuple[str, str]]:
    return [(missing.name, missing.reason) for missing in result.not_compared]


def list_differences(result: SuiteResult) -> list[str]:
    return [a.name for a in result.aggregates if a.kind == "difference"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ({"length": 2}, {"length": 3}, "length 2 → 3"),
        ({"start": "once"}, {"start": "once she"}, "prompt"),
        (
            {"require": {"he": "P>=0.5 [ F he = 1 ]"}},
            {"require": {"he": "P>=0.5 [ G he = 0 ]"}},
            "query P=? [ F he = 1 ] → P=? [ G he = 0 ]",
        ),
        (
            {"start": "once", "length": 2},
            {"start": "once she", "length": 1},
            "prompt, length 2 → 1",
        ),
    ],
)
def test_a_case_that_asks_something_else_is_not_compared(tmp_path, old, new, reason):
    """A changed prompt, query or length is listed by name, and has no difference."""
    result = compare(tmp_path, {"cases": [CASE | old]}, {"cases": [CASE | new]})
    assert list_missing(result) == [("won: he", reason)]
    assert list_differences(result) == []


def test_a_quantifier_counts_by_its_settings_and_the_content_of_its_files(tmp_path):
    """Another pattern, and other words in a file, are other questions; a moved file is not."""
    other = {"properties": {"he": {"type": "pattern", "pattern": "he"}}, "cases": [CASE]}
    assert list_missing(compare(tmp_path, {"cases": [CASE]}, other)) == [
        ("won: he", "quantifier he")
    ]
    words = {"properties": {"he": {"type": "words", "file": "list.txt"}}, "cases": [CASE]}
    found = []
    for name, content in (("a", "he\n"), ("b", "he\n"), ("c", "she\n")):
        folder = tmp_path / name
        folder.mkdir()
        found.append(dict(Fingerprints(load_suite(write_suite(folder, words, list_txt=content)))))
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {"decoding": {"temperature": 1, "top_k": 3}}),
        ({"seed": 1, "budget": {"passes": 50}, "confidence": 0.9}, {}),
        ({"cases": [CASE]}, {"cases": [CASE | {"require": {"he": "P<=0.75 [ F he = 1 ]"}}]}),
        ({"cases": [CASE | {"require": {"he": "P>=0.5 [F (he=1)]"}}]}, {}),
    ],
)
def test_a_deployment_and_a_threshold_may_differ(tmp_path, old, new):
    """Decoding, seed, budget, confidence, threshold and spaces do not change what a case asks."""
    result = compare(tmp_path, {"cases": [CASE], **old}, {"cases": [CASE], **new})
    assert list_missing(result) == []
    assert list_differences(result) == ["won: he"]


def test_a_system_prompt_may_differ_but_not_that_of_the_messages(tmp_path):
    """The system prompt of the suite is the deployment's; one in `messages` is the prompt's."""

    def fingerprint(**keys: Any) -> Any:
        case = {"require": {"he": "P>=0.5 [ F he = 1 ]"}, **keys.pop("case")}
        (found,) = Fingerprints(load(tmp_path, [case], properties=PROPERTIES, **keys)).values()
        return found

    user = {"user": "So?"}
    plain = fingerprint(case=user)
    assert fingerprint(case=user, system="Be brief.") == plain
    own = [{"system": "Be brief."}, user]
    assert fingerprint(case={"messages": own}) != plain
    assert fingerprint(case={"messages": [user]}) == plain


def test_new_and_old_cases_are_listed(tmp_path):
    """A case without a stored result, and a stored result without a case, are both listed."""
    result = compare(
        tmp_path, {"cases": [CASE]}, {"cases": [CASE | {"name": "lost"}, CASE | {"name": "won"}]}
    )
    assert list_missing(result) == [("lost: he", "no stored result")]
    result = compare(tmp_path, {"cases": [CASE]}, {"cases": [CASE | {"name": "lost"}]})
    assert list_missing(result) == [
        ("lost: he", "no stored result"),
        ("won: he", "not in this suite"),
    ]


def test_an_average_needs_all_of_its_rows(tmp_path):
    """An average over rows of which one changed has no difference, and the row is counted."""
    table = {
        "name": "table",
        "prompts": "rows.csv",
        "average": {"he": "mean P=? [ F he = 1 ]"},
    }
    log = tmp_path / "old.jsonl"
    keys = {"properties": PROPERTIES, "cases": [table]}
    run(load_suite(write_suite(tmp_path, keys, rows_csv=ROWS)), log=log)
    changed = ROWS.replace("once she", "once it")
    suite = load_suite(write_suite(tmp_path, keys, rows_csv=changed), has_baseline=True)
    result = run(suite, baseline=log)
    assert list_missing(result) == [("table: he", "prompt (1 of 2 rows)")]
    assert list_differences(result) == []


def test_a_required_difference_that_is_not_compared_is_unknown(tmp_path):
    """A requirement on a difference does not vanish with its stored results."""
    versus = {"model": "m", "require": {"he": "difference >= -1"}}
    result = compare(tmp_path, {"cases": [CASE]}, {"cases": [CASE], "length": 2, "versus": versus})
    assert list_missing(result) == [("won: he", "length 3 → 2")]
    (difference,) = [a for a in result.aggregates if a.kind == "difference"]
    assert difference.measurement.sampled == Interval(-1, 1)


def test_a_case_that_failed_to_run_is_not_compared(tmp_path):
    """Neither side of a difference is the trivial interval of an error."""
    old = {"cases": [CASE | {"start": "twice"}]}
    result = compare(tmp_path, old, old)
    assert list_missing(result) == [("won: he", "failed to run")]
    lines = (tmp_path / "old.jsonl").read_text()
    assert '"ERROR"' in lines


def test_every_output_lists_what_is_not_compared(tmp_path):
    """Terminal, JSON lines, HTML, Markdown and JUnit have the name and the reason."""
    result = compare(tmp_path, {"cases": [CASE], "length": 6}, {"cases": [CASE], "length": 8})
    text = "not compared with old.jsonl: won: he: length 6 → 8"
    assert text in format_table(result).splitlines()
    assert text in format_html(result)
    assert "length 6 → 8" in format_markdown(result)
    root = ElementTree.fromstring(format_junit(result))
    assert root.findtext("testsuite/system-out") == text
    (line,) = [line for line in iter_lines(result) if "not_compared" in line]
    assert (line["not_compared"], line["reason"]) == ("won: he", "length 6 → 8")
    json.dumps(line)


def test_notes_are_few_on_a_terminal_and_inert(tmp_path):
    """Hundreds of notes are counted after the first 20, and have no control characters."""
    cases = [CASE | {"name": f"\x1b[31m{number}"} for number in range(30)]
    result = compare(tmp_path, {"cases": [CASE]}, {"cases": cases})
    lines = format_table(result).splitlines()
    assert sum("not compared with" in line for line in lines) == 20
    assert "… and 11 more notes" in lines
    assert "\x1b" not in format_table(result) + format_html(result) + format_markdown(result)


def test_each_model_is_compared_with_the_stored_one_of_its_name(tmp_path):
    """Several models have differences each; what only one side has is listed, or refused."""
    for name in ("n", "o", "p"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}", encoding="utf-8")
    shares = {"m": 0.125, "n": 0.25, "o": 0.5}
    log = tmp_path / "old.jsonl"

    def answer(models: list[str], **options: Any) -> SuiteResult:
        path = write_suite(tmp_path, {"model": models, "properties": PROPERTIES, "cases": [CASE]})
        suite = load_suite(path, has_baseline="baseline" in options)
        return run(suite, lambda name: words_model(shares[name]), **options)

    stored = answer(["m", "n"], log=log)
    same = answer(["m", "n"], baseline=log)
    assert list_missing(same) == []
    differences = [a for a in same.aggregates if a.kind == "difference"]
    assert [a.deployment for a in differences] == ["m − old.jsonl", "n − old.jsonl"]
    for difference, own, before in zip(differences, same.results, stored.results, strict=True):
        assert difference.measurement.certain == (own.measurement - before.measurement).certain
    assert stored.results[0].measurement.certain != stored.results[1].measurement.certain
    changed = answer(["m", "o"], baseline=log)
    assert list_missing(changed) == [
        ("won: he", "no stored result of this model"),
        ("n", "not in this suite"),
    ]
    with pytest.raises(ConfigError, match="has results of m and n, and the suite of o and p"):
        answer(["o", "p"], baseline=log)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"format": "llmchecker suite 2", "confidence": 0.99}, "'llmchecker suite 2', not"),
        ({"format": "mine"}, "no results of a suite"),
        ({"format": "llmchecker suite 10"}, "line 1: confidence: it is missing"),
    ],
)
def test_a_file_of_another_format_is_refused_by_name(tmp_path, header, message):
    """A baseline of an older version, of another program or without its keys is an error."""
    suite = load_suite(
        write_suite(tmp_path, {"properties": PROPERTIES, "cases": [CASE]}), has_baseline=True
    )
    log = tmp_path / "old.jsonl"
    run(suite, log=log)
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join([json.dumps(header) + "\n", *lines[1:]]))
    with pytest.raises(Exception, match=message) as raised:
        run(suite, baseline=log)
    assert "old.jsonl" in str(raised.value)


def test_a_log_of_an_older_format_is_not_continued(tmp_path):
    """A run does not continue results that an older version wrote, and leaves the file alone."""
    suite = load(tmp_path, [CASE], properties=PROPERTIES)
    log = tmp_path / "old.jsonl"
    log.write_text('{"format": "llmchecker suite 2"}\n')
    with pytest.raises(ConfigError, match="results of another version of llmchecker"):
        run(suite, log=log)
    assert log.read_text() == '{"format": "llmchecker suite 2"}\n'


def test_results_of_a_changed_word_list_are_not_continued(tmp_path):
    """A run evaluates a case again if a file of its quantifier changed in between."""
    content = {
        "properties": {"he": {"type": "words", "file": "list.txt"}},
        "cases": [CASE | {"require": {"he": "P>=0.5 [ F he > 0 ]"}}],
        "length": 1,
    }
    log = tmp_path / "log.jsonl"
    statuses = []
    # of the words he (0.25), she (0.25) and it (0.5)
    for words in ("he\n", "it\nshe\n"):
        suite = load_suite(write_suite(tmp_path, content, list_txt=words))
        statuses += [result.status for result in run(suite, log=log).results]
    assert statuses == ["VIOLATED", "HOLDS"]


REQUIRED = {"start": "once", "require": [{"contains": "he", "at_least": 0.5}]}


@pytest.mark.parametrize(
    "require",
    [
        [{"contains": "he", "at_least": 0.4}],
        [{"contains": "he", "at_most": 0.9}],
        [{"at_least": "0.50", "contains": "he"}],
        {"contains": "he", "at_least": 0.25},
        {"male": {"contains": "he", "at_least": 0.25}},
    ],
)
def test_a_threshold_in_a_generated_name_does_not_matter(tmp_path, require):
    """A requirement without a name has a difference, whatever its threshold and its new name."""
    result = compare(tmp_path, {"cases": [REQUIRED]}, {"cases": [REQUIRED | {"require": require}]})
    assert list_missing(result) == []
    (difference,) = [a for a in result.aggregates if a.kind == "difference"]
    (stored,) = read_results(tmp_path / "old.jsonl")
    assert difference.measurement.certain == (
        result.results[0].measurement.certain - stored.measurement.certain
    )


def test_a_threshold_of_a_query_without_a_name_does_not_matter(tmp_path):
    """A query in a list has a difference from the same query with another threshold."""
    old, new = (CASE | {"require": [f"P>={share} [ F he = 1 ]"]} for share in (0.5, 0.25))
    result = compare(tmp_path, {"cases": [old]}, {"cases": [new]})
    assert list_missing(result) == []
    assert list_differences(result) == ["won: P>=0.25 [ F he = 1 ]"]


def test_cases_and_rows_without_a_name_are_found_at_another_place(tmp_path):
    """An inserted case or row does not take the stored result of those after it."""
    other = REQUIRED | {"start": "once she"}
    result = compare(tmp_path, {"cases": [REQUIRED]}, {"cases": [other, REQUIRED]})
    assert list_missing(result) == [('case 1: contains "he", at least 0.5', "no stored result")]
    assert list_differences(result) == ['case 2: contains "he", at least 0.5']
    log = tmp_path / "rows.jsonl"
    keys = {"cases": [{"prompts": "rows.csv", "require": REQUIRED["require"]}]}
    for has_more in (False, True):
        rows = ROWS.replace("\n", "\nonce it, it\n", int(has_more))
        suite = load_suite(write_suite(tmp_path, keys, rows_csv=rows), has_baseline=has_more)
        result = run(suite, **{"baseline" if has_more else "log": log})
    assert [name.partition(":")[0] for name, _ in list_missing(result)] == ["case 1, row 1"]
    assert len(list_differences(result)) == 2


def test_two_thresholds_of_one_requirement_stay_two_cases(tmp_path):
    """Requirements that differ only in their thresholds are compared in their order."""
    old, new = (
        REQUIRED | {"require": [{"contains": "he", "at_least": share} for share in shares]}
        for shares in ((0.1, 0.9), (0.2, 0.9, 0.95))
    )
    result = compare(tmp_path, {"cases": [old]}, {"cases": [new]})
    assert list_differences(result) == [
        f'case 1: contains "he", at least {share}' for share in (0.2, 0.9)
    ]
    assert list_missing(result) == [('case 1: contains "he", at least 0.95', "no stored result")]


def test_a_part_of_a_suite_lists_only_what_the_suite_lacks(tmp_path):
    """A stored result of a case that is not selected is not one without a case."""
    cases = [CASE, CASE | {"name": "lost"}]
    path, log = write_suite(tmp_path, {"properties": PROPERTIES, "cases": cases}), tmp_path / "log"
    run(load_suite(path), log=log)
    suite = load_suite(path, has_baseline=True)
    result = run(suite, baseline=log, selected=select_by_name(suite, "lost"))
    assert (list_missing(result), list_differences(result)) == ([], ["lost: he"])
