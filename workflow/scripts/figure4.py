import pandas as pd

from llmchecker.files import read_json
from llmchecker.logs import job_log
from llmchecker.publication import figures, provenance

with job_log(snakemake.log[0]) as work, work():
    table = pd.read_csv(snakemake.input.table)
    figure = figures.noun_figure(table, snakemake.params.query)
    description = provenance.description(read_json(snakemake.input.provenance))
    figures.write_figure(figure, snakemake.output, description)
