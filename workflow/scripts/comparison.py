from llmchecker.checking.verdicts import Verdict
from llmchecker.files import read_json
from llmchecker.logs import job_log
from llmchecker.publication import audit, comparison, provenance, tables
from llmchecker.publication.published import read_published_rows

with job_log(snakemake.log[0]) as work, work():
    runs = [
        comparison.Run(
            row=row,
            model=snakemake.params.labels[row.check.tree.model],
            start_string=snakemake.params.start_strings[row.check.tree.start],
            verdict=Verdict.read(path),
        )
        for row, path in zip(snakemake.params.rows, snakemake.input.verdicts, strict=True)
    ]
    findings = audit.audit(read_published_rows(snakemake.input.published))
    footer = provenance.footer(read_json(snakemake.input.provenance))
    tables.write(comparison.table(findings, runs), snakemake.output, footer)
