from llmchecker import jani, scores
from llmchecker.logs import job_log
from llmchecker.text_tree import TextTree

with job_log(snakemake.log[0]):
    tree = TextTree.read(snakemake.input.tree)
    jani.write(tree, scores.read_all(tree, snakemake.input.scores), snakemake.output[0])
