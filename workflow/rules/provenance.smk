localrules:
    provenance,


# Tables and figures contain its output, so they are rebuilt with it, which takes seconds. As an
# ancient(...) input it would keep snakemake from checking their other inputs in the same run.
rule provenance:
    input:
        models=[paths.model_directory(model.name) for model in get_used_models()],
        growths=[
            paths.tree_record(tree)
            for model in get_used_models()
            for tree in CONFIG.trees(model.name)
        ],
        estimates=get_estimates(CONFIG.checks),
        verdicts=[paths.verdict_file(check) for check in CONFIG.checks],
        masses=(
            [paths.masses_file(model.name) for model in get_used_models()]
            if CONFIG.prompts is not None
            else []
        ),
        prompts=paths.PROMPTS_FILE if CONFIG.prompts is not None else [],
    output:
        "results/provenance.json",
    log:
        "results/logs/provenance.log",
    conda:
        "../../environment.yml"
    params:
        code=get_code("provenance"),
        config=CONFIG.sha256,
        models={
            model.name: {"label": model.label, **get_load_settings(model)}
            for model in get_used_models()
        },
        growths={
            model.name: [paths.tree_record(tree) for tree in CONFIG.trees(model.name)]
            for model in get_used_models()
        },
        estimates={
            model.name: get_estimates(CONFIG.checks_of(model.name)) for model in get_used_models()
        },
    message:
        "Recording the provenance of the results"
    script:
        "../scripts/provenance.py"
