"""Suites of many rows: a case is built when it is needed, and pages are divided."""

import gc
import html.parser
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import unquote

import pytest
from helpers.suites import load, run, write_suite

from llmchecker.errors import ConfigError, LLMCheckerError
from llmchecker.interfaces.cli.main import main
from llmchecker.suites import html_page, runner
from llmchecker.suites.case_builder import CaseBuilder
from llmchecker.suites.cases import Suite
from llmchecker.suites.html_page import write_html
from llmchecker.suites.load import load_suite
from llmchecker.suites.prompt_forms import FormRows
from llmchecker.suites.runner import select_shard
from llmchecker.trees.shards import Shard

CASE = {
    "start": "{start}",
    "prompts": "rows.csv",
    "require": {"right {note}": {"contains": "{answer}", "at_least": 0.1}},
}
ROWS = 40


def write_rows(**changed: str) -> str:
    """A table whose last row may have other cells."""
    rows = [
        {"start": "once", "answer": f"he{n}", "note": f"n{n}", "unused": "u"} for n in range(ROWS)
    ]
    rows[-1] |= changed
    return "\n".join([",".join(rows[0]), *(",".join(row.values()) for row in rows)]) + "\n"


@pytest.fixture
def built(monkeypatch) -> list[str]:
    """The rows whose questions were built, in order."""
    found: list[str] = []
    build = CaseBuilder._build_content

    def record(self, plan):
        found.append("" if plan.prompt.row is None else plan.prompt.row.cells["answer"])
        return build(self, plan)

    monkeypatch.setattr(CaseBuilder, "_build_content", record)
    return found


def write(folder: Path, case: dict | None = None, **changed: str) -> Path:
    return write_suite(folder, {"cases": [case or CASE]}, rows_csv=write_rows(**changed))


def test_the_selected_cases_and_the_first_row_are_built(tmp_path, built):
    """A suite has the names of all rows, and builds the selected ones besides the first."""
    path = write(tmp_path)
    chosen = load_suite(path, select=lambda suite: [c for c in suite.cases if c.row == 30])
    assert built == ["he0", "he29"]
    assert [case.name for case in chosen.cases] == [
        f"case 1, row {n + 1}: right n{n}" for n in range(ROWS)
    ]
    whole = load_suite(path)
    assert built[2:] == [f"he{n}" for n in range(ROWS)]
    assert chosen.digest == whole.digest
    assert chosen.cases[20].question == whole.cases[20].question


@pytest.mark.parametrize("key", ["at_least", "model"])
def test_rows_with_their_own_kind_of_requirement_are_all_built(tmp_path, built, key):
    """Where a cell decides a threshold or the file of a quantifier, each row represents itself."""
    (tmp_path / "list.txt").write_text("he\n")
    case = {**CASE, "require": {"contains": "he", "at_least": "{level}"}}
    keys = {}
    rows = write_rows().replace("note", "level").replace(",n", ",0.")
    if key == "model":
        case = {**CASE, "require": ["P>=0.1 [ F own = 1 ]"]}
        keys = {"properties": {"own": {"type": "words", "file": "{unused}"}}}
        rows = write_rows(unused="list.txt").replace(",u\n", ",list.txt\n")
    path = write_suite(tmp_path, {"cases": [case], **keys}, rows_csv=rows)
    suite = load_suite(path, select=lambda suite: [])
    assert len(built) == ROWS
    assert suite.representatives == suite.cases


def test_an_invalid_cell_ends_the_suites_that_ask_about_it(tmp_path):
    """The message has the row; a suite that does not ask about the row is valid."""
    path = write(tmp_path, {**CASE, "start": "{start}"}, start=" ")
    load_suite(path, select=lambda suite: suite.cases[:5])
    with pytest.raises(
        ConfigError, match=rf"rows.csv, row {ROWS}, column start: the text is empty"
    ):
        load_suite(path)


