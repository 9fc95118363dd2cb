# One job writes all chains of a model as files, for people and for Storm's own front end.
for model in CONFIG.models.values():
    if not CONFIG.trees(model.name):
        continue

    rule:
        name:
            f"prism_{model.name}"
        input:
            grown=get_grown(model.name),
            trees=[f"results/trees/{check.tree}.parquet" for check in get_chains(model.name)],
            scores=[
                f"results/scores/{tree}/{name}.parquet" for tree, name in get_scores(model.name)
            ],
            code=get_code("prism"),
        output:
            prism=[get_chain(check, "prism") for check in get_chains(model.name)],
            jani=[get_chain(check, "jani") for check in get_chains(model.name)],
        log:
            f"results/logs/prism/{model.name}.log",
        benchmark:
            f"results/benchmarks/prism/{model.name}.tsv"
        conda:
            "../../environment.yml"
        resources:
            runtime=30,
        params:
            scores=[
                [
                    f"results/scores/{check.tree}/{name}.parquet"
                    for name in quantifiers_in(check.query)
                ]
                for check in get_chains(model.name)
            ],
        message:
            f"Writing the chains of {model.name}"
        script:
            "../scripts/prism.py"
