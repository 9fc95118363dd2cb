"""The page of results, opened in a browser as a reader opens it, without a network."""

import csv
import html
import io
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest
from helpers import suites
from helpers.trees import by_hand, full
from PIL import Image
from playwright.sync_api import Browser, Page

from llmchecker.checking import storm
from llmchecker.checking.answer import Answer, Costs, Sampled
from llmchecker.checking.check import check_query
from llmchecker.checking.decision import Outcome
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.config.plan import Check, TableRow, TreeSpec
from llmchecker.errors import DamagedFile
from llmchecker.interfaces.snakemake.suite_jobs import build_suites_table
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.properties.logic.ast import Probability
from llmchecker.properties.logic.parser import parse
from llmchecker.reporting import figures, html_report, tables
from llmchecker.reporting.paper.audit import audit, build_audit_table
from llmchecker.reporting.paper.claims import build_claims_table
from llmchecker.reporting.paper.comparison import build_comparison_table
from llmchecker.reporting.paper.published_table import read_published_figure, read_published_rows
from llmchecker.reporting.query_wording import describe_query
from llmchecker.reporting.table_io import format_heading, write_table
from llmchecker.reporting.tables import AnsweredRow
from llmchecker.reporting.tree_drawing import escape_unprintable
from llmchecker.suites.html_page import write_html
from llmchecker.trees.text_tree import Horizon, StateKind, TextTree, Truncation
from llmchecker.utils.interval import TRUTHS, Interval
from llmchecker.utils.number_format import format_lower, format_upper

ROOT = Path(__file__).parents[2]
START = '<b>He</b> & "she" said:\n\t'
AWKWARD = [
    "<script>document.title = 'overrun'</script>",
    "<img src=https://example.org/x onerror=alert(1)>",
    '" onclick="alert(1)',
    "a\nb\r\u2028c",
    "🙂👩‍👩‍👧 選手",
    "שלום \u202e dlrow",
    "{{ 7 * 7 }} {% raw %} ]]>&amp;",
]
QUERIES = ["P=? [ F gender > 0 ]", "P>=0.1875 [ F gender > 0 ]", 'R{"gender"}=? [ I=1 ]']
LABELS = {"one": "One <1>", "two": 'Two "2"'}
SHOWN_QUERIES = [query for query in QUERIES for _ in LABELS]


def awkward_tree() -> TextTree:
    """Texts that are easily mistaken for markup, the first of which goes on."""
    count = len(AWKWARD)
    states = [(0, 0.125, StateKind.TEXT), *[(0, 0.125, StateKind.END)] * (count - 1)]
    states += [(0, 1 - 0.125 * count, StateKind.REST)]
    states += [(1, 0.5, StateKind.END), (1, 0.25, StateKind.TEXT), (1, 0.25, StateKind.REST)]
    tree = by_hand(states, length=2)
    texts = [START, *(START + text for text in AWKWARD), None]
    texts += [texts[1] + "!", texts[1] + " he", None]
    tree.text[:] = texts
    return tree


TREE = awkward_tree()
GENDER = np.array([0, 0, 1, 0, 0, 0, 0, -1, 0, 0, 2, 0])
POSITIVE = [2, 10]  # the first states above 0 on their paths


ESTIMATE = Sampled(Interval(0.203125, 0.25), 0.21875, 0.99, 1200)
"""An invented estimate within the certain bounds of the probability, [0.15625, 0.3125]."""


def results() -> list[AnsweredRow]:
    """Every query of every model, with the verdicts that Storm gives."""
    scores = {"gender": GENDER}
    found = []
    for query in map(parse, QUERIES):
        answer = check_query(ScoredTree(TREE, scores, {"gender": (None, None)}), query)
        if query.root.__class__ is Probability:
            answer = answer.with_samples(ESTIMATE)
        for model, label in LABELS.items():
            check = Check(TreeSpec(model, "awkward", TREE.truncation), query)
            found.append((TableRow("<i>Label</i>", "A & B", check, label, START), answer))
    return found


def render(answer: Answer, details: Mapping[str, str] | None = None) -> str:
    """The page of one answer on the awkward tree."""
    return html_report.render_answer(answer, LABELS["one"], START, TREE.truncation, details or {})


def write_suite(directory: Path) -> Path:
    """Write the verdict of a suite with an awkward name; return its file."""
    folder = directory / "suites/chat"
    folder.mkdir(parents=True)
    case = {"name": "<b>won</b>", "start": "once", "require": {"ends": "P>=0.5 [ F step = 2 ]"}}
    suites.run(suites.load(folder, [case]), log=folder / "results.jsonl")
    (folder / "results.html").touch()
    return folder / "results.jsonl"


