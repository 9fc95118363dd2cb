TREE_JOBS = len({check.tree.model for check in CONFIG.checks})


# For each model one job grows all its trees, so that the model is loaded once and evaluates each
# text once. The same job evaluates the prompts of the top-k statistics, while the model is loaded.
# A change of the prompts must not rerun it: the rule `topk` then evaluates the model itself. So the
# prompts are no input: as ancient(...) they would keep snakemake, in a run that fetches them, from
# checking the other inputs and params of this job and of all that depend on it.
# A rule for each model, since no wildcard gives a rule as many outputs as a model has trees.
for model in filter(CONFIG.trees, CONFIG.models):

    rule:
        name:
            f"trees_{model}"
        input:
            model=ancient(f"resources/models/{model}"),
            digest=f"resources/models/{model}.sha256",
            shards=[file for t in CONFIG.trees(model) for file in CONFIG.shard_files(t)],
        output:
            # `update` keeps snakemake from deleting old trees first: the script keeps each tree
            # whose fingerprint is still the same
            trees=update(expand("results/trees/{tree}.parquet", tree=CONFIG.trees(model))),
            growths=update(expand("results/trees/{tree}.json", tree=CONFIG.trees(model))),
            # After a failure snakemake puts the old trees back with a new time, so that they look
            # current. This mark is missing then, which makes the job run again.
            grown=touch(f"results/trees/{model}.grown"),
        log:
            f"results/logs/trees/{model}.log",
        benchmark:
            f"results/benchmarks/trees/{model}.tsv"
        # before the rule `topk`, whose distributions this job stores
        priority: 1
        conda:
            "../../environment.yml"
        threads: get_threads(TREE_JOBS)
        resources:
            **get_model_resources(model),
            runtime=CONFIG.expansion.max_minutes,
        params:
            code=get_code("trees"),
            # The script looks up the limits and the column of the prompts in the configuration: a
            # change of them must not grow the trees again, so they are no params.
            trees=list_trees(CONFIG, CONFIG.trees(model)),
            prompts=paths.PROMPTS_FILE,
            # in a list, because Snakemake compares no other frozen value
            caches=[build_cache(CONFIG.expansion)],
            model=build_model_settings(CONFIG.models[model], CONFIG.expansion),
        message:
            f"Growing the trees of {model}"
        script:
            "../scripts/trees.py"


# A shard of a tree that several jobs grow together.
rule shard:
    input:
        model=ancient("resources/models/{model}"),
        digest="resources/models/{model}.sha256",
    output:
        tree="results/shards/{model}/{tree}/{number}-of-{shards}.parquet",
        growth="results/shards/{model}/{tree}/{number}-of-{shards}.json",
    log:
        "results/logs/shards/{model}/{tree}/{number}-of-{shards}.log",
    benchmark:
        "results/benchmarks/shards/{model}/{tree}/{number}-of-{shards}.tsv"
    conda:
        "../../environment.yml"
    threads: get_threads(TREE_JOBS)
    resources:
        **get_model_resources(),
        runtime=CONFIG.expansion.max_minutes,
    params:
        code=get_code("shard"),
        # in a list, as above
        caches=[build_cache(CONFIG.expansion)],
        model=get_model_settings,
        tree=lambda wildcards: list_trees(CONFIG, [get_tree(wildcards)])[0],
    message:
        "Growing part {wildcards.number} of {wildcards.shards} of a tree of {wildcards.model}"
    script:
        "../scripts/shard.py"