@pytest.mark.parametrize("is_enabled", [True, False])
def test_a_load_gives_garbage_collections_back(tmp_path, is_enabled):
    """Collections pause while a suite is loaded, and are as before after it and after an error."""
    path = write(tmp_path)
    try:
        (gc.enable if is_enabled else gc.disable)()
        load_suite(path, select=lambda suite: [])
        assert gc.isenabled() is is_enabled
        with pytest.raises(ConfigError):
            load_suite(write(tmp_path, start=" "))
        assert gc.isenabled() is is_enabled
    finally:
        gc.enable()


def test_the_digest_has_the_cells_of_all_rows(tmp_path):
    """Any cell of any row counts, whether its question was built or not, and the settings."""
    case = {**CASE, "require": ["P>=0.1 [ F own = 1 ]"]}

    def digest(pattern: str = "{answer}", **changed: str) -> str:
        properties = {"own": {"type": "pattern", "pattern": pattern}}
        content = {"cases": [case], "properties": properties}
        path = write_suite(tmp_path, content, rows_csv=write_rows(**changed))
        return load_suite(path, select=lambda suite: []).digest

    digests = [digest(), digest("x{answer}"), digest(answer="she"), digest(start="twice")]
    assert len(set(digests)) == 4
    assert digest() == digests[0]
    # an application may get any column
    assert digest(unused="v") not in digests


def test_shards_divide_the_cases(tmp_path, built):
    """Each case is in one shard, all requirements of a row in the same, and a shard builds its own
    rows and the first."""
    path = write(
        tmp_path,
        {**CASE, "require": [*({"contains": text, "at_least": 0.1} for text in ("he", "it"))]},
    )
    parts = []
    for number in range(3):
        suite = load_suite(path, select=lambda suite, n=number: select_shard(suite, Shard(n, 3)))
        parts.append({case.key for case in select_shard(suite, Shard(number, 3))})
        rows = {row.removeprefix("he") for row in built}
        assert rows == {"0", *(str(n) for n in range(number, ROWS, 3))}
        built.clear()
    assert set.union(*parts) == {case.key for case in suite.cases}
    assert sum(map(len, parts)) == len(suite.cases) == 2 * ROWS


FORMS = {"start": ["once", " he", " it"], "answer": [" he", " she"], "note": ["a", "b", "c", "d"]}


def test_forms_are_all_combinations(tmp_path):
    """Rows are the product of the texts, in the order of loops; of any number, one is built."""
    prompts = {"forms": FORMS, "rows": 24}
    case = CASE | {"prompts": prompts, "average": {"worst": "worst P=? [ F x = 1 ] <= 0.9"}}
    x = {"x": {"type": "pattern", "pattern": "{answer}"}}
    suite = load(tmp_path, [case], properties=x)
    combined = [dict(zip(FORMS, texts, strict=True)) for texts in product(*FORMS.values())]
    averaged = [each for each in suite.cases if each.is_measured]
    assert [case.question.prompt for case in averaged] == [each["start"] for each in combined]
    parts = [select_shard(suite, Shard(number, 5)) for number in range(5)]
    assert sorted(case.name for part in parts for case in part) == sorted(
        case.name for case in suite.cases
    )
    result = run(suite, is_measuring=True)
    (worst,) = result.aggregates
    assert (worst.status, worst.read) == ("HOLDS", 24)
    many = FormRows({str(column): "0123456789" for column in range(12)})
    number = 908_070_605_040
    assert "".join(many[number].cells.values()) == f"{number:012}"
    assert (len(many), many[number].number) == (10**12, number + 1)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ({}, "source: it is missing; name a table, or write forms"),
        ({"forms": FORMS, "source": "path:rows.csv"}, "source: forms are no file"),
        ({"forms": {"a": ["x", "x"]}}, "forms.a: a text occurs twice"),
        ({"forms": {"a": ["x"], " a": ["y"]}}, "the columns need different names"),
        ({"forms": {}}, "the columns need different names"),
        ({"forms": {str(n): list("0123456789") for n in range(7)}}, "10,000,000 combinations"),
        ({"forms": FORMS, "rows": 25}, "the number of rows is 24, not 25"),
    ],
)
def test_forms_that_are_no_table_are_refused(tmp_path, prompts, message):
    """Texts without a combination, too many of them, and keys of a file are errors by name."""
    with pytest.raises(LLMCheckerError, match=re.escape(message)):
        load(tmp_path, [CASE | {"prompts": prompts}])


