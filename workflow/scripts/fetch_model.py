from pathlib import Path

from llmchecker.interfaces.snakemake.source_params import parse_model_source
from llmchecker.models.fetch import fetch_model
from llmchecker.models.sources.model_directory import PROVENANCE
from llmchecker.utils.atomic_files import compute_sha256
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work, work():
    source, lock = parse_model_source(snakemake.params.source), snakemake.input.get("lock")
    directory = Path(snakemake.output.model)
    fetch_model(source, directory, lock=lock or None)
    # the record has the checksums of all files
    Path(snakemake.output.digest).write_text(compute_sha256(directory / PROVENANCE) + "\n")
