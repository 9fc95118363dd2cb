from llmchecker.reporting.figures import write_figure
from llmchecker.reporting.table_io import write_csv
from llmchecker.utils.job_logging import job_log
from loop_invariants.experiments.attempts import read_attempts, select_method_attempts
from loop_invariants.reporting import figures, tables

with job_log(snakemake.log[0]) as work, work():
    output = snakemake.output
    ours = select_method_attempts(read_attempts(*snakemake.input.method))
    table = tables.build_solved_sets_table(read_attempts(*snakemake.input.attempts) + ours)
    write_csv(table, output.csv)
    write_figure(figures.draw_solved_sets(table), [output.pdf, output.svg, output.png])
