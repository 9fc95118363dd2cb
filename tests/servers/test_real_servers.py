"""vLLM's and llama.cpp's servers, started here, beside the same model in process."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from helpers.served_models import continue_texts
from helpers.trees import probabilities_by_path
from real_servers import gguf_of, llama_cpp, vllm

import llmchecker as lc
from llmchecker.config.config import Config
from llmchecker.models.continuation import ContinuationTask
from llmchecker.models.interface import LanguageModel
from llmchecker.models.servers.connection import connect_model, fetch_served_model
from llmchecker.models.servers.settings import ServerSource
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.models.transformers.load import load_model
from llmchecker.properties.quantifiers.pattern import Pattern
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import TextTree, Truncation

ROOT = Path(__file__).parents[2]
STARTS = ("The player won because", "def f(x):\n    return", "Zürich 🦜 is  12")
TRUNCATION = Truncation(1.0, 6, 3)

VLLM_APART = 1e-4
"""The most by which a probability of vLLM's may differ: both compute in float32."""

LLAMA_CPP_APART = 0.08
"""The same for llama.cpp, which rounds what flows between layers to eight bits: 0.068 was seen."""


@pytest.fixture(scope="module")
def in_process(smollm2) -> LanguageModel:
    return load_model(smollm2)


@pytest.fixture(scope="module")
def vllm_address(smollm2) -> Iterator[str]:
    with vllm(smollm2) as address:
        yield address


@pytest.fixture(scope="module")
def llama_cpp_address(tmp_path_factory) -> Iterator[str]:
    source = Config.read(ROOT / "config.yaml").models["smollm2-135m"].source
    with llama_cpp(gguf_of(source, tmp_path_factory.mktemp("llama.cpp"))) as address:
        yield address


