import pandas as pd

from llmchecker import figures
from llmchecker.logs import job_log

with job_log(snakemake.log[0]) as work:
    table = pd.read_csv(snakemake.input.table)
    with work():
        figures.write(figures.figure3(table), snakemake.output)
