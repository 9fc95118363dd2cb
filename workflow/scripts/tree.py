import logging
import time

from llmchecker.expansion import grow
from llmchecker.files import write_json
from llmchecker.language_models import load, use_threads
from llmchecker.logs import job_log, node_progress
from llmchecker.text_tree import Bounds

with job_log(snakemake.log[0]):
    params = snakemake.params
    use_threads(snakemake.threads)
    model = load(snakemake.input.model, cache_bytes=params.cache_bytes, **params.loading)
    name = "{model} {start} alpha{alpha} k{k} L{L}".format(**snakemake.wildcards)
    began = time.monotonic()
    tree = grow(
        model,
        params.start,
        Bounds(**params.bounds),
        params.end_of_sequence,
        node_progress(name),
    )
    seconds = time.monotonic() - began
    internal = int(tree.internal.sum())
    logging.info(
        "%s: %d states, %d nodes in %.1f s, %.0f nodes/s",
        name,
        len(tree),
        internal,
        seconds,
        internal / seconds,
    )
    tree.write(snakemake.output.tree)
    write_json({"nodes": internal, "seconds": seconds}, snakemake.output.growth)
