"""Params of rules: what Snakemake compares, and what the jobs receive."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from helpers.marks import long

from llmchecker.checking.budget import Budget
from llmchecker.config.config import Config
from llmchecker.config.opening import build_cache, build_model_settings
from llmchecker.config.registry import parse_quantifiers
from llmchecker.interfaces.snakemake.rule_params import (
    compute_quantifier_states,
    list_answers,
    list_checks,
    list_judges,
    list_rows,
    list_suite_models,
    list_trees,
)
from llmchecker.interfaces.snakemake.tree_jobs import build_growth_limits
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.decoding.settings import Decoding
from llmchecker.models.lazy_model import LazyModel
from llmchecker.suites.load import load_suite

CHAT = Path(__file__).parents[3] / "config/chat.yaml"
QUERY, STEP = "P=? [ F gender > 0 ]", "P=? [ F step = 2 ]"
SHAPE = {"alpha": 0.5, "k": 2, "L": 2}
ROW = {"label": "A", "interest": "I", "models": ["m"]}
RAW = {
    "models": {
        "m": {"label": "M {x}", "source": "path:m", "device": "cuda:1"}
        | {"mem_mb": 700, "gpu_mem_mb": 900},
        "unused": {"label": "U", "source": "path:u", "gpu_mem_mb": 900},
    },
    "start_strings": {"text": "The {player}", "chat": [{"user": "Who?"}]},
    "quantifiers": {"gender": {}, "polarity": {}},
    "experiments": [
        ROW | SHAPE | {"start": "text", "queries": [QUERY, STEP], "shards": 2},
        ROW
        | SHAPE
        | {"start": "chat", "queries": [QUERY], "decoding": {"top_k": 3}}
        | {"answer": {"passes": 7}},
    ],
}


@pytest.fixture
def config() -> Config:
    return Config.parse(RAW)


def list_params(config: Config) -> dict[str, object]:
    """The params of all rules for each model of a configuration."""
    return {
        name: [
            list_trees(config, config.trees(name)),
            list_checks(config, name),
            list_answers(config, name),
            compute_quantifier_states(config, name),
            list_rows(config, [row for row in config.table2 if row.check.tree.model == name]),
            build_model_settings(model, config.expansion),
            build_cache(config.expansion),
        ]
        for name, model in config.models.items()
    }


@pytest.mark.long
@pytest.mark.parametrize("seed", ["1", *long("2")])
def test_each_process_has_the_same_repr_of_the_params(config, seed):
    """The `repr` of the params has no address, and no order of a set, of one process."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_rule_params import *\n"
        "print(list_params(Config.parse(RAW)))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)],
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    assert shown == f"{list_params(config)}\n"
    assert "0x" not in shown


def test_a_change_of_each_field_changes_the_params(config):
    """The params, by whose `repr` Snakemake compares runs, differ after any change of a field."""
    experiment = RAW["experiments"][1]
    for change in (
        {"alpha": 0.6},
        {"k": 3},
        {"L": 3},
        {"start": "text"},
        {"queries": [STEP]},
        {"decoding": {"top_k": 4}},
        {"answer": {"passes": 8}},
        {"label": "B"},
    ):
        changed = RAW | {"experiments": [RAW["experiments"][0], experiment | change]}
        assert repr(list_params(Config.parse(changed))) != repr(list_params(config))


def test_jobs_receive_params_as_they_are(config):
    """The values are the same after Snakemake pickled them for a script."""
    for given in (config, Config.read(CHAT)):
        params = list_params(given)
        assert pickle.loads(pickle.dumps(params, protocol=4)) == params


def test_trees_have_their_own_start_and_shards(config):
    """Each tree has its own name and start; only the sharded tree has files of shards."""
    trees = config.trees("m")
    listed = list_trees(config, trees)
    assert [each["start"] for each in listed] == [config.start_strings[t.start] for t in trees]
    assert {each["name"]: len(each["shards"]) for each in listed} == {
        "m/text/alpha0.5_k2_L2": 2,
        str(trees[1]): 0,
    }


def test_rows_and_answers_have_names_and_budgets(config):
    """Rows have the displayed name of their model; answers have their own budget."""
    rows = list_rows(config, config.table2)
    assert [row.check for row in rows] == [row.check for row in config.table2]
    assert [row.model for row in rows] == ["M {x}", "M {x}", "M {x}, top_k 3"]
    assert rows[2].prompt == Chat((("user", "Who?"),))
    assert list_answers(config, "m") == {
        "answers": ((config.table2[2].check, Budget(passes=7)),),
        "starts": {"chat": Chat((("user", "Who?"),))},
    }
    assert config.answer_files(config.checks) == [f"results/answers/{config.table2[2].check}.json"]


def test_settings_make_a_model(config):
    """Every setting of the model arrives, with its decoding and the end of sequence."""
    raw = RAW | {
        "models": {"m": RAW["models"]["m"] | {"decoding": {"top_k": 2}}},
        "expansion": {"end_of_sequence": "ordinary"},
    }
    for given, decoding in ((config, None), (Config.parse(raw), Decoding(top_k=2))):
        settings = build_model_settings(given.models["m"], given.expansion)
        model = LazyModel(directory=Path("resources/models/m"), threads=2, **settings)
        assert (model.kind, model.device, model.threads) == ("causal", "cuda:1", 2)
        assert model.decoding == decoding
        assert model.end_of_sequence == given.expansion.end_of_sequence


