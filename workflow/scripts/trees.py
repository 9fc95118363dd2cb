import logging
from pathlib import Path

from llmchecker.distribution_store import DistributionStore
from llmchecker.growth import Grower
from llmchecker.logs import job_log, node_progress

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    grower = Grower(
        directory=Path(snakemake.input.model),
        threads=snakemake.threads,
        memory_bytes=params.memory_bytes,
        end_of_sequence=params.end_of_sequence,
        store=DistributionStore("results/distributions", params.store_bytes),
        **params.loading,
    )
    for tree, path in zip(params.trees, snakemake.output.trees, strict=True):
        start = params.start_strings[tree.start]
        if grower.has_grown(path, start, tree.bounds):
            logging.info("%s: kept", tree)
            continue
        _, growth = grower.grow(path, start, tree.bounds, node_progress(str(tree)))
        work.seconds += growth.seconds
        logging.info("%s: %s", tree, growth)
