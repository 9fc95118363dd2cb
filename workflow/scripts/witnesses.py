from llmchecker.interfaces.snakemake.tables import read_answers
from llmchecker.reporting import provenance, tables
from llmchecker.utils.atomic_files import atomic_write, read_json_with_digest
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work, work():
    answers = read_answers(snakemake.params, snakemake.input)
    footer = provenance.format_footer(read_json_with_digest(snakemake.input.provenance))
    text = tables.format_witnesses(answers, footer)
    with atomic_write(snakemake.output[0]) as partial:
        partial.write_text(text, encoding="utf-8")
