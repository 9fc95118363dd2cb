from llmchecker.logs import job_log
from llmchecker.publication import tables
from llmchecker.publication.table_files import write_csv

with job_log(snakemake.log[0]) as work, work():
    answers = tables.read_answers(
        snakemake.params.rows,
        snakemake.input.verdicts,
        snakemake.params.models,
        snakemake.params.start_strings,
        snakemake.input.estimates,
    )
    write_csv(tables.noun_table(answers), snakemake.output[0])
