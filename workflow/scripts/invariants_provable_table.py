from llmchecker.reporting import provenance
from llmchecker.reporting.table_io import write_table
from llmchecker.utils.job_logging import job_log
from loop_invariants.experiments.provable_records import read_provable_probabilities
from loop_invariants.reporting import notes, tables

with job_log(snakemake.log[0]) as work, work():
    params = snakemake.params
    answers = map(read_provable_probabilities, snakemake.input.answers)
    by_model = dict(zip(params.labels, answers, strict=True))
    table = tables.build_provable_table(by_model)
    footer = f"Trees of {params.truncation}. {provenance.format_current_footer()}"
    write_table(table, snakemake.output, footer, notes.build_provable_notes(by_model))