def write_results(directory: Path, found: list[AnsweredRow]) -> None:
    """Write the files of a run, by the functions by which the workflow writes them."""
    findings = audit(read_published_rows(ROOT / "resources/published/table2.csv"))
    published = [
        read_published_figure(ROOT / f"resources/published/figure{number}.csv", ["model", *columns])
        for number, columns in ((3, ["k", "mass"]), (4, ["noun", "value"]))
    ]
    made = {
        "table1": tables.build_table1({"awkward": START, "empty": "", "number": "3.14159265"}),
        "table2": tables.build_table2(found),
        "claims": build_claims_table(findings, found, *published),
        "comparison": build_comparison_table(findings, found),
        "audit": build_audit_table(findings),
        "suites": build_suites_table([str(write_suite(directory))], {"m": LABELS["one"]}),
    }
    for name, table in made.items():
        write_table(table, [directory / f"tables/{name}.csv"])
    mass = pd.DataFrame({"model": ["<One>"] * 2, "k": [1, 2], "mass": [0.25, 0.5]})
    mass = mass.assign(lower_quartile=[0.125, 0.25], upper_quartile=[0.5, 0.75])
    (directory / "figures").mkdir()
    figures.write_figure(figures.draw_mass_figure(mass), [directory / "figures/figure3.svg"])
    for check in (row.check for row, _ in found):
        for path in (f"prism/{check.tree}/gender.prism", f"checks/{check}.json"):
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).touch()


def page_of(directory: Path, found: list[AnsweredRow], **changes) -> Path:
    """Write the page beside its results."""
    view = (
        html_report.build_tree_view(found[0][0], ScoredTree(TREE, {"gender": GENDER}))
        if found
        else None
    )
    parts = {
        "answers": found,
        "tables": [
            directory / f"tables/{name}.csv" for name in html_report._TITLES if name[0] != "f"
        ],
        "figures": [directory / "figures/figure3.svg"],
        "captions": sorted((ROOT / "workflow/report").glob("*.rst")),
        "view": view,
        "provenance": {"models": {"one": {"sha256": "<0123>"}}, "date": "2026-01-01"},
    }
    path = directory / "report.html"
    path.write_text(html_report.render_report(**parts | changes), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """The page of a small run."""
    directory = tmp_path_factory.mktemp("results")
    found = results()
    write_results(directory, found)
    return page_of(directory, found)


@pytest.mark.parametrize("name", ["tables/table2.csv", "tables/audit.csv", "figures/figure3.svg"])
def test_a_table_or_figure_that_was_cut_is_found(written, name, tmp_path):
    """A page with a table that lost a row, or with a figure that lost its end, is not made."""
    shutil.copytree(written.parent, tmp_path, dirs_exist_ok=True)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: content[:-1].rindex(b"\n") + 1])
    with pytest.raises(DamagedFile, match=rf"{Path(name).name}: damaged or from an older version"):
        page_of(tmp_path, results())


