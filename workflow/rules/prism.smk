# For each model one job writes all its chains as files, which people and Storm's front end read.
# A rule for each model, since no wildcard gives a rule as many outputs as a model has chains.
for model in filter(CONFIG.trees, CONFIG.models):

    rule:
        name:
            f"prism_{model}"
        input:
            grown=get_trees_mark(model),
            trees=[paths.tree_file(check.tree) for check in CONFIG.chains_of(model)],
            scores=[paths.scores_file(*scored) for scored in CONFIG.scores_of(model)],
        output:
            prism=[paths.chain_file(check, "prism") for check in CONFIG.chains_of(model)],
            jani=[paths.chain_file(check, "jani") for check in CONFIG.chains_of(model)],
        log:
            f"results/logs/prism/{model}.log",
        benchmark:
            f"results/benchmarks/prism/{model}.tsv"
        conda:
            "../../environment.yml"
        resources:
            runtime=30,
        params:
            code=get_code("prism"),
            scores=[paths.scores_of_check(check) for check in CONFIG.chains_of(model)],
        message:
            f"Writing the chains of {model}"
        script:
            "../scripts/prism.py"
