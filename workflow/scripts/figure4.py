from llmchecker.reporting import figures, provenance
from llmchecker.reporting.table_io import read_csv
from llmchecker.utils.atomic_files import read_json_with_digest
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work, work():
    table = read_csv(snakemake.input.table)
    figure = figures.draw_noun_figure(table, snakemake.params.query)
    description = provenance.format_description(read_json_with_digest(snakemake.input.provenance))
    figures.write_figure(figure, snakemake.output, description)
