"""Decodings in a configuration: what models get, and what is refused by which key."""

import pytest

from llmchecker.config.config import Config
from llmchecker.errors import ConfigError
from llmchecker.models.decoding.settings import Decoding

MODEL = {"label": "M", "source": "path:model"}


def raw(**changes) -> dict:
    """A configuration with one model; `changes` are keys of the model."""
    experiment = {"label": "E", "interest": "I", "start": "s", "alpha": 0.8, "k": 5, "L": 2}
    return {
        "models": {"m": MODEL | changes},
        "start_strings": {"s": "The player"},
        "quantifiers": {"gender": {}},
        "experiments": [experiment | {"queries": ["P=? [ F gender > 0 ]"]}],
    }


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"temperature": 0.2, "top_p": 0.9}, Decoding(temperature=0.2, top_p=0.9)),
        ({"temperature": 0}, Decoding(do_sample=False)),
        ({"bad_words_ids": [[3, 4], [5]]}, Decoding(bad_words_ids=((3, 4), (5,)))),
        ({"do_sample": False, "repetition_penalty": 1.1}, Decoding(False, repetition_penalty=1.1)),
        ("greedy", Decoding(do_sample=False)),
        ("as_published", "as_published"),
        ({"temperature": 1}, None),
        ({}, None),
    ],
    ids=str,
)
def test_a_model_has_the_decoding_that_is_written(entry, expected):
    """Settings by name, greedy and as_published are read; what changes nothing is no decoding."""
    assert Config.parse(raw(decoding=entry)).models["m"].decoding == expected
    assert Config.parse(raw()).models["m"].decoding is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"decoding": "greedy", "kind": "masked"},
            "models.m.decoding: m is a masked model; only local causal models",
        ),
        (
            {
                "decoding": "greedy",
                "source": "server:http://127.0.0.1:8000",
                "api": "vllm",
                "tokenizer": "path:tokenizer",
            },
            "models.m: decoding: .* is a server, but the key is for local weights",
        ),
    ],
    ids=str,
)
def test_a_decoding_that_cannot_be_used_is_refused_by_its_key(changes, message):
    """Each mistake is one message that names the key, before any job starts."""
    with pytest.raises(ConfigError, match=message):
        Config.parse(raw(**changes))


def of_experiments(*entries, **changes) -> Config:
    """A configuration whose experiments differ in their decoding; None stands for none."""
    config = raw(**changes)
    (experiment,) = config["experiments"]
    written = [experiment | ({} if e is None else {"decoding": e}) for e in entries]
    return Config.parse(config | {"experiments": written})


def test_an_experiment_may_have_a_decoding_of_its_own():
    """It replaces that of the model, and its tree has a path of its own; where it is that of the
    model, both have one tree."""
    config = of_experiments(
        None, {"top_k": 3}, {"top_k": 3, "top_p": 1}, "greedy", {}, decoding="greedy"
    )
    found = [tree.decoding for tree in config.trees("m")]
    assert found == [None, Decoding(top_k=3), Decoding()]
    assert len({str(tree) for tree in config.trees("m")}) == 3
    assert [row.check.tree.decoding for row in config.table2] == [
        None,
        Decoding(top_k=3),
        Decoding(top_k=3),
        None,
        Decoding(),
    ]
    assert str(config.trees("m")[0]) == "m/s/alpha0.8_k5_L2"
    (plain,) = of_experiments({}, {"temperature": 1}).trees("m")
    assert plain.decoding is None


@pytest.mark.parametrize(
    ("entry", "changes", "message"),
    [
        ({"topp": 1}, {}, r"experiments\[0\].decoding: unknown key 'topp', did you mean 'top_p'"),
        ("best", {}, r"experiments\[0\].decoding: 'best' is not greedy"),
        ("greedy", {"kind": "masked"}, r"experiments\[0\].decoding: m is a masked model; only"),
    ],
    ids=str,
)
def test_a_decoding_of_an_experiment_that_cannot_be_used_is_refused(entry, changes, message):
    """The message names the experiment."""
    with pytest.raises(ConfigError, match=message):
        of_experiments(entry, **changes)


def test_proposals_are_asked_of_models_without_decoding(tmp_path):
    """A decoded model proposes no invariants, since proposals are drawn at temperature 1."""
    (tmp_path / "one.c").write_text("int main() { return 0; }")
    section = {"programs": f"path:{tmp_path}"}
    config = raw(decoding="greedy") | {"invariants": section}
    with pytest.raises(ConfigError, match=r"invariants.models: no causal model"):
        Config.parse(config)
    with pytest.raises(ConfigError, match=r"invariants.models\[0\]: 'm' has a decoding"):
        Config.parse(config | {"invariants": section | {"models": ["m"]}})


@pytest.mark.parametrize(
    ("own", "asked", "called"),
    [
        (None, None, "M"),
        (None, "greedy", "M, greedy"),
        ("as_published", None, "M, as published"),
        ({"temperature": 0.2, "top_p": 0.9}, None, "M, temperature 0.2, top_p 0.9"),
        ({"temperature": 0.2}, {"top_k": 4}, "M, top_k 4"),
        ({"temperature": 0.2}, {}, "M, temperature 1, uncut"),
    ],
)
def test_a_model_is_called_by_the_decoding_that_it_is_asked_with(own, asked, called):
    """Tables name the model's decoding or the experiment's, and none where there is none."""
    model = Config.parse(raw() if own is None else raw(decoding=own)).models["m"]
    assert model.display_name(None if asked is None else Decoding.from_settings(asked)) == called
