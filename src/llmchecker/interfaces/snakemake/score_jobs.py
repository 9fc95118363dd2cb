"""The job of scoring the trees of a model by its quantifiers."""

import time
from collections.abc import Mapping, Sequence

from llmchecker.properties.quantifier_state import check_quantifiers
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.registry import list_quantifier_files
from llmchecker.properties.scores import score_tree, write_scores
from llmchecker.trees.text_tree import TextTree
from llmchecker.utils.atomic_files import write_json_with_digest
from llmchecker.utils.file_state import describe_files
from llmchecker.utils.job_logging import Stopwatch


def score_trees(
    trees: Sequence[str],
    names: Sequence[str],
    quantifiers: Mapping[str, Quantifier],
    states: Mapping[str, str],
    outputs: Sequence[tuple[str, str]],
    work: Stopwatch,
) -> None:
    """Score trees, and write the scores and their records.

    A record contains the number of texts, the seconds, the state of the quantifier and those of its
    files.

    Args:
        trees: the file of the tree of each output.
        names: the name of the quantifier of each output.
        quantifiers: the quantifiers by name.
        states: the state of each quantifier at the start of the run, by name.
        outputs: the files of scores and of their records.
        work: the stopwatch of the job.

    Raises:
        ChecksumMismatch: a file of a quantifier changed during the run.
    """
    check_quantifiers(states, quantifiers)
    for tree_path, name, (scores_path, record_path) in zip(trees, names, outputs, strict=True):
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
