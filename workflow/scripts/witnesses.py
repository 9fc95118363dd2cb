from llmchecker.checking.verdicts import Verdict
from llmchecker.files import read_json, written_whole
from llmchecker.logs import job_log
from llmchecker.publication import provenance, tables

with job_log(snakemake.log[0]) as work, work():
    verdicts = map(Verdict.read, snakemake.input.verdicts)
    footer = provenance.footer(read_json(snakemake.input.provenance))
    params = snakemake.params
    text = tables.witnesses_markdown(params.rows, verdicts, params.labels, footer)
    with written_whole(snakemake.output[0]) as partial:
        partial.write_text(text, encoding="utf-8")
