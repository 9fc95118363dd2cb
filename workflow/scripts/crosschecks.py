from llmchecker.checking.crosscheck import crosscheck
from llmchecker.checking.verdicts import Verdict
from llmchecker.files import write_sealed_json
from llmchecker.logs import job_log

with job_log(snakemake.log[0]) as work:
    files = (snakemake.input.verdicts, snakemake.input.prism, snakemake.input.jani)
    for verdict, prism, jani, output in zip(*files, snakemake.output, strict=True):
        with work():
            outcome = crosscheck(Verdict.read(verdict), prism, jani, **snakemake.params)
        write_sealed_json(outcome, output)
