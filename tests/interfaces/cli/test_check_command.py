"""One question from the shell, on a small random model and in a project of its own."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from helpers.damage import flipped
from helpers.fake_hub import make_client_new, point_client_at, serving
from helpers.random_models import save_as_published

import llmchecker.trees.expansion
from llmchecker.errors import CheckFailed
from llmchecker.interfaces.cli.main import main
from llmchecker.properties.registry import create_quantifier
from llmchecker.trees.builder import _record_path
from llmchecker.trees.text_tree import StateKind, TextTree
from llmchecker.utils import job_logging
from llmchecker.utils.number_format import format_lower, format_number, format_upper

ROOT = Path(__file__).parents[3]
START = "The player won because"
QUERY = "P=? [ F readability > 8000 ]"
TRUNCATION = ("--alpha", "0.8", "--k", "4", "--length", "3")
PLACE = "alpha0.8_k4_L3.parquet"


@pytest.fixture(scope="module")
def made(tmp_path_factory, random_model) -> Path:
    """A project with one model, and one start string in its config."""
    directory = tmp_path_factory.mktemp("project")
    config = {
        "models": {"gpt2": {"label": "Small GPT-2", "source": f"path:{random_model('gpt2')}"}},
        "start_strings": {"player": START},
        "quantifiers": {"gender": {}, "readability": {}},
        "experiments": [],
    }
    write(config, directory / "config.yaml")
    return directory


@pytest.fixture
def project(made, monkeypatch) -> Path:
    """The project, without trees, as the current directory."""
    shutil.rmtree(made / "results", ignore_errors=True)
    monkeypatch.chdir(made)
    return made


def write(config: dict, path: Path) -> None:
    path.write_text(yaml.safe_dump(config), encoding="utf-8")


def changed(project: Path, name: str, **settings) -> Path:
    """Another config beside the project's own, with other settings of the model."""
    config = yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))
    config["models"]["gpt2"] |= settings
    write(config, project / name)
    return project / name


def arguments(*more: str, query: str = QUERY, model: str = "gpt2", start: str = START) -> list[str]:
    return ["check", query, "--model", model, f"--start={start}", *_truncate(more), *more]


def _truncate(more: Sequence[str]) -> list[str]:
    """The truncation without its options that have another value in further arguments."""
    pairs = zip(TRUNCATION[::2], TRUNCATION[1::2], strict=True)
    return [word for pair in pairs if pair[0] not in more for word in pair]


def answered(capfd, *more: str, **changes: str) -> dict:
    """The JSON object that a question prints."""
    capfd.readouterr()
    assert main(arguments("--json", *more, **changes)) == 0
    out = capfd.readouterr().out
    assert out.count("\n") == 1
    return json.loads(out)


def named(lines: list[str]) -> dict[str, str]:
    """The figures of a printed answer by their names."""
    rows = (re.split(" {2,}", line, maxsplit=1) for line in lines if line[:1].strip())
    return {row[0]: row[1] for row in rows if len(row) == 2}


def refused(capfd, words: list[str]) -> str:
    """The error message of a question that cannot be answered as asked."""
    capfd.readouterr()
    try:
        status = main(words)
    except SystemExit as ended:
        status = ended.code
    out, err = capfd.readouterr()
    assert status == 3
    assert out == ""
    assert "Traceback" not in err
    return err


@pytest.fixture
def no_growth(monkeypatch):
    """A function after whose call no tree can be grown."""

    def grow(*_):
        raise AssertionError("a tree was grown")

    return lambda: monkeypatch.setattr(llmchecker.trees.expansion, "build_tree", grow)


def eventually(tree: TextTree, holds: list[bool]) -> tuple[Fraction, Fraction]:
    """The mass of paths that reach a state that holds, and of those that reach `rest` instead."""
    mass = {0: Fraction(1)}
    reached = hidden = Fraction(0)
    for uid in range(len(tree)):
        if uid > 0 and int(tree.parent[uid]) in mass:
            mass[uid] = mass[int(tree.parent[uid])] * Fraction(float(tree.probability[uid]))
        if uid in mass and tree.kind[uid] == StateKind.REST:
            hidden += mass.pop(uid)
        elif uid in mass and holds[uid]:
            reached += mass.pop(uid)
    return reached, hidden


