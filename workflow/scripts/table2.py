from llmchecker.checking.verdicts import Verdict
from llmchecker.files import read_json
from llmchecker.logs import job_log
from llmchecker.publication import provenance, tables

with job_log(snakemake.log[0]) as work, work():
    verdicts = map(Verdict.read, snakemake.input.verdicts)
    table = tables.table2(snakemake.params.rows, verdicts, snakemake.params.labels)
    footer = provenance.footer(read_json(snakemake.input.provenance))
    tables.write(table, snakemake.output, footer)
