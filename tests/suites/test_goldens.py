"""One golden file for each renderer: rows of every kind, as a reader of its output sees them.

`WRITE_GOLDENS=1 pytest tests/suites/test_goldens.py` writes the files anew; read their differences.
"""

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.conversations import ChatTable, chat_table
from helpers.suites import OpenTable, load

import llmchecker as lc
from llmchecker import __version__
from llmchecker.errors import UnusableText
from llmchecker.suites.html_page import format_html
from llmchecker.suites.json_lines import iter_lines
from llmchecker.suites.junit import format_junit
from llmchecker.suites.markdown_summary import format_markdown
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.sarif import format_sarif
from llmchecker.suites.session import run_suite
from llmchecker.suites.terminal_table import format_table
from llmchecker.suites.verdicts import Status

GOLDENS = Path(__file__).parent / "goldens"
DATE = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
LEAKS = {"leaks": {"type": "pattern", "pattern": "c"}}

CASES = [
    {
        "name": "one",
        "user": "ab",
        "require": {
            "holds": "P<=0.9 [ F leaks = 1 ]",
            "violated": {"contains": "c", "at_least": 0.9},
            "vacuous": "P>=0 [ F leaks = 1 ]",
            "both": "P>=0 [ F leaks = 1 ] & P>=0.1 [ F leaks = 1 ]",
        },
    },
    {
        "name": "open",
        "user": "ba",
        "length": 30,
        "budget": {"passes": 9},
        "require": ["P>=0.5 [ F (G leaks = 1) ]"],
    },
    {"name": "broken", "user": "bbbb", "require": [{"contains": "c", "at_least": 0.5}]},
    {
        "name": "rows",
        "prompts": "rows.csv",
        "require": [{"not_contains": "{never}", "at_least": 0.3}],
        "average": {
            "mean": "mean P=? [ F leaks = 1 ] <= 0.8",
            "worst": "worst P=? [ F leaks = 1 ] <= 0.1",
        },
        "by": "topic",
    },
    {
        "name": "talk",
        "turns": [{"user": "ab"}, {"user": "c{answer 1}a"}],
        "require": ["P>=0.5 [ G leaks = 0 ]"],
    },
]
ROWS = "user,topic,never\nab,x,c\nba,x,b\ncc,y,a\n"
TEXTS = {
    "length": 5,
    "budget": {"answers": 60},
    "cases": [
        {
            "name": "capital",
            "user": "Where?",
            "require": {"paris": {"contains": "Paris", "at_least": 0.5}},
        },
        {"name": "rome", "user": "Where?", "require": [{"contains": "Rome", "at_least": 0.5}]},
        {"name": "always", "user": "Where?", "require": [{"contains": "Paris", "at_least": 1}]},
    ],
}


class Table(ChatTable):
    """A table that cannot read one prompt."""

    def encode(self, start):
        if "bbbb" in str(start):
            raise UnusableText("table: the prompt has no place here; shorten it")
        return super().encode(start)


def build_table(seed: int) -> Table:
    """A table of letters whose end is drawn soon."""
    table = chat_table(seed, is_truncated=True)
    table.__class__ = Table
    return table


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, SuiteResult]:
    """Suites of a table and of texts alone, with every status and kind of row."""
    folder = tmp_path_factory.mktemp("suite")
    versus = {
        "model": "other",
        "require": {"mean": "difference >= -0.05", "holds": "difference <= 0.9"},
    }
    (folder / "other").mkdir()
    (folder / "other/config.json").write_text("{}")
    suite = load(folder, CASES, {"rows_csv": ROWS}, properties=LEAKS, length=2, versus=versus)
    seeds = {"m": 7}
    found = {
        "a table": run_suite(
            suite, open_model=lambda each: OpenTable(build_table(seeds.get(each.name, 8)))
        )
    }
    (folder / "texts.yaml").write_text(yaml.safe_dump(TEXTS, sort_keys=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        application = lc.texts(lambda messages: "Paris", name="app", concurrency=1)
        found["texts alone"] = lc.suite("texts.yaml", models=[application]).run().result
    statuses = {entry.status for each in found.values() for entry in lc.SuiteReport(each).entries}
    assert statuses == set(Status) - {Status.UNFINISHED, Status.UNREAD}
    return found


def round_numbers(value: Any) -> Any:
    """The same value with rounded numbers, whose last digits differ between machines."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        left_out = ("seconds", "history", "versions")
        return {key: round_numbers(each) for key, each in value.items() if key not in left_out}
    return [round_numbers(each) for each in value] if isinstance(value, list) else value


def format_json_lines(result: SuiteResult) -> str:
    """The keys of all lines, without times, intervals of rounds and versions."""
    lines = (round_numbers(json.loads(json.dumps(line))) for line in iter_lines(result))
    return "\n".join(
        f"{key}: {json.dumps(value, ensure_ascii=False)}"
        for line in lines
        for key, value in line.items()
    )


def format_page(result: SuiteResult) -> str:
    """The page without its style and its script, which no row changes."""
    page = format_html(result, DATE)
    return re.sub(r"(?s)<(style|script)\b.*?</\1>\n*", "", page)


def format_notebook(result: SuiteResult) -> str:
    """The views of the answers of a suite in a notebook."""
    answers = (each.answer for each in result.results)
    return "\n".join(each._repr_html_() for each in answers if each is not None)


RENDERERS: dict[str, Callable[[SuiteResult], str]] = {
    "terminal.txt": format_table,
    "page.html": format_page,
    "summary.md": format_markdown,
    "junit.xml": lambda result: format_junit(result).decode(),
    "results.sarif": lambda result: json.dumps(round_numbers(format_sarif(result)), indent=1),
    "notebook.html": format_notebook,
    "results.jsonl": format_json_lines,
}


def hide_surroundings(text: str) -> str:
    """The text without times, versions, folders and digests."""
    for pattern, name in (
        (r"(file://)?(/[\w.-]+)+/(?=(suite|texts)\.yaml)", "FOLDER/"),
        (re.escape(__version__), "VERSION"),
        (r"\b20\d\d-\d\d-\d\d\b", "DAY"),
        (r"\b[0-9a-f]{16,64}\b", "DIGEST"),
        (r'(?<=time=")[0-9.]+', "SECONDS"),
        (r"\b[0-9.]+(?= (s|ms|min|seconds?)\b)", "SECONDS"),
    ):
        text = re.sub(pattern, name, text)
    return text


@pytest.mark.parametrize("name", RENDERERS)
def test_a_renderer_writes_its_golden_file(name, results):
    """Statuses, figures, warnings, averages, groups, differences and turns are as in the file."""
    parts = [f"===== {kind}\n{RENDERERS[name](result)}\n" for kind, result in results.items()]
    written = hide_surroundings("".join(parts))
    path = GOLDENS / name
    if os.environ.get("WRITE_GOLDENS"):
        path.write_text(written, encoding="utf-8")
    assert written == path.read_text(encoding="utf-8")