def test_value_and_bounds_are_those_of_the_tree(project, capfd):
    """The value is the mass of the texts that satisfy the query, and upper adds what rest hides."""
    answer = answered(capfd)
    tree = TextTree.read(project / answer["tree"])
    quantifier = create_quantifier("readability")
    holds = [
        kind != StateKind.REST and quantifier(START, text.removeprefix(START)) > 8000
        for kind, text in zip(tree.kind, tree.text, strict=True)
    ]
    reached, hidden = eventually(tree, holds)
    assert 0 < reached < 1
    assert hidden > 0
    assert answer["bounded"] == pytest.approx(float(reached), abs=1e-12)
    assert answer["lower"] == pytest.approx(float(reached), abs=1e-12)
    assert answer["upper"] == pytest.approx(float(reached + hidden), abs=1e-12)
    assert (answer["states"], answer["transitions"]) == (len(tree), tree.transitions)


def test_json_says_what_was_asked(project, capfd):
    """The object has the verdict's fields and the question's, under names that never change."""
    answer = answered(capfd)
    asked = {"query": QUERY, "model": "gpt2", "start": START, "alpha": 0.8, "k": 4, "L": 3}
    assert {key: answer[key] for key in asked} == asked
    assert {"versions", "encode_seconds", "check_seconds"} <= answer.keys()
    assert {"growing_seconds", "scoring_seconds"} <= answer.keys()
    probabilities = [witness["probability"] for witness in answer["witnesses"]]
    assert 0 < len(probabilities) <= 10
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) <= answer["bounded"] + 1e-12


def test_a_person_reads_every_figure(project, capfd):
    """Without --json, the figures stand on lines that begin with their names."""
    answer = answered(capfd)
    assert main(arguments()) == 0
    lines = capfd.readouterr().out.splitlines()
    rows = named(lines)
    names = ["query", "model", "text", "certain", "horizon", "probability (bounded)"]
    assert list(rows)[:6] == names
    assert rows["query"] == QUERY
    assert rows["probability (bounded)"] == format_number(answer["bounded"])
    bounds = f"[{format_lower(answer['lower'])}, {format_upper(answer['upper'])}]"
    assert rows["certain"] == f"{bounds} (proven for the whole model)"
    assert rows["states"] == f"{answer['states']:,}"
    assert rows["transitions"] == f"{answer['transitions']:,}"
    assert rows["seconds"].startswith("tree from the cache, scoring ")
    first = answer["witnesses"][0]
    text = json.dumps(first["text"][first["kept"] :], ensure_ascii=False)
    assert any(
        line.split()[:1] == [format_number(first["probability"])] and text in line for line in lines
    )


@pytest.mark.parametrize(
    ("query", "value", "outcome", "certainty", "status"),
    [
        ("P>=0.5 [ F step = 1 ]", "true", "HOLDS", "certain", 0),
        ("P>=0.5 [ X false ]", "false", "VIOLATED", "certain", 1),
        ("P>0 [ F gender > 1000 ]", "false", "UNKNOWN", None, 2),
    ],
)
def test_a_threshold_has_an_outcome(project, capfd, query, value, outcome, certainty, status):
    """To P>=p the answer for the whole model is one of three words, each with an exit status."""
    assert main(arguments(query=query)) == status
    rows = named(capfd.readouterr().out.splitlines())
    words = ", ".join(filter(None, (outcome, certainty)))
    if certainty == "certain":
        words += " (proven for the whole model)"
    assert (rows["verdict"], rows["verdict (bounded)"]) == (words, value)
    assert main(arguments("--json", query=query)) == status
    answer = json.loads(capfd.readouterr().out)
    assert (answer["outcome"], answer["certainty"]) == (outcome, certainty)


@pytest.mark.parametrize("limits", [TRUNCATION, ["--length", "2", "--passes", "20"]])
def test_a_page_has_the_answer_that_is_printed(project, capfd, tmp_path, limits):
    """With --html, the page has the certain bounds of the printed answer, and text is no markup."""
    page = tmp_path / "page.html"
    words = ["check", QUERY, "--model", "gpt2", "--start=<b>She", *limits]
    assert main([*words, "--json", "--html", str(page)]) == 0
    fields = json.loads(capfd.readouterr().out)
    ends = format_lower(fields["lower"], 4), format_upper(fields["upper"], 4)
    text = page.read_text(encoding="utf-8")
    assert "[{}, {}]".format(*ends) in text
    assert "&lt;b&gt;She" in text
    assert "<b>She" not in text
    assert ("probability (bounded)</dt>" in text) is (limits == TRUNCATION)


def test_a_page_that_cannot_be_written_is_refused_at_once(project, capfd, no_growth, tmp_path):
    """A directory in place of the file of --html ends the command before any work."""
    words = arguments("--html", str(tmp_path))
    assert f"--html: it is the directory {tmp_path}; name a file" in refused(capfd, words)