def opened(browser: Browser, path: Path, **settings) -> SimpleNamespace:
    """A page in a window of its own, and what it complained about and asked for."""
    page = browser.new_context(**settings).new_page()
    seen = SimpleNamespace(page=page, complaints=[], requests=[])
    page.on("console", lambda message: seen.complaints.append(message.text))
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("dialog", lambda dialog: (seen.complaints.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: seen.requests.append(request.url))
    page.goto(path.as_uri())
    # what a reader may open
    page.evaluate("for (const fold of document.querySelectorAll('details.fold')) fold.open = true")
    return seen


@pytest.fixture
def shown(browser, written) -> Iterator[SimpleNamespace]:
    """The page in a wide window."""
    seen = opened(browser, written, viewport={"width": 1440, "height": 900})
    yield seen
    seen.page.context.close()


@pytest.fixture
def page(shown) -> Page:
    return shown.page


def state(page: Page, uid: int):
    """What stands in the line of a state."""
    return page.locator(f'.tree li[data-uid="{uid}"]').locator("summary, .leaf").first


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.long
def test_the_page_asks_for_nothing_and_complains_of_nothing(shown, written):
    """Whatever is opened, no request leaves, no script fails, and no text runs as one."""
    for summary in shown.page.locator("details.witnesses summary").all():
        summary.click()
    for button in shown.page.locator("button").all():
        button.click()
    loaded = [url for url in shown.requests if not url.startswith("data:")]
    assert loaded == [written.as_uri()]
    assert shown.complaints == []
    assert shown.page.title() == "LLMChecker: report"
    assert shown.page.locator("script").count() == 1


@pytest.mark.long
def test_a_request_would_be_noticed_and_forbidden(browser, written, tmp_path):
    """The test above can fail: what asks for a file is reported and forbidden by the policy."""
    asking = tmp_path / "asking.html"
    text = written.read_text(encoding="utf-8")
    asking.write_text(
        text.replace("</body>", '<img src="https://localhost/x"><script>alert(1)</script></body>'),
        encoding="utf-8",
    )
    seen = opened(browser, asking)
    assert len([line for line in seen.complaints if "Content Security Policy" in line]) == 2
    seen.page.context.close()


@pytest.mark.few(1)
@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_the_tree_opens_and_closes_on_a_click(browser, written, scripts):
    """A click on a state shows its children, and another hides them, even without scripts."""
    seen = opened(browser, written, java_script_enabled=scripts)
    first, child = state(seen.page, 1), state(seen.page, 10)
    # the script is not needed: a page without it has no buttons
    assert seen.page.locator(".buttons").is_visible() is scripts
    assert not child.is_visible()
    first.click()
    assert child.is_visible()
    first.click()
    assert not child.is_visible()
    seen.page.context.close()


@pytest.mark.long
def test_the_keyboard_opens_the_tree(page):
    """A state that has children can be opened without a mouse."""
    state(page, 1).focus()
    page.keyboard.press("Enter")
    assert state(page, 10).is_visible()


@pytest.mark.long
def test_buttons_open_what_they_say(page):
    """One button leads to every deciding state, one opens all states, one closes all."""
    page.get_by_text("Open to the deciding states").click()
    assert all(state(page, uid).is_visible() for uid in POSITIVE)
    page.get_by_text("Open all").click()
    assert page.locator(".tree li:visible").count() == len(TREE)
    page.get_by_text("Close all").click()
    assert page.locator(".tree li:visible").count() == 1


def test_the_tree_shows_texts_probabilities_scores_and_what_decides(page):
    """Each state has its text, probability and score; the deciding ones alone are marked."""
    assert page.locator(".tree li").count() == len(TREE)
    page.get_by_text("Open all").click()
    for uid in range(1, len(TREE)):
        line = state(page, uid)
        assert float(line.locator("data.given").get_attribute("value")) == TREE.probability[uid]
        known = bool(TREE.kind[uid] != StateKind.REST)
        assert line.locator(".score").all_inner_texts() == [f"gender {GENDER[uid]}"] * known
        before = TREE.text[TREE.parent[uid]]
        added = (
            escape_unprintable(TREE.text[uid].removeprefix(before)) if known else "any other token"
        )
        assert line.locator(".piece").text_content() == added
    marked = page.locator(".tree li:has(> * > .sign), .tree li:has(> * > summary > .sign)")
    uids = [int(line.get_attribute("data-uid")) for line in marked.all()]
    assert sorted(uids) == POSITIVE
    signs = page.locator(".tree .sign").all_inner_texts()
    assert all(sign.startswith("✓ satisfies the query") for sign in signs)
    masses = [float(sign.get_attribute("value")) for sign in page.locator(".sign data").all()]
    assert sum(masses) == results()[0][1].bounded


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["table1", "table2", "suites"])
def test_every_cell_is_that_of_the_csv(page, written, name):
    """Each figure is that of the file in all digits and is shown rounded; each text is its cell."""
    records = read_csv(written.parent / f"tables/{name}.csv")
    # a column without any cell is named below the table instead
    kept = [column for column in records[0] if any(record[column] for record in records)]
    left_out = [column for column in records[0] if column not in kept]
    columns = page.locator(f"#{name} thead th").all_text_contents()
    assert columns == [format_heading(column) for column in kept]
    note = page.locator(f"#{name} .frame + .note").inner_text()
    assert all(column in note for column in left_out)
    assert ("left out" in note) is bool(left_out)
    rows = page.locator(f"#{name} tbody tr").evaluate_all(
        """rows => rows.map(row => [...row.cells].map(cell =>
            [cell.textContent, cell.querySelector("data")?.value ?? null]))"""
    )
    figures_seen = 0
    for cells, record in zip(rows, records, strict=True):
        for (text, exact), column in zip(cells, kept, strict=True):
            cell = record[column]
            if exact is None:
                assert text == ("page" if column == "page" else escape_unprintable(cell))
                continue
            figures_seen += 1
            assert exact == cell, column
            if cell in ("True", "False"):
                assert text == cell.lower()
            else:
                places = {"encode_seconds": 5e-3, "check_seconds": 5e-4}.get(column, 0)
                assert float(text) == pytest.approx(float(cell), rel=5e-4, abs=places)
    assert figures_seen > 0 or name == "table1"


