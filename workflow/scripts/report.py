from pathlib import Path

from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.config import paths
from llmchecker.properties.scores import read_all_scores
from llmchecker.reporting import html_report, tables
from llmchecker.trees.text_tree import TextTree
from llmchecker.utils.atomic_files import atomic_write, read_json_with_digest
from llmchecker.utils.job_logging import job_log

CHECKOUT = Path(__file__).parents[2]

with job_log(snakemake.log[0]) as work, work():
    params, inputs = snakemake.params, snakemake.input
    answers = tables.read_answers(params.rows, inputs.verdicts, inputs.get("answers", ()))
    view = None
    if (row := html_report.find_smallest_with_witness(answers)) is not None:
        check = row.check
        tree = TextTree.read(paths.tree_file(check.tree))
        values = read_all_scores(tree, paths.scores_of_check(check))
        ranges = params.ranges[check.tree.model]
        view = html_report.build_tree_view(row, ScoredTree(tree, values, ranges))
    text = html_report.render_report(
        answers=answers,
        tables=inputs.tables,
        figures=inputs.figures,
        captions=[CHECKOUT / caption for caption in params.captions],
        view=view,
        provenance=read_json_with_digest(inputs.provenance),
    )
    with atomic_write(snakemake.output[0]) as partial:
        partial.write_text(text, encoding="utf-8")
