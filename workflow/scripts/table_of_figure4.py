from llmchecker.interfaces.snakemake.tables import read_answers
from llmchecker.reporting import tables
from llmchecker.reporting.table_io import write_csv
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work, work():
    answers = read_answers(snakemake.params, snakemake.input)
    write_csv(tables.build_noun_table(answers), snakemake.output[0])
