import pandas as pd

from llmchecker import tables
from llmchecker.logs import job_log

with job_log(snakemake.log[0]):
    frames = map(pd.read_parquet, snakemake.input.masses)
    masses = dict(zip(snakemake.params.labels, frames, strict=True))
    tables.write_csv(tables.figure3(masses), snakemake.output[0])
