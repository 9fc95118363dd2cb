"""Quantifier of the probability of a label by a text-classification model."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from llmchecker.errors import ConfigError, UnusableModel, UnusableText, did_you_mean
from llmchecker.models.sources.model_directory import MODEL_CONFIG, check_loadable
from llmchecker.properties.quantifiers.interface import TEXT_PARTS, check_one_of, select_part
from llmchecker.utils.atomic_files import describe_kind, is_sha256
from llmchecker.utils.printable_text import quote_value

if TYPE_CHECKING:
    from llmchecker.models.transformers.text_classifier import TextClassifier

_ARCHITECTURE_SUFFIX = "ForSequenceClassification"
"""Suffix of the transformers classes that assign labels to whole texts."""


@dataclass(frozen=True)
class Classifier:
    """Probability of a label in percent, rounded: 0 to 100.

    A text without tokens scores 0. The probability is that of transformers' text-classification
    pipeline. It is a softmax over the labels, or a sigmoid for a single label or for labels that
    may hold together. Every text is classified once and its score is kept; new texts are classified
    in batches. A text longer than the network's input limit is an error: nothing is truncated.

    The network is loaded when the first text is scored. Configuration, labels and the headers of
    the weights are checked when the quantifier is created.

    Attributes:
        directory: path of the model: config, safetensors weights and tokenizer.
        label: str, name of the label.
        of: `continuation` reads the generated text alone, `text` the start string too.
        sha256: expected checksums by file name in the directory; other checksums are rejected.
        score_cache: scores by text.

    Raises:
        ConfigError: the directory holds no such model, the model lacks the label, or a file has
            another checksum. On a call: the model cannot be loaded, or a text is too long.
    """

    directory: Path
    label: str
    of: str = "continuation"
    sha256: dict[str, str] = field(default_factory=dict)
    score_cache: dict[str, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    minimum: ClassVar[int | None] = 0
    maximum: ClassVar[int | None] = 100

    def __post_init__(self) -> None:
        check_one_of("of", self.of, TEXT_PARTS)
        if not isinstance(self.directory, str | Path):
            raise ConfigError(
                f"directory: {quote_value(self.directory)} is not the path of a directory"
            )
        object.__setattr__(self, "directory", Path(self.directory))
        try:
            # before any weights are read: a wrong directory fails when the config is read
            check_loadable(self.directory)
        except UnusableModel as error:
            raise ConfigError(f"directory {str(self.directory)!r}: {error}") from error
        labels = _read_labels(self.directory)
        if self.label not in labels:
            hint = did_you_mean(str(self.label), labels) or ";"
            raise ConfigError(
                f"label: the model lacks {quote_value(self.label)}{hint} its labels are "
                f"{', '.join(labels)}"
            )
        _check_sha256(self.sha256, self.directory)

    def __call__(self, start: str, continuation: str) -> int:
        return self.score_batch([(start, continuation)])[0]

    def score_batch(self, texts: Sequence[tuple[str, str]]) -> list[int]:
        """Return the scores of several texts, each a start string and a continuation."""
        parts = [select_part(start, continuation, self.of) for start, continuation in texts]
        # only texts without a kept score go to the network
        new_texts = [text for text in dict.fromkeys(parts) if text not in self.score_cache]
        self.score_cache.update(zip(new_texts, self._compute_scores(new_texts), strict=True))
        return [self.score_cache[text] for text in parts]

    def _compute_scores(self, texts: Sequence[str]) -> list[int]:
        if not texts:
            return []
        try:
            probabilities = self._network.classify(texts)
        except UnusableText as error:
            raise ConfigError(f"directory {str(self.directory)!r}: {error}") from error
        label_index = self._network.labels.index(self.label)
        # a text without tokens has the probability NaN, which is unequal to itself
        return [
            0 if probability != probability else round(100 * probability)
            for probability in probabilities[:, label_index].tolist()
        ]

    @cached_property
    def _network(self) -> "TextClassifier":
        # Imported here: torch takes seconds to import, and reading a config does not need it.
        from llmchecker.models.transformers.text_classifier import load_classifier

        network = load_classifier(self.directory)
        for name, expected in self.sha256.items():
            # checks the files as they were loaded, not as they are now
            if network.files.get(name) != expected:
                raise ConfigError(
                    f"sha256: {self.directory / name} has {network.files.get(name)}, not {expected}"
                    "; check both"
                )
        return network


def _read_labels(directory: Path) -> tuple[str, ...]:
    """Return the labels of config.json, or transformers' default labels.

    Raises:
        ConfigError: config.json is of another kind of model, or its labels are not a mapping.
    """
    config = json.loads((directory / MODEL_CONFIG).read_text(encoding="utf-8"))
    kinds = config.get("architectures") or ()
    # a config without architectures is accepted: its labels decide
    if kinds and not any(str(kind).endswith(_ARCHITECTURE_SUFFIX) for kind in kinds):
        raise ConfigError(
            f"directory {str(directory)!r}: {MODEL_CONFIG} describes "
            f"{', '.join(map(str, kinds))}, not a text classifier; choose a model with a "
            f"class … {_ARCHITECTURE_SUFFIX}"
        )
    named = config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    if not isinstance(named, dict):
        raise ConfigError(f"directory: id2label in {directory / MODEL_CONFIG} is not a mapping")
    return tuple(map(str, named.values()))


def _check_sha256(sha256: object, directory: Path) -> None:
    if not isinstance(sha256, dict) or not all(map(is_sha256, sha256.values())):
        raise ConfigError(
            f"sha256: {quote_value(sha256)} is not checksums of 64 hexadecimal digits by file "
            "name; "
            "write, for example, model.safetensors: 0123…"
        )
    for name in sha256:
        if not (file := directory / str(name)).is_file():
            raise ConfigError(
                f"sha256: {name!r} in {directory} is {describe_kind(file)}, not a file"
            )
