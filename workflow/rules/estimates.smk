# For each model one job draws the samples for all its estimates, so that the model is loaded once.
# A rule for each model, since no wildcard gives a rule as many outputs as a model has estimates.
for model in filter(CONFIG.estimated_checks, CONFIG.models):

    rule:
        name:
            f"estimates_{model}"
        input:
            model=f"resources/models/{model}",
            grown=get_trees_mark(model),
            trees=[paths.tree_file(check.tree) for check, _ in CONFIG.estimated_checks(model)],
            scores=[
                file
                for check, _ in CONFIG.estimated_checks(model)
                for file in paths.scores_of_check(check)
            ],
            files=get_quantifier_files(model),
        output:
            [f"results/estimates/{check}.json" for check, _ in CONFIG.estimated_checks(model)],
        log:
            f"results/logs/estimates/{model}.log",
        benchmark:
            f"results/benchmarks/estimates/{model}.tsv"
        conda:
            "../../environment.yml"
        threads: get_threads(TREE_JOBS)
        resources:
            **get_model_resources(model),
            runtime=480,
        params:
            code=get_code("estimates", quantifiers_of=model),
            estimates=describe_estimates(CONFIG, model),
            settings=get_quantifier_settings(model),
            growing=describe_builder(CONFIG, CONFIG.models[model]),
        message:
            f"Estimating the answers of {model}"
        script:
            "../scripts/estimates.py"
