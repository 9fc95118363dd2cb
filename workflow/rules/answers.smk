# For each model one job computes all answers for the whole model, so that the model is loaded once.
# A rule for each model, since no wildcard gives a rule as many outputs as a model has answers.
for model in filter(CONFIG.answered_checks, CONFIG.models):

    rule:
        name:
            f"answers_{model}"
        input:
            model=ancient(f"resources/models/{model}"),
            digest=f"resources/models/{model}.sha256",
            # after the trees, so that one job at a time has the model in memory
            grown=paths.trees_mark(model) if CONFIG.trees(model) else [],
            judges=with_digests(map(paths.model_directory, list_judges(CONFIG, model))),
        output:
            [f"results/answers/{check}.json" for check, _ in CONFIG.answered_checks(model)],
        log:
            f"results/logs/answers/{model}.log",
        benchmark:
            f"results/benchmarks/answers/{model}.tsv"
        conda:
            "../../environment.yml"
        threads: get_threads(TREE_JOBS)
        resources:
            **get_model_resources(model),
            runtime=480,
        params:
            **list_answers(CONFIG, model),
            code=get_code("answers", get_quantifier_modules(model)),
            # an answer is computed again when the code behind it changes
            codes=[
                get_code("answers", get_modules(quantifiers_in(check.query)))
                for check, _ in CONFIG.answered_checks(model)
            ],
            settings=get_quantifier_settings(model),
            # changes with the files of the quantifiers
            states=get_quantifier_states(model),
            model=build_model_settings(CONFIG.models[model], CONFIG.expansion),
        message:
            f"Computing the answers for the whole of {model}"
        script:
            "../scripts/answers.py"
