"""Regenerate the tables and figures: `snakemake --cores all`."""

from snakemake.utils import min_version

min_version("9.0")


report: "workflow/report/workflow.rst"


# reads the configuration strictly, before snakemake reads it
include: "workflow/rules/common.smk"


# a configuration named by --configfile stands alone; snakemake would merge it into this one
if not workflow.overwrite_configfiles:

    configfile: "config.yaml"


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


# before snakemake looks which files are there; jobs, which read this file too, leave that to the run
if workflow.is_main_process:
    try:
        demand_folders(CONFIG.models)
    except LLMCheckerError as error:
        sys.exit(f"The run cannot begin.\n{error}")
    mend(get_kept_files(), CONFIG.models)


rule all:
    default_target: True
    input:
        get_all_results(),


rule invariants:
    input:
        get_invariants_results,
