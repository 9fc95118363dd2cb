from llmchecker import jani, prism, scores
from llmchecker.logs import job_log
from llmchecker.text_tree import TextTree

with job_log(snakemake.log[0]):
    tree = TextTree.read(snakemake.input.tree)
    values = scores.read_all(tree, snakemake.input.scores)
    prism.write(tree, values, snakemake.output.prism)
    jani.write(tree, values, snakemake.output.jani)
