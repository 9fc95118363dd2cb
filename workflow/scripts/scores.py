import time

from llmchecker import scores
from llmchecker.files import write_json
from llmchecker.logs import job_log
from llmchecker.quantifiers import create
from llmchecker.text_tree import TextTree

with job_log(snakemake.log[0]):
    tree = TextTree.read(snakemake.input.tree)
    quantifier = create(snakemake.wildcards.quantifier, snakemake.params.settings)
    began = time.monotonic()
    values = scores.score(quantifier, tree)
    seconds = time.monotonic() - began
    scores.write(values, tree, snakemake.output.scores)
    write_json({"texts": len(tree), "seconds": seconds}, snakemake.output.seconds)
