# For each model one job scores all its trees: a job for each tree would mostly import libraries.
# A rule for each model, since no wildcard gives a rule as many outputs as a model has scores.
for model in CONFIG.distribution_models.values():
    if not get_scores(model.name):
        continue

    rule:
        name:
            f"scores_{model.name}"
        input:
            grown=get_trees_mark(model.name),
            trees=[paths.tree_file(tree) for tree, _ in get_scores(model.name)],
            files=get_quantifier_files(model.name),
        output:
            scores=[
                f"results/scores/{tree}/{name}.parquet" for tree, name in get_scores(model.name)
            ],
            seconds=[f"results/scores/{tree}/{name}.json" for tree, name in get_scores(model.name)],
        log:
            f"results/logs/scores/{model.name}.log",
        benchmark:
            f"results/benchmarks/scores/{model.name}.tsv"
        conda:
            "../../environment.yml"
        resources:
            runtime=60,
        params:
            code=get_code("scores", also=get_quantifier_modules(model.name)),
            names=[name for _, name in get_scores(model.name)],
            settings=get_quantifier_settings(get_quantifiers(model.name)),
        message:
            f"Scoring the texts of {model.name}"
        script:
            "../scripts/scores.py"
