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
config["expansion"] = dict(vars(CONFIG.expansion))
if CONFIG.prompts is not None:
    config["topk"] = {"column": CONFIG.prompts.column, "maximum_k": CONFIG.prompts.maximum_k}


# Rules that take a moment run where snakemake runs, also on a cluster.
localrules:
    lock_model,
    lock_prompts,
    fetch_prompts,
    fetch_programs,
    table1,
    table2,
    audit,
    comparison,
    figure3,
    figure4,
    suites,
    provenance,
    report,
    invariants_tables,
    invariants_sets,
    invariants_times,
    invariants_provable_table,


include: "workflow/rules/models.smk"
include: "workflow/rules/trees.smk"
include: "workflow/rules/scores.smk"
include: "workflow/rules/prism.smk"
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


if CONFIG.invariants is not None:

    include: "workflow/rules/invariants.smk"


# before any job starts; jobs, which read this file too, leave that to the run
if workflow.is_main_process:
    try:
        check_folders(CONFIG.models)
    except LLMCheckerError as error:
        sys.exit(f"The run cannot begin.\n{error}")


# Every result for readers, and every input of another result: each is rebuilt if it is lost.
rule all:
    default_target: True
    input:
        expand("results/tables/{table}.csv", table=[*TABLES, *FIGURES]),
        expand("results/tables/{table}.md", table=[*TABLES, "witnesses"]),
        expand("results/tables/{table}.tex", table=["table1", "table2", "comparison"]),
        expand("results/figures/{figure}.{format}", figure=FIGURES, format=["pdf", "svg", "png"]),
        expand("results/topk/{model}.parquet", model=CONFIG.used_models if CONFIG.prompts else []),
        [
            path(check.tree)
            for check in CONFIG.bounded_checks
            for path in (paths.tree_file, paths.tree_record)
        ],
        [
            path(*scored)
            for model in CONFIG.models
            for scored in CONFIG.scores_of(model)
            for path in (paths.scores_file, paths.scores_record)
        ],
        [
            paths.chain_file(check, language)
            for check in CONFIG.bounded_checks
            for language in ("prism", "jani")
        ],
        [
            path(check)
            for check in CONFIG.bounded_checks
            for path in (paths.verdict_file, paths.crosscheck_file)
        ],
        CONFIG.answer_files(CONFIG.checks),
        CONFIG.suite_files,
        "results/provenance.json",
        "results/report.html",


rule invariants:
    input:
        get_invariants_results,
