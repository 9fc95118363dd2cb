import logging
from pathlib import Path

from llmchecker.config import paths
from llmchecker.config.checks import quantifiers_in
from llmchecker.deciding.query_estimates import estimate_check
from llmchecker.logs import job_log, sample_progress
from llmchecker.scoring.registry import create
from llmchecker.scoring.scores import read_all_scores
from llmchecker.trees.grower import Grower
from llmchecker.trees.text_tree import TextTree

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    grower = Grower(Path(snakemake.input.model), threads=snakemake.threads, **params.growing)
    quantifiers = {name: create(name, settings) for name, settings in params.settings.items()}
    for (check, sampling), output in zip(params.estimates, snakemake.output, strict=True):
        tree = TextTree.read(paths.tree_file(check.tree))
        record = estimate_check(
            str(check),
            grower.decoded(check.tree.decoding),
            params.start_strings[check.tree.start],
            tree,
            read_all_scores(tree, paths.scores_of_check(check)),
            check.query,
            {name: quantifiers[name] for name in quantifiers_in(check.query)},
            sampling,
            sample_progress(str(check)),
        )
        record.write(output)
        work.seconds += record.seconds
        logging.info("%s: %s", check, record)
