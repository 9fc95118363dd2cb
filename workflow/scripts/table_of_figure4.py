from llmchecker.checking.verdicts import Verdict
from llmchecker.logs import job_log
from llmchecker.publication import tables

with job_log(snakemake.log[0]) as work:
    verdicts = [Verdict.read(path) for path in snakemake.input.verdicts]
    with work():
        table = tables.figure4(snakemake.params.checks, verdicts, snakemake.params.labels)
    tables.write_csv(table, snakemake.output[0])
