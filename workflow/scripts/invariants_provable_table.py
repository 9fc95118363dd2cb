from llmchecker.invariants import provability
from llmchecker.logs import job_log
from llmchecker.publication import provenance
from llmchecker.publication.tables import write

with job_log(snakemake.log[0]) as work, work():
    params = snakemake.params
    answers = map(provability.read, snakemake.input.answers)
    by_model = dict(zip(params.labels, answers, strict=True))
    table = provability.table(by_model)
    footer = f"Trees of {params.truncation}. {provenance.footer_of_now()}"
    write(table, snakemake.output, footer, provability.notes(by_model))