def place_of(drawn, attribute: str) -> float:
    """Where something is drawn on an axis from 0 to 1."""
    return float(drawn.get_attribute(attribute).removesuffix("%")) / 100


def layers_of(answer) -> dict[str, str]:
    """The figures of an answer by their names, in the order of the page."""
    rows = answer.locator(".layers > div").all()
    return {
        row.locator("dt").inner_text(): " ".join(row.locator("dd").inner_text().split())
        for row in rows
    }


def test_answers_come_first_and_the_bounded_figure_last(page):
    """Each answer has verdict, certain bounds, estimate and bounded figure, in this order."""
    for answer, query in zip(page.locator(".answer").all(), SHOWN_QUERIES, strict=True):
        bounded = {"P=": "probability", "P>": "verdict", "R{": "score"}[query[:2]]
        estimate = ["estimate"] if query[0] == "P" else []
        assert list(layers_of(answer)) == ["certain", *estimate, f"{bounded} (bounded)"]
        assert answer.locator(".badge").count() == (query[:2] == "P>")
        size, certain = (
            float(answer.locator(place).evaluate("e => parseFloat(getComputedStyle(e).fontSize)"))
            for place in (".bounded", ".certain")
        )
        assert size < certain


def test_estimates_stand_apart_from_what_is_certain(page, written):
    """The interval of each row is drawn thicker than the bounds, with a dot at the estimate, and
    has its confidence and samples; that of a threshold has the threshold next to it."""
    records = read_csv(written.parent / "tables/table2.csv")
    for answer, record in zip(page.locator(".answer").all(), records, strict=True):
        query = record["query"]
        estimate = layers_of(answer).get("estimate", "")
        if query.startswith("R"):
            assert answer.locator("svg").count() == 0
            continue
        assert estimate.endswith("[0.2031, 0.25] with confidence 0.99, 1,200 samples")
        assert [record[name] for name in ("low", "high", "samples")] == ["0.203125", "0.25", "1200"]
        interval = answer.locator("line.likely")
        assert [place_of(interval, x) for x in ("x1", "x2")] == [0.203125, 0.25]
        if query.startswith("P>="):
            assert estimate.startswith("probability in")
            assert place_of(answer.locator("line.threshold"), "x1") == 0.1875
            assert answer.locator(".badge").inner_text().endswith("HOLDS")
            continue
        assert estimate.startswith("0.2188 in")
        assert place_of(answer.locator("circle.estimate"), "cx") == 0.21875
        thick, thin = (
            float(line.evaluate("line => getComputedStyle(line).strokeWidth.slice(0, -2)"))
            for line in (interval, answer.locator(".bounds:not(.end)"))
        )
        assert thick >= 3 * thin


def test_answers_are_the_rows_of_table_2(page, written):
    """Each row's value and bounds equal those of the CSV in the answers, on the axis too."""
    records = read_csv(written.parent / "tables/table2.csv")
    answers = page.locator(".answer").all()
    assert len(answers) == len(records) == len(QUERIES) * len(LABELS)
    for answer, record in zip(answers, records, strict=True):
        assert answer.locator(".model").text_content() == record["model"]
        value = answer.locator(".result")
        interval = answer.locator(".interval").text_content()
        if record["query"].startswith("P=?"):
            low = format_lower(float(record["lower"]), digits=4)
            high = format_upper(float(record["upper"]), digits=4)
            assert value.locator("data").get_attribute("value") == record["value"]
            assert interval == f"[{low}, {high}]"
            ends = answer.locator(".bounds:not(.end)")
            assert place_of(answer.locator("svg.value"), "x") == pytest.approx(
                float(record["value"])
            )
            drawn = [place_of(ends, x) for x in ("x1", "x2")]
            assert drawn == pytest.approx([float(record["lower"]), float(record["upper"])])
        elif record["query"].startswith("P>="):
            words = {"True": "holds", "False": "violated"}
            unknown = record["lower"] != record["upper"]
            assert value.text_content() == words[record["value"]]
            assert interval == ("unknown" if unknown else words[record["lower"]])
        else:
            assert (record["lower"], record["upper"]) == ("-inf", "inf")
            assert interval == "[−∞, ∞]"


