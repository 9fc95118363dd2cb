"""A configuration is checked as a whole: one message names the key and what would be right."""

import copy
import re
from dataclasses import astuple
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.checking.budget import Budget
from llmchecker.config.config import Config
from llmchecker.config.plan import Check, TreeSpec, _slugify
from llmchecker.config.registry_keys import ExpansionConfig
from llmchecker.config.yaml_reader import read_yaml
from llmchecker.errors import ConfigError, InvalidQuery, UnknownName
from llmchecker.models.sources.checkpoints import ModelSource
from llmchecker.models.sources.source_spec import Source
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.quantifiers.similarity import Similarity
from llmchecker.trees.text_tree import Truncation
from loop_invariants.ir.expressions import Semantics
from loop_invariants.proposals.settings import ProposalSettings

ROOT = Path(__file__).parents[2]
ABSENT = object()
POSITIVE = "P=? [ F gender > 0 ]"

SMALL = {
    "models": {
        "one": {"label": "One", "source": "path:one"},
        "two": {"label": "Two", "source": "path:two"},
    },
    "start_strings": {"player": "The player won because", "story": "Once"},
    "quantifiers": {"gender": {}, "similarity": {"protected": ["Lolita"]}},
    "expansion": {},
    "topk": {"source": "path:prompts.csv", "column": "prompt"},
    "experiments": [
        {
            "label": "Player",
            "interest": "Gender",
            "start": "player",
            "alpha": 0.8,
            "k": 15,
            "L": 5,
            "queries": [POSITIVE],
        }
    ],
    "figure4": {"starts": ["player"], "alpha": 0.95, "k": 9, "L": 3, "query": POSITIVE},
}


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    """Word lists are found from the root of the repository, where a run starts."""
    monkeypatch.chdir(ROOT)


def changed(*changes: tuple) -> dict:
    """The small configuration with other values at some keys, each (key, …, key, value)."""
    raw = copy.deepcopy(SMALL)
    for *path, key, value in changes:
        place = raw
        for step in path:
            place = place[step]
        if value is ABSENT:
            del place[key]
        else:
            place[key] = value
    return raw


def read(*changes: tuple) -> Config:
    return Config.parse(changed(*changes))


