"""A classifier scores as transformers' own pipeline does, on small random models."""

import json
from pathlib import Path

import pytest
import torch
from helpers.marks import examples
from helpers.random_models import LABELS, save_classifier
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import BertForSequenceClassification, pipeline

from llmchecker.errors import ChecksumMismatch, ConfigError, UnusableModel
from llmchecker.models.transformers.text_classifier import TextClassifier
from llmchecker.properties.quantifiers.classifier import Classifier
from llmchecker.properties.registry import create_quantifier, find_quantifier_files
from llmchecker.properties.scores import score_texts
from llmchecker.utils.atomic_files import compute_sha256, write_json

TEXTS = ["", "The player won", " because he", "the exam", "bad, bad results!", "a " * 20, "?"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    """A model of three labels."""
    return save_classifier(tmp_path_factory.mktemp("classifier"))


def plain(directory: Path, texts: list[str], label: str) -> list[int]:
    """What transformers' pipeline says of each text by itself."""
    classify = pipeline(
        "text-classification", str(directory), top_k=None, dtype=torch.float64, device="cpu"
    )
    found = [{each["label"]: each["score"] for each in classify([text])[0]} for text in texts]
    return [round(100 * scores[label]) for scores in found]


@pytest.mark.parametrize("label", LABELS)
def test_scores_are_those_of_the_pipeline(directory: Path, label: str) -> None:
    """Alone and together, a text scores what the pipeline of transformers says in percent."""
    expected = plain(directory, TEXTS, label)
    assert len(set(expected)) > 1
    quantifier = create_quantifier(
        "mood", {"type": "classifier", "directory": str(directory), "label": label}
    )
    assert score_texts(quantifier, "", TEXTS).tolist() == expected
    fresh = Classifier(directory, label)
    assert [fresh("The start", text) for text in TEXTS] == expected
    whole = Classifier(directory, label, of="text")
    assert whole("The player", " won") == plain(directory, ["The player won"], label)[0]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("labels", "options"),
    [(("one",), {}), (LABELS, {"problem_type": "multi_label_classification"})],
    ids=["one label", "several at once"],
)
def test_labels_that_do_not_exclude_each_other(tmp_path, labels, options) -> None:
    """One label alone, and several that may hold at once, have the pipeline's probabilities."""
    directory = save_classifier(tmp_path, labels, **options)
    for label in labels:
        quantifier = Classifier(directory, label)
        assert score_texts(quantifier, "", TEXTS).tolist() == plain(directory, TEXTS, label)


def test_scores_do_not_depend_on_company(directory: Path) -> None:
    """A text has the same score alone and among any other texts, each within the range."""
    alone = Classifier(directory, "glad")

    @settings(examples(25), suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(st.text(alphabet="aeinrstw .!é漢", max_size=12), max_size=40))
    def holds(texts: list[str]) -> None:
        together = Classifier(directory, "glad").score_batch([("", text) for text in texts])
        assert together == [alone("", text) for text in texts]
        assert all(type(score) is int and 0 <= score <= 100 for score in together)

    holds()


def test_every_text_is_read_once(directory: Path, monkeypatch) -> None:
    """A text that was scored is not read again, alone or among others."""
    quantifier = Classifier(directory, "calm")
    scores = quantifier.score_batch([("a", " b"), ("x", " b"), ("a", " c")])
    assert scores[0] == scores[1]
    read: list[list[str]] = []
    classify = TextClassifier.classify
    monkeypatch.setattr(
        TextClassifier, "classify", lambda self, texts: read.append(texts) or classify(self, texts)
    )
    quantifier.score_batch([("a", " b"), ("a", " d"), ("a", " c"), ("y", " d")])
    quantifier("z", " d")
    assert read == [[" d"]]


def test_the_files_of_the_model_count(directory: Path) -> None:
    """Scores depend on weights, configuration and tokenizer."""
    names = {file.name for file in find_quantifier_files(Classifier(directory, "calm"))}
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= names


def test_a_model_of_another_kind_is_refused_before_it_is_loaded(tmp_path) -> None:
    """A directory whose config.json describes no model for text classification is named."""
    save_classifier(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    write_json(config | {"architectures": ["BertForMaskedLM"]}, tmp_path / "config.json")
    with pytest.raises(ConfigError, match=r"describes BertForMaskedLM, not a text classifier"):
        Classifier(tmp_path, "calm")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"label": "gald"},
            "label: the model lacks 'gald', did you mean 'glad'? its labels are calm",
        ),
        ({"label": 1}, "label: the model lacks 1; its labels are calm, glad, angry"),
        ({"directory": "nowhere"}, "directory 'nowhere': config.json: the file is missing"),
        ({"directory": 3}, "directory: 3 is not the path of a directory"),
        ({"of": "answer"}, "of: 'answer' is unknown"),
        ({"sha256": "0" * 64}, "is not checksums of 64 hexadecimal digits by file name"),
        ({"sha256": {"config.json": "x"}}, "is not checksums"),
        ({"sha256": {"model.bin": "0" * 64}}, "is absent, not a file"),
    ],
)
def test_a_bad_setting_of_a_classifier_is_named(directory, change, message) -> None:
    """What is wrong is said when the quantifier is made, before anything is loaded."""
    with pytest.raises(ConfigError) as error:
        create_quantifier(
            "mood", {"type": "classifier", "directory": directory, "label": "calm"} | change
        )
    assert message in str(error.value)


def test_what_is_no_whole_model_is_refused(tmp_path: Path) -> None:
    """Without weights, or with pickles instead, there is no quantifier; with others, no score."""
    directory = save_classifier(tmp_path / "model")
    weights = directory / "model.safetensors"
    weights.rename(directory / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="only safetensors are read"):
        Classifier(directory, "calm")
    (directory / "pytorch_model.bin").rename(weights)
    network = BertForSequenceClassification.from_pretrained(directory)
    network.bert.save_pretrained(directory)  # without what classifies
    save_config = save_classifier(tmp_path / "other") / "config.json"
    (directory / "config.json").write_bytes(save_config.read_bytes())
    with pytest.raises(UnusableModel, match=r"lack 2 of its tensors \(classifier\.bias"):
        Classifier(directory, "calm")("", "a")


def test_checksums_are_compared(directory: Path, tmp_path: Path) -> None:
    """Weights that are not those that config or record name give an error and no score."""
    named = {"model.safetensors": compute_sha256(directory / "model.safetensors")}
    assert Classifier(directory, "calm", sha256=named)("", "a") >= 0
    with pytest.raises(ConfigError, match=r"sha256: .*model\.safetensors has .*, not 0000"):
        Classifier(directory, "calm", sha256={"model.safetensors": "0" * 64})("", "a")
    fetched = save_classifier(tmp_path / "fetched")
    write_json({"files": {"model.safetensors": "0" * 64}}, fetched / "source.json")
    with pytest.raises(ChecksumMismatch, match="its sha256 is"):
        Classifier(fetched, "calm")("", "a")


def test_a_regression_has_no_probabilities(tmp_path: Path) -> None:
    """A model that estimates a number is refused."""
    directory = save_classifier(tmp_path, ("stars",), problem_type="regression")
    with pytest.raises(UnusableModel, match="estimates a number"):
        Classifier(directory, "stars")("", "a")


def test_a_text_is_never_cut(directory: Path) -> None:
    """A text that is longer than the network reads is an error that names it."""
    with pytest.raises(
        ConfigError, match=r"text: \d+ tokens exceed the classifier's maximum of 48; shorten 'a a a"
    ):
        Classifier(directory, "calm")("", "a " * 60)
