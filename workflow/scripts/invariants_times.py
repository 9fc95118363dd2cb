from llmchecker.invariants.attempts import THIS_METHOD, beside_tools, read_attempts
from llmchecker.logs import job_log
from llmchecker.publication import program_figures, program_tables
from llmchecker.publication.figures import write_figure
from llmchecker.publication.table_files import write_csv

with job_log(snakemake.log[0]) as work, work():
    output = snakemake.output
    ours = beside_tools(read_attempts(*snakemake.input.method))
    table = program_tables.seconds_table(read_attempts(*snakemake.input.tools) + ours, THIS_METHOD)
    write_csv(table, output.csv)
    write_figure(
        program_figures.draw_seconds(table, THIS_METHOD), [output.pdf, output.svg, output.png]
    )
