# One job grows all trees of a model, which is loaded once and asked no question twice.
for model in CONFIG.models.values():
    if not CONFIG.trees(model.name):
        continue

    rule:
        name:
            f"trees_{model.name}"
        input:
            model=f"resources/models/{model.name}",
            code=code(*fingerprints.GROWING, "distribution_store.py", "growth.py"),
        output:
            # a tree that is still what would be grown is kept
            trees=update(expand("results/trees/{tree}.parquet", tree=CONFIG.trees(model.name))),
            growths=update(expand("results/trees/{tree}.json", tree=CONFIG.trees(model.name))),
            # absent after a failure, from which trees come back old but with a new time
            grown=touch(get_grown(model.name)),
        log:
            f"results/logs/trees/{model.name}.log",
        benchmark:
            f"results/benchmarks/trees/{model.name}.tsv"
        conda:
            "../../environment.yml"
        threads: get_threads()
        resources:
            mem_mb=model.mem_mb,
            gpu=get_gpu(model),
            runtime=480,
        params:
            trees=CONFIG.trees(model.name),
            start_strings=get_start_strings(model.name),
            loading=get_loading(model),
            memory_bytes=CONFIG.expansion.memory_bytes,
            store_bytes=CONFIG.expansion.store_bytes,
            end_of_sequence=CONFIG.expansion.end_of_sequence,
        message:
            f"Growing the trees of {model.name}"
        script:
            "../scripts/trees.py"
