from llmchecker import tables
from llmchecker.logs import job_log
from llmchecker.storm import Verdict

with job_log(snakemake.log[0]):
    verdicts = map(Verdict.read, snakemake.input.verdicts)
    table = tables.table2(snakemake.params.rows, verdicts, snakemake.params.labels)
    tables.write(table, snakemake.output)
