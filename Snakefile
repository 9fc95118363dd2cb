"""Regenerate the tables and figures: `snakemake --cores all`."""


include: "workflow/Snakefile"


# the default target of an included file is not that of this one
rule default:
    default_target: True
    input:
        rules.all.input,
