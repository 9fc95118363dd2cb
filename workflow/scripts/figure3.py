from llmchecker.reporting import figures, provenance, tables
from llmchecker.reporting.table_io import read_csv, write_csv
from llmchecker.trees.top_k_mass import read_masses
from llmchecker.utils.atomic_files import read_json_with_digest
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work, work():
    output = snakemake.output
    frames = [read_masses(path) for path in snakemake.input.masses]
    masses = dict(zip(snakemake.params.labels, frames, strict=True))
    write_csv(tables.build_mass_table(masses), output.csv)
    figure = figures.draw_mass_figure(read_csv(output.csv))
    description = provenance.format_description(read_json_with_digest(snakemake.input.provenance))
    # Each format adapts the layout, so that their order is part of the result.
    figures.write_figure(figure, [output.pdf, output.png, output.svg], description)
