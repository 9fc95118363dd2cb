import time

from llmchecker.config.registry import parse_quantifiers
from llmchecker.properties.scores import score_tree, write_scores
from llmchecker.trees.text_tree import TextTree
from llmchecker.utils.atomic_files import write_json_with_digest
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work:
    quantifiers = parse_quantifiers(snakemake.params.settings, snakemake.config)
    outputs = zip(snakemake.output.scores, snakemake.output.seconds, strict=True)
    tasks = zip(snakemake.input.trees, snakemake.params.names, outputs, strict=True)
    for tree_path, name, (scores_path, seconds_path) in tasks:
        tree = TextTree.read(tree_path)
        began = time.monotonic()
        values = score_tree(quantifiers[name], tree, name)
        seconds = time.monotonic() - began
        work.seconds += seconds
        write_scores(values, tree, scores_path)
        write_json_with_digest({"texts": len(tree), "seconds": seconds}, seconds_path)
