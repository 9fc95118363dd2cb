from llmchecker.invariants.provability_records import read_provabilities
from llmchecker.logs import job_log
from llmchecker.publication import program_notes, program_tables, provenance
from llmchecker.publication.table_files import write_table

with job_log(snakemake.log[0]) as work, work():
    params = snakemake.params
    answers = map(read_provabilities, snakemake.input.answers)
    by_model = dict(zip(params.labels, answers, strict=True))
    table = program_tables.provable(by_model)
    footer = f"Trees of {params.truncation}. {provenance.footer_of_now()}"
    write_table(table, snakemake.output, footer, program_notes.notes_on_provable(by_model))