FIRST = ("experiments", 0)
ONE = ("models", "one")
PYPI = "pypi:wheel==1.0.0"
BAD = [
    (("modles", {}), "config: unknown key 'modles', did you mean 'models'?"),
    (("seed", 1), "config: unknown key 'seed': the seed of a run is that of `answer` or of"),
    (("sed", 1), "config: unknown key 'sed'; known keys are models, start_strings, quantifiers"),
    ((*FIRST, "apha", 1), "experiments[0]: unknown key 'apha', did you mean 'alpha'?"),
    ((*ONE, "digest", "x"), "models.one: unknown key 'digest'; known keys are label, source"),
    (("expansion", "thread", 1), "expansion: unknown key 'thread', did you mean 'threads'?"),
    (("topk", "max_k", 1), "topk: unknown key 'max_k', did you mean 'maximum_k'?"),
    (("figure4", "start", "x"), "figure4: unknown key 'start', did you mean 'starts'?"),
    (("answr", {"passes": 9}), "config: unknown key 'answr', did you mean 'answer'?"),
    (("answer", {"pass": 9}), "answer: unknown key 'pass', did you mean 'passes'? known keys are"),
    (("answer", 9), "answer: 9 is neither of type object nor false"),
    (("answer", True), "answer: true is neither of type object nor false"),
    ((*FIRST, "answer", {"widht": 1}), "experiments[0].answer: unknown key 'widht', did you"),
    (("estimate", {"samples": 9}), "estimate: renamed; write answer: {passes: 500}"),
    (("refine", {"passes": 9}), "refine: renamed; write answer: {passes: 500}"),
    ((*FIRST, "estimate", {}), "experiments[0].estimate: renamed; write answer: {passes: 500}"),
    (("figure4", "refine", 1), "figure4.refine: renamed; write answer: {passes: 500}"),
    ((*FIRST, "k", ABSENT), "experiments[0]: the key 'k' is missing; name alpha and k, or an"),
    (("figure4", "alpha", ABSENT), "figure4: the key 'alpha' is missing; name alpha and k, or an"),
    (("models", ABSENT), "config: the key 'models' is missing"),
    ((*ONE, "label", ABSENT), "models.one: the key 'label' is missing"),
    ((*FIRST, "alpha", ABSENT), "experiments[0]: the key 'alpha' is missing"),
    (("topk", "column", ABSENT), "topk: the key 'column' is missing"),
    (("models", {}), "models: {} is too short; it must have at least 1"),
    (("models", None), "models: null is not of type object"),
    ((*FIRST, "shards", 10**4), "experiments[0].shards: 10000 is too large; it must be at most"),
    (("topk", "maximum_k", 10**9), "topk.maximum_k: 1000000000 is too large; it must be at most"),
    (("expansion", "memory_gb", 1e300), "expansion.memory_gb: 1e+300 is too large; it must be"),
    (("figure4", "starts", ["player", "player"]), "figure4.starts: 'player' occurs twice; remove"),
    (
        ("models", "x" * 300, {"label": "X", "source": "path:x"}),
        "models: 'xxxxxxxxxxxxxxxxxxxx'… h",
    ),
    (
        ("quantifiers", "x" * 300, {"type": "gender"}),
        "quantifiers: 'xxxxxxxxxxxxxxxxxxxx'… has 300",
    ),
    (
        ("models", "one.grown", {"label": "X", "source": "path:x"}),
        "models.one.grown: a name that ends in .grown is reserved for files",
    ),
    ((*FIRST, "queries", []), "experiments[0].queries: [] is too short; add at least 1"),
    ((*FIRST, "queries", POSITIVE), f"experiments[0].queries: '{POSITIVE}' is not of type array"),
    (("start_strings", "player", 3), "start_strings.player: 3 is not of type string"),
    (("start_strings", "player", None), "start_strings.player: null is not of type string"),
    (("figure4", "alpha", 2), "figure4.alpha: 2 is too large; it must be at most 1"),
    (("topk", "maximum_k", 0), "topk.maximum_k: 0 is too small; it must be at least 1"),
    (("expansion", "memory_gb", float("nan")), "expansion.memory_gb: nan is not of type number"),
    (("expansion", "memory_gb", float("inf")), "expansion.memory_gb: inf is not of type number"),
    (("expansion", "memory_gb", 0), "expansion.memory_gb: 0 is too small; it must be above 0"),
    (("expansion", "threads", 0), "expansion.threads: 0 is too small; it must be at least 1"),
    (
        ("expansion", "end_of_sequence", "stop"),
        "expansion.end_of_sequence: 'stop' is not one of terminal, ordinary",
    ),
    ((*ONE, "kind", "encoder"), "models.one.kind: 'encoder' is not one of causal, masked"),
    ((*ONE, "dtype", "int8"), "models.one.dtype: 'int8' is not one of float32, float16"),
    ((*ONE, "device", "tpu"), "models.one.device: 'tpu' does not match ^(cpu|cuda"),
    ((*ONE, "mem_mb", 0), "models.one.mem_mb: 0 is too small; it must be at least 1"),
    ((*ONE, "gpu_mem_mb", -1), "models.one.gpu_mem_mb: -1 is too small; it must be at least 0"),
    (("topk", "rows", 0), "topk.rows: 0 is too small; it must be at least 1"),
    (("topk", "rows", 1.5), "topk.rows: 1.5 is not of type integer"),
    ((*ONE, "sha256", "abc"), "models.one.sha256: 'abc' does not match ^[0-9a-f]{64}$"),
    ((*ONE, "sha256", "A" * 64), f"models.one.sha256: '{'A' * 64}' does not match"),
    ((*ONE, "source", 3), "models.one.source: 3 is not of type string"),
    ((*ONE, "source", "ftp:x"), "models.one: source ftp:x: unknown kind; write hf:own"),
    (
        (*ONE, "source", "hf:a/b@"),
        "models.one: source 'hf:a/b@': unknown form; write hf:owner/name@commit, hf",
    ),
    ((*ONE, "source", "hf:a/b@a b"), "models.one: source hf:a/b@a b: the revision is 'a b'"),
    ((*ONE, "source", "path:"), "models.one: source path:: the name is ''; it must be a path"),
    ((*ONE, "source", PYPI), f"models.one: {PYPI}: file and sha256 are missing; add"),
    ((*ONE, "file", "x.gguf"), "models.one: model path:one: only a pypi: source has file or parts"),
    (("topk", "source", "prompts.csv"), "topk.source: source prompts.csv:: unknown kind"),
    ((*ONE, "label", "Two"), "models.two.label: 'Two' is also the label of models.one"),
    (
        (*FIRST, "start", "plaier"),
        "experiments[0].start: start string 'plaier' is not defined, did",
    ),
    (
        (*FIRST, "models", ["ona"]),
        "experiments[0].models: model 'ona' is not defined, did you mean",
    ),
    ((*FIRST, "models", []), "experiments[0].models: [] is too short; add at least 1"),
    (
        ("figure4", "starts", ["jock"]),
        "figure4.starts[0]: start string 'jock' is not defined; know",
    ),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[message[:60] for _, message in BAD])
