from llmchecker.models.transformers.load import load_model
from llmchecker.trees.text_tree import Truncation
from llmchecker.utils.job_logging import job_log
from loop_invariants.experiments.provable_probability import iter_provable_probabilities
from loop_invariants.experiments.provable_records import write_provable_probabilities
from loop_invariants.ir.expressions import Semantics
from loop_invariants.sources import find_program_files

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
