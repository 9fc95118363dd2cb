from llmchecker.files import read_sealed_json
from llmchecker.logs import job_log
from llmchecker.publication import figures, provenance
from llmchecker.publication.table_files import read_csv

with job_log(snakemake.log[0]) as work, work():
    figure = figures.mass_figure(read_csv(snakemake.input.table))
    description = provenance.description(read_sealed_json(snakemake.input.provenance))
    figures.write_figure(figure, snakemake.output, description)