def test_a_bad_value_is_named_by_its_key(change, message):
    """A bad value is refused by one message: its key, and what would be right."""
    with pytest.raises(ConfigError) as caught:
        read(change)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value).splitlines()) == 1
    assert "  " not in str(caught.value)


@pytest.mark.parametrize("key", ["models", "start_strings"])
@pytest.mark.parametrize("name", ["../x", "a/b", "A", "", ".x", "-x", "x y", "é", "a\\b", "%"])
def test_a_name_that_is_no_file_name_is_refused(key, name):
    """A name becomes part of paths, so it has none of the characters that mean something there."""
    with pytest.raises(ConfigError) as caught:
        read((key, name, SMALL[key][next(iter(SMALL[key]))]))
    assert str(caught.value).startswith(f"{key}: {name!r} does not match ^[a-z0-9][a-z0-9.-]*$")


@pytest.mark.parametrize("key", ["models", "start_strings"])
@pytest.mark.parametrize(("name", "text"), [(1, "1"), (True, "true"), (None, "null")])
def test_a_name_that_yaml_takes_for_something_else_is_refused(key, name, text):
    """A name that YAML reads as a number, yes or nothing is refused, and not turned into text."""
    with pytest.raises(ConfigError) as caught:
        read((key, name, SMALL[key][next(iter(SMALL[key]))]))
    assert str(caught.value) == f"{key}: {text} is not of type string"


def test_a_bad_query_of_the_figure_is_pointed_at():
    """A bad query is refused by its key, with the column, the problem and a mark below it."""
    with pytest.raises(InvalidQuery) as caught:
        read(("figure4", "query", "P=? [ F gendre > 0 ]"))
    first, shown, mark = str(caught.value).split("\n")
    assert first.startswith("figure4.query: column 9 of the query: ")
    assert "did you mean 'gender'?" in first
    assert shown == "  P=? [ F gendre > 0 ]"
    assert mark == " " * 10 + "^"


def test_unknown_names_are_a_kind_of_their_own():
    """Code that catches UnknownName catches every name that is not defined."""
    for change in (
        (*FIRST, "start", "nobody"),
        (*FIRST, "models", ["none"]),
        ("quantifiers", {"no": {}}),
    ):
        with pytest.raises(UnknownName):
            read(change)


def test_of_several_mistakes_one_is_named():
    """With several mistakes there is one message, and always the same one."""
    raw = changed((*FIRST, "k", 0), (*FIRST, "alpha", 2), ("models", "one", "kind", "x"))
    messages = set()
    for _ in range(3):
        with pytest.raises(ConfigError) as caught:
            Config.parse(raw)
        messages.add(str(caught.value))
    assert messages == {"experiments[0].alpha: 2 is too large; it must be at most 1"}


