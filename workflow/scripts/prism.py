import logging
from pathlib import Path

from llmchecker.checking.markov.jani import write_jani
from llmchecker.checking.markov.prism import write_prism
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.config import paths
from llmchecker.models.fingerprint import hash_inputs
from llmchecker.properties.scores import read_all_scores
from llmchecker.trees.text_tree import TextTree
from llmchecker.utils.atomic_files import compute_sha256
from llmchecker.utils.job_logging import job_log
from llmchecker.utils.result_cache import ResultCache

with job_log(snakemake.log[0]) as work:
    params, output = snakemake.params, snakemake.output
    cache = ResultCache(Path(paths.cached_results("prism", params.name)))
    files = zip(snakemake.input.trees, params.scores, output.prism, output.jani, strict=True)
    fingerprints = set()
    for tree_path, score_paths, *chain in files:
        checksums = {path: compute_sha256(path) for path in (tree_path, *score_paths)}
        fingerprint = hash_inputs(list(checksums.items()), params.code, modules=())
        fingerprints.add(fingerprint)
        if cache.restore(fingerprint, chain):
            logging.info("%s: kept", chain[0])
            continue
        tree = TextTree.read(tree_path)
        scored = ScoredTree(tree, read_all_scores(tree, score_paths))
        with work():
            write_prism(scored, chain[0])
            write_jani(scored, chain[1])
        cache.add(fingerprint, chain)
    # these files are large, and computed again in a moment
    cache.prune(fingerprints)
