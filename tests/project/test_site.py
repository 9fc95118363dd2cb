"""The documentation site: complete, without dead links, and without anything from other servers."""

import argparse
import html
import os
import re
import subprocess
import sys
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from helpers.printed_text import alike

import llmchecker
from llmchecker.interfaces.cli.commands import build_parser
from llmchecker.interfaces.cli.parser import COMMAND_HELP
from llmchecker.properties.assertions import KINDS, parse_assertion
from llmchecker.suites.suite_file import CaseKeys, SuiteKeys

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HOW_TO = sorted((DOCS / "how-to").glob("*.md"))
WITH_REFERENCES = "src workflow config release benchmarks examples tests".split()
# the text of a page: not a part of an address
PAGE = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md")


class _Loader(yaml.SafeLoader):
    """A loader of mkdocs.yml, whose tags name functions that no test needs."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)


def import_hooks(monkeypatch):
    """Import docs/site_hooks.py; without the packages of the site, skip the test outside of CI."""
    if "CI" not in os.environ:
        pytest.importorskip("material", reason="`make docs` installs the packages of the site")
    monkeypatch.syspath_prepend(DOCS)
    import site_hooks

    return site_hooks


def list_pages(nav) -> list[str]:
    """List the pages of a navigation, in order."""
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [page for entry in entries for page in list_pages(entry)]


def test_every_page_is_in_the_navigation(monkeypatch):
    """The navigation has each page of docs/ and each document from outside once, and no other."""
    hooks = import_hooks(monkeypatch)
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Loader)
    pages = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    assert sorted(list_pages(settings["nav"])) == sorted([*pages, *hooks.PAGES.values()])


def test_the_site_has_no_code_of_its_scripts():
    """What Python writes next to the scripts of docs/ is excluded like the scripts themselves."""
    pathspec = pytest.importorskip("pathspec", reason="`make docs` installs it")
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Loader)
    excluded = pathspec.GitIgnoreSpec.from_lines(settings["exclude_docs"].splitlines())
    compiled = "__pycache__/site_hooks.cpython-311.pyc"
    assert all(map(excluded.match_file, ("site_hooks.py", compiled, f"how-to/{compiled}")))
    assert not any(excluded.match_file(page) for page in ("index.md", "images/site.js"))


def test_pages_that_files_name_exist():
    """Each page that a message, a comment or a document names is there."""
    named = {
        (str(path.relative_to(ROOT)), page)
        for folder in WITH_REFERENCES
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".smk", ".yaml", ".rst", ".ipynb", ".c", ".html")
        for page in PAGE.findall(path.read_text(encoding="utf-8"))
    }
    for name in ("Makefile", "Snakefile", "config.yaml", "pyproject.toml", "CONTRIBUTING.md"):
        named |= {(name, page) for page in PAGE.findall((ROOT / name).read_text("utf-8"))}
    assert len(named) > 10
    assert [(file, page) for file, page in sorted(named) if not (ROOT / page).is_file()] == []


def test_every_public_name_is_on_the_page_of_the_api():
    """docs/reference/python.md describes each name of `lc.__all__` but the version and `errors`."""
    text = (DOCS / "reference/python.md").read_text(encoding="utf-8")
    described = re.findall(r"^::: llmchecker\.(\w+)$", text, flags=re.M)
    assert sorted(described) == sorted(set(llmchecker.__all__) - {"__version__", "errors"})


def test_every_field_of_an_answer_is_on_the_page_of_the_api():
    """The table of fields has those of an answer, in order."""
    text = (DOCS / "reference/python.md").read_text(encoding="utf-8")
    cells = "".join(re.findall(r"^\| (`.*?) \|", text, flags=re.M))
    assert re.findall(r"`(\w+)`", cells) == [field.name for field in fields(llmchecker.Answer)]


def test_every_error_is_on_the_page_of_exit_statuses():
    """The table of errors has each class of `lc.errors` but the base, with its base classes."""
    page = (DOCS / "reference/exit_statuses.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*?) ?\|$", page, flags=re.M)
    described = {name: set(re.findall(r"`(\w+)`", bases)) for name, bases in rows}
    expected = {
        name: {base.__name__ for base in error.__bases__} - {"LLMCheckerError"}
        for name, error in vars(llmchecker.errors).items()
        if isinstance(error, type) and issubclass(error, llmchecker.errors.LLMCheckerError)
    }
    del expected["LLMCheckerError"]
    assert described == expected


def test_the_options_of_every_command_are_described(monkeypatch):
    """The text for the page of commands has each command, and the options in its help."""
    text = import_hooks(monkeypatch).describe_commands()
    names = re.findall(r"^### ([\w-]+)$", text, flags=re.M)
    assert names[: len(COMMAND_HELP)] == list(COMMAND_HELP)
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^### |\Z)", text, flags=re.M | re.S))
    assert "| `--versus-start " in sections["compare"]
    assert "| `query` |" in sections["check"]
    assert "| `--junit " in sections["test"]


@pytest.mark.parametrize(("heading", "keys"), [("the suite", SuiteKeys), ("a case", CaseKeys)])
def test_every_key_of_a_suite_is_described(heading, keys):
    """The tables of docs/reference/suites.md have each key once."""
    text = (DOCS / "reference/suites.md").read_text(encoding="utf-8")
    table = text.split(f"| key of {heading} |")[1].split("\n\n")[0]
    cells = "\n".join(re.findall(r"^\| (`.*?) \|", table, flags=re.M))
    assert sorted(re.findall(r"`(\w+)`", cells)) == sorted(keys.model_fields)


def test_every_assertion_of_a_suite_is_described():
    """The table of assertions has each kind, in order, with an example and the query it means."""
    text = (DOCS / "reference/suite_requirements.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\{ .*? \})` \| .* \| `(P.*?)` \|$", text, flags=re.M)
    entries = [yaml.safe_load(example) for example, _ in rows]
    assert [next(iter(entry)) for entry in entries] == list(KINDS)
    for entry, (_, query) in zip(entries, rows, strict=True):
        assert parse_assertion(entry)[0] == query


def python_blocks(page: Path) -> str:
    return "".join(re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S))


@pytest.mark.parametrize(
    "page",
    # the first has models, and `make test-peers` runs the second
    [page for page in HOW_TO if page.name not in ("python.md", "other_tools.md")],
    ids=lambda page: page.stem,
)
def test_python_on_a_page_runs(page, monkeypatch):
    """The blocks of Python of a how-to run one after the other."""
    monkeypatch.chdir(ROOT)
    exec(compile(python_blocks(page), str(page), "exec"), {"__name__": "page"})


def test_python_on_the_page_of_answers_runs(tmp_path, monkeypatch):
    """The block of Python writes an answer and reads it again."""
    monkeypatch.chdir(tmp_path)
    page = DOCS / "reference/answer.md"
    exec(compile(python_blocks(page), str(page), "exec"), {"__name__": "page"})
    assert (tmp_path / "answer.json").is_file()


@pytest.mark.long
def test_python_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    """The example of the README prints an answer in an empty folder."""
    if not (ROOT / "resources/models/smollm2-135m").is_dir():
        pytest.skip("SmolLM2 has not been fetched")
    monkeypatch.syspath_prepend(DOCS)
    from shown_outputs import link_model

    link_model(tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    exec(compile(python_blocks(ROOT / "README.md"), "README.md", "exec"), {"__name__": "page"})
    assert "certain" in capsys.readouterr().out


def without_seconds(text: str) -> str:
    return re.sub(r"^seconds .*$", "", text, flags=re.M)


@pytest.mark.long
@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_commands_print_the_outputs_on_the_page(name, monkeypatch):
    """SmolLM2 gives each output again, and the exit status that the page states, else 0."""
    if not (ROOT / "resources/models/smollm2-135m").is_dir():
        pytest.skip("SmolLM2 has not been fetched")
    monkeypatch.syspath_prepend(DOCS)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    from shown_outputs import SHOWING_PAGES, run_page

    assert name in SHOWING_PAGES
    text = (ROOT / name).read_text(encoding="utf-8")
    commands = list(run_page(text))
    assert len(commands) == text.count("```text\n")
    for shown in commands:
        assert alike(without_seconds(shown.printed), without_seconds(shown.output)), shown
        stated = re.match(r"```\n\nThe exit status is (\d)", text.partition(shown.output)[2])
        assert shown.status == (int(stated[1]) if stated else 0)


class _Elements(HTMLParser):
    """The addresses and anchors of a page.

    Attributes:
        loaded: addresses that a browser loads with the page.
        links: addresses that a reader may follow.
        anchors: the ids and names of elements.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        elif tag == "link" and attributes.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(attributes["href"])
        elif attributes.get("src"):
            self.loaded.append(attributes["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> dict[Path, _Elements]:
    """The pages of the site, built strictly, where any connection would fail."""
    if "CI" not in os.environ:
        pytest.importorskip("material", reason="`make docs` installs the packages of the site")
    folder = tmp_path_factory.mktemp("site")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "NO_MKDOCS_2_WARNING": "1",
        "http_proxy": "http://127.0.0.1:1",
        "https_proxy": "http://127.0.0.1:1",
    }
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    run = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return {path: _Elements(path.read_text("utf-8")) for path in folder.rglob("*.html")}


@pytest.mark.long
def test_links_and_anchors_of_the_site_exist(site):
    """Each relative address is that of a file, and each anchor is on its page."""
    dead = []
    for page, elements in site.items():
        # the page for a wrong address has links from the root of the site
        if page.name == "404.html":
            continue
        for address in elements.links + elements.loaded:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            anchors = site[path].anchors if path in site else set()
            if not path.is_file() or (parts.fragment and unquote(parts.fragment) not in anchors):
                dead.append((page.name, address))
    assert len(site) > 25
    assert dead == []


@pytest.mark.long
def test_the_site_loads_nothing_from_other_servers(site):
    """No page has a script, a style, a font or an image with an address of another server."""
    loaded = {address for elements in site.values() for address in elements.loaded}
    assert loaded
    assert [address for address in loaded if re.match(r"(https?:)?//", address)] == []


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("name", ["index", "reference/python", "notebooks/suites"])
def test_axe_finds_nothing_on_the_site(site, browser, axe, name, width, scheme):
    """No rule of axe-core is violated by a page of each kind."""
    (path,) = (
        page for page in site if page.match(f"{name}.html") and "repository" not in page.parts
    )
    size = {"width": width, "height": 900}
    page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
    page.goto(path.as_uri())
    # the theme adds the buttons of blocks of code
    page.locator(".md-code__nav").first.wait_for(state="attached")
    violations = axe(page)
    page.context.close()
    assert violations == []


@pytest.mark.long
def test_the_search_needs_no_server(site, browser):
    """In a page that is opened as a file, the search finds the page of a word."""
    (path,) = (page for page in site if page.name == "index.html")
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(path.as_uri())
    page.locator(".md-search__input").press_sequentially("promptfoo")
    link = page.locator(".md-search-result__link[href*='how-to/promptfoo.html']").first
    link.wait_for()
    page.close()


@pytest.mark.long
def test_formulas_are_part_of_the_pages(site):
    """Formulas are MathML, which needs no script, and none is left in TeX."""
    pages = [path for path in site if path.parent.name == "explanation"]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert text.count("<math ") > 40
    assert "\\(" not in text
    assert "\\[" not in text


def test_bars_in_tables_have_no_backslash(monkeypatch):
    """A bar in a cell is shown as a bar, also in code; other code keeps its backslashes."""
    hooks = import_hooks(monkeypatch)
    cell = "<td><code>a \\|\\| b</code></td>"
    code = "<pre>\\|</pre>"
    assert hooks.on_page_content(cell + code, None, None, None) == (
        "<td><code>a || b</code></td>" + code
    )


def test_a_notebook_is_a_page_with_its_outputs(monkeypatch):
    """Markdown stays as it is; code, printed texts, tables and plots keep their order."""
    hooks = import_hooks(monkeypatch)
    from nbformat import v4

    table = v4.new_output("execute_result", {"text/html": "<table>\n\n<tr></tr>\n</table>"})
    value = v4.new_output("execute_result", {"text/plain": "0.5"})
    plot = v4.new_output("display_data", {"image/png": "aGk=\n", "text/plain": "<Figure>"})
    outputs = [v4.new_output("stream", name="stdout", text="HOLDS\n"), table, value, plot]
    notebook = v4.new_notebook(
        cells=[v4.new_markdown_cell("# Title"), v4.new_code_cell("ask()", outputs=outputs)]
    )
    assert hooks.format_notebook(notebook).strip().split("\n\n") == [
        "# Title",
        "```python\nask()\n```",
        "```text\nHOLDS\n```",
        '<div class="output"><table><tr></tr></table></div>',
        "```text\n0.5\n```",
        '<img alt="Plot of the cell above" src="data:image/png;base64,aGk=">',
    ]


@pytest.mark.long
def test_notebooks_open_on_the_site(site):
    """Each notebook of examples/ is a page of the site."""
    pages = {page.stem for page in site if page.parent.name == "notebooks"}
    assert pages == {notebook.stem for notebook in (ROOT / "examples").glob("*.ipynb")}


def test_the_first_pages_have_three_doors():
    """Both first pages have three doors, and the README begins with a command and its result."""
    doors = ["Gate a deployment", "Prove a property of a model", "Reproduce the paper"]
    for page in (ROOT / "README.md", DOCS / "index.md"):
        sections = page.read_text(encoding="utf-8").split("\n## ")
        assert "```sh\npip install" in sections[0]
        assert [section.splitlines()[0] for section in sections[1:4]] == doors
        if page.name == "README.md":
            assert 0 < sections[0].index("```sh\nllmchecker test") < sections[0].index("```text\n")
            continue
        for section in sections[1:4]:
            assert section.count("```sh\n") == 1


def test_a_formula_keeps_the_comma_after_it(monkeypatch):
    """No line break is possible between a formula in a text and the sign that follows it."""
    hooks = import_hooks(monkeypatch)
    text = '<p>If <span class="arithmatex">\\(x\\)</span>, then y.</p>'
    shown = hooks.on_page_content(text, None, None, None)
    assert re.fullmatch(r'<p>If <span class="formula"><math .*</math>,</span> then y\.</p>', shown)


@pytest.mark.long
def test_the_help_of_every_option_is_on_the_site(site):
    """Braces, brackets and stars of a help text are no markup on the page of commands."""
    (page,) = (path for path in site if path.match("reference/commands.html"))
    text = html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))
    words = " ".join(text.split())
    (commands,) = (action for action in build_parser()._actions if action.choices)
    shown = [
        " ".join(parser._get_formatter()._expand_help(action).split())
        for parser in commands.choices.values()
        for action in parser._actions
        if action.dest != "help" and action.help not in (None, argparse.SUPPRESS)
    ]
    assert len(shown) > 50
    assert [line for line in shown if line not in words] == []


@pytest.mark.long
def test_the_reference_of_the_api_has_signatures(site):
    """The page of the API has an anchor and the arguments of a function."""
    (page,) = (path for path in site if path.match("reference/python.html"))
    assert "llmchecker.load" in site[page].anchors
    assert "memory_gb" in page.read_text(encoding="utf-8")