def test_what_is_given_is_kept():
    """Every value of the configuration arrives where it is used."""
    digest = "0" * 64
    config = read(
        (*ONE, {"label": "A B", "source": PYPI, "file": "x.gguf", "sha256": digest}),
        (
            "expansion",
            {
                "end_of_sequence": "ordinary",
                "memory_gb": 0.5,
                "store_gb": 0.25,
                "threads": 3,
                "most_states": 99,
                "most_hours": 0.5,
            },
        ),
    )
    source = ModelSource(Source("pypi", "wheel", "1.0.0"), file="x.gguf", sha256=digest)
    assert config.models["one"].name == "one"
    assert config.models["one"].label == "A B"
    assert config.models["one"].source == source
    assert config.expansion == ExpansionConfig(
        end_of_sequence="ordinary",
        memory_gb=0.5,
        store_gb=0.25,
        threads=3,
        most_states=99,
        most_hours=0.5,
    )
    assert (config.expansion.memory_bytes, config.expansion.max_cache_bytes) == (2**29, 2**28)
    assert config.quantifiers["similarity"] == Similarity(("Lolita",))
    assert config.prompts.dataset.source == Source("path", "prompts.csv")
    assert config.prompts.column == "prompt"
    (first, second) = config.table2
    assert (first.label, first.interest) == ("Player", "Gender")
    assert first.check == Check(TreeSpec("one", "player", Truncation(0.8, 15, 5)), parse(POSITIVE))
    assert second.check.tree.model == "two"
    assert [check.tree.truncation for check in config.figure4] == [Truncation(0.95, 9, 3)] * 2


def test_what_is_absent_has_its_default():
    """Keys with a default may be left out, and so may whole parts of the configuration."""
    config = read(("expansion", ABSENT))
    model = config.models["one"]
    assert (model.kind, model.dtype, model.device, model.mem_mb) == (
        "causal",
        "float32",
        "cpu",
        4000,
    )
    assert config.expansion == ExpansionConfig(
        end_of_sequence="terminal",
        memory_gb=2,
        store_gb=1,
        most_states=10**7,
        most_hours=8,
    )
    assert config.expansion.threads is None
    assert (config.expansion.memory_bytes, config.expansion.max_cache_bytes) == (
        2 * 1024**3,
        1024**3,
    )
    assert config.prompts.maximum_k == 50
    without = read(("topk", ABSENT), ("figure4", ABSENT), ("experiments", []))
    assert (without.prompts, without.figure4, without.table2) == (None, (), ())


def test_the_configuration_that_is_read_is_not_changed():
    """Filling in defaults leaves the caller's configuration as it was."""
    raw = changed()
    Config.parse(raw)
    assert raw == SMALL


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        '"He\'s", she said: \\n {x} %s # $HOME',
        "two\nlines\n",
        "\r\n\ttab",
        "🙂👩‍👩‍👧",
        "Der Spieler gewann, weil für",
        "選手が勝ったのは",
        "فاز اللاعب لأن",
        "null",
        "x" * 10_000,
    ],
)
def test_a_start_string_of_any_text(text, tmp_path):
    """A start string arrives letter for letter, through YAML too."""
    path = tmp_path / "config.yaml"
    raw = changed(("start_strings", "player", text))
    path.write_text(yaml.safe_dump(raw, allow_unicode=True), encoding="utf-8")
    assert Config.read(path).start_strings["player"] == text


def unbounded(*changes: tuple) -> tuple[tuple, ...]:
    """Changes by which the first experiment has neither alpha nor k."""
    return ((*FIRST, "alpha", ABSENT), (*FIRST, "k", ABSENT), *changes)


def test_an_answer_alone_has_no_tree():
    """Without alpha and k an experiment has answers up to its horizon, and no tree or scores."""
    config = read(*unbounded((*FIRST, "answer", {"passes": 500})), ("figure4", ABSENT))
    (row, _) = config.table2
    assert str(row.check).startswith("one/player/L5/")
    assert not row.check.is_bounded
    assert config.trees("one") == config.scores_of("one") == config.bounded_checks == ()
    assert config.answered_checks("one") == ((row.check, Budget(passes=500)),)
    assert set(config.used_quantifiers("one")) == {"gender"}
    assert set(config.used_models) == {"one", "two"}


