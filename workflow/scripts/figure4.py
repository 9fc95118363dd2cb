from llmchecker.files import read_sealed_json
from llmchecker.logs import job_log
from llmchecker.publication import figures, provenance
from llmchecker.publication.table_files import read_csv

with job_log(snakemake.log[0]) as work, work():
    table = read_csv(snakemake.input.table)
    figure = figures.noun_figure(table, snakemake.params.query)
    description = provenance.description(read_sealed_json(snakemake.input.provenance))
    figures.write_figure(figure, snakemake.output, description)
