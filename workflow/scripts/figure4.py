from llmchecker.reporting import figures, provenance, tables
from llmchecker.reporting.table_io import read_csv, write_csv
from llmchecker.utils.atomic_files import read_json_with_digest
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work, work():
    params, inputs = snakemake.params, snakemake.input
    output = snakemake.output
    answers = tables.read_answers(params.rows, inputs.verdicts, inputs.get("answers", ()))
    write_csv(tables.build_noun_table(answers), output.csv)
    is_bounded = params.rows[0].check.is_bounded
    figure = figures.draw_noun_figure(read_csv(output.csv), params.axis, is_bounded)
    description = provenance.format_description(read_json_with_digest(inputs.provenance))
    # Each format adapts the layout, so that their order is part of the result.
    figures.write_figure(figure, [output.pdf, output.png, output.svg], description)