def test_alpha_k_and_an_answer_go_together():
    """An experiment with both has a tree, and an answer for each query."""
    config = read((*FIRST, "answer", {"width": 0.25, "seconds": 3}))
    assert config.table2[0].check.is_bounded
    budgets = [budget for _, budget in config.answered_checks("one")]
    assert budgets == [Budget(width=0.25, seconds=3)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            unbounded((*FIRST, "answer", {"passes": 9}), (*FIRST, "shards", 2)),
            "experiments[0].shards: one job computes an answer; shards need alpha and k",
        ),
        (
            (("answer", {"passes": 9}), (*FIRST, "k", ABSENT)),
            "experiments[0]: the key 'k' is missing; name alpha and k, or an answer",
        ),
        (
            (("answer", {"passes": 9}), (*FIRST, "queries", ['P=? [ F "rest" ]'])),
            'answer: P=? [ F "rest" ]: "rest" is about the tokens that alpha and k do not select; '
            "ask it about a tree",
        ),
        (
            unbounded(("answer", {"passes": 9}), (*FIRST, "answer", False)),
            "experiments[0]: the key 'alpha' is missing; name alpha and k, or an answer",
        ),
        (
            (
                ("answer", {"passes": 9}),
                ("figure4", SMALL["figure4"] | {"alpha": 0.8, "k": 15, "L": 5}),
                ("figure4", "answer", {"passes": 8}),
            ),
            f"figure4.answer: answer has other limits for {POSITIVE} on "
            "one/player/alpha0.8_k15_L5; name the same limits",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(changes, message):
    """Keys that cannot hold together are refused by one message that names them."""
    with pytest.raises(ConfigError) as caught:
        read(*changes)
    assert str(caught.value) == message


def test_a_renamed_key_is_refused_with_its_line(tmp_path):
    """The message has the file, the line and the new spelling of a former key."""
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(changed((*FIRST, "estimate", {"samples": 9}))))
    with pytest.raises(ConfigError) as caught:
        Config.read(path)
    number = 1 + path.read_text().splitlines().index("  estimate:")
    assert str(caught.value) == (
        f"{path}, line {number}: experiments[0].estimate: renamed; write answer: {{passes: 500}}"
    )


def test_answer_at_the_top_is_for_what_has_none():
    """Every check has the answer of the top, unless its experiment has its own or false."""
    assert read().answered_checks("one") == ()
    top = ("answer", {"passes": 9, "seed": 2**64 - 1})
    own = (*FIRST, "answer", {"width": 0.5, "passes": 70, "confidence": 0.9})
    of_top = Budget(passes=9, seed=2**64 - 1)
    of_own = Budget(width=0.5, passes=70, confidence=0.9)
    config = read(top, own)
    assert [budget for _, budget in config.answered_checks("one")] == [of_own, of_top]
    assert [check for check, _ in config.answered_checks("two")] == list(config.checks_of("two"))
    (only,) = read(("figure4", "answer", {"passes": 9})).answered_checks("one")
    assert only == (read().figure4[0], Budget(passes=9))
    (only,) = read(top, (*FIRST, "answer", False)).answered_checks("one")
    assert only == (read().figure4[0], of_top)
    assert read(("answer", False)).answered_checks("one") == ()


def test_models_of_an_experiment():
    """An experiment runs on the models that it names, and on all of them when it names none."""
    assert [row.check.tree.model for row in read().table2] == ["one", "two"]
    assert [row.check.tree.model for row in read((*FIRST, "models", ["two"])).table2] == ["two"]


def test_zero_has_one_sign():
    """An alpha of -0.0 asks for the tree of 0.0, and not for a second one of another name."""
    (tree, *_) = read((*FIRST, "alpha", -0.0)).trees("one")
    assert str(tree) == "one/player/alpha0.0_k15_L5"


