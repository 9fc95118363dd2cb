"""A text-classification model: how likely it finds each of its labels in a text."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from transformers import (
    AutoModelForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from llmchecker.errors import UnusableModel, UnusableText
from llmchecker.loading.checks import require_vocabulary
from llmchecker.loading.models import read_network

ROWS = 32
"""The largest number of texts that are read at once."""


class TextClassifier:
    """A network that tells how likely texts have its labels.

    Texts of as many tokens are read together, so that none is padded. It computes in float64, in
    which it does not show beside which others a text is read.

    Attributes:
        labels: the names of the labels, by rising number.
        files: the sha256 of every file of the model, by name.
    """

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        files: Mapping[str, str],
    ) -> None:
        config = network.config
        self.files = files
        self.labels = tuple(config.id2label[number] for number in range(config.num_labels))
        self._network = network.eval()
        self._tokenizer = tokenizer
        # Several labels may hold at once, or there is one alone: then each has its own probability.
        several = config.problem_type == "multi_label_classification" or config.num_labels == 1
        self._probability = torch.sigmoid if several else lambda x: torch.softmax(x, dim=-1)
        self._rows = ROWS if config.pad_token_id is not None else 1
        limits = (tokenizer.model_max_length, getattr(config, "max_position_embeddings", None))
        self._most_tokens = min(limit for limit in limits if limit is not None)

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """How likely each text has each label: (texts, labels) float64; NaN without any token.

        Raises:
            UnusableText: a text has more tokens than the network reads.
        """
        found = np.full((len(texts), len(self.labels)), np.nan)
        by_length: dict[int, list[int]] = defaultdict(list)
        tokens = self._tokenizer(list(texts))["input_ids"] if len(texts) else []
        for place, ids in enumerate(tokens):
            if len(ids) > self._most_tokens:
                raise UnusableText(
                    f"a text has {len(ids)} tokens, and the classifier reads at most "
                    f"{self._most_tokens}: {texts[place]!r}"
                )
            by_length[len(ids)].append(place)
        by_length.pop(0, None)
        for places in by_length.values():
            for first in range(0, len(places), self._rows):
                batch = places[first : first + self._rows]
                found[batch] = self._of_batch([tokens[place] for place in batch])
        return found

    @torch.inference_mode()
    def _of_batch(self, ids: list[list[int]]) -> np.ndarray:
        rows = torch.tensor(ids)
        logits = self._network(input_ids=rows, attention_mask=torch.ones_like(rows)).logits
        return self._probability(logits).numpy()


def load_classifier(directory: str | Path) -> TextClassifier:
    """Load a local model directory as a text-classification model; no code, no pickles.

    Raises:
        ChecksumMismatch: a file is not the one that was fetched.
        UnusableModel: it does not load as such a model, its weights are not all that it has, or its
            labels have no probabilities, since it estimates a number.
    """
    directory = Path(directory)
    network, tokenizer, files = read_network(
        directory, AutoModelForSequenceClassification, "float64", "a text-classification model"
    )
    if network.config.problem_type == "regression":
        raise UnusableModel(f"{directory} estimates a number, and no probabilities of labels")
    try:
        require_vocabulary(network, tokenizer)
    except UnusableModel as error:
        raise UnusableModel(f"{directory} is no usable text classifier: {error}") from error
    return TextClassifier(network, tokenizer, files)
