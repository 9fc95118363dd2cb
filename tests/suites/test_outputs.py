"""Every output contains all verdicts, is valid in its format, and keeps texts inert."""

import html
import html.parser
import json
import re
from fractions import Fraction
from xml.etree import ElementTree

import pytest
from helpers.suites import load, run, words_model
from markdown_it import MarkdownIt

import llmchecker as lc
from llmchecker.errors import ConfigError
from llmchecker.suites.deployments import name_difference
from llmchecker.suites.entries import build_entries
from llmchecker.suites.html_page import format_html, write_html
from llmchecker.suites.junit import format_junit, write_junit
from llmchecker.suites.markdown_summary import format_markdown, write_markdown
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.terminal_table import format_table

HOSTILE = [
    "\x1b[31mred\x1b[0m",
    "</td><script>alert(1)</script>",
    "]]> <!-- & \ufffe \x00",
    "| a | `b` **c** [d](http://e) @f #1\n## g",
    "=1+1",
    "\u202egnp.exe",
]
QUERY = "P<=0.01 [ F x = 1 ]"

# elements of junit-10.xsd: allowed children, and attributes with whether they are required
SCHEMA = {
    "testsuites": (["testsuite"], {"name", "time", "tests", "failures", "errors"}, set()),
    "testsuite": (
        ["testsuite", "properties", "testcase", "system-out", "system-err"],
        {"time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
        {"name", "tests", "failures", "errors"},
    ),
    "properties": (["property"], set(), set()),
    "property": ([], set(), {"name", "value"}),
    "testcase": (
        ["skipped", "error", "failure", "system-out", "system-err"],
        {"time", "classname", "group"},
        {"name"},
    ),
    "skipped": ([], {"type", "message"}, set()),
    "system-out": ([], set(), set()),
    "error": ([], {"type", "message"}, set()),
    "failure": ([], {"type", "message"}, set()),
}
TIME = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?")


def check_junit(element: ElementTree.Element) -> None:
    """Compare an element with the schema."""
    children, optional, required = SCHEMA[element.tag]
    assert required <= element.attrib.keys() <= required | optional
    assert TIME.fullmatch(element.get("time", ""))
    assert not children or not (element.text or "").strip()
    for child in element:
        assert child.tag in children
        check_junit(child)


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> SuiteResult:
    """A suite with hostile texts in prompts, names, tokens and errors."""
    model = lc.TableModel(
        [*HOSTILE, "once", " it"], lambda tokens: [0.1] * len(HOSTILE) + [0, 1 - 0.1 * len(HOSTILE)]
    )
    cases = [
        {"name": f"{n} {text!r}"[:190], "start": text, "require": {text[:190]: QUERY}}
        for n, text in enumerate(HOSTILE)
    ]
    cases += [
        {"name": "unknown", "start": "once", "require": ["P>=0.6 [ F (G last = 1) ]"]},
        {"name": "holds", "start": "once", "require": ["P>=0.5 [ F step = 2 ]"]},
        {"name": "fails", "start": "<b>\x1b", "require": [QUERY]},
        {
            "name": "table",
            "prompts": "rows.csv",
            "average": {"mean": "mean P=? [ F x = 1 ] >= 0.99"},
            "by": "topic",
        },
    ]
    pattern = "red|script|&|g|=|exe"
    folder = tmp_path_factory.mktemp("suite")
    suite = load(
        folder,
        cases,
        {"rows_csv": 'start,topic\nonce,"=cmd|<i>"\n'},
        properties={
            "x": {"type": "pattern", "pattern": pattern},
            "last": {"type": "pattern", "pattern": "it$"},
        },
        length=2,
        budget={"passes": 4},
    )
    return run(suite, model, log=folder / "results.jsonl")


def test_junit_follows_its_schema(result, tmp_path):
    """The XML has the structure of the schema, and its numbers are those of the result."""
    write_junit(result, tmp_path / "junit.xml")
    root = ElementTree.fromstring((tmp_path / "junit.xml").read_bytes())
    check_junit(root)
    counts = result.counts
    tests = root.findall("testsuite/testcase")
    assert len(tests) == counts.holds + counts.violated + counts.unknown + counts.errors
    assert int(root.get("failures")) == counts.violated + counts.unknown
    assert int(root.get("errors")) == counts.errors == 1
    assert len(root.findall(".//failure[@type='VIOLATED']")) == counts.violated
    names = [(test.get("classname"), test.get("name")) for test in tests]
    assert len(set(names)) == len(names)


def test_allowed_unknown_cases_are_skipped(result):
    """With unknown cases allowed, JUnit's readers see them as skipped."""
    root = ElementTree.fromstring(format_junit(result, allow_unknown=True))
    check_junit(root)
    (suite,) = root
    assert int(suite.get("skipped")) == result.counts.unknown >= 1
    assert int(suite.get("failures")) == result.counts.violated


def test_no_output_has_control_characters(result):
    """Escapes of terminals and marks of direction are printed as their codes."""
    for text in (
        format_table(result),
        format_junit(result).decode(),
        format_markdown(result),
        format_html(result),
    ):
        bad = {c for c in text if not c.isprintable()} - {"\n"}
        assert bad == set()


class _Page(html.parser.HTMLParser):
    """The elements of a page, and the texts in its table."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_has_only_its_own_markup(result, tmp_path):
    """Texts add no element to the page, which loads nothing, and failures come first."""
    write_html(result, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = _Page(text)
    assert page.tags.count("script") == 1
    assert {"b", "i"}.isdisjoint(page.tags)
    assert "</td><script>alert(1)</script>" in "".join(page.texts)
    assert "default-src 'none'" in text
    order = re.findall(r'class="badge status (\w+)"', text.partition("</table>")[0])
    ranks = ["ERROR", "VIOLATED", "UNKNOWN", "HOLDS", "MEASURED"]
    assert order == sorted(order, key=ranks.index)
    assert set(order) == set(ranks)


def test_markdown_has_only_its_own_markup(result, tmp_path):
    """A reader of Markdown sees the texts as they are, without markup, links or mentions."""
    write_markdown(result, tmp_path / "summary.md")
    source = (tmp_path / "summary.md").read_text(encoding="utf-8")
    tokens = MarkdownIt("commonmark").enable("table").parse(source)
    inline = [child for token in tokens for child in token.children or ()]
    kinds = {child.type for child in inline}
    assert kinds <= {"text", "strong_open", "strong_close", "code_inline"}
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h2"]
    plain = "".join(child.content for child in inline if child.type == "text")
    assert not re.search(r"[@#][a-z0-9]|://", plain)
    rows = [line for line in source.splitlines() if line.startswith("| ") and "---" not in line]
    assert len(rows) - 1 == len(build_entries(result))
    blocks = [token.content for token in tokens if token.type == "fence"]
    shown = "".join([*(child.content for child in inline), *blocks])
    assert "</td><script>alert(1)</script>" in shown
    assert "| a | `b` **c** [d](http://e) @f #1" in shown
    assert "&#" not in source
    # ordinary punctuation stays readable in the source
    assert "probability 1, certain" in source


def test_json_lines_keep_texts_exactly(result):
    """JSON lines contain texts as they are, escaped only as JSON."""
    from llmchecker.suites.json_lines import iter_lines

    lines = [json.loads(json.dumps(line, allow_nan=False)) for line in iter_lines(result)]
    prompts = [line["prompt"] for line in lines if "prompt" in line]
    assert prompts[: len(HOSTILE)] == HOSTILE
    assert {key for line in lines for key in ("case", "average", "group") if key in line} == {
        "case",
        "average",
        "group",
    }


@pytest.mark.parametrize("distance", [-1e-7, -1e-11, 0.0, 1e-11, 1e-7])
def test_figures_show_why_a_close_threshold_is_met_or_not(distance, tmp_path):
    """Rounded bounds are on the same side of the threshold as the probability."""
    cases = [
        {
            "prompts": "rows.csv",
            "require": ["P>=0.25 [ F he = 1 ]"],
            "average": {"mean": "mean P=? [ F he = 1 ] >= 0.25"},
        }
    ]
    properties = {"he": {"type": "pattern", "pattern": " he"}}
    suite = load(tmp_path, cases, {"rows_csv": "start\nonce\n"}, properties=properties, length=1)
    for entry in build_entries(run(suite, words_model(he=0.25 + distance))):
        low, high = map(Fraction, re.findall(r"0\.[0-9]+", entry.figures) or [entry.figures] * 2)
        assert low <= Fraction(0.25 + distance) <= high
        if distance:
            assert entry.status.value == ("HOLDS" if distance > 0 else "VIOLATED")
            assert low >= Fraction(1, 4) or high < Fraction(1, 4)


@pytest.mark.parametrize(
    ("form", "same"),
    [
        ("S{} [ he = 1 ]", "P{} [ F (G he = 1) ]"),
        ("P{} [ F=2 he = 1 ]", "P{} [ X X he = 1 ]"),
        ("P{} [ F[1,2] he = 1 ]", "P{} [ X F<=1 he = 1 ]"),
    ],
)
def test_rows_of_derived_forms_are_those_of_the_forms_that_define_them(form, same, tmp_path):
    """Verdict, figures and mean of a requirement are the same in both forms, at any length."""
    properties = {"he": {"type": "pattern", "pattern": " he"}}
    for number, length in enumerate((3, "end")):
        rows = []
        for index, query in enumerate((form, same)):
            case = {
                "prompts": "rows.csv",
                "require": [query.format(">=0.3")],
                "average": {"mean": f"mean {query.format('=?')} >= 0.3"},
            }
            folder = tmp_path / f"{number}-{index}"
            folder.mkdir()
            files = {"rows_csv": "start\nonce\n"}
            suite = load(folder, [case], files, properties=properties, length=length)
            entries = build_entries(run(suite))
            rows.append([(each.verdict, each.figures, each.threshold) for each in entries])
        assert rows[0] == rows[1]
        assert len(rows[0]) == 2


def _parse(result: SuiteResult) -> ElementTree.Element:
    return ElementTree.fromstring(format_junit(result))


@pytest.mark.parametrize(
    ("keys", "versus", "name"),
    [
        ({"system": "A"}, {"system": "B"}, "m, system 1 − system 2"),
        ({}, {"system": "B"}, "m, no system − system 2"),
        (
            {"decoding": {"temperature": 0.2}},
            {"decoding": {"temperature": 0.7, "top_p": 0.9}},
            "m, temperature 0.2 − temperature 0.7, top_p 0.9",
        ),
        (
            {"system": "A", "decoding": "greedy"},
            {"system": "B", "decoding": {"temperature": 0.7}},
            "m, greedy with system 1 − temperature 0.7 with system 2",
        ),
        ({}, {"stop": "he"}, "m, temperature 1 − temperature 1, stop 'he'"),
        (
            {"stop": ["he"], "include_stop": True},
            {"stop": "she"},
            "m, temperature 1, stop 'he' (included) − temperature 1, stop 'she'",
        ),
        (
            {"stop": "he"},
            {"include_stop": True},
            "m, temperature 1, stop 'he' − temperature 1, stop 'he' (included)",
        ),
        (
            {},
            {"thought": {"begin": "<t>", "end": "</t>"}},
            "m, temperature 1 − temperature 1, answers after '</t>'",
        ),
    ],
)
def test_a_difference_names_what_differs(keys, versus, name, tmp_path):
    """The sides of a difference have the names of what differs, not twice that of the model."""
    cases = [{"user": "once", "require": ["P>=0.1 [ F step = 1 ]"]}]
    suite = load(tmp_path, cases, versus=versus, **keys)
    assert name_difference(suite.deployments[0], suite.versus) == name


@pytest.mark.parametrize(
    ("requirement", "verdicts"),
    [
        # after {} the text ends; the words go on for ever
        ({"max_words": 10, "at_least": 0.9}, ("HOLDS", "VIOLATED")),
        ({"max_words": 10, "at_least": 0.2}, ("HOLDS", "HOLDS")),
        ({"not_contains": "yes", "at_most": 0.6}, ("HOLDS", "HOLDS")),
        ({"contains": "yes", "at_least": 0.4}, ("HOLDS", "HOLDS")),
        ({"contains": "never", "at_most": 0.1}, ("HOLDS", "VIOLATED")),
        ("P<=0.1 [ F x = 1 ]", ("HOLDS", "VIOLATED")),
    ],
)
def test_a_length_of_end_asks_about_whole_answers(requirement, verdicts, tmp_path):
    """Answers without an end count against what they may still violate, and no warning remains."""
    properties = {"x": {"type": "pattern", "pattern": "never"}}
    for length, expected in zip((1, "end:3"), verdicts, strict=True):
        cases = [{"start": "Q", "require": [requirement]}]
        suite = load(tmp_path, cases, length=length, properties=properties)
        (entry,) = build_entries(run(suite, json_model()))
        assert entry.status.value == expected
        is_warned = "beginnings" in entry.about
        assert not (is_warned and length == "end:3" and expected == "HOLDS")


@pytest.mark.parametrize("length", ["end:0", "end:", "ends", "6 tokens", True, 0])
def test_other_lengths_are_refused(length, tmp_path):
    """A length is a number of tokens, `end`, or `end` with a number."""
    with pytest.raises(ConfigError, match="length"):
        load(tmp_path, [{"start": "Q", "require": ["P>=0.1 [ F step = 1 ]"]}], length=length)


JSON_TOKENS = ["Q", "{", "}", "yes", "no", " and so on", ""]


def json_model() -> lc.TableModel:
    """A model that writes {} with probability 1/4, and else words without an end."""

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        rows = {
            "Q": [0, 0.25, 0, 0.5, 0.25, 0, 0],
            "{": [0, 0, 1, 0, 0, 0, 0],
            "}": [0, 0, 0, 0, 0, 0, 1],
        }
        return rows.get(JSON_TOKENS[tokens[-1]], [0, 0, 0, 0, 0, 1, 0])

    return lc.TableModel(JSON_TOKENS, distribution, frozenset([6]))


@pytest.mark.parametrize(
    ("requirement", "texts"),
    [
        ({"json": True, "at_least": 0.9}, [("yes", 0.5), ("no", 0.25)]),
        ({"not_json": True, "at_least": 0.9}, [("{}", 0.25)]),
        ({"json": True, "at_most": 0.1}, [("{}", 0.25)]),
        ({"not_json": True, "at_most": 0.1}, [("yes", 0.5), ("no", 0.25)]),
    ],
)
def test_every_output_shows_texts_that_can_never_become_json(requirement, texts, tmp_path):
    """A text that is decided for ever is a violation with all of its mass, without its end."""
    cases = [{"start": "Q", "require": [requirement]}]
    log = tmp_path / "results.jsonl"
    result = run(load(tmp_path, cases, length=6, confidence=0.99), json_model(), log=log)
    ((_, violated),) = result.verdicts
    assert violated.status.value == "VIOLATED"
    assert [(each.continuation, each.probability) for each in violated.witnesses] == texts
    for output in (
        format_table(result),
        "".join(ElementTree.fromstring(format_junit(result)).itertext()),
        html.unescape(format_markdown(result)),
        html.unescape(format_html(result)),
    ):
        for text, probability in texts:
            assert f'{probability:g}  "{text}"' in output
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    (stored,) = [line["answer"]["witnesses"] for line in lines if "answer" in line]
    assert [(text["text"][text["kept"] :], text["probability"]) for text in stored] == texts


TOSSES = {
    "certain": {"start": "once", "require": ["P>=0.2 [ F he = 1 ]"]},
    "refuted": {"start": "once", "require": ["P<=0.2 [ F he = 1 ]"]},
    # after 40 words the tree decides little, and samples decide the rest
    "likely": {"start": "once", "require": ["P>=0.2 [ F (G it = 1) ]"]},
    "open": {"start": "once", "require": ["P>=0.5 [ F (G it = 1) ]"]},
    "broken": {"start": "<b>", "require": ["P>=0.2 [ F he = 1 ]"]},
}


@pytest.mark.parametrize(
    ("names", "counts", "words"),
    [
        ("certain", "1 holds (certain)", {"Certain"}),
        ("certain refuted", "1 violated (certain), 1 holds (certain)", {"Certain"}),
        ("likely", "1 holds (with confidence 0.99)", {"confidence"}),
        (
            "certain likely",
            "2 hold (1 certain, 1 with confidence 0.99)",
            {"Certain", "confidence"},
        ),
        (
            "certain likely refuted open",
            "1 violated (certain), 1 unknown, 2 hold (1 certain, 1 with confidence 0.99)",
            {"Certain", "confidence"},
        ),
        ("broken", "1 failed to run", set()),
        ("broken likely", "1 failed to run, 1 holds (with confidence 0.99)", {"confidence"}),
    ],
)
def test_the_summary_counts_certainty_and_explains_only_its_own_words(
    names, counts, words, tmp_path
):
    """Certain and confident verdicts have counts of their own; a word without use has no text."""
    properties = {
        "he": {"type": "pattern", "pattern": " he"},
        "it": {"type": "pattern", "pattern": "it$"},
    }
    cases = [{"name": name, **TOSSES[name]} for name in names.split()]
    budget = {"passes": 4_000}
    result = run(load(tmp_path, cases, properties=properties, length=40, budget=budget))
    outputs = (
        format_table(result),
        html.unescape(format_markdown(result)),
        html.unescape(format_html(result)),
        "\n".join(each.get("value", "") for each in _parse(result).iter("property")),
    )
    for output in outputs[:3]:
        assert f"{counts}." in output.replace("**", "")
    for output in outputs:
        assert ("Certain: proven for the whole model." in output) == ("Certain" in words)
        assert ("All verdicts together have confidence 0.99" in output) == ("confidence" in words)
