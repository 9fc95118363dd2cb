"""The job of scoring the trees of a model by its quantifiers."""

import logging
import time
from collections.abc import Mapping, Sequence

from llmchecker.models.fingerprint import hash_inputs
from llmchecker.properties.quantifier_state import check_quantifiers
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.registry import list_quantifier_files
from llmchecker.properties.scores import score_tree, write_scores
from llmchecker.trees.text_tree import TextTree
from llmchecker.utils.atomic_files import compute_sha256, write_json_with_digest
from llmchecker.utils.file_state import describe_files
from llmchecker.utils.job_logging import Stopwatch
from llmchecker.utils.result_cache import ResultCache

_log = logging.getLogger(__name__)


def score_trees(
    trees: Sequence[str],
    names: Sequence[str],
    quantifiers: Mapping[str, Quantifier],
    states: Mapping[str, str],
    codes: Mapping[str, str],
    outputs: Sequence[tuple[str, str]],
    cache: ResultCache,
    work: Stopwatch,
) -> None:
    """Score trees, and write the scores and their records.

    Scores whose inputs are unchanged are taken from the cache, which then contains no others.

    A record contains the number of texts, the seconds, the state of the quantifier and those of its
    files.

    Args:
        trees: the file of the tree of each output.
        names: the name of the quantifier of each output.
        quantifiers: the quantifiers by name.
        states: the state of each quantifier at the start of the run, by name.
        codes: the digest of the code behind each quantifier, by name.
        outputs: the files of scores and of their records.
        cache: the cache of scores.
        work: the stopwatch of the job.

    Raises:
        ChecksumMismatch: a file of a quantifier changed during the run.
    """
    check_quantifiers(states, quantifiers)
    fingerprints = set()
    for tree_path, name, files in zip(trees, names, outputs, strict=True):
        fingerprint = hash_inputs(compute_sha256(tree_path), states[name], codes[name], modules=())
        fingerprints.add(fingerprint)
        if cache.restore(fingerprint, files):
            _log.info("%s: kept", files[0])
            continue
        scores_path, record_path = files
        tree, quantifier = TextTree.read(tree_path), quantifiers[name]
        began = time.monotonic()
        values = score_tree(quantifier, tree, name)
        seconds = time.monotonic() - began
        work.seconds += seconds
        # a network or a judge may have been loaded only now
        check_quantifiers({name: states[name]}, quantifiers)
        write_scores(values, tree, scores_path)
        record = {
            "texts": len(tree),
            "seconds": seconds,
            "quantifier": states[name],
            "files": describe_files(list_quantifier_files(quantifier)),
        }
        write_json_with_digest(record, record_path)
        cache.add(fingerprint, files)
    cache.prune(fingerprints)
