"""Params of a whole configuration: plain values, which the scripts parse to the same plan."""

import json

import pytest

from llmchecker.checking.anytime.budget import Budget
from llmchecker.config.config import Config
from llmchecker.config.prompt import parse_prompt
from llmchecker.interfaces.snakemake.check_params import parse_check, parse_row, parse_tree
from llmchecker.interfaces.snakemake.model_params import parse_model_params
from llmchecker.interfaces.snakemake.plan_params import (
    build_figure4_rows,
    describe_answers,
    describe_builder,
    describe_rows,
    describe_trees,
)
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.decoding.settings import Decoding
from llmchecker.trees.lazy_model import LazyModel

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


def plain(value):
    """A value after it was written as JSON, which equals only a plain value."""
    assert json.loads(json.dumps(value)) == value
    return value


def test_trees_are_parsed_as_they_were_described(config):
    """Each tree has its own name, start and shards; only the sharded tree has files of shards."""
    trees = config.trees("m")
    described = plain(describe_trees(config, trees))
    assert [parse_tree(each) for each in described] == list(trees)
    assert [parse_prompt(each["text"]) for each in described] == [
        config.start_strings[tree.start] for tree in trees
    ]
    assert {each["name"]: len(each["shards"]) for each in described} == {
        "m/text/alpha0.5_k2_L2": 2,
        str(trees[1]): 0,
    }


def test_rows_and_answers_are_parsed_as_they_were_described(config):
    """Rows have the displayed name of their model; answers have their own budget."""
    rows = plain(describe_rows(config, config.table2))
    assert [parse_row(row) for row in rows] == list(config.table2)
    assert [row["model"] for row in rows] == ["M {x}", "M {x}", "M {x}, top_k 3"]
    assert parse_prompt(rows[2]["text"]) == Chat((("user", "Who?"),))
    (answer,) = plain(describe_answers(config, "m"))
    assert parse_check(answer) == config.table2[2].check
    assert Budget(**answer["budget"]) == Budget(passes=7)
    assert config.answer_files(config.checks) == [f"results/answers/{config.table2[2].check}.json"]
    assert [row.check for row in build_figure4_rows(config.checks)] == list(config.checks)


def test_a_described_builder_makes_a_stored_model(config):
    """Every setting of the tree builder arrives, with the decoding of the model."""
    settings = plain(describe_builder(config, config.models["m"]))
    model = LazyModel(**parse_model_params(settings, "resources/models/m", 2))
    assert (model.kind, model.device, model.threads) == ("causal", "cuda:1", 2)
    assert model.decoding is None
    assert model.cache.max_bytes == config.expansion.max_cache_bytes
    raw = RAW | {"models": {"m": RAW["models"]["m"] | {"decoding": {"top_k": 2}}}}
    config = Config.parse(raw)
    settings = plain(describe_builder(config, config.models["m"]))
    assert parse_model_params(settings, "m", 1)["decoding"] == Decoding(top_k=2)


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