@pytest.fixture(scope="module")
def by_vllm(smollm2, vllm_address, tmp_path_factory) -> LanguageModel:
    return connected(vllm_address, "vllm", smollm2, tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def by_llama_cpp(smollm2, llama_cpp_address, tmp_path_factory) -> LanguageModel:
    return connected(llama_cpp_address, "llama.cpp", smollm2, tmp_path_factory.mktemp("served"))


def connected(address: str, api: str, tokenizer: Path, scratch: Path) -> LanguageModel:
    """The model of a server, as a run fetches it and asks it."""
    tokens = parse_source(f"path:{tokenizer}")
    fetch_served_model(
        ServerSource(parse_source(f"server:{address}"), api, tokens), scratch / "model"
    )
    return connect_model(scratch / "model")


def apart(tree: TextTree, expected: TextTree) -> tuple[float, float]:
    """How far probabilities of the same texts differ, and the most likely text that one lacks."""
    found, wanted = probabilities_by_path(tree), probabilities_by_path(expected)
    both = found.keys() & wanted.keys()
    return (
        max(abs(found[path] - wanted[path]) for path in both),
        max((wanted[path] for path in wanted.keys() - both if path[:-1] in both), default=0.0),
    )


@pytest.mark.parametrize("start", STARTS)
def test_vllm_grows_the_tree_of_the_same_weights(by_vllm, in_process, start):
    """A tree by vLLM in float32 is the tree grown in process, state by state, to 1e-4."""
    by_server = build_tree(by_vllm, start, TRUNCATION)
    differing, alone = apart(by_server, build_tree(in_process, start, TRUNCATION))
    assert differing <= VLLM_APART
    # a text of one tree alone was as probable as the last that was selected, but for rounding
    assert alone <= 1 / (TRUNCATION.k + 1)


@pytest.mark.parametrize("start", STARTS)
def test_llama_cpp_grows_a_tree_within_its_rounding(by_llama_cpp, in_process, start):
    """A tree by llama.cpp differs from that in process by no more than its activations round."""
    by_server = build_tree(by_llama_cpp, start, TRUNCATION)
    differing, _ = apart(by_server, build_tree(in_process, start, TRUNCATION))
    assert differing <= LLAMA_CPP_APART


@pytest.mark.parametrize("name", ["by_vllm", "by_llama_cpp"])
def test_a_server_gives_the_same_tree_again(request, name):
    """A server that is asked the same again grows the same texts."""
    model = request.getfixturevalue(name)
    first, second = (build_tree(model, STARTS[0], Truncation(0.8, 4, 2)) for _ in range(2))
    differing, alone = apart(first, second)
    assert differing <= VLLM_APART
    assert alone <= 1 / 5


@pytest.mark.parametrize("name", ["by_vllm", "by_llama_cpp"])
def test_a_server_draws_in_proportion(request, name):
    """Of 400 tokens that a server draws, the most probable ones are as many as they should be."""
    model = request.getfixturevalue(name)
    prefix = model.open_prefix(model.encode(STARTS[0]))
    (heads,) = prefix.map_next(lambda _, heads: heads, np.empty((1, 0), dtype=np.int64))
    tasks = [ContinuationTask((), 1, seed) for seed in range(400)]
    drawn = np.array([each.tokens[0] for each in continue_texts(prefix, tasks)])
    for token, probability in zip(
        heads.tokens[0, :5], heads.token_probabilities[0, :5], strict=True
    ):
        deviation = (400 * probability * (1 - probability)) ** 0.5
        assert abs((drawn == token).sum() - 400 * probability) < 5 * deviation


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(
    ("name", "most"), [("by_vllm", VLLM_APART), ("by_llama_cpp", LLAMA_CPP_APART)]
)
def test_continuations_have_the_lists_of_their_texts(request, name, most, start):
    """The list at each position of a continuation is that of a request for the text alone, also
    within characters and after excluded tokens; equal seeds give equal tokens."""
    model = request.getfixturevalue(name)
    prefix = model.open_prefix(model.encode(start))
    tasks = [ContinuationTask((), 6, seed) for seed in range(8)]
    tasks += [replace(tasks[0], seed=20, excluded=(1, 2, 3), second_seed=21)]
    found = list(continue_texts(prefix, tasks))
    for task, continuation in zip(tasks, found, strict=True):
        first = bool(task.excluded)
        for position in range(first, len(continuation.tokens)):
            text = continuation.tokens[np.newaxis, :position]
            (alone,) = prefix.map_next(lambda _, heads: heads, text)
            row = np.zeros(model.vocabulary_size)
            row[continuation.listed_tokens[position - first]] = continuation.probabilities[
                position - first
            ]
            assert np.abs(row[alone.tokens[0]] - alone.token_probabilities[0]).max() < most
    again = list(continue_texts(prefix, tasks[3:4]))
    assert len({tuple(each.tokens) for each in found}) > 4
    assert again[0].tokens[0] == found[3].tokens[0]


@pytest.mark.parametrize("name", ["by_vllm", "by_llama_cpp"])
def test_what_is_recorded_of_a_server(request, name):
    """The record of a served model names the server's version and the model that it serves."""
    model = request.getfixturevalue(name)
    assert model.info.version
    assert model.info.model
    assert json.dumps(vars(model.info))


@pytest.mark.parametrize("api", ["vllm", "llama.cpp"])
def test_a_suite_has_the_verdicts_of_the_same_model_in_process(
    request, api, smollm2, tmp_path, monkeypatch
):
    """A suite decides by a server what it decides in process, and no verdict contradicts."""
    address = request.getfixturevalue(f"{api.replace('.', '_')}_address")
    tokenizer = f"path:{smollm2.absolute()}"
    models = {
        "served": {
            "label": "Served",
            "source": f"server:{address}",
            "api": api,
            "tokenizer": tokenizer,
            "tokens": 50,
        },
        "local": {"label": "Local", "source": tokenizer},
    }
    suite = {
        "model": ["served", "local"],
        "config": "config.yaml",
        "length": 3,
        "confidence": 0.9,
        "budget": {"passes": 300},
        "cases": [
            {
                "name": name,
                "start": start,
                "require": {
                    "often": "P>=0.02 [ F gender > 0 ]",
                    "always": "P>=0.9 [ F gender > 0 ]",
                    "rarely": "P<=0.6 [ F gender < 0 ]",
                },
            }
            for name, start in (("player", STARTS[0]), ("nurse", "The nurse said that"))
        ],
    }
    for name, content in (("config.yaml", {"models": models}), ("suite.yaml", suite)):
        (tmp_path / name).write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    frame = lc.suite("suite.yaml").run().frame()
    statuses = frame.pivot(index="case", columns="model", values="status")
    assert not set(frame["status"]) - {"HOLDS", "VIOLATED", "UNKNOWN"}
    decided = statuses[(statuses != "UNKNOWN").all(axis=1)]
    assert len(decided) >= 4
    assert (decided["served"] == decided["local"]).all()


TEXT_CASES = {
    "openai-completions": ({"start": "Once there was a small"}, r"^(,| (town|group|business))$", 1),
    "openai-chat": ({"user": "Is Paris in France? Answer yes or no."}, r"(?i)^yes\b", 2),
}
"""For each API the prompt, a pattern and the horizon. Programs that truncate by default, as
llama.cpp does, would write the tokens of the first pattern twice as often."""


@pytest.mark.parametrize("api", TEXT_CASES)
@pytest.mark.parametrize("program", ["vllm", "llama_cpp"])
def test_texts_alone_have_the_probability_of_the_same_model_in_process(
    request, program, api, in_process, tmp_path, monkeypatch
):
    """A suite on whole texts has an interval with the exact probability of the same weights."""
    prompt, pattern, length = TEXT_CASES[api]
    most = VLLM_APART if program == "vllm" else LLAMA_CPP_APART
    exact = lc.ask(
        "P=? [ F found = 1 ]",
        in_process,
        prompt.get("start"),
        user=prompt.get("user"),
        length=length,
        passes=300,
        certain=True,
        found=Pattern(pattern),
    ).certain
    # a threshold that no interval excludes, so that all answers count
    threshold = f"P>={exact.lower:.6f} [ F found = 1 ]"
    suite = {
        "model": {"source": request.getfixturevalue(f"{program}_address"), "api": api},
        "length": length,
        "confidence": 0.999,
        "budget": {"answers": 400},
        "properties": {"found": {"type": "pattern", "pattern": pattern}},
        "cases": [{"name": "texts", **prompt, "require": [threshold]}],
    }
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(suite, sort_keys=False), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (row,) = lc.suite("suite.yaml").run().frame().itertuples()
    assert exact.width < 0.05
    assert row.high - row.low < 0.25
    assert row.low - most <= exact.upper
    assert row.high + most >= exact.lower
