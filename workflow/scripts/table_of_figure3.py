from llmchecker.reporting import tables
from llmchecker.reporting.table_io import write_csv
from llmchecker.trees.top_k_mass import read_masses
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work:
    frames = [read_masses(path) for path in snakemake.input.masses]
    masses = dict(zip(snakemake.params.labels, frames, strict=True))
    with work():
        table = tables.build_mass_table(masses)
    write_csv(table, snakemake.output[0])
