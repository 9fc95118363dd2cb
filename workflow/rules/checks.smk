# For each model one job answers all queries on its trees and compares the sums over a tree with
# Storm, one writes its chains as files, and one compares the answers with those of Storm's own front
# end on these files. A job for each query would mostly import libraries.
# Rules for each model, since no wildcard gives a rule as many outputs as a model has checks.
for model in filter(CONFIG.trees, CONFIG.models):

    rule:
        name:
            f"checks_{model}"
        input:
            grown=f"results/trees/{model}.grown",
            trees=[paths.tree_file(tree) for tree in CONFIG.trees(model)],
            growths=[paths.tree_record(tree) for tree in CONFIG.trees(model)],
            scores=[paths.scores_file(*scored) for scored in CONFIG.scores_of(model)],
            seconds=[paths.scores_record(*scored) for scored in CONFIG.scores_of(model)],
        output:
            expand("results/checks/{check}.json", check=CONFIG.bounded_checks_of(model)),
        log:
            f"results/logs/checks/{model}.log",
        benchmark:
            f"results/benchmarks/checks/{model}.tsv"
        conda:
            "../../environment.yml"
        resources:
            mem_mb=4000,
            runtime=60,
        params:
            **list_checks(CONFIG, model),
            code=get_code("checks"),
            ranges=collect_ranges(CONFIG.used_quantifiers(model)),
            # changes with the files of the quantifiers
            states=get_quantifier_states(model),
        message:
            f"Answering the queries on {model}"
        script:
            "../scripts/checks.py"

    rule:
        name:
            f"prism_{model}"
        input:
            grown=f"results/trees/{model}.grown",
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
            name=model,
            scores=[paths.scores_of_check(check) for check in CONFIG.chains_of(model)],
        message:
            f"Writing the chains of {model}"
        script:
            "../scripts/prism.py"

    rule:
        name:
            f"crosschecks_{model}"
        input:
            verdicts=[paths.verdict_file(check) for check in CONFIG.bounded_checks_of(model)],
            prism=[paths.chain_file(check, "prism") for check in CONFIG.bounded_checks_of(model)],
            jani=[paths.chain_file(check, "jani") for check in CONFIG.bounded_checks_of(model)],
        output:
            expand("results/crosschecks/{check}.json", check=CONFIG.bounded_checks_of(model)),
        log:
            f"results/logs/crosschecks/{model}.log",
        benchmark:
            f"results/benchmarks/crosschecks/{model}.tsv"
        conda:
            "../../environment.yml"
        resources:
            mem_mb=4000,
            runtime=30,
        params:
            code=get_code("crosschecks"),
            name=model,
            # Storm parses PRISM files in time that grows with the square of the states, JANI files
            # in 0.1 ms and 7 KB a state; larger trees are not compared
            max_prism_states=5_000,
            max_jani_states=500_000,
        message:
            f"Comparing the answers on {model} with Storm's own front end"
        script:
            "../scripts/crosschecks.py"