@pytest.mark.long
def test_shards_keep_their_bits_where_few_prompts_decide_the_beginning(
    tmp_path, random_model, monkeypatch
):
    """Prompts that do not begin as the chosen ones have the same bits in any part of a suite."""
    monkeypatch.setattr(runner, "_MAX_PROMPTS", 2)
    monkeypatch.setattr(runner, "_MAX_BUILT", 3)
    starts = ["The exam", "The exam went well", "The exam went", "The player", "The exam went on"]
    rows = "start\n" + "\n".join(starts) + "\n"
    case = {"start": "{start}", "prompts": "rows.csv", "require": ["P>=0.5 [ F right = 1 ]"]}
    suite = load(
        tmp_path,
        [case],
        {"rows_csv": rows},
        properties={"right": {"type": "pattern", "pattern": "e"}},
        model=str(random_model("llama")),
        budget={"passes": 20},
    )

    def measure(**options) -> dict[str, object]:
        results = runner.iter_results(suite, _build_opener(suite), None, **options)
        return {found.case: found.measurement for found in results}

    whole = measure()
    parts = [measure(shard=Shard(number, 2)) for number in range(2)]
    assert parts[0] | parts[1] == whole
    assert len(whole) == len(starts)


def _build_opener(suite: Suite):
    from llmchecker.config.opening import open_model

    return lambda deployment: open_model(deployment.model, suite.expansion, None)


class _Links(html.parser.HTMLParser):
    """The links to pages, and the rows, of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: dict[str, Path] = {}
        self.rows: list[str] = []
        self._folder = path.parent
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "a" and " page" in (found.get("aria-label") or ""):
            self.links[found["aria-label"].split()[0]] = (
                self._folder / unquote(found["href"])
            ).resolve()
        if tag == "tr" and "id" in found:
            self.rows.append(found["id"])


def _walk(path: Path) -> Iterator[_Links]:
    """The pages from the first on, as their links go."""
    page = _Links(path)
    yield page
    while "next" in page.links:
        page = _Links(page.links["next"])
        yield page


def test_pages_are_divided_and_linked(tmp_path, monkeypatch):
    """The links lead through all rows, each on one page; no page of a longer run stays."""
    suite = load(tmp_path, [CASE], {"rows_csv": write_rows()})
    result = run(suite)
    path = tmp_path / "a b.html"
    monkeypatch.setattr(html_page, "_MAX_ROWS", 9)
    write_html(result, path)
    pages = list(_walk(path))
    assert len(pages) == 5
    assert sorted(row for page in pages for row in page.rows) == sorted(
        f"row{n + 1}" for n in range(ROWS)
    )
    last = (tmp_path / "a b.rows/5.html").resolve()
    assert pages[0].links == {"next": last.with_name("2.html"), "last": last}
    assert pages[4].links == {"first": path.resolve(), "previous": last.with_name("4.html")}
    assert pages[1].links["previous"] == path.resolve()
    monkeypatch.setattr(html_page, "_MAX_ROWS", 30)
    write_html(result, path)
    assert [file.name for file in (tmp_path / "a b.rows").iterdir()] == ["2.html"]
    monkeypatch.setattr(html_page, "_MAX_ROWS", 100)
    write_html(result, path)
    assert not list((tmp_path / "a b.rows").iterdir())
    assert not _Links(path).links


def test_a_large_file_of_cases_names_the_key_of_tables(tmp_path):
    """A suite file that is too large is refused with the key that takes its rows."""
    path = write(tmp_path)
    path.write_text(path.read_text() + "#" * 5_000_001)
    with pytest.raises(ConfigError, match="move the rows to a table, and name it by `prompts`"):
        load_suite(path)


def test_the_filter_checks_the_cases_that_it_finds(tmp_path, built, capsys):
    """The command builds the first row and the found one, and an unknown name ends it."""
    path = write(tmp_path)
    assert main(["test", str(path), "--filter", "no such row"]) == 3
    assert built == []
    assert "no case of suite has" in capsys.readouterr().err
