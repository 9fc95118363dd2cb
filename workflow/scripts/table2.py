from llmchecker.reporting import provenance, tables
from llmchecker.reporting.table_io import write_table
from llmchecker.utils.atomic_files import atomic_write, read_json_with_digest
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work, work():
    params, inputs = snakemake.params, snakemake.input
    output = snakemake.output
    answers = tables.read_answers(params.rows, inputs.verdicts, inputs.get("answers", ()))
    footer = provenance.format_footer(read_json_with_digest(inputs.provenance))
    notes = tables.format_table2_notes(answers)
    write_table(tables.build_table2(answers), [output.csv, output.md, output.tex], footer, notes)
    with atomic_write(output.witnesses) as partial:
        partial.write_text(tables.format_witnesses(answers, footer), encoding="utf-8")
