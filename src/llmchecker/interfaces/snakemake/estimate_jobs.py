"""The job of estimating the answers of a model."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llmchecker.checking.anytime.budget import SamplingPlan
from llmchecker.checking.anytime.query_estimate import estimate_check
from llmchecker.config import paths
from llmchecker.config.plan import quantifiers_in
from llmchecker.interfaces.snakemake.check_params import parse_check
from llmchecker.interfaces.snakemake.model_params import parse_start
from llmchecker.properties.registry import create_quantifier
from llmchecker.properties.scores import read_all_scores
from llmchecker.trees.builder import TreeBuilder
from llmchecker.trees.text_tree import TextTree
from llmchecker.utils.job_logging import _Stopwatch, build_sample_progress

_log = logging.getLogger(__name__)


def estimate_checks(
    grower: TreeBuilder,
    estimates: Iterable[Mapping[str, Any]],
    settings: Mapping[str, Mapping[str, Any]],
    outputs: Sequence[str],
    work: _Stopwatch,
) -> None:
    """Estimate answers from samples and write their records.

    Args:
        grower: the tree builder of the model.
        estimates: checks in the form of `describe_check`, each with the `text` of its start string
            and the fields of its `sampling`.
        settings: the settings of the quantifiers, by name.
        outputs: the file of each record.
        work: the stopwatch of the job.
    """
    quantifiers = {name: create_quantifier(name, options) for name, options in settings.items()}
    for params, output in zip(estimates, outputs, strict=True):
        check = parse_check(params)
        tree = TextTree.read(paths.tree_file(check.tree))
        record = estimate_check(
            str(check),
            grower.with_decoding(check.tree.decoding),
            parse_start(params["text"]),
            tree,
            read_all_scores(tree, paths.scores_of_check(check)),
            check.query,
            {name: quantifiers[name] for name in quantifiers_in(check.query)},
            SamplingPlan(**params["sampling"]),
            build_sample_progress(str(check)),
        )
        record.write(output)
        # Sampling measures its own seconds, without the time to load files.
        work.seconds += record.seconds
        _log.info("%s: %s", check, record)