def test_limits_are_those_of_the_configuration():
    """The limits that a script looks up are those that the shell uses."""
    raw = {"models": {"m": {"label": "M", "source": "path:m"}}, "expansion": {"most_states": 7}}
    expansion = Config.parse(raw).expansion
    assert build_growth_limits(vars(expansion), 3000) == expansion.build_limits(3000)


def test_a_job_has_the_quantifiers_of_the_configuration():
    """Snakemake gives a job the configuration as plain data, of which a judge's model is a part."""
    raw = yaml.safe_load(CHAT.read_text(encoding="utf-8"))
    config = Config.read(CHAT)
    settings = {name: raw["quantifiers"][name] for name in config.quantifiers}
    created = parse_quantifiers(settings, raw)
    assert created == config.quantifiers
    assert created["polite"].model.name == "SmolLM2-135M-Instruct"


def test_the_judges_of_a_model_are_inputs_of_its_jobs():
    """The example judges itself; without the experiment no model is a judge."""
    config = Config.read(CHAT)
    assert list_judges(config, "smollm2-135m") == ["smollm2-135m"]
    other = Config.read(CHAT, changes={"experiments": []})
    assert list_judges(other, "smollm2-135m") == []


def test_a_check_has_the_notes_of_its_judges():
    """An answer of the workflow names its judge, and warns of one that judges itself."""
    listed = list_checks(Config.read(CHAT), "smollm2-135m")
    notes = dict(zip(listed["checks"], listed["notes"], strict=True))
    ((named, warning),) = (
        each for check, each in notes.items() if "polite" in check.query.variables
    )
    assert "SmolLM2-135M-Instruct, whose own error is not in the confidence" in named
    assert warning.startswith("warning: the judge")
    assert sum(map(bool, notes.values())) == 1


def test_resources_of_jobs_follow_from_the_device():
    """A model on a GPU requests one and its memory, another model requests neither."""
    models = Config.parse(RAW).models
    assert models["m"].job_resources == {"mem_mb": 700, "gpu": 1, "gpu_mem_mb": 900}
    assert models["unused"].job_resources["gpu"] == 0
    assert models["unused"].job_resources["gpu_mem_mb"] == 0


def test_only_what_queries_name_is_scored(config):
    """A tree is scored by its own quantifiers, and queries with the same ones share a chain."""
    assert [(str(tree), name) for tree, name in config.scores_of("m")] == [
        (str(tree), "gender") for tree in config.trees("m")
    ]
    assert set(config.used_quantifiers("m")) == {"gender"}
    assert [check.query.text for check in config.chains_of("m")] == [QUERY, STEP, QUERY]
    twice = RAW | {
        "experiments": [
            ROW | SHAPE | {"start": "text", "queries": [QUERY, f"{QUERY[:-2]} & step > 0 ]"]}
        ]
    }
    assert len(Config.parse(twice).chains_of("m")) == 1


@pytest.mark.parametrize(
    ("topk", "used"), [(None, {"m"}), ({"source": "path:p.csv", "column": "c"}, {"m", "unused"})]
)
def test_statistics_use_every_model(topk, used):
    """Without top-k statistics, only models with trees have results."""
    assert set(Config.parse(RAW | ({"topk": topk} if topk else {})).used_models) == used


@pytest.mark.parametrize(("hours", "minutes"), [(8, 480), (0.001, 1), (0.99, 59)])
def test_a_job_has_the_minutes_of_its_longest_tree(hours, minutes):
    """Hours become whole minutes, of which a job has at least one."""
    raw = {"models": RAW["models"], "expansion": {"most_hours": hours}}
    assert Config.parse(raw).expansion.max_minutes == minutes


def test_all_configured_models_of_a_suite_are_inputs_of_its_jobs(tmp_path):
    """The model to compare with and a judge are fetched by rules, a directory is not."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d/config.json").write_text("{}")
    models = {name: {"label": name, "source": f"path:{tmp_path}/d"} for name in ("a", "b", "c")}
    judge = {"type": "judge", "question": "Is it?"}
    suite = {
        "model": "a",
        "length": 2,
        "versus": {"model": "b"},
        "properties": {"named": judge | {"model": "c"}, "local": judge | {"model": "./d"}},
        "cases": [
            {
                "start": "x",
                "require": {"n": "P>=0.5 [ F named = 1 ]", "l": "P>=0.5 [ F local = 1 ]"},
            }
        ],
    }
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(suite), encoding="utf-8")
    config = Config.parse(RAW | {"models": models | RAW["models"]})
    loaded = load_suite(tmp_path / "suite.yaml", models=["a"], config=config)
    found = list_suite_models(config, loaded, "a")
    assert found == ["resources/models/b", "resources/models/c"]
