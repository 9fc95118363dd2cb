# Tables and figures contain its output, so they are rebuilt with it, which takes seconds. As an
# ancient(...) input it would keep snakemake from checking their other inputs in the same run.
rule provenance:
    input:
        models=ancient(expand("resources/models/{model}", model=CONFIG.used_models)),
        digests=expand("resources/models/{model}.sha256", model=CONFIG.used_models),
        growths=[
            paths.tree_record(tree) for name in CONFIG.used_models for tree in CONFIG.trees(name)
        ],
        answers=CONFIG.answer_files(CONFIG.checks),
        verdicts=[paths.verdict_file(check) for check in CONFIG.bounded_checks],
        masses=expand(
            "results/topk/{model}.parquet", model=CONFIG.used_models if CONFIG.prompts else []
        ),
        prompts="resources/datasets/prompts.csv" if CONFIG.prompts else [],
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
            name: {"label": model.label, **model.load_settings}
            for name, model in CONFIG.used_models.items()
        },
        growths={
            name: [paths.tree_record(tree) for tree in CONFIG.trees(name)]
            for name in CONFIG.used_models
        },
        masses={
            name: f"results/topk/{name}.parquet"
            for name in (CONFIG.used_models if CONFIG.prompts else [])
        },
        answers={name: CONFIG.answer_files(CONFIG.checks_of(name)) for name in CONFIG.used_models},
    message:
        "Recording the provenance of the results"
    script:
        "../scripts/provenance.py"
