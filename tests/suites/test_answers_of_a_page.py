"""The page of a suite has the answers to each requirement, as inert and bounded text."""

import html
import json
import os
import re
import shutil
from collections import Counter
from dataclasses import replace

import pytest
from helpers.fake_provider import FakeProvider, share
from helpers.fake_server import running
from helpers.suites import load, run
from playwright.sync_api import sync_playwright

import llmchecker as lc
from llmchecker.errors import UnusableDataset
from llmchecker.suites.entries import build_entries, sort_entries
from llmchecker.suites.examples import Example
from llmchecker.suites.html_page import _group_answers, format_html, write_html
from llmchecker.suites.load import load_suite
from llmchecker.suites.session import run_suite

WORDS = ["once", " he", " <b>she</b>\x1b", " it", " they"]
SHARES = [0.0, 0.4, 0.3, 0.2, 0.1]
X = {"x": {"type": "pattern", "pattern": "he$|it"}}
CASES = [
    {"name": "often", "start": "once", "require": ["P>=0.9 [ F x = 1 ]", "P<=0.1 [ F x = 1 ]"]},
    {"name": "hold", "start": "once", "require": ["P>=0.1 [ F x = 1 ]"]},
]
MEET = {" he": 0.4, " it": 0.2}
OTHERS = {" <b>she</b>\x1b": 0.3, " they": 0.1}


def build_model(name: str = "m") -> lc.TableModel:
    return lc.TableModel(WORDS, lambda tokens: SHARES)


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """A suite of one word, on two models of the same probabilities."""
    models = ["m", {"source": "./m", "label": "n"}]
    folder = tmp_path_factory.mktemp("suite")
    return load(folder, CASES, model=models, properties=X, length=1)


@pytest.fixture(scope="module")
def result(suite):
    return run(suite, build_model)


def list_texts(examples: tuple[Example, ...], is_violating: bool) -> dict[str, float]:
    found = {e.text: e.probability for e in examples if e.is_violating is is_violating}
    return {text: pytest.approx(probability) for text, probability in found.items()}


def test_examples_are_the_most_probable_answers_of_both_kinds(result):
    """With one word, the answers that violate and meet a requirement are known by enumeration."""
    at_least, at_most, holds = [found.examples for found in result.results[:3]]
    assert list_texts(at_least, is_violating=True) == OTHERS
    assert list_texts(at_least, is_violating=False) == MEET
    assert list_texts(at_most, is_violating=True) == MEET
    assert list_texts(holds, is_violating=False) == MEET
    assert [example.text for example in at_least] == [*OTHERS, *MEET]
    # what a violated case shows as its reasons is not changed by the others
    assert [text.continuation for text in result.results[0].witnesses] == list(OTHERS)
    assert result.results[2].witnesses == ()


def test_examples_are_few_and_whole(tmp_path):
    """A result keeps three answers of each kind, each whole; a page cuts long ones."""
    words = ["once", *(f" {letter * 3_000}" for letter in "abcdefgh")]
    model = lc.TableModel(words, lambda tokens: [0.0, *[0.125] * 8])
    properties = {"x": {"type": "pattern", "pattern": "[abcd]"}}
    suite = load(tmp_path, CASES[:1], properties=properties, length=1)
    result = run(suite, model)
    for found in result.results:
        assert Counter(e.is_violating for e in found.examples) == {True: 3, False: 3}
        assert {len(e.text) for e in found.examples} == {3_001}
    assert max(len(e.text) for entry in build_entries(result) for e in entry.examples) < 2_010


def test_a_stored_result_has_the_same_page(suite, result, tmp_path):
    """A run that continues from its file shows the same answers without a model."""
    log = tmp_path / "results.jsonl"
    first = run(suite, build_model, log=log)
    again = run_suite(suite, log=log, open_model=lambda deployment: None)
    assert [r.examples for r in again.results] == [r.examples for r in result.results]
    page, stored = (
        re.sub("<time.*?</time>|[0-9.]+ s,", "", format_html(r)) for r in (first, again)
    )
    assert page == stored
    lines = log.read_text().splitlines()
    damaged = {**json.loads(lines[1]), "examples": [{"text": 1, "probability": 1}]}
    log.write_text("\n".join([lines[0], json.dumps(damaged), *lines[2:]]) + "\n")
    with pytest.raises(UnusableDataset, match="no results of this version"):
        run_suite(suite, log=log)


