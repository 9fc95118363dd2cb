"""The quantifier of how likely a text-classification model finds a label in a text."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from llmchecker.errors import ConfigError, UnusableModel, UnusableText, did_you_mean
from llmchecker.fetching.model_files import MODEL_CONFIG, check_loadable
from llmchecker.files import is_sha256
from llmchecker.quantifiers.quantifier import PARTS, part_of, require_one_of

if TYPE_CHECKING:
    from llmchecker.loading.classification import TextClassifier

_ARCHITECTURE = "ForSequenceClassification"
"""How transformers names every class of models that give labels to whole texts."""


@dataclass(frozen=True)
class Classifier:
    """The probability of a label in percent, rounded: 0 to 100. A text without tokens scores 0.

    The probability is that of transformers' text-classification pipeline: a softmax over the
    labels, or a sigmoid where several labels may hold at once or there is one alone. Every text is
    classified once and its score kept; new texts go through the network in batches. A text that is
    longer than the network reads is an error: nothing is cut off.

    The network is loaded when the first text is scored. Configuration, labels and the headers of
    the weights are checked when the quantifier is made.

    Attributes:
        directory: the path of the model: config, safetensors weights and tokenizer.
        label: the name of the label.
        of: `continuation` reads what was generated alone, `text` the start string too.
        sha256: of files by their names in the directory; a file that has another is refused.

    Raises:
        ConfigError: the directory holds no such model, the model has no such label, or a file has
            another checksum. When it scores: the model cannot be loaded, or a text is too long.
    """

    directory: Path
    label: str
    of: str = "continuation"
    sha256: dict[str, str] = field(default_factory=dict)
    kept: dict[str, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    minimum: ClassVar[int | None] = 0
    maximum: ClassVar[int | None] = 100

    def __post_init__(self) -> None:
        require_one_of("of", self.of, PARTS)
        if not isinstance(self.directory, str | Path):
            raise ConfigError(f"directory is {self.directory!r}, not the path of a directory")
        object.__setattr__(self, "directory", Path(self.directory))
        try:
            check_loadable(self.directory)
        except UnusableModel as error:
            raise ConfigError(f"directory {str(self.directory)!r}: {error}") from error
        labels = _labels(self.directory)
        if self.label not in labels:
            hint = did_you_mean(str(self.label), labels) or ";"
            raise ConfigError(
                f"label: the model has no label {self.label!r}{hint} it has {', '.join(labels)}"
            )
        _check_sha256(self.sha256, self.directory)

    def __call__(self, start: str, continuation: str) -> int:
        return self.together([(start, continuation)])[0]

    def together(self, texts: Sequence[tuple[str, str]]) -> list[int]:
        """The scores of several texts, each a start string and a continuation."""
        read = [part_of(start, continuation, self.of) for start, continuation in texts]
        new = [text for text in dict.fromkeys(read) if text not in self.kept]
        self.kept.update(zip(new, self._scores(new), strict=True))
        return [self.kept[text] for text in read]

    def _scores(self, texts: Sequence[str]) -> list[int]:
        if not texts:
            return []
        try:
            probabilities = self._network.probabilities(texts)
        except UnusableText as error:
            raise ConfigError(f"directory {str(self.directory)!r}: {error}") from error
        number = self._network.labels.index(self.label)
        return [0 if p != p else round(100 * p) for p in probabilities[:, number].tolist()]

    @cached_property
    def _network(self) -> "TextClassifier":
        # Imported here: it takes seconds, for which reading a config need not wait.
        from llmchecker.loading.classification import load_classifier

        network = load_classifier(self.directory)
        for name, expected in self.sha256.items():
            if network.files.get(name) != expected:
                raise ConfigError(
                    f"sha256: {self.directory / name} has {network.files.get(name)}, which is not "
                    f"{expected}"
                )
        return network


def _labels(directory: Path) -> tuple[str, ...]:
    """The labels that config.json names, or those that transformers gives to a model without.

    Raises:
        ConfigError: config.json names another kind of model, or its labels are no mapping.
    """
    config = json.loads((directory / MODEL_CONFIG).read_text(encoding="utf-8"))
    kinds = config.get("architectures") or ()
    if kinds and not any(str(kind).endswith(_ARCHITECTURE) for kind in kinds):
        raise ConfigError(
            f"directory {str(directory)!r}: {MODEL_CONFIG} describes no model for text "
            f"classification, a … {_ARCHITECTURE}, but {', '.join(map(str, kinds))}"
        )
    named = config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    if not isinstance(named, dict):
        raise ConfigError(f"directory: id2label in {directory / MODEL_CONFIG} is no mapping")
    return tuple(map(str, named.values()))


def _check_sha256(sha256: object, directory: Path) -> None:
    if not isinstance(sha256, dict) or not all(map(is_sha256, sha256.values())):
        raise ConfigError(
            f"sha256 is {sha256!r}; it must give checksums of 64 hexadecimal digits to names of "
            "files, as in model.safetensors: 0123…"
        )
    for name in sha256:
        if not (directory / str(name)).is_file():
            raise ConfigError(f"sha256: there is no file {name!r} in {directory}")
