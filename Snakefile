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


include: "workflow/rules/models.smk"
include: "workflow/rules/topk.smk"
include: "workflow/rules/trees.smk"
include: "workflow/rules/scores.smk"
include: "workflow/rules/prism.smk"
include: "workflow/rules/checks.smk"
include: "workflow/rules/estimates.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/published.smk"
include: "workflow/rules/provenance.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/invariants.smk"


# before any job starts; jobs, which read this file too, leave that to the run
if workflow.is_main_process:
    try:
        check_folders(CONFIG.models)
    except LLMCheckerError as error:
        sys.exit(f"The run cannot begin.\n{error}")


rule all:
    default_target: True
    input:
        get_all_results(),


rule invariants:
    input:
        get_invariants_results,