def test_a_mistake_is_found_by_its_line(tmp_path):
    """The message about a key begins with the file and the line where the key stands."""
    path = tmp_path / "config.yaml"
    lines = yaml.safe_dump(SMALL, sort_keys=False).splitlines()
    for wrong, message in (
        ("  k: 0", "experiments[0].k: 0 is too small"),
        ("  apha: 1", "experiments[0]: unknown key 'apha'"),
        ("  start: nobody", "experiments[0].start: start string 'nobody' is not defined"),
        ("  - P=? [", "experiments[0].queries[0]: column 6 of the query"),
    ):
        key = wrong.partition(":")[0]
        place = next(n for n, line in enumerate(lines) if line.startswith(("  - P", key)))
        place = next((n for n, line in enumerate(lines) if line.startswith(key)), place)
        path.write_text("\n".join([*lines[:place], wrong, *lines[place + 1 :]]))
        with pytest.raises(ConfigError) as caught:
            Config.read(path)
        assert str(caught.value).startswith(f"{path}, line {place + 1}: {message}")


def test_a_later_file_counts_more(tmp_path):
    """Of several files and changes the last that has a key counts, and a message names its file."""
    whole, other = tmp_path / "whole.yaml", tmp_path / "other.yaml"
    whole.write_text(yaml.safe_dump(SMALL))
    other.write_text("topk:\n  maximum_k: 3\n")
    config = Config.read(whole, other)
    assert (config.prompts.maximum_k, config.prompts.column) == (3, "prompt")
    assert Config.read(whole, other, changes={"topk": {"maximum_k": 4}}).prompts.maximum_k == 4
    other.write_text("topk:\n  maximum_k: 0\n")
    with pytest.raises(ConfigError, match=f"{other}, line 2: topk.maximum_k: 0 is too small"):
        Config.read(whole, other)


def test_a_check_that_is_asked_for_twice_is_one():
    """A query on a tree is checked once, however many rows and figures show it."""
    raw = changed(("figure4", "alpha", 0.8), ("figure4", "k", 15), ("figure4", "L", 5))
    raw["experiments"].append(raw["experiments"][0] | {"label": "Again"})
    config = Config.parse(raw)
    assert (len(config.table2), len(config.figure4)) == (4, 2)
    assert [check.tree.model for check in config.checks] == ["one", "two"]
    assert {check.query for check in config.checks} == {parse(POSITIVE)}


@pytest.mark.parametrize(
    ("alpha", "path"),
    [
        (1, "one/player/alpha1.0_k9_L3"),
        (1.0, "one/player/alpha1.0_k9_L3"),
        (0.95, "one/player/alpha0.95_k9_L3"),
        (0, "one/player/alpha0.0_k9_L3"),
        (1e-05, "one/player/alpha1e-05_k9_L3"),
    ],
)
def test_a_tree_has_one_path(alpha, path):
    """The path of a tree names its model, start and truncation, however alpha was written."""
    (row,) = read(
        (*FIRST, "alpha", alpha), (*FIRST, "k", 9), (*FIRST, "L", 3), (*FIRST, "models", ["one"])
    ).table2
    assert str(row.check.tree) == path
    assert str(row.check) == f"{path}/{_slugify(POSITIVE)}"
    assert float(re.search(r"alpha([0-9.e-]+)_", path)[1]) == alpha


def test_a_slug_is_readable():
    """The file name of a query shows what is asked."""
    assert _slugify("P=? [ F gender > 0 ]").startswith("P-eq-F-gender-gt-0-")
    assert _slugify("P=? [ G polarity <= -30 ]").startswith("P-eq-G-polarity-lt-eq-minus-30-")


@given(st.text(), st.text())
def test_slugs_of_distinct_queries_are_distinct(one, other):
    """A slug holds only characters that are safe in a file name, and distinguishes queries."""
    for query in (one, other):
        assert re.fullmatch(r"[A-Za-z0-9.-]{1,80}", _slugify(query))
    assert (_slugify(one) == _slugify(other)) == (one == other)