def test_filters_choose_answers_and_their_witnesses(page):
    """A choice leaves the answers and witnesses of one model, and a count of them."""
    select = page.locator("select[data-filter=model]")
    assert page.locator("select").count() == 1
    assert select.locator("option").all_inner_texts() == ["all", *LABELS.values()]
    select.select_option(label=LABELS["two"])
    models = page.locator(".answer:visible .model").all_text_contents()
    assert models == [LABELS["two"]] * len(QUERIES)
    assert page.locator("details.witnesses:visible").count() == len(QUERIES)
    assert page.locator("output").inner_text() == "3 of 6 answers"
    select.select_option(label="all")
    assert page.locator(".answer:visible").count() == 6


def with_interval(
    answered: AnsweredRow, interval: Interval, estimate: float = 0.21875
) -> AnsweredRow:
    """The answer with other samples."""
    row, answer = answered
    return row, replace(answer, sampled=replace(ESTIMATE, interval=interval, estimate=estimate))


def test_failures_and_misleading_figures_are_named(browser, written, tmp_path):
    """Violated requirements are named first; a bounded figure outside of the interval has its
    reason next to it, in the colour of the figure, as nobody is at fault."""
    shutil.copytree(written.parent, tmp_path, dirs_exist_ok=True)
    numeric, threshold = results()[0], results()[2]
    # a bounded figure that is an end of the interval does not mislead
    ends = with_interval(numeric, Interval(numeric[1].bounded, 0.25))
    low = with_interval(numeric, Interval(0.25, 0.3), 0.28)
    violated = with_interval(threshold, Interval(0.1, 0.15))
    seen = opened(browser, page_of(tmp_path, [ends, low, violated], view=None))
    (line,) = seen.page.locator(".remarks li").all_inner_texts()
    words = "Is the probability that gender > 0 eventually holds at least 0.1875?"
    assert line.endswith(f": {words} VIOLATED (with confidence 0.99)")
    assert seen.page.locator(".remarks a").get_attribute("href") == "#answer2"
    remark = seen.page.locator("#answer1 .remark")
    assert remark.inner_text().endswith("because it counts selected tokens alone")
    read_colour = "e => getComputedStyle(e).color"
    assert remark.evaluate(read_colour) == seen.page.locator("#answer1 .result").evaluate(
        read_colour
    )
    assert seen.page.locator("#answer0 .remark").count() == 0
    assert seen.complaints == []
    seen.page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_have_the_brightness_of_the_page(browser, written, scheme):
    """The background of a figure is light on a light page and dark on a dark one, and its lines
    stand out from it."""
    seen = opened(browser, written, color_scheme=scheme)
    image = seen.page.locator("figure img").first
    image.scroll_into_view_if_needed()
    pixels = np.asarray(Image.open(io.BytesIO(image.screenshot())).convert("L"), dtype=float)
    background = np.median(pixels)
    assert background > 200 if scheme == "light" else background < 60
    assert np.abs(pixels - background).max() > 140
    seen.page.context.close()


