import logging
from pathlib import Path

from llmchecker.fetching.prompts import read_prompts
from llmchecker.logs import job_log, node_progress
from llmchecker.trees.grower import Grower
from llmchecker.trees.topk import stored_masses

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    grower = Grower(
        Path(snakemake.input.model),
        threads=snakemake.threads,
        limits=params.limits,
        **params.growing,
    )
    for tree, path in zip(params.trees, snakemake.output.trees, strict=True):
        start = params.start_strings[tree.start]
        asking = grower.decoded(tree.decoding)
        if asking.has_grown(path, start, tree.truncation):
            logging.info("%s: kept", tree)
            continue
        if params.shards[tree]:
            with work():
                _, growth = asking.merge(path, start, params.shards[tree])
        else:
            _, growth = asking.grow(path, start, tree.truncation, node_progress(str(tree)))
            work.seconds += growth.seconds
        logging.info("%s: %s", tree, growth)
    # asked while the model is loaded, so that the job of the top-k statistics need not load it
    # again
    if grower.is_loaded and params.topk is not None:
        try:
            prompts = read_prompts(snakemake.input.prompts, params.topk.column)
            _, seconds = stored_masses(grower, prompts, params.topk.maximum_k)
            work.seconds += seconds
        # The trees are whole and must not be lost to a failure here. The job of the top-k
        # statistics meets the same error and reports it.
        except Exception as error:
            logging.warning("not asked for the top-k statistics: %s", error)
