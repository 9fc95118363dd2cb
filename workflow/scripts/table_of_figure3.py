from llmchecker.logs import job_log
from llmchecker.publication import tables
from llmchecker.publication.table_files import write_csv
from llmchecker.trees.topk import read_masses

with job_log(snakemake.log[0]) as work:
    frames = [read_masses(path) for path in snakemake.input.masses]
    masses = dict(zip(snakemake.params.labels, frames, strict=True))
    with work():
        table = tables.mass_table(masses)
    write_csv(table, snakemake.output[0])