@pytest.mark.long
def test_tables_of_the_paper_need_a_run_of_its_experiments(browser, written, tmp_path):
    """Without such a run the report compares nothing; one row with a run shows both tables."""
    names = [section.get_attribute("id") for section in _list_sections(browser, written)]
    assert not {"claims", "comparison", "audit"} & set(names)
    assert names.index("answers") < names.index("suites") < names.index("table2")
    shutil.copytree(written.parent, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "tables/comparison.csv"
    table = pd.read_csv(path).astype(object)
    table.loc[0] = None
    table.loc[0, "L"] = 5
    write_table(table, [path])
    names = [s.get_attribute("id") for s in _list_sections(browser, page_of(tmp_path, results()))]
    assert {"claims", "comparison", "audit"} <= set(names)


def _list_sections(browser: Browser, path: Path) -> list:
    return opened(browser, path).page.locator("section").all()


@pytest.mark.long
def test_a_folded_part_opens_by_its_link(browser, written):
    """A page opens with folded tables, and a link to one of them opens it."""
    page = browser.new_context().new_page()
    page.goto(written.as_uri())
    fold = page.locator("#table2 > details")
    assert fold.get_attribute("open") is None
    page.locator('nav a[href="#table2"]').click()
    page.wait_for_function("document.querySelector('#table2 > details').open")
    page.context.close()


@pytest.mark.long
def test_a_wide_table_keeps_its_first_columns_and_shows_that_more_follow(browser, written):
    """The columns that identify a row stay, and the shadow and the sentence end at the end."""
    size = {"width": 800, "height": 800}
    seen = opened(browser, written, viewport=size, reduced_motion="reduce")
    frame = seen.page.locator("#table2 .frame")
    scroll, cue = frame.locator(".scroll"), seen.page.locator("#table2 .cue")
    first = frame.locator("tbody .fixed").first
    place = first.bounding_box()["x"]
    assert "more" in frame.get_attribute("class").split()
    assert cue.is_visible()
    scroll.evaluate("e => e.scrollLeft = e.scrollWidth")
    cue.wait_for(state="hidden")
    assert first.bounding_box()["x"] == place
    seen.page.context.close()


@pytest.mark.long
def test_a_row_is_a_card_on_a_phone(browser, written):
    """At 390 pixels every cell of Table II is inside of the window, with its column's name."""
    seen = opened(browser, written, viewport={"width": 390, "height": 800})
    row = seen.page.locator("#table2 tbody tr").first
    for cell in row.locator("td:not(:empty)").all():
        box = cell.bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
        label = cell.evaluate("e => getComputedStyle(e, '::before').content")
        assert label == f'"{cell.get_attribute("data-name")}"'
    seen.page.context.close()


def test_a_page_of_one_answer_is_inert_and_complete(browser, tmp_path):
    """The page has verdict, figures and texts of one answer, loads nothing and runs no script."""
    path = tmp_path / "answer.html"
    path.write_text(render(results()[2][1], {"<b>": "<i>"}), encoding="utf-8")
    seen = opened(browser, path)
    assert list(layers_of(seen.page)) == ["certain", "estimate", "verdict (bounded)"]
    assert seen.page.locator(".badge").inner_text().endswith("HOLDS")
    assert seen.page.locator("tbody tr").count() == len(results()[2][1].witnesses)
    assert "<b>" in seen.page.locator("footer").inner_text()
    assert seen.page.locator("script").count() == 0
    assert seen.complaints == []
    assert seen.requests == [path.as_uri()]
    seen.page.context.close()


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_axe_finds_nothing(browser, written, tmp_path, axe, width, scheme):
    """No rule of axe-core is violated, in the report and in the pages of an answer and a suite."""
    single, suite = tmp_path / "answer.html", tmp_path / "suite.html"
    single.write_text(render(results()[2][1], {"seconds": "1"}), encoding="utf-8")
    require = {"ends": "P>=0.5 [ F step = 2 ]", "never": "P<=0.1 [ F step = 2 ]"}
    cases = [{"name": "won", "start": "once", "require": require}]
    write_html(suites.run(suites.load(tmp_path, cases)), suite)
    for path in (written, single, suite):
        size = {"width": width, "height": 900}
        seen = opened(browser, path, viewport=size, color_scheme=scheme, bypass_csp=True)
        assert axe(seen.page) == []
        seen.page.context.close()


def test_witnesses_are_those_of_the_verdicts(page):
    """Each witness is listed with its probability, as text; `…` marks one that goes on in rest."""
    sections = page.locator("details.witnesses").all()
    for section, (_, answer) in zip(sections, results(), strict=True):
        values = [cell.get_attribute("value") for cell in section.locator("td data").all()]
        witnesses = answer.witnesses
        assert [float(value) for value in values] == [each.probability for each in witnesses]
        texts = section.locator("td.verbatim").all_text_contents()
        shown = [escape_unprintable(each.continuation) for each in witnesses]
        ellipses = [" …" if each.rest else "" for each in witnesses]
        assert texts == [text + end for text, end in zip(shown, ellipses, strict=True)]


def test_every_link_leads_to_a_file_or_a_section(page, written):
    """Links are relative, and what they name is there."""
    links = page.locator("a").evaluate_all("links => links.map(a => a.getAttribute('href'))")
    sections = [link for link in links if link.startswith("#")]
    assert all(page.locator(link).count() == 1 for link in sections)
    drawn = {"figures/figure3.pdf", "tables/figure3.csv"}  # which this small run does not write
    linked = {unquote(link) for link in links if not link.startswith("#")} - drawn
    assert {link for link in linked if link.endswith(".prism")}
    assert [link for link in linked if not (written.parent / link).is_file()] == []


def test_how_it_was_made_is_told(page):
    """Versions are those of the verdicts, and provenance is shown where it is known."""
    footer = page.locator("#provenance").text_content()
    assert json.dumps(storm.VERSIONS["storm"]).strip('"') in footer
    assert "models · one · sha256" in footer
    assert "<0123>" in footer


@pytest.mark.few(1)
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_its_window(browser, written, width, scheme):
    """On a phone too, what is wide scrolls within itself; dark is dark and light is light."""
    size = {"width": width, "height": 800}
    seen = opened(browser, written, viewport=size, color_scheme=scheme)
    seen.page.get_by_text("Open all").click()
    widths = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    assert seen.page.evaluate(widths) == [width, width]
    colours = "[getComputedStyle(document.body).color, getComputedStyle(document.body).background]"
    ink, back = (
        sum(map(int, colour.partition(")")[0].removeprefix("rgb(").split(",")))
        for colour in seen.page.evaluate(colours)
    )
    assert (ink < back) is (scheme == "light")
    seen.page.context.close()


@pytest.mark.long
def test_a_large_tree_is_cut_to_its_most_probable_states(browser, written, tmp_path):
    """Of a large tree the most probable states are shown, and the page says how many."""
    found = results()[0]
    tree = replace(full(3, 4), truncation=Truncation(1.0, 3, 4))
    gender = {"gender": tree.step}
    view = html_report.build_tree_view(found[0], ScoredTree(tree, gender), max_states=30)
    uids = [node.uid for node in view.nodes]
    assert len(uids) == 30
    assert {tree.parent[uid] for uid in uids if uid} <= set(uids)
    mass = mass_of_paths(tree)
    assert mass[uids].min() >= np.delete(mass, uids).max()
    shutil.copytree(written.parent, tmp_path, dirs_exist_ok=True)
    seen = opened(browser, page_of(tmp_path, [found], view=view))
    words = " ".join(seen.page.locator("#tree").inner_text().split())
    assert f"of which the 30 most probable of {len(tree)} states are shown" in words
    assert seen.page.locator(".tree li").count() == 30
    assert seen.complaints == []
    seen.page.context.close()


def mass_of_paths(tree: TextTree) -> np.ndarray:
    """The probability of the path to each state, one state after the other."""
    mass = np.ones(len(tree))
    for uid in range(1, len(tree)):
        mass[uid] = mass[tree.parent[uid]] * tree.probability[uid]
    return mass


@pytest.mark.long
def test_an_unknown_value_is_told(browser, written, tmp_path):
    """Where no value is known the page says so and why, and its axis has bounds alone."""
    shutil.copytree(written.parent, tmp_path, dirs_exist_ok=True)
    row, decided = results()[0]
    found = replace(decided, bounded=None, witnesses=(), notes=("<b> is hard.",), sampled=None)
    seen = opened(browser, page_of(tmp_path, [(row, found)], view=None))
    card = seen.page.locator(".answer")
    assert card.locator(".result").text_content() == "unknown"
    assert "<b> is hard." in card.text_content()
    assert card.locator(".bounds:not(.end)").count() == 1
    assert card.locator(".value, .likely, .estimate").count() == 0
    assert seen.complaints == []
    seen.page.context.close()


@pytest.mark.long
def test_an_answer_without_a_tree_has_bounds_and_interval(browser, written, tmp_path):
    """The page shows its three layers without a value, and links to its file instead of a chain."""
    shutil.copytree(written.parent, tmp_path, dirs_exist_ok=True)
    row, bounded = results()[0]
    check = replace(row.check, tree=replace(row.check.tree, truncation=Horizon(2)))
    found = replace(bounded, bounded=None, costs=Costs(passes=4000))
    alone = replace(row, check=check), found
    (tmp_path / f"answers/{check}.json").parent.mkdir(parents=True)
    (tmp_path / f"answers/{check}.json").touch()
    seen = opened(browser, page_of(tmp_path, [alone], view=None))
    card = seen.page.locator(".answer")
    assert card.locator(".result, .value").count() == 0
    for layer in (".bounds:not(.end)", ".likely", "circle.estimate"):
        assert card.locator(layer).count() == 1
    assert "bounded" not in card.locator("svg.axis").get_attribute("aria-label")
    links = seen.page.locator("#chains a")
    assert [link.get_attribute("href") for link in links.all()] == [f"answers/{check}.json"]
    assert html_report.find_smallest_with_witness([alone]) is None
    assert seen.complaints == []
    seen.page.context.close()


def test_a_chat_is_shown_message_by_message(browser, written, tmp_path):
    """Above answer and tree stands who said what, and beside the label how the model is asked."""
    shutil.copytree(written.parent, tmp_path, dirs_exist_ok=True)
    said = (("system", "Be <b>terse</b>."), ("user", 'One,\ntwo, "three"?'))
    row, answer = results()[0]
    asked = replace(row, prompt=Chat(said), model="One, temperature 0.2, top_p 0.9")
    view = html_report.build_tree_view(asked, ScoredTree(TREE, {"gender": GENDER}))
    seen = opened(browser, page_of(tmp_path, [(asked, answer)], view=view))
    for place in (seen.page.locator(".card"), seen.page.locator("#tree > details > p").first):
        assert place.locator(".role").all_text_contents() == ["system", "user"]
        quoted = place.locator(".role + q").all_text_contents()
        assert quoted == ["Be <b>terse</b>.", 'One,\\ntwo, "three"?']
        assert "temperature 0.2, top_p 0.9" in place.text_content()
    assert seen.complaints == []
    seen.page.context.close()


@pytest.mark.long
def test_a_run_without_experiments_has_a_page(browser, written, tmp_path):
    """Where nothing was asked the page says so."""
    shutil.copytree(written.parent, tmp_path, dirs_exist_ok=True)
    seen = opened(browser, page_of(tmp_path, [], view=None, provenance={}))
    assert "The run has no experiments." in seen.page.locator("#answers").inner_text()
    assert "the report shows no tree" in seen.page.locator("#tree").inner_text()
    assert seen.complaints == []
    seen.page.context.close()


def test_the_smallest_tree_that_a_text_decides_is_shown():
    """The tree to open is the smallest whose query has a witness."""
    decided, undecided = results()[0], results()[-1]
    row, answer = decided
    larger = replace(row), replace(answer, costs=replace(answer.costs, states=10**6))
    assert undecided[1].witnesses == ()
    assert html_report.find_smallest_with_witness([undecided, larger, decided]) is row
    assert html_report.find_smallest_with_witness([undecided]) is None


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("P=? [ F gender > 0 ]", "Probability that gender > 0 eventually holds"),
        ("P=? [ G<=3 gender > 0 ]", "Probability that gender > 0 always holds within 3 tokens"),
        ("P=? [ gender = 0 U gender < 0 ]", "Probability that gender = 0 holds until gender < 0"),
        (
            "P>=0.1875 [ F gender > 0 ]",
            "Is the probability that gender > 0 eventually holds at least 0.1875?",
        ),
        ("P<1 [ G gender > 0 ]", "Is the probability that gender > 0 always holds below 1?"),
        ("P=? [ F (G gender > 0) ]", ""),
        ('R{"gender"}=? [ I=1 ]', "Expected gender after 1 token"),
    ],
)
def test_simple_queries_are_described(query, words):
    """Expected scores, and queries with one temporal operator over states, have a description."""
    assert describe_query(parse(query)) == words


