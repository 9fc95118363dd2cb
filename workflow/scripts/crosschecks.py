from llmchecker.checking.answer import Answer
from llmchecker.checking.crosscheck import crosscheck
from llmchecker.utils.atomic_files import write_json_with_digest
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work:
    largest = {key: snakemake.params[key] for key in ("max_prism_states", "max_jani_states")}
    files = (snakemake.input.verdicts, snakemake.input.prism, snakemake.input.jani)
    for verdict, prism, jani, output in zip(*files, snakemake.output, strict=True):
        with work():
            outcome = crosscheck(Answer.read(verdict), prism, jani, **largest)
        write_json_with_digest(outcome, output)
