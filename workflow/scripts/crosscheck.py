from llmchecker.crosscheck import crosscheck
from llmchecker.files import write_json
from llmchecker.logs import job_log
from llmchecker.storm import Verdict

with job_log(snakemake.log[0]):
    verdict = Verdict.read(snakemake.input.verdict)
    outcome = crosscheck(
        verdict,
        snakemake.input.prism,
        snakemake.input.jani,
        maximum_prism=snakemake.params.maximum_prism,
        maximum_jani=snakemake.params.maximum_jani,
    )
    write_json(outcome, snakemake.output[0])
