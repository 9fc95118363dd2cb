from llmchecker.fetching.programs import program_files
from llmchecker.invariants.provability import provabilities
from llmchecker.invariants.provability_records import write_provabilities
from llmchecker.loading.models import load_model
from llmchecker.logs import job_log
from llmchecker.programs.expressions import Semantics
from llmchecker.trees.text_tree import Truncation

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    model = load_model(snakemake.input.model, threads=snakemake.threads, **params.loading)
    files = program_files(snakemake.input.programs)
    semantics = [Semantics(name) for name in params.semantics]
    with work():
        made = list(provabilities(model, files, semantics, Truncation(**params.truncation)))
    write_provabilities(made, snakemake.output[0])
