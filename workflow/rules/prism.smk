# For each model one job writes all its chains as files, which people and Storm's front end read.
# A rule for each model, since no wildcard gives a rule as many outputs as a model has chains.
for model in CONFIG.distribution_models.values():
    if not CONFIG.trees(model.name):
        continue

    rule:
        name:
            f"prism_{model.name}"
        input:
            grown=get_trees_mark(model.name),
            trees=[paths.tree_file(check.tree) for check in get_chains(model.name)],
            scores=[paths.scores_file(*scored) for scored in get_scores(model.name)],
        output:
            prism=[paths.chain_file(check, "prism") for check in get_chains(model.name)],
            jani=[paths.chain_file(check, "jani") for check in get_chains(model.name)],
        log:
            f"results/logs/prism/{model.name}.log",
        benchmark:
            f"results/benchmarks/prism/{model.name}.tsv"
        conda:
            "../../environment.yml"
        resources:
            runtime=30,
        params:
            code=get_code("prism"),
            scores=[paths.scores_of_check(check) for check in get_chains(model.name)],
        message:
            f"Writing the chains of {model.name}"
        script:
            "../scripts/prism.py"
