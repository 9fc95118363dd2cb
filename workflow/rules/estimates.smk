# For each model one job draws the samples for all its estimates, so that the model is loaded once.
for model in CONFIG.tellers.values():
    if not CONFIG.estimated(model.name):
        continue

    rule:
        name:
            f"estimates_{model.name}"
        input:
            model=paths.model_directory(model.name),
            grown=get_mark(model.name),
            trees=[paths.tree_file(check.tree) for check, _ in CONFIG.estimated(model.name)],
            scores=[
                file
                for check, _ in CONFIG.estimated(model.name)
                for file in paths.scores_of_check(check)
            ],
            files=get_quantifier_files(model.name),
            code=get_code("estimates", without=get_unasked_quantifiers(model.name)),
        output:
            [f"results/estimates/{check}.json" for check, _ in CONFIG.estimated(model.name)],
        log:
            f"results/logs/estimates/{model.name}.log",
        benchmark:
            f"results/benchmarks/estimates/{model.name}.tsv"
        conda:
            "../../environment.yml"
        threads: get_threads()
        resources:
            mem_mb=model.mem_mb,
            gpu=get_gpu(model),
            gpu_mem_mb=get_gpu_mem_mb(model),
            runtime=480,
        params:
            estimates=CONFIG.estimated(model.name),
            start_strings=get_start_strings(check.tree for check, _ in CONFIG.estimated(model.name)),
            settings=get_settings(get_quantifiers(model.name)),
            growing=get_growing(model),
        message:
            f"Estimating the answers of {model.name}"
        script:
            "../scripts/estimates.py"
