import time

from llmchecker.files import write_sealed_json
from llmchecker.logs import job_log
from llmchecker.scoring.registry import create
from llmchecker.scoring.scores import score_tree, write_scores
from llmchecker.trees.text_tree import TextTree

with job_log(snakemake.log[0]) as work:
    settings = snakemake.params.settings
    quantifiers = {name: create(name, settings[name]) for name in settings}
    outputs = zip(snakemake.output.scores, snakemake.output.seconds, strict=True)
    tasks = zip(snakemake.input.trees, snakemake.params.names, outputs, strict=True)
    for tree_path, name, (scores_path, seconds_path) in tasks:
        tree = TextTree.read(tree_path)
        began = time.monotonic()
        values = score_tree(quantifiers[name], tree, name)
        seconds = time.monotonic() - began
        work.seconds += seconds
        write_scores(values, tree, scores_path)
        write_sealed_json({"texts": len(tree), "seconds": seconds}, seconds_path)
