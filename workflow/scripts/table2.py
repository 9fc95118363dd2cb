from llmchecker.files import read_sealed_json
from llmchecker.logs import job_log
from llmchecker.publication import provenance, tables
from llmchecker.publication.table_files import write_table

with job_log(snakemake.log[0]) as work, work():
    answers = tables.read_answers(
        snakemake.params.rows,
        snakemake.input.verdicts,
        snakemake.params.models,
        snakemake.params.start_strings,
        snakemake.input.estimates,
    )
    footer = provenance.footer(read_sealed_json(snakemake.input.provenance))
    notes = tables.notes_of_table2(answers)
    write_table(tables.table2(answers), snakemake.output, footer, notes)
