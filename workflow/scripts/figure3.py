import pandas as pd

from llmchecker import figures
from llmchecker.logs import job_log

with job_log(snakemake.log[0]):
    figures.write(figures.figure3(pd.read_csv(snakemake.input.table)), snakemake.output)
