import logging
from pathlib import Path

from llmchecker.config.checks import quantifiers_in
from llmchecker.deciding.effort import Budget
from llmchecker.deciding.refined_trees import grow_refined
from llmchecker.logs import job_log
from llmchecker.scoring.registry import create
from llmchecker.trees.grower import Grower

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    grower = Grower(Path(snakemake.input.model), threads=snakemake.threads, **params.growing)
    for tree, path in zip(params.trees, snakemake.output.trees, strict=True):
        cut = tree.truncation
        names = {name for query in cut.queries for name in quantifiers_in(query)}
        _, growth = grow_refined(
            grower.decoded(tree.decoding),
            path,
            params.start_strings[tree.start],
            cut.queries,
            cut.length,
            {name: create(name, params.settings[name]) for name in sorted(names)},
            Budget(cut.width, cut.passes),
        )
        work.seconds += growth.seconds
        logging.info("%s: %s", tree, growth)
