"""What a change costs, found by making it; the table of the how-to is that of these runs."""

import re
import shutil
import subprocess
from collections.abc import Callable

import pytest
from helpers.project import GENDER, LAST, ROOT, Project, read_config
from helpers.project_of_files import LETTERS, change_weights, write_project
from helpers.undisturbed import at

pytestmark = [pytest.mark.slow, pytest.mark.long]

PAGE = ROOT / "docs/how-to/workflow.md"
STAGES = {
    "trees": ("trees", "parquet"),
    "scores": ("scores", "parquet"),
    "chains": ("prism", "prism"),
    "checks": ("checks", "json"),
    "crosschecks": ("crosschecks", "json"),
    "answers": ("answers", "json"),
}
"""The rule and the suffix of the results of each stage."""
OTHERS = {"model": "fetch_model", "statistics": "topk", "suite": "suite"}
"""The rule of each result that one job computes."""
FILES = {"topk": "results/topk/one.parquet", "suite": "results/suites/words/one.jsonl"}
"""The result of each stage with wildcards."""
TABLES = {
    *("provenance", "table1", "table2", "comparison", "audit", "figure3", "suites", "report"),
}
"""Rules of a moment, which the runs leave out."""
COLUMNS = ("model", *STAGES, "statistics", "suite", "tables")


def append(*files: str) -> Callable[[Project], None]:
    """A change of files by a line that means nothing."""

    def change(project: Project) -> None:
        for file in files:
            with (project.directory / file).open("a", encoding="utf-8") as opened:
                opened.write("\n# changed\n" if file.endswith(".py") else "\n")

    return change


def configure(change: Callable[[dict], object]) -> Callable[[Project], None]:
    """A change of the configuration."""

    def apply(project: Project) -> None:
        config = read_config(project)
        change(config)
        project.write_config(config)

    return apply


def add_query(config: dict) -> None:
    config["experiments"][0]["queries"].append("P=? [ F letters > 2 ]")


def add_experiment(config: dict) -> None:
    config["start_strings"]["nurse"] = "The nurse said that"
    (first,) = config["experiments"]
    config["experiments"].append(first | {"start": "nurse", "queries": [LAST]})


def add_case(project: Project) -> None:
    file = project.directory / "suite.yaml"
    case = "- {start: The nurse, length: 2, require: 'P>=0.1 [ F listed > 0 ]'}\n"
    file.write_text(file.read_text() + case)


def replace(file: str, old: str, new: str) -> Callable[[Project], None]:
    def change(project: Project) -> None:
        path = project.directory / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


def touch_all(project: Project) -> None:
    for path in project.directory.rglob("*"):
        # what was fetched is a result too
        made = {"results", ".snakemake", "resources"}
        if path.is_file() and not made & set(path.relative_to(project.directory).parts):
            path.touch()


PACKAGE = "src/llmchecker"
CHANGES: dict[str, Callable[[Project], None]] = {
    "a query on an experiment": configure(add_query),
    "an experiment with another start string": configure(add_experiment),
    "`answer.passes`": configure(lambda config: config["answer"].update(passes=21)),
    "a label of a model": configure(lambda config: config["models"]["one"].update(label="Two")),
    "a byte of a model": lambda project: change_weights(project.directory / "weights"),
    "a row of the prompts": replace("prompts.csv", "Say it.", "Say so."),
    "a word of a list, for a query and the suite": replace("list.txt", "the", "a"),
    "a class of your own": append("own.py"),
    "a case of a suite": add_case,
    "code of a quantifier": append(f"{PACKAGE}/properties/quantifiers/gender.py"),
    "code that draws samples": append(f"{PACKAGE}/checking/anytime/path_sampler.py"),
    "code of the tables": append(f"{PACKAGE}/reporting/tables.py"),
    "times of all files, the folder, or the user": touch_all,
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, random_model) -> Project:
    """A project with one tree, four queries on it, a suite and statistics, after its first run."""
    directory = tmp_path_factory.mktemp("original") / "project"
    shutil.copytree(random_model("gpt2"), directory / "weights")
    project = write_project(directory, "path:weights")
    config = read_config(project)
    # a requirement that the bounds decide
    replace("suite.yaml", "P>=0.1", "P>=0.001")(project)
    config["quantifiers"]["gender"] = {}
    queries = [LAST, LETTERS, GENDER, "P=? [ F listed > 0 ]"]
    config["experiments"][0]["queries"] = queries
    project.write_config(config)
    run = project.snakemake("--cores", "2")
    assert run.returncode == 0, run.stdout
    return project


def measure(project: Project) -> dict[str, str]:
    """Run the stages of a project, and return what of each they computed: all, some or nothing."""
    jobs = project.planned()
    targets = [rule for rule in jobs if rule.endswith("_one")]
    targets += [file for rule, file in FILES.items() if rule in jobs]
    if targets:
        run = project.snakemake("--cores", "2", *targets)
        assert run.returncode == 0, run.stdout
    cells = {name: "all" if rule in jobs else "" for name, rule in OTHERS.items()}
    cells["tables"] = "again" if jobs.keys() & TABLES else ""
    if cells["suite"]:
        log = (project.directory / "results/logs/suites/words/one.log").read_text(encoding="utf-8")
        if match := re.search(r"(\d+) cases? of (\d+) kept", log):
            cells["suite"] = format_share(*map(int, match.groups()))
    for name, (rule, suffix) in STAGES.items():
        cells[name] = ""
        if f"{rule}_one" in jobs:
            log = project.directory / f"results/logs/{rule}/one.log"
            kept = log.read_text(encoding="utf-8").count(": kept\n")
            cells[name] = format_share(kept, len(project.found(f"{rule}/one/**/*.{suffix}")))
    return cells


def format_share(kept: int, total: int) -> str:
    if kept == total:
        return ""
    return f"{total - kept} of {total}" if kept else "all"


def format_row(name: str, cells: dict[str, str]) -> str:
    return "| " + " | ".join([name, *(cells[column] for column in COLUMNS)]) + " |"


def read_table() -> list[str]:
    """The lines of the table in the how-to."""
    text = PAGE.read_text(encoding="utf-8")
    return text.partition("<!-- changes -->\n")[2].partition("\n<!-- /changes -->")[0].split("\n")


@pytest.mark.parametrize("name", CHANGES)
def test_a_row_of_the_how_to_is_what_a_change_costs(finished, tmp_path, name):
    """The row is what the stages compute after the change."""
    project = at(tmp_path / "changed")
    subprocess.run(["cp", "--archive", finished.directory, project.directory], check=True)
    CHANGES[name](project)
    row = format_row(name, measure(project))
    assert row in read_table(), f"{PAGE} needs this row:\n{row}"


def test_the_table_has_a_row_for_each_change():
    """The head has a column for each stage, and no row is about another change."""
    head, _, *rows = read_table()
    assert head == format_row("changed", dict(zip(COLUMNS, COLUMNS, strict=True)))
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(CHANGES)
