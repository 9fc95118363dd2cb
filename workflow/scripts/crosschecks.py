import logging
from pathlib import Path

from llmchecker.checking.answer import Answer
from llmchecker.checking.crosscheck import crosscheck
from llmchecker.config import paths
from llmchecker.models.fingerprint import hash_inputs
from llmchecker.utils.atomic_files import compute_sha256, write_json_with_digest
from llmchecker.utils.job_logging import job_log
from llmchecker.utils.result_cache import ResultCache

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    largest = {key: params[key] for key in ("max_prism_states", "max_jani_states")}
    cache = ResultCache(Path(paths.cached_results("crosschecks", params.name)))
    files = (snakemake.input.verdicts, snakemake.input.prism, snakemake.input.jani)
    for *compared, output in zip(*files, snakemake.output, strict=True):
        fingerprint = hash_inputs(
            [compute_sha256(file) for file in compared], largest, params.code, modules=()
        )
        if cache.restore(fingerprint, [output]):
            logging.info("%s: kept", output)
            continue
        verdict, prism, jani = compared
        with work():
            outcome = crosscheck(Answer.read(verdict), prism, jani, **largest)
        write_json_with_digest(outcome, output)
        cache.add(fingerprint, [output])
