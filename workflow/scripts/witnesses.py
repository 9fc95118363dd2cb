from llmchecker.files import read_sealed_json, written_whole
from llmchecker.logs import job_log
from llmchecker.publication import provenance, tables

with job_log(snakemake.log[0]) as work, work():
    answers = tables.read_answers(
        snakemake.params.rows,
        snakemake.input.verdicts,
        snakemake.params.models,
        snakemake.params.start_strings,
        snakemake.input.estimates,
    )
    footer = provenance.footer(read_sealed_json(snakemake.input.provenance))
    text = tables.witnesses_markdown(answers, footer)
    with written_whole(snakemake.output[0]) as partial:
        partial.write_text(text, encoding="utf-8")