def test_the_answers_of_a_texts_only_model_are_examples(tmp_path, monkeypatch):
    """Their probability is their share of the answers."""
    provider = FakeProvider("openai-chat", share(0.7))
    with running(provider) as address:
        model = {"source": address, "api": "openai-chat"}
        text = json.dumps(
            {
                "model": model,
                "budget": {"answers": 40},
                "cases": [{"user": "so?", "require": [{"equals": "yes", "at_least": 0.5}]}],
            }
        )
        (tmp_path / "suite.yaml").write_text(text)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        (found,) = run_suite(load_suite(tmp_path / "suite.yaml")).results
    assert {e.text: e.is_violating for e in found.examples} == {"yes": False, "no": True}
    assert sum(e.probability for e in found.examples) == pytest.approx(1)
    # the estimate has its own computation
    (yes,) = (e.probability for e in found.examples if not e.is_violating)
    assert found.answer.sampled.estimate == pytest.approx(yes)


def test_the_page_has_a_column_for_each_model(result):
    """Both models of a requirement are next to each other, and the answers are inert text."""
    page = format_html(result)
    groups = re.findall(r'<details class="answers".*?</details>', page, re.DOTALL)
    assert len(groups) == 3
    for group in groups:
        assert re.findall(r"<h3><bdi>(\w)</bdi>", group) == ["m", "n"]
        assert "<b>" not in group
        assert "\x1b" not in group
        assert html.unescape(group).count(r" <b>she</b>\x1b") == 2
    assert "open" not in "".join(re.findall(r"<details[^>]*>", page))


def test_a_page_has_a_bounded_number_of_answers(result):
    """The first requirements have their answers, and the others are counted."""
    entries = sort_entries(build_entries(result))
    total = sum(len(entry.examples) for entry in entries)
    assert total == 3 * 2 * 4
    groups = _group_answers(entries, 6)
    assert [(group.count, group.left_out) for group in groups] == [(6, 2), (0, 8), (0, 8)]
    many = tuple(Example(f"{n}", 0.001, True) for n in range(2_000))
    first, second = result.results[:2]
    results = (replace(first, examples=many), replace(second, examples=many), *result.results[2:])
    page = format_html(replace(result, results=results))
    assert page.count("<li><data") == 3_000
    assert "1,016 more are left out" in page


@pytest.fixture(scope="module")
def browser():
    program = shutil.which("chromium")
    if program is None:
        # where changes are accepted, nothing is skipped
        reason = "chromium is absent; on Debian, `apt-get install -y chromium` installs it"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program)
        yield chromium
        chromium.close()


@pytest.mark.long
def test_a_search_opens_the_requirements_with_its_words(browser, result, tmp_path):
    """The one search hides other answers and rows, and a link opens answers, at each width."""
    write_html(result, tmp_path / "page.html")
    for width in (1400, 800, 390):
        page = browser.new_page(viewport={"width": width, "height": 800})
        complaints = []
        page.on("console", lambda message, seen=complaints: seen.append(message.text))
        page.goto(f"{(tmp_path / 'page.html').as_uri()}#answers2")
        assert page.locator("details.answers[open]").count() == 1
        assert page.locator("input").count() == 1
        page.fill("#search", "THEY hold")
        assert page.locator(".answers li:visible").count() == 2
        assert page.locator("#found-answers").inner_text() == "2 of 24 answers"
        # a row is shown for its own words or for those of its answers
        rows = page.locator("tbody tr:visible").all()
        links = {row.locator("a[href^='#answers']").get_attribute("href") for row in rows}
        answers = page.locator("details.answers:visible").all()
        assert links == {"#" + each.get_attribute("id") for each in answers}
        assert 0 < len(rows) < page.locator("tbody tr").count()
        page.fill("#search", "")
        assert page.locator("details.answers:visible").count() == 3
        assert page.locator("details.answers[open]").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert complaints == []
        page.close()


@pytest.mark.long
@pytest.mark.parametrize("width", [1400, 390])
def test_a_number_is_on_one_line(browser, result, tmp_path, width):
    """Each probability of an answer, also one of many digits, is on one line of a narrow cell."""
    write_html(result, tmp_path / "page.html")
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto((tmp_path / "page.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    numbers = page.locator(".answers data")
    assert numbers.count() == 24
    numbers.evaluate_all("all => all.forEach(e => { e.textContent = '0.000654321' })")
    # a range of the text has a rectangle for each line, unlike the cell
    count_lines = """all => all.map(e => {
        const range = document.createRange();
        range.selectNodeContents(e);
        return new Set([...range.getClientRects()].map(each => each.top)).size;
    })"""
    assert set(numbers.evaluate_all(count_lines)) == {1}
