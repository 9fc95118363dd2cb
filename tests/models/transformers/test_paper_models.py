"""Every path by which a model of the paper is fetched and loaded, on small random models.

Each has the architecture, the tokenizer type and the files of a repository of the paper's models:
bfloat16 weights in several files, the same as pickles, and a tokenizer class by name.
"""

import json
from pathlib import Path

import pytest
import torch
from helpers import reference
from helpers.fake_hub import Hub, make_client_new, point_client_at, serving
from helpers.random_models import PUBLISHED, save_as_published
from safetensors.torch import load_file
from tokenizers import Tokenizer

from llmchecker.models.end_of_sequence import apply_end_of_sequence
from llmchecker.models.sources.checkpoints import ModelSource, fetch_checkpoint
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.models.transformers.load import load_model
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import Truncation

STARTS = ["The player won because ", "Lolita, light of my life,", "🙂 the 日本\n игрок"]
TRUNCATION = Truncation(0.8, 3, 2)


def kind_of(name: str) -> str:
    return "masked" if name == "bert" else "causal"


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A hub that the client takes for the real one, with a cache of its own."""
    with serving() as answering, pytest.MonkeyPatch.context() as patch:
        make_client_new(tmp_path_factory.mktemp("home"), patch)
        point_client_at(answering.address, patch)
        yield answering


@pytest.fixture(scope="module", params=PUBLISHED)
def fetched(request, hub: Hub, tmp_path_factory) -> tuple[str, Path, Path]:
    """A model's name, the repository as it was published, and the directory it became."""
    repository = save_as_published(request.param, tmp_path_factory.mktemp("published"))
    hub.files = {file.name: file.read_bytes() for file in repository.iterdir()}
    hub.large = frozenset(name for name in hub.files if name.endswith(".safetensors"))
    directory = tmp_path_factory.mktemp("fetched") / request.param
    source = parse_source(f"hf:owner/{request.param}")
    fetch_checkpoint(ModelSource(source), directory, lock=directory.with_suffix(".json"))
    return request.param, repository, directory


@pytest.mark.long
def test_only_safetensors_of_several_files_arrive(fetched):
    """The weights arrive as several safetensors files and their index, and never as a pickle."""
    _, repository, directory = fetched
    shards = sorted(path.name for path in repository.glob("model-*.safetensors"))
    assert len(shards) > 1
    assert sorted(path.name for path in directory.glob("*.safetensors")) == shards
    assert (directory / "model.safetensors.index.json").is_file()
    assert (repository / "pytorch_model.bin").is_file()
    assert not list(directory.glob("*.bin"))


@pytest.mark.long
@pytest.mark.few(3)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_weights_are_those_on_disk_as_the_configured_dtype(fetched, dtype):
    """Every weight is the bfloat16 number on disk, as the dtype that was asked for."""
    name, repository, directory = fetched
    network = load_model(directory, kind_of(name), dtype).network
    parameters = dict(network.named_parameters())
    index = json.loads((repository / "model.safetensors.index.json").read_text())["weight_map"]
    on_disk = {k: t for s in set(index.values()) for k, t in load_file(repository / s).items()}
    assert set(parameters) <= set(on_disk)
    for key, parameter in parameters.items():
        assert on_disk[key].dtype == torch.bfloat16
        assert parameter.dtype == getattr(torch, dtype)
        assert torch.equal(parameter, on_disk[key].to(parameter.dtype))


@pytest.mark.long
@pytest.mark.few(4)
@pytest.mark.parametrize("start", STARTS)
def test_tokens_are_those_of_the_published_tokenizer(fetched, start):
    """A start string has the tokens that the tokenizer's own file gives it, before any separator.

    The space at its end is a part of it.
    """
    name, repository, directory = fetched
    model = load_model(directory, kind_of(name))
    plain = Tokenizer.from_file(str(repository / "tokenizer.json")).encode(start)
    expected = plain.ids[:-1] if name == "bert" else plain.ids
    assert list(model.encode(start)) == expected
    assert plain.tokens[0] == ("[CLS]" if name == "bert" else "<s>")


@pytest.mark.few(4)
@pytest.mark.parametrize("start", STARTS)
def test_texts_are_those_of_the_published_tokenizer(fetched, start):
    """A prompt is decoded as the tokenizer's own file says: by causal models to the start string.

    BERT's tokenizer knows neither capitals nor the space at the end.
    """
    name, repository, directory = fetched
    model = load_model(directory, kind_of(name))
    plain = Tokenizer.from_file(str(repository / "tokenizer.json"))
    prompt = list(model.encode(start))
    assert model.decode([prompt]) == [plain.decode(prompt)]
    assert name == "bert" or model.decode([prompt]) == [start]


def test_tree_is_that_of_the_network_on_disk(fetched):
    """The tree of a causal model is Algorithm 1's, of a masked one that of plain passes."""
    name, _, directory = fetched
    model = load_model(directory, kind_of(name))
    prompt = model.encode(STARTS[0])
    tree = build_tree(apply_end_of_sequence(model, "ordinary"), STARTS[0], TRUNCATION)
    tail = (model.tokenizer.mask_token_id, model.tokenizer.sep_token_id) if name == "bert" else ()
    place = -2 if name == "bert" else -1
    network = network_that_reads_at(place, tail, model.network)
    root = reference.expand(network, prompt, 0.8, 3, 2, frozenset())
    expected = sorted(probability for probability, _ in reference.states(root).values())
    assert sorted(tree.probability) == pytest.approx(expected, abs=1e-5)
    assert len(tree) > 3


def network_that_reads_at(place: int, tail: tuple[int, ...], network):
    """A network with a tail appended to every text, whose last logits are those at a place."""

    def forward(input_ids: torch.Tensor):
        whole = torch.cat([input_ids, torch.tensor([tail], dtype=torch.long)], dim=1)
        output = network(input_ids=whole)
        output.logits = output.logits[:, : whole.shape[1] + place + 1]
        return output

    return forward
