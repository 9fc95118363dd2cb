import pandas as pd

from llmchecker import figures
from llmchecker.logs import job_log

with job_log(snakemake.log[0]):
    table = pd.read_csv(snakemake.input.table)
    figures.write(figures.figure4(table, snakemake.params.query), snakemake.output)
