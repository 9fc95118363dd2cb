import logging

from llmchecker.checking.solve import solve
from llmchecker.config import paths
from llmchecker.config.checks import quantifiers_in
from llmchecker.files import read_sealed_json
from llmchecker.logs import job_log
from llmchecker.scoring.scores import read_all_scores
from llmchecker.trees.text_tree import TextTree

with job_log(snakemake.log[0]) as work:
    read = {}
    for check, output in zip(snakemake.params.checks, snakemake.output, strict=True):
        names = quantifiers_in(check.query)
        records = [
            paths.tree_record(check.tree),
            *(paths.scores_record(check.tree, name) for name in names),
        ]
        # checks on one tree follow one another, so that it is enough to keep the last tree
        if check.tree not in read:
            read = {check.tree: TextTree.read(paths.tree_file(check.tree))}
        tree = read[check.tree]
        values = read_all_scores(tree, paths.scores_of_check(check))
        seconds = sum(read_sealed_json(record)["seconds"] for record in records)
        with work():
            verdict = solve(tree, values, check.query, snakemake.params.ranges, seconds)
        verdict.write(output)
        logging.info("%s: %s", check, verdict.value)
