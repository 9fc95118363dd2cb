from llmchecker.checking.markov.jani import write_jani
from llmchecker.checking.markov.prism import write_prism
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.properties.scores import read_all_scores
from llmchecker.trees.text_tree import TextTree
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work:
    outputs = (snakemake.output.prism, snakemake.output.jani)
    files = zip(snakemake.input.trees, snakemake.params.scores, *outputs, strict=True)
    for tree_path, score_paths, prism_path, jani_path in files:
        tree = TextTree.read(tree_path)
        scored = ScoredTree(tree, read_all_scores(tree, score_paths))
        with work():
            write_prism(scored, prism_path)
            write_jani(scored, jani_path)
