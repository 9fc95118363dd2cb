from llmchecker.figures import write
from llmchecker.invariants import figures, tables
from llmchecker.invariants.experiments import THIS_METHOD, read_attempts
from llmchecker.logs import job_log
from llmchecker.tables import write_csv

with job_log(snakemake.log[0]) as work, work():
    output = snakemake.output
    made = [attempt for path in snakemake.input.attempts for attempt in read_attempts(path)]
    table = tables.seconds(made, THIS_METHOD)
    write_csv(table, output.csv)
    write(figures.seconds(table, THIS_METHOD), [output.pdf, output.svg, output.png])