def test_an_unexpected_error_is_no_verdict(project, capfd, monkeypatch):
    """An error without a message for users keeps its traceback, and the status of an error."""

    def fail(*_):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("llmchecker.interfaces.cli.check_command.check_on_tree", fail)
    assert main(arguments()) == 3
    out, err = capfd.readouterr()
    assert out == ""
    assert err.endswith("ZeroDivisionError: a defect\n")


def test_a_bound_that_there_is_not_is_infinite(project, capfd):
    """The expected score of a quantifier without a range has no bounds, as `rest` may score any."""
    query = 'R{"gender"}=? [ I=3 ]'
    answer = answered(capfd, query=query)
    assert (answer["lower"], answer["upper"]) == (None, None)
    assert main(arguments(query=query)) == 0
    rows = named(capfd.readouterr().out.splitlines())
    assert rows["certain"].startswith("[-infinity, infinity]")
    assert "score (bounded)" in rows


def test_where_the_bounds_fail_the_value_is_kept(project, capfd, monkeypatch):
    """Bounds that cannot be computed are the widest there are, with a note and exit status 0."""
    value = answered(capfd)["bounded"]

    def failing(*_):
        raise CheckFailed("the prover ran out of patience")

    monkeypatch.setattr("llmchecker.checking.bounds.compute_bounds", failing)
    answer = answered(capfd)
    assert (answer["bounded"], answer["lower"], answer["upper"]) == (value, 0, 1)
    assert main(arguments()) == 0
    out, err = capfd.readouterr()
    rows = named(out.splitlines())
    assert (rows["probability (bounded)"], rows["certain"]) == (
        f"{value:.6g}",
        "[0, 1] (proven for the whole model)",
    )
    assert "out of patience" in rows["note"]
    assert "Traceback" not in err


def test_a_tree_is_grown_once(project, capfd, no_growth):
    """The second question on a text reads the tree of the first, whatever it asks."""
    first = answered(capfd)
    no_growth()
    again = answered(capfd)
    assert {**again, "tree": first["tree"], "bounded": first["bounded"]} == again
    assert again["growing_seconds"] == 0
    assert answered(capfd, query="P=? [ F gender > 0 ]")["tree"] == first["tree"]


def test_a_damaged_tree_is_grown_again(project, capfd):
    """A kept file that is no tree is replaced."""
    first = answered(capfd)
    (project / first["tree"]).write_bytes(b"damaged")
    assert answered(capfd)["bounded"] == first["bounded"]
    assert len(TextTree.read(project / first["tree"])) == first["states"]


def test_a_tree_is_of_one_way_to_run_the_model(project, capfd):
    """Another dtype or end of sequence, or changed weights, never meet a tree grown before."""
    trees = [answered(capfd)["tree"]]
    other = changed(project, "other.yaml", dtype="bfloat16")
    trees.append(answered(capfd, "--config", str(other))["tree"])
    config = yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))
    write(config | {"expansion": {"end_of_sequence": "ordinary"}}, other)
    trees.append(answered(capfd, "--config", str(other))["tree"])
    weights = project / "resources/models/gpt2/model.safetensors"
    trained = project / "trained.safetensors"
    trained.write_bytes(flipped(weights.read_bytes(), 8 * weights.stat().st_size - 12))
    weights.unlink()
    weights.symlink_to(trained)
    trees.append(answered(capfd)["tree"])
    assert len(set(trees)) == 4


def workflow_tree(project: Path, capfd, start: str) -> Path:
    """A tree of `start` where the workflow keeps that of the config's start string."""
    path = project / "results/trees/gpt2/player" / PLACE
    grown = project / answered(capfd, start=start)["tree"]
    path.parent.mkdir(parents=True)
    for file in (grown, _record_path(grown)):
        shutil.move(file, path.with_suffix(file.suffix))
    return path


def test_the_tree_of_the_workflow_is_used(project, capfd, no_growth):
    """A text of the config is answered on the tree that the workflow grew."""
    path = workflow_tree(project, capfd, START)
    no_growth()
    assert project / answered(capfd)["tree"] == path


def test_the_tree_of_another_way_to_run_the_model_is_not_used(project, capfd):
    """The workflow's tree counts for its own model, dtype and code alone, as its record tells."""
    path = workflow_tree(project, capfd, START)
    other = changed(project, "other.yaml", dtype="bfloat16")
    assert project / answered(capfd, "--config", str(other))["tree"] != path
    _record_path(path).unlink()
    assert project / answered(capfd)["tree"] != path