SIMILAR = [POSITIVE, "P=? [ F gender < 0 ]", "P=? [ F gender >= 0 ]", "P=? [F gender > 0]"]


def test_slugs_of_similar_queries_are_distinct():
    """Queries that differ in a comparison or in spaces alone have different slugs."""
    assert len({_slugify(query) for query in SIMILAR}) == len(SIMILAR)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, ": cannot be read: No such file"),
        (b"a: [1", ", line 1: not YAML"),
        (b"\xff", ", line 1: the byte 0xFF is not UTF-8"),
        (b"- 1", ", line 1: the file is not a mapping"),
        (b"", ": the file is empty; write keys and values"),
    ],
)
def test_a_file_that_is_no_configuration(content, reason, tmp_path):
    """A file that is missing, broken or not a mapping is refused by its path."""
    path = tmp_path / "config.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"{re.escape(str(path))}{reason}"):
        read_yaml(path)


PAPER = [
    ("Player", "Gender", "player", (0.8, 15, 5), ["F gender > 0", "F gender < 0"]),
    ("Lolita", "Copyright", "lolita", (0.9, 5, 5), ["F step = 5 & similarity > 90"]),
    ("Exam", "Sentiment", "exam", (0.9, 5, 4), ["F polarity >= 30", "F polarity <= -30"]),
    ("Story", "Reading Quality", "story", (0.6, 3, 10), ["G readability > 5997"]),
    ("Player", "Comparison", "player", (0.9, 32000, 2), ["F gender > 0"]),
    ("Player", "Comparison", "player", (1.0, 9, 3), ["F gender > 0"]),
    ("Player", "Comparison", "player", (0.9, 9, 3), ["F gender > 0"]),
]
"""Table II of the paper: label, interest, start string, (alpha, k, L) and path formulas."""


def asked(check: Check) -> tuple:
    tree = check.tree
    return tree.model, tree.start, astuple(tree.truncation), check.query.text


def test_the_repository_asks_what_the_paper_asks():
    """config.yaml has the experiments of Table II and the nouns of Figure 4, on two models."""
    config = Config.read(ROOT / "config.yaml")
    assert list(config.models) == ["smollm2-135m", "gemma3-270m"]
    assert {model.source.source.scheme for model in config.models.values()} == {"pypi"}
    rows = [(row.label, row.interest, *asked(row.check)) for row in config.table2]
    assert rows == [
        (label, interest, model, start, truncation, f"P=? [ {path} ]")
        for label, interest, start, truncation, paths in PAPER
        for model in config.models
        for path in paths
    ]
    assert [asked(check) for check in config.figure4] == [
        (model, noun, (0.95, 9, 3), POSITIVE)
        for model in config.models
        for noun in ("player", "athlete", "champ", "contestant", "jock")
    ]
    assert config.start_strings["jock"] == "The jock won because"
    for model in config.models:  # every value has an answer for the whole model
        assert [check for check, _ in config.answered_checks(model)] == list(
            config.checks_of(model)
        )


PROGRAMS = {"programs": "path:resources/programs"}
ARCHIVE = {"source": "archive:https://a.b/c.zip", "folder": "d", "sha256": "0" * 64}


def test_programs_have_defaults():
    """Programs alone are enough: all causal models, both semantics, and the documented limits."""
    changed = read(("invariants", PROGRAMS), ("models", "two", "kind", "masked"))
    config = changed.sections["invariants"]
    assert config.models == ("one",)
    assert config.semantics == (Semantics.INTEGERS, Semantics.INT32)
    assert (config.seconds, config.tool_seconds) == (60, 5)
    assert config.proposal_settings == ProposalSettings(iterations=30, seed=0)
    assert config.provable_truncation == Truncation(0.8, 4, 7)
    assert read().sections == {}


def test_an_archive_of_programs_is_not_looked_at():
    """What is fetched need not be there when a configuration is read."""
    source = read(("invariants", {"programs": ARCHIVE})).sections["invariants"].programs
    assert (source.location, source.folder, source.sha256) == ("https://a.b/c.zip", "d", "0" * 64)


