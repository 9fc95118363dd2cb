from llmchecker import tables
from llmchecker.logs import job_log
from llmchecker.storm import Verdict

with job_log(snakemake.log[0]) as work:
    verdicts = [Verdict.read(path) for path in snakemake.input.verdicts]
    with work():
        table = tables.table2(snakemake.params.rows, verdicts, snakemake.params.labels)
    tables.write(table, snakemake.output)