@pytest.mark.parametrize("query", ["P>=0.9 [ F gender > 0 ]", "P>=0.9 [ F (G gender > 0) ]"])
@pytest.mark.parametrize("outcome", list(Outcome))
def test_the_title_of_a_page_is_a_question_with_its_verdict(query, outcome):
    """Title and heading claim nothing that the verdict contradicts, whatever it is."""
    asked = parse(query)
    certain = TRUTHS if outcome is Outcome.UNKNOWN else Interval(*[outcome is Outcome.HOLDS] * 2)
    _, answer = results()[0]
    found = replace(answer, query=asked, certain=certain, sampled=None)
    page = render(found)
    words = (
        f"{query}:"
        if "(G" in query
        else ("Is the probability that gender > 0 eventually holds at least 0.9?")
    )
    verdict = "UNKNOWN" if outcome is Outcome.UNKNOWN else f"{outcome} (certain)"
    for tag in ("title", "h1"):
        assert html.unescape(re.search(f"<{tag}>(.*?)</{tag}>", page)[1]) == f"{words} {verdict}"
    assert "The probability that" not in page


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {"bounds", "likely", "estimate", "value"}),
        ({"bounded": None}, {"bounds", "likely", "estimate"}),
        ({"sampled": None}, {"bounds", "value"}),
        ({"sampled": None, "bounded": None}, {"bounds"}),
        ({"query": parse("P>=0.5 [ F gender > 0 ]"), "certain": TRUTHS}, {"likely"}),
        (
            {"query": parse("P>=0.5 [ F gender > 0 ]"), "certain": TRUTHS, "sampled": None},
            set(),
        ),
    ],
)
def test_a_legend_explains_the_marks_that_are_drawn(change, expected):
    """The legend of an answer's page has each mark of its axis, and no other."""
    _, answer = results()[0]
    found = replace(answer, **change)
    text = render(found)
    legend = "".join(re.findall(r'<p class="legend">.*?</p>', text, re.DOTALL))
    marks = [
        {kind for kind in ("bounds", "likely", "estimate", "value") if f'class="{kind}"' in part}
        for part in (legend, text.replace(legend, "") if legend else text)
    ]
    assert marks[0] == marks[1] == expected
    assert ("Triangle" in legend) == ("value" in expected)
    assert ("Thin line" in legend) == ("bounds" in expected)
    assert ("confidence" in legend) == ("likely" in expected)
