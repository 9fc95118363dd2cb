# For each model one job draws the samples for all its estimates, so that the model is loaded once.
# A rule for each model, since no wildcard gives a rule as many outputs as a model has estimates.
for model in CONFIG.distribution_models.values():
    if not CONFIG.estimated_checks(model.name):
        continue

    rule:
        name:
            f"estimates_{model.name}"
        input:
            model=paths.model_directory(model.name),
            grown=get_trees_mark(model.name),
            trees=[paths.tree_file(check.tree) for check, _ in CONFIG.estimated_checks(model.name)],
            scores=[
                file
                for check, _ in CONFIG.estimated_checks(model.name)
                for file in paths.scores_of_check(check)
            ],
            files=get_quantifier_files(model.name),
        output:
            [f"results/estimates/{check}.json" for check, _ in CONFIG.estimated_checks(model.name)],
        log:
            f"results/logs/estimates/{model.name}.log",
        benchmark:
            f"results/benchmarks/estimates/{model.name}.tsv"
        conda:
            "../../environment.yml"
        threads: get_threads
        resources:
            mem_mb=model.mem_mb,
            gpu=get_gpu(model),
            gpu_mem_mb=get_gpu_mem_mb(model),
            runtime=480,
        params:
            code=get_code("estimates", also=get_quantifier_modules(model.name)),
            estimates=get_estimate_params(model.name),
            settings=get_quantifier_settings(get_quantifiers(model.name)),
            growing=get_build_settings(model),
        message:
            f"Estimating the answers of {model.name}"
        script:
            "../scripts/estimates.py"
