from llmchecker.reporting import provenance
from llmchecker.utils.atomic_files import write_json_with_digest
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work, work():
    params = snakemake.params
    run = provenance.collect_provenance(
        config=params.config,
        models=params.models,
        directories=dict(zip(params.models, snakemake.input.models, strict=True)),
        tree_records=params.growths,
        answers=params.answers,
        verdicts=snakemake.input.verdicts,
        masses=params.masses,
        prompts=snakemake.input.get("prompts") or None,
    )
    write_json_with_digest(run, snakemake.output[0])