def test_the_tree_of_another_text_is_not_used(project, capfd):
    """A tree whose root is another text is not taken for that of the config's text."""
    path = workflow_tree(project, capfd, "The exam")
    assert project / answered(capfd)["tree"] != path


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "start",
    ["He said: \"no\", \\ 'x' $HOME {y}", "a\nb\tc", "🙂👩‍👩‍👧 選手", "", "../../up", "-5", "--k"],
)
def test_a_start_string_is_data(project, capfd, start):
    """Any text can go on, and none becomes part of a path."""
    answer = answered(capfd, start=start)
    assert answer["start"] == start
    assert re.fullmatch(rf"results/trees/gpt2/text_[0-9a-f]{{16}}/{PLACE}", answer["tree"])
    assert main(arguments(start=start)) == 0
    rows = named(capfd.readouterr().out.splitlines())
    assert rows["text"] == json.dumps(start, ensure_ascii=False)


def test_a_folder_without_a_config_needs_a_model(tmp_path, monkeypatch, capfd):
    """The message of a first command names the model that is missing, not a configuration."""
    monkeypatch.chdir(tmp_path)
    message = refused(capfd, ["check", QUERY, "--start", "x"])
    assert "--model: missing, and config.yaml is absent here; name one" in message
    assert refused(capfd, ["check", QUERY, "--strat", "x"]).count("\n") == 1


def test_a_config_above_the_current_directory_keeps_its_paths(project, capfd, monkeypatch):
    """Paths of a config are relative to its project, wherever the question is asked."""
    tree = answered(capfd)["tree"]
    (project / "below").mkdir(exist_ok=True)
    monkeypatch.chdir(project / "below")
    assert answered(capfd, "--config", "../config.yaml")["tree"] == tree


def test_the_project_of_a_config_is_where_the_workflow_is(project, tmp_path, capfd):
    """Trees of a config below a Snakefile are kept beside that; without one, beside the config."""
    copy = shutil.copytree(project, tmp_path / "copy", symlinks=True)
    (copy / "configs").mkdir()
    config = (copy / "config.yaml").rename(copy / "configs/config.yaml")
    assert (copy / "configs" / answered(capfd, "--config", str(config))["tree"]).is_file()
    (copy / "Snakefile").touch()
    assert (copy / answered(capfd, "--config", str(config))["tree"]).is_file()


def test_a_model_from_elsewhere_is_refused(project, capfd):
    """A model directory that was fetched from another source than the config names is not used."""
    answered(capfd)
    other = changed(project, "other.yaml", source="path:/elsewhere")
    message = refused(capfd, arguments("--config", str(other)))
    assert "delete the directory to fetch the model again" in message


def test_a_model_of_the_hub_is_locked(project, capfd, tmp_path, monkeypatch):
    """A model without a commit is fetched once and locked; what another lock names is not used."""
    repository = save_as_published("llama-2", tmp_path / "published")
    config = yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))
    config["models"]["hub"] = {"label": "On the hub", "source": "hf:owner/name"}
    write(config, project / "hub.yaml")
    ask = arguments("--config", "hub.yaml", model="hub")
    with serving() as hub:
        make_client_new(tmp_path, monkeypatch)
        point_client_at(hub.address, monkeypatch)
        hub.files = {file.name: file.read_bytes() for file in repository.iterdir()}
        assert main(ask) == 0
    lock = project / "config/locks/models/hub.json"
    assert json.loads(lock.read_text())["commit"] == hub.commits[-1]
    assert main(ask) == 0
    lock.write_text(lock.read_text().replace(hub.commits[-1], "a" * 40))
    message = refused(capfd, ask)
    assert f"contains hf:owner/name@{hub.commits[-1]}" in message


def test_a_model_that_cannot_be_had_is_explained(project, capfd):
    """A source that does not exist is named."""
    config = yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))
    config["models"]["lost"] = {"label": "Lost", "source": "path:/nowhere"}
    write(config, project / "other.yaml")
    words = arguments("--config", "other.yaml", model="lost")
    assert "/nowhere is absent" in refused(capfd, words)


NOISE = """
import ctypes, os, sys
from llmchecker.interfaces.cli import main
from llmchecker.checking import check

def loud(*arguments, check=check.check_chain):
    print("noise of Python")
    os.write(1, b"noise of a system call")
    ctypes.CDLL(None).printf(b"noise of C")
    return check(*arguments)

check.check_chain = loud
sys.exit(main.main(sys.argv[1:]))
"""


