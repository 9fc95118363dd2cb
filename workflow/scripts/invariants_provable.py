from llmchecker.models.transformers.load import load_model
from llmchecker.programs.experiments.provable_probability import iter_provable_probabilities
from llmchecker.programs.experiments.provable_records import write_provable_probabilities
from llmchecker.programs.ir.expressions import Semantics
from llmchecker.programs.sources import find_program_files
from llmchecker.trees.text_tree import Truncation
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    model = load_model(snakemake.input.model, threads=snakemake.threads, **params.loading)
    files = find_program_files(snakemake.input.programs)
    semantics = [Semantics(name) for name in params.semantics]
    with work():
        made = list(
            iter_provable_probabilities(model, files, semantics, Truncation(**params.truncation))
        )
    write_provable_probabilities(made, snakemake.output[0])
