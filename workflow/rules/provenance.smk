localrules:
    provenance,


# Tables and figures say what its output says, so they are made again with it, which takes seconds.
# Were it ancient(...) to them, snakemake would not look at their other inputs in a run that makes it.
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
        code=get_code("provenance"),
    output:
        "results/provenance.json",
    log:
        "results/logs/provenance.log",
    conda:
        "../../environment.yml"
    params:
        config=CONFIG.sha256,
        models={
            model.name: {"label": model.label, **get_loading(model)} for model in get_used_models()
        },
        growths={
            model.name: [paths.tree_record(tree) for tree in CONFIG.trees(model.name)]
            for model in get_used_models()
        },
        estimates={
            model.name: get_estimates(CONFIG.checks_of(model.name)) for model in get_used_models()
        },
    message:
        "How the results were made"
    script:
        "../scripts/provenance.py"
