import logging
from pathlib import Path

from llmchecker.checking.solve import solve
from llmchecker.config.checks import quantifiers_in
from llmchecker.files import read_json
from llmchecker.logs import job_log
from llmchecker.quantifiers.scores import read_all_scores
from llmchecker.trees.text_tree import TextTree

with job_log(snakemake.log[0]) as work:
    read = {}
    for check, output in zip(snakemake.params.checks, snakemake.output, strict=True):
        names = quantifiers_in(check.query)
        paths = [Path(f"results/scores/{check.tree}/{name}.parquet") for name in names]
        records = [f"results/trees/{check.tree}.json", *(p.with_suffix(".json") for p in paths)]
        if check.tree not in read:  # checks on one tree follow one another
            read = {check.tree: TextTree.read(f"results/trees/{check.tree}.parquet")}
        tree = read[check.tree]
        values = read_all_scores(tree, paths)
        seconds = sum(read_json(record)["seconds"] for record in records)
        with work():
            verdict = solve(tree, values, check.query, snakemake.params.ranges, seconds)
        verdict.write(output)
        logging.info("%s: %s", check, verdict.value)