BAD_INVARIANTS = [
    ({"programs": ABSENT}, "invariants: the key 'programs' is missing"),
    ({"program": "x"}, "invariants: unknown key 'program', did you mean 'programs'?"),
    ({"programs": 3}, "invariants.programs: 3 is not of type string or object"),
    ({"programs": {}}, "invariants.programs: the key 'source' is missing"),
    (
        {"programs": ARCHIVE | {"file": "x"}},
        "invariants.programs: unknown key 'file', did you mean 'folder'? known keys are source",
    ),
    (
        {"programs": "resources"},
        "invariants.programs: source 'resources:': the form is unknown; it",
    ),
    (
        {"programs": "path:nowhere"},
        "invariants.programs: {root}/nowhere: there is no C file; progr",
    ),
    (
        {"programs": "path:docs"},
        "invariants.programs: {root}/docs: there is no C file; programs are",
    ),
    (
        {"programs": ARCHIVE | {"source": "archive:http://a.b/c.zip"}},
        "invariants.programs: source archive:http://a.b/c.zip: the address is not secure; use an",
    ),
    ({"programs": ARCHIVE | {"sha256": "x"}}, "invariants.programs.sha256: 'x' does not match"),
    (
        {"programs": ARCHIVE | {"folder": ".."}},
        "invariants.programs: folder: '..' is elsewhere; it",
    ),
    ({"models": ["ona"]}, "invariants.models[0]: model 'ona' is not defined, did you mean 'one'?"),
    ({"models": ["one", "two"]}, "invariants.models[1]: 'two' is a masked model; name a causal"),
    ({"models": []}, "invariants.models: [] is too short; add at least 1"),
    ({"models": ["one", "one"]}, "invariants.models: 'one' occurs twice; remove one"),
    ({"semantics": ["int64"]}, "invariants.semantics[0]: 'int64' is not one of integers, int32"),
    ({"semantics": []}, "invariants.semantics: [] is too short; add at least 1"),
    ({"seconds": 0}, "invariants.seconds: 0 is too small; it must be above 0"),
    ({"seconds": float("inf")}, "invariants.seconds: inf is not of type number"),
    ({"tool_seconds": -1}, "invariants.tool_seconds: -1 is too small; it must be above 0"),
    ({"candidates": 0}, "invariants.candidates: 0 is too small; it must be at least 1"),
    ({"candidates": 1.5}, "invariants.candidates: 1.5 is not of type integer"),
    ({"seed": -1}, "invariants.seed: -1 is too small; it must be at least 0"),
    ({"provable": {"alpha": 0.9}}, "invariants.provable: the key 'k' is missing"),
    (
        {"provable": {"alpha": 2, "k": 4, "L": 8}},
        "invariants.provable.alpha: 2 is too large; it must be at most 1",
    ),
]


@pytest.mark.parametrize(("change", "message"), BAD_INVARIANTS, ids=[m for _, m in BAD_INVARIANTS])
def test_a_bad_value_about_programs_is_named_by_its_key(change, message):
    """What cannot run is refused before any job, by one message with its key."""
    entry = {key: value for key, value in (PROGRAMS | change).items() if value is not ABSENT}
    with pytest.raises(ConfigError) as caught:
        read(("models", "two", "kind", "masked"), ("invariants", entry))
    assert str(caught.value).startswith(message.format(root=ROOT))
    assert len(str(caught.value).splitlines()) == 1


def test_programs_need_a_causal_model():
    """Where every model is masked there is none to ask."""
    masked = [("models", name, "kind", "masked") for name in ("one", "two")]
    with pytest.raises(ConfigError, match=r"invariants.models: no causal model"):
        read(*masked, ("invariants", PROGRAMS))


def test_a_configuration_for_questions_needs_a_model_alone():
    """Start strings, quantifiers and experiments may be absent where only the shell asks."""
    config = Config.parse({"models": SMALL["models"]})
    assert config.models
    assert not config.start_strings
    assert not config.quantifiers
    assert not config.checks
