localrules:
    provenance,


# Tables and figures name its output as ancient(...): they are made after it, and say what it says
# then, but are not made again where only it has changed.
rule provenance:
    input:
        models=[f"resources/models/{model.name}" for model in get_used_models()],
        growths=[
            f"results/trees/{tree}.json"
            for model in get_used_models()
            for tree in CONFIG.trees(model.name)
        ],
        verdicts=[f"results/checks/{check}.json" for check in CONFIG.checks],
        masses=(
            [f"results/topk/{model.name}.parquet" for model in get_used_models()]
            if CONFIG.prompts is not None
            else []
        ),
        prompts="resources/datasets/prompts.csv" if CONFIG.prompts is not None else [],
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
            model.name: [f"results/trees/{tree}.json" for tree in CONFIG.trees(model.name)]
            for model in get_used_models()
        },
    message:
        "How the results were made"
    script:
        "../scripts/provenance.py"
