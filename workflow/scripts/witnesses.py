from llmchecker import tables
from llmchecker.files import written_whole
from llmchecker.logs import job_log
from llmchecker.storm import Verdict

with job_log(snakemake.log[0]) as work:
    verdicts = [Verdict.read(path) for path in snakemake.input.verdicts]
    with work():
        text = tables.witnesses_markdown(snakemake.params.rows, verdicts, snakemake.params.labels)
    with written_whole(snakemake.output[0]) as partial:
        partial.write_text(text, encoding="utf-8")
