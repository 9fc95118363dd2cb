"""A text-classification model: probabilities of labels for a text."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from transformers import (
    AutoModelForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from llmchecker.errors import UnusableModel, UnusableText
from llmchecker.models.transformers.checkpoint_checks import check_vocabulary
from llmchecker.models.transformers.load import read_network
from llmchecker.utils.number_format import format_count

_MAX_ROWS = 32
"""Largest number of texts in a batch."""


class TextClassifier:
    """A network that computes the probabilities of labels for texts.

    A batch contains only texts with the same number of tokens, so padding is not needed. The
    network computes in float64, in which a result does not depend on the other texts of the batch.

    Attributes:
        labels: names of the labels, by rising label number.
        files: sha256 of every file of the model, by name.
    """

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        files: Mapping[str, str],
    ) -> None:
        config = network.config
        self.files = files
        # the configuration has turned the texts that JSON has as keys into numbers
        names = cast(dict[int, str], config.id2label)
        self.labels = tuple(names[number] for number in range(len(names)))
        self._network = network.eval()
        self._tokenizer = tokenizer
        # with independent labels, or a single label, each label has its own probability
        is_multi_label = (
            config.problem_type == "multi_label_classification" or config.num_labels == 1
        )
        self._to_probabilities = (
            torch.sigmoid if is_multi_label else lambda x: torch.softmax(x, dim=-1)
        )
        self._max_rows = _MAX_ROWS if config.pad_token_id is not None else 1
        # both limits may be present; the smaller applies
        limits = (tokenizer.model_max_length, getattr(config, "max_position_embeddings", None))
        self._max_tokens = min(limit for limit in limits if limit is not None)

    def classify(self, texts: Sequence[str]) -> np.ndarray:
        """Return the probability of each label for each text.

        Args:
            texts: the texts to classify.

        Returns:
            (texts, labels) float64; NaN for a text without tokens.

        Raises:
            UnusableText: a text has more tokens than the network reads.
        """
        probabilities = np.full((len(texts), len(self.labels)), np.nan)
        indices_by_length: dict[int, list[int]] = defaultdict(list)
        tokens = self._tokenizer(list(texts))["input_ids"] if len(texts) else []
        for index, ids in enumerate(tokens):
            if len(ids) > self._max_tokens:
                raise UnusableText(
                    f"text: {format_count(len(ids), 'token')} exceed the classifier's maximum of "
                    f"{self._max_tokens}; shorten {texts[index]!r}"
                )
            # texts of one length need no padding
            indices_by_length[len(ids)].append(index)
        # the rows of texts without tokens stay NaN
        indices_by_length.pop(0, None)
        for indices in indices_by_length.values():
            for first in range(0, len(indices), self._max_rows):
                batch = indices[first : first + self._max_rows]
                probabilities[batch] = self._classify_batch([tokens[index] for index in batch])
        return probabilities

    @torch.inference_mode()
    def _classify_batch(self, ids: list[list[int]]) -> np.ndarray:
        rows = torch.tensor(ids)
        logits = self._network(input_ids=rows, attention_mask=torch.ones_like(rows)).logits
        return self._to_probabilities(logits).numpy()


def load_classifier(directory: str | Path) -> TextClassifier:
    """Load a local text-classification model, without code or pickles.

    Raises:
        ChecksumMismatch: a file differs from the fetched one.
        UnusableModel: the directory does not load as such a model, the files lack weights, or it is
            a regression model.
    """
    directory = Path(directory)
    network, tokenizer, files = read_network(
        directory, AutoModelForSequenceClassification, "float64", "a text-classification model"
    )
    if network.config.problem_type == "regression":
        raise UnusableModel(
            f"{directory}: it estimates a number, not probabilities of labels; choose a "
            "model with labels"
        )
    try:
        check_vocabulary(network, tokenizer)
    except UnusableModel as error:
        raise UnusableModel(f"{directory}: not a usable text classifier: {error}") from error
    return TextClassifier(network, tokenizer, files)