@pytest.mark.long
def test_standard_output_is_one_json_object_whatever_libraries_print(project, capfd):
    """What Python, a system call and C's buffered output print goes to standard error."""
    answer = answered(capfd)
    run = subprocess.run(
        [sys.executable, "-c", NOISE, *arguments("--json")],
        env={**os.environ, "PYTHONUNBUFFERED": ""},  # which would unbuffer C too
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert json.loads(run.stdout)["bounded"] == answer["bounded"]
    for source in ("Python", "a system call", "C"):
        assert f"noise of {source}" in run.stderr


LIGHT = """
import sys
from llmchecker.interfaces.cli.main import main
from llmchecker.trees.builder import _record_path

status = main(sys.argv[1:])
assert not {"torch", "transformers", "stormpy"} & set(sys.modules)
sys.exit(status)
"""


def test_a_mistake_is_found_before_anything_heavy_is_imported(project):
    """A query with an unknown quantifier does not wait for torch or Storm."""
    words = arguments(query="P=? [ F gendr > 0 ]")
    run = subprocess.run([sys.executable, "-c", LIGHT, *words], capture_output=True, check=False)
    assert run.returncode == 3
    assert run.stderr.startswith(b"error: ")


def test_help_tells_the_arguments(capfd):
    """--help ends with status 0 and names every argument."""
    for words in (["--help"], ["check", "--help"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
    out = capfd.readouterr().out
    for name in ("query", "--model", "--start", "--alpha", "--k", "--length", "--config", "--json"):
        assert name in out


def test_an_interruption_has_its_own_status(capfd, monkeypatch):
    """Ctrl-C ends with status 130 and without a traceback."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("llmchecker.interfaces.cli.check_command.parse_question", interrupted)
    assert main(arguments("--json")) == 130
    assert capfd.readouterr() == ("", "interrupted\n")


class Terminal(io.StringIO):
    """A standard error that a person watches."""

    def isatty(self) -> bool:
        return True


def test_growth_has_a_changing_line_for_a_person(monkeypatch):
    """On a terminal each level has its nodes, done and in all, and their speed."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with job_logging.show_status() as status:
        report = job_logging.build_node_progress(status)
        report(1, 1, 1)
        report(2, 4, 9)
        report(2, 9, 9)
    assert "step 1, 1 of 1 nodes" in terminal.getvalue()
    assert "step 2, 9 of 9 nodes" in terminal.getvalue()


def drawn(capfd, *more: str) -> str:
    """The picture of a tree on standard output."""
    capfd.readouterr()
    words = ["tree", "--model", "gpt2", f"--start={START}", *_truncate(more), *more]
    assert main(words) == 0
    return capfd.readouterr().out


def test_the_tree_that_is_drawn_is_the_one_that_is_checked(project, capfd, no_growth):
    """A drawing has every state of the tree of a check, which is not grown again, and its texts."""
    answer = answered(capfd)
    tree = TextTree.read(project / answer["tree"])
    no_growth()
    picture = ElementTree.fromstring(drawn(capfd, "--query", QUERY))
    boxes = picture.findall("{http://www.w3.org/2000/svg}g")
    assert len(boxes) == len(tree)
    marked = [uid for uid, box in enumerate(boxes) if "witness" in box.get("class").split()]
    assert {witness["uid"] for witness in answer["witnesses"]} <= set(marked)
    reached, _ = eventually(tree, [uid in marked for uid in range(len(tree))])
    assert float(reached) == pytest.approx(answer["bounded"], abs=1e-12)
    edges = drawn(capfd, "--format", "dot").count(" -> ")
    assert edges == len(tree) - 1


def test_a_drawing_goes_to_the_file_that_is_named(project, capfd):
    """A file is written in the format of its suffix, relative to where the command was given."""
    picture, graph = drawn(capfd), drawn(capfd, "--format", "dot")
    (project / "below").mkdir(exist_ok=True)
    with contextlib.chdir(project / "below"):
        for name, text in (("tree.svg", picture), ("tree.dot", graph)):
            assert drawn(capfd, "--config", "../config.yaml", "--output", name) == ""
            assert Path(name).read_text(encoding="utf-8") == text


def test_a_large_tree_is_drawn_by_its_most_probable_states(project, capfd):
    """The drawing says how much of the tree it has; a file that cannot be written is an error."""
    asked = ["tree", "--model", "gpt2", f"--start={START}", "--alpha", "1", "--k", "9"]
    assert "the 400 most probable of 911 states" in drawn(capfd, *asked[4:], "--length", "3")
    nowhere = project / "config.yaml" / "tree.svg"
    assert "cannot be written" in refused(
        capfd, [*asked, "--length", "1", "--output", str(nowhere)]
    )
