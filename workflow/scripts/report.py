import os
from pathlib import Path

from llmchecker.checking.verdicts import Verdict
from llmchecker.files import read_json, written_whole
from llmchecker.logs import job_log
from llmchecker.publication import report
from llmchecker.quantifiers.scores import read_all_scores
from llmchecker.trees.text_tree import TextTree

with job_log(snakemake.log[0]) as work, work():
    inputs, params = snakemake.input, snakemake.params
    page = Path(snakemake.output[0])
    results = [
        report.Result(
            row=row,
            model=params.labels[row.check.tree.model],
            start=params.start_strings[row.check.tree.start],
            verdict=Verdict.read(verdict),
            prism=os.path.relpath(prism, page.parent),
        )
        for row, verdict, prism in zip(params.rows, inputs.verdicts, inputs.prism, strict=True)
    ]
    view = None
    if (result := report.smallest_with_witness(results)) is not None:
        place = results.index(result)
        tree = TextTree.read(inputs.trees[place])
        values = read_all_scores(tree, params.scores[place])
        view = report.tree_view(result, tree, values)
    text = report.render(
        results=results,
        tables=inputs.tables,
        figures=inputs.figures,
        captions=inputs.captions,
        view=view,
        provenance=read_json(inputs.provenance),
    )
    with written_whole(page) as partial:
        partial.write_text(text, encoding="utf-8")
