from llmchecker.files import read_sealed_json, written_whole
from llmchecker.logs import job_log
from llmchecker.publication import report, tables
from llmchecker.scoring.scores import read_all_scores
from llmchecker.trees.text_tree import TextTree

with job_log(snakemake.log[0]) as work, work():
    inputs = snakemake.input
    answers = tables.read_answers(
        snakemake.params.rows,
        snakemake.input.verdicts,
        snakemake.params.models,
        snakemake.params.start_strings,
        snakemake.input.estimates,
    )
    view = None
    if (answer := report.smallest_with_witness(answers)) is not None:
        place = answers.index(answer)
        tree = TextTree.read(inputs.trees[place])
        values = read_all_scores(tree, snakemake.params.scores[place])
        view = report.tree_view(answer, tree, values)
    text = report.render(
        answers=answers,
        tables=inputs.tables,
        figures=inputs.figures,
        captions=inputs.captions,
        view=view,
        provenance=read_sealed_json(inputs.provenance),
    )
    with written_whole(snakemake.output[0]) as partial:
        partial.write_text(text, encoding="utf-8")
