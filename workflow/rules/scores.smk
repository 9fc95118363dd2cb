# For each model one job scores all its trees: a job for each tree would mostly import libraries.
# A rule for each model, since no wildcard gives a rule as many outputs as a model has scores.
for model in filter(CONFIG.scores_of, CONFIG.models):

    rule:
        name:
            f"scores_{model}"
        input:
            grown=f"results/trees/{model}.grown",
            trees=[paths.tree_file(tree) for tree, _ in CONFIG.scores_of(model)],
            judges=expand("resources/models/{judge}", judge=list_judges(CONFIG, model)),
        output:
            scores=[paths.scores_file(*scored) for scored in CONFIG.scores_of(model)],
            seconds=[paths.scores_record(*scored) for scored in CONFIG.scores_of(model)],
        log:
            f"results/logs/scores/{model}.log",
        benchmark:
            f"results/benchmarks/scores/{model}.tsv"
        conda:
            "../../environment.yml"
        resources:
            runtime=60,
        params:
            code=get_code("scores", get_quantifier_modules(model)),
            # scores are computed again when the code behind their quantifier changes
            codes={
                name: get_code("scores", get_modules([name]))
                for name in CONFIG.used_quantifiers(model)
            },
            name=model,
            names=[name for _, name in CONFIG.scores_of(model)],
            settings=get_quantifier_settings(model),
            # changes with the files of the quantifiers
            states=get_quantifier_states(model),
        message:
            f"Scoring the texts of {model}"
        script:
            "../scripts/scores.py"
