from llmchecker.files import write_sealed_json
from llmchecker.logs import job_log
from llmchecker.publication import provenance

with job_log(snakemake.log[0]) as work, work():
    params = snakemake.params
    run = provenance.of_run(
        config=params.config,
        models=params.models,
        directories=dict(zip(params.models, snakemake.input.models, strict=True)),
        growths=params.growths,
        estimates=params.estimates,
        verdicts=snakemake.input.verdicts,
        prompts=snakemake.input.get("prompts") or None,
    )
    write_sealed_json(run, snakemake.output[0])
