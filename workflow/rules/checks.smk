# For each model one job answers all queries on its trees, and a second job compares the answers
# with those of Storm's own front end. A job for each query would mostly import libraries.
# Rules for each model, since no wildcard gives a rule as many outputs as a model has checks.
for model in CONFIG.distribution_models.values():
    if not CONFIG.trees(model.name):
        continue

    rule:
        name:
            f"checks_{model.name}"
        input:
            grown=get_trees_mark(model.name),
            trees=[paths.tree_file(tree) for tree in CONFIG.trees(model.name)],
            growths=[paths.tree_record(tree) for tree in CONFIG.trees(model.name)],
            scores=[paths.scores_file(*scored) for scored in get_scores(model.name)],
            seconds=[paths.scores_record(*scored) for scored in get_scores(model.name)],
        output:
            [f"results/checks/{check}.json" for check in CONFIG.checks_of(model.name)],
        log:
            f"results/logs/checks/{model.name}.log",
        benchmark:
            f"results/benchmarks/checks/{model.name}.tsv"
        conda:
            "../../environment.yml"
        resources:
            mem_mb=4000,
            runtime=60,
        params:
            code=get_code("checks"),
            checks=[describe_check(check) for check in CONFIG.checks_of(model.name)],
            ranges=get_ranges(model.name),
        message:
            f"Answering the queries on {model.name}"
        script:
            "../scripts/checks.py"

    rule:
        name:
            f"crosschecks_{model.name}"
        input:
            verdicts=[paths.verdict_file(check) for check in CONFIG.checks_of(model.name)],
            prism=[paths.chain_file(check, "prism") for check in CONFIG.checks_of(model.name)],
            jani=[paths.chain_file(check, "jani") for check in CONFIG.checks_of(model.name)],
        output:
            [f"results/crosschecks/{check}.json" for check in CONFIG.checks_of(model.name)],
        log:
            f"results/logs/crosschecks/{model.name}.log",
        benchmark:
            f"results/benchmarks/crosschecks/{model.name}.tsv"
        conda:
            "../../environment.yml"
        resources:
            mem_mb=4000,
            runtime=30,
        params:
            code=get_code("crosschecks"),
            # Storm parses PRISM files in time that grows with the square of the states, JANI files
            # faster; larger trees are not compared
            max_prism_states=5_000,
            max_jani_states=50_000,
        message:
            f"Comparing the answers on {model.name} with Storm's own front end"
        script:
            "../scripts/crosschecks.py"
