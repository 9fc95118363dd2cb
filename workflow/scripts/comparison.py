from llmchecker import comparison, published, tables
from llmchecker.logs import job_log
from llmchecker.storm import Verdict

with job_log(snakemake.log[0]) as work:
    runs = [
        comparison.Run(
            row=row,
            model=snakemake.params.labels[row.check.tree.model],
            start_string=snakemake.params.start_strings[row.check.tree.start],
            verdict=Verdict.read(path),
        )
        for row, path in zip(snakemake.params.rows, snakemake.input.verdicts, strict=True)
    ]
    rows = published.read(snakemake.input.published)
    with work():
        table = comparison.table(published.audit(rows), runs)
    tables.write(table, snakemake.output)
