"""Suites whose models, judges, quantifiers or prompts change in place: resume, baseline, digest."""

import json
import shutil
from pathlib import Path

import pytest
from helpers.changes import flip, overwrite
from helpers.judging import ScriptedJudge
from helpers.random_models import save_classifier
from helpers.suites import OpenTable, load, run, words_model, write_suite
from test_stored_baselines import CASE, PROPERTIES, list_missing

from llmchecker.config import judges
from llmchecker.errors import ChecksumMismatch, ConfigError
from llmchecker.models.judges import TokenJudge
from llmchecker.suites.fingerprint import Fingerprints
from llmchecker.suites.load import load_suite
from llmchecker.suites.session import run_suite

MODEL_FILES = (
    *("model.safetensors", "config.json", "generation_config.json", "tokenizer.json"),
    *("chat_template.jinja", "server.json"),
)
OWN = "class Own:\n    minimum, maximum = 0, 1\n    def __call__(self, s, c): return 'he' in c\n"


def write_model(folder: Path) -> Path:
    (folder / "m").mkdir()
    for name in MODEL_FILES:
        (folder / "m" / name).write_text("{ }")
    return folder / "m"


@pytest.mark.parametrize("name", MODEL_FILES)
def test_results_of_a_model_that_changed_in_place_are_not_continued(tmp_path, name):
    """Each file of a directory counts by its content; a touch and a copy are no change."""
    model, log = write_model(tmp_path), tmp_path / "log.jsonl"
    suite = load(tmp_path, [CASE], properties=PROPERTIES)
    run(suite, log=log)
    (model / name).touch()
    (model / "notes.txt").write_text("not a file of the model")
    run(load(tmp_path, [CASE], properties=PROPERTIES), log=log)
    overwrite(model / name, b"{\t}")
    with pytest.raises(ConfigError, match="results of another suite, model or version"):
        run(load(tmp_path, [CASE], properties=PROPERTIES), log=log)
    overwrite(model / name, b"{ }")
    assert load(tmp_path, [CASE], properties=PROPERTIES).digest == suite.digest


def test_a_gguf_file_counts_by_its_content(tmp_path):
    """A model that is a single file has another digest after a change of one bit."""
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + bytes(100))
    found = [load(tmp_path, [CASE], properties=PROPERTIES, model="m.gguf").digest]
    flip(tmp_path / "m.gguf")
    found.append(load(tmp_path, [CASE], properties=PROPERTIES, model="m.gguf").digest)
    assert found[0] != found[1]


def write_quantifier(folder: Path, kind: str) -> tuple[dict, Path]:
    """The settings of a quantifier with a file, and the file."""
    if kind == "judge":
        (folder / "j").mkdir(exist_ok=True)
        (folder / "j/config.json").write_text("{ }")
        return {"type": "judge", "model": "./j", "question": "Is it?"}, folder / "j/config.json"
    if kind == "classifier":
        save_classifier(folder / "c")
        settings = {"type": "classifier", "directory": "c", "label": "calm"}
        return settings, folder / "c/model.safetensors"
    name, text = {
        "python": ("own.py", OWN),
        "words": ("list.txt", "he\n"),
        "json": ("he.json", '{"const": "he"}'),
    }[kind]
    (folder / name).write_text(text)
    return {"type": kind, "file": name} | ({"class": "Own"} if kind == "python" else {}), (
        folder / name
    )


@pytest.fixture
def judge(open_judge):
    """A judge that says yes to texts with `he`."""
    return open_judge(ScriptedJudge(lambda text: {"Yes" if " he" in text else "No": 0.9}))


@pytest.mark.parametrize("kind", ["judge", "python", "words", "json"])
def test_a_quantifier_that_changed_in_place_is_another_question(tmp_path, judge, kind):
    """Stored results of the old file are neither a baseline nor continued."""
    settings, file = write_quantifier(tmp_path, kind)
    content = {"properties": {"he": settings}, "cases": [CASE | {"length": 1}]}
    log, new = tmp_path / "log.jsonl", tmp_path / "new.jsonl"
    path = write_suite(tmp_path, content)
    run(load_suite(path), log=log)
    shutil.copy(log, tmp_path / "old.jsonl")
    before = dict(Fingerprints(load_suite(path)))
    text = file.read_bytes()
    overwrite(file, text[:-1] + b"\t" if kind == "judge" else text.replace(b"he", b"it"))
    loaded = load_suite(path, has_baseline=True)
    assert dict(Fingerprints(loaded)) != before
    result = run(loaded, baseline=tmp_path / "old.jsonl")
    assert list_missing(result) == [("won: he", "quantifier he")]
    # the results of the old file are replaced
    run(load_suite(path), log=log)
    run(load_suite(path), log=new)
    fingerprints = [
        json.loads(each.read_text().splitlines()[1])["fingerprint"] for each in (log, new)
    ]
    assert fingerprints[0] == fingerprints[1]


@pytest.mark.parametrize(
    "kind", ["judge", "python", "words", "json", "classifier", "model", "gguf"]
)
@pytest.mark.parametrize("moment", ["before", "during"])
def test_a_change_after_a_suite_was_loaded_ends_its_run(tmp_path, judge, kind, moment):
    """No result is of the old file and recorded with the new one; the message names the file."""
    model, gguf = write_model(tmp_path), tmp_path / "m.gguf"
    gguf.write_bytes(b"GGUF" + bytes(100))
    models = {"model": model / "model.safetensors", "gguf": gguf}
    settings, file = write_quantifier(tmp_path, "words" if kind in models else kind)
    file = models.get(kind, file)
    name = "m.gguf" if kind == "gguf" else "m"
    suite = load(tmp_path, [CASE], properties={"he": settings}, model=name)
    log = tmp_path / "log.jsonl"

    def open_model(_) -> OpenTable:
        if moment == "during":
            flip(file)
        return OpenTable(words_model())

    if moment == "before":
        flip(file)
    with pytest.raises(ChecksumMismatch, match=rf"{file.name}.*run the same command again"):
        run_suite(suite, open_model=open_model, log=log)
    assert not log.exists() or len(log.read_text().splitlines()) == 1


def test_a_judge_that_changed_between_two_suites_is_opened_again(tmp_path, monkeypatch):
    """One process does not grade a later suite by the weights of an earlier one."""
    opened = []

    def open_access(*_):
        answer = "No" if opened else "Yes"
        opened.append(TokenJudge(ScriptedJudge(lambda _: {answer: 0.9})))
        return opened[-1]

    monkeypatch.setattr(judges, "_accesses", {})
    monkeypatch.setattr(judges, "_open_access", open_access)
    settings, file = write_quantifier(tmp_path, "judge")
    case = {"start": "once", "require": {"he": "P>=0.5 [ F he = 1 ]"}, "length": 1}
    statuses = []
    for _ in range(2):
        suite = load(tmp_path, [case], properties={"he": settings})
        statuses += [result.status for result in (*run(suite).results, *run(suite).results)]
        flip(file)
    assert statuses == ["HOLDS"] * 2 + ["VIOLATED"] * 2
    assert len(opened) == 2


def test_a_changed_row_of_a_data_set_is_another_suite(tmp_path):
    """Prompts count by their content, whatever the time of their file."""
    case = {"start": "{word}", "prompts": "rows.csv", "require": {"he": "P>=0.1 [ F he = 1 ]"}}
    files = {"rows_csv": "word\nonce\n"}
    suite = load(tmp_path, [case], files, properties=PROPERTIES)
    overwrite(tmp_path / "rows.csv", b"word\nshes\n")
    assert load_suite(tmp_path / "suite.yaml").digest != suite.digest
