"""Regenerate the tables and figures: `snakemake --cores all`."""

from snakemake.utils import min_version

min_version("9.0")


report: "workflow/report/workflow.rst"


# reads the configuration strictly, before snakemake reads it
include: "workflow/rules/common.smk"


# a configuration named by --configfile stands alone; snakemake would merge it into this one
if not workflow.overwrite_configfiles:

    configfile: "config.yaml"


# with defaults, for scripts that look up what must not run them again
config["expansion"] = CONFIG.expansion.model_dump(exclude_none=True)
if CONFIG.prompts is not None:
    config["topk"] = {"column": CONFIG.prompts.column, "maximum_k": CONFIG.prompts.maximum_k}


# Rules that take a moment run where snakemake runs, also on a cluster.
localrules:
    lock_model,
    table1,
    table2,
    audit,
    comparison,
    figure4,
    provenance,
    report,


include: "workflow/rules/models.smk"
include: "workflow/rules/trees.smk"
include: "workflow/rules/scores.smk"
include: "workflow/rules/checks.smk"
include: "workflow/rules/answers.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/provenance.smk"
include: "workflow/rules/report.smk"


if CONFIG.prompts is not None:

    include: "workflow/rules/topk.smk"


if CONFIG.suites:

    include: "workflow/rules/suites.smk"


if "invariants" in CONFIG.sections:

    include: "workflow/rules/invariants.smk"


CHECKS = CONFIG.bounded_checks
SCORED = [scored for model in CONFIG.models for scored in CONFIG.scores_of(model)]


# Every result for readers, and every input of another result: each is rebuilt if it is lost.
rule all:
    default_target: True
    input:
        expand("results/tables/{table}.csv", table=[*TABLES, *FIGURES]),
        expand("results/tables/{table}.md", table=[*TABLES, "witnesses"]),
        expand("results/tables/{table}.tex", table=["table1", "table2", "comparison"]),
        expand("results/figures/{figure}.{format}", figure=FIGURES, format=["pdf", "svg", "png"]),
        expand("results/topk/{model}.parquet", model=CONFIG.used_models if CONFIG.prompts else []),
        expand("results/trees/{check.tree}.{format}", check=CHECKS, format=["parquet", "json"]),
        expand("results/scores/{scored[0]}/{scored[1]}.parquet", scored=SCORED),
        expand("results/scores/{scored[0]}/{scored[1]}.json", scored=SCORED),
        [paths.chain_file(check, language) for check in CHECKS for language in ("prism", "jani")],
        expand("results/{folder}/{check}.json", check=CHECKS, folder=["checks", "crosschecks"]),
        CONFIG.answer_files(CONFIG.checks),
        CONFIG.suite_files,
        "results/provenance.json",
        "results/report.html",


rule invariants:
    input:
        get_invariants_results,
