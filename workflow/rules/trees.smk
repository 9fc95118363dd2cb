# For each model one job grows all its trees, so that the model is loaded once and evaluates each
# text once. The same job evaluates the prompts of the top-k statistics, while the model is loaded.
# A change of the prompts must not rerun it: the rule `topk` then evaluates the model itself. There
# is a rule for each model, since no wildcard gives a rule as many outputs as a model has trees.
for model in CONFIG.distribution_models.values():
    if not CONFIG.truncated_trees(model.name):
        continue

    rule:
        name:
            f"trees_{model.name}"
        input:
            model=paths.model_directory(model.name),
            shards=[
                file for tree in CONFIG.truncated_trees(model.name) for file in get_shards(tree)
            ],
            prompts=ancient(paths.PROMPTS_FILE) if CONFIG.prompts is not None else [],
        output:
            # `update` keeps snakemake from deleting old trees first: the script keeps each tree
            # whose fingerprint is still the same
            trees=update(
                expand("results/trees/{tree}.parquet", tree=CONFIG.truncated_trees(model.name))
            ),
            growths=update(
                expand("results/trees/{tree}.json", tree=CONFIG.truncated_trees(model.name))
            ),
            # After a failure snakemake puts the old trees back with a new time, so that they look
            # current. This mark is missing then, which makes the job run again.
            grown=touch(f"results/trees/{model.name}.grown"),
        log:
            f"results/logs/trees/{model.name}.log",
        benchmark:
            f"results/benchmarks/trees/{model.name}.tsv"
        # before the rule `topk`, whose distributions this job stores
        priority: 1
        conda:
            "../../environment.yml"
        threads: get_threads
        resources:
            mem_mb=model.mem_mb,
            gpu=get_gpu(model),
            gpu_mem_mb=get_gpu_mem_mb(model),
            runtime=get_build_minutes(),
        params:
            code=get_code("trees"),
            # The script looks up the limits and the prompts in the configuration: a change of them
            # must not grow the trees again, so they are no params.
            trees=get_tree_params(CONFIG.truncated_trees(model.name)),
            growing=get_build_settings(model),
        message:
            f"Growing the trees of {model.name}"
        script:
            "../scripts/trees.py"


# For each model one job grows all its trees that are refined for the bounds of their queries.
for model in CONFIG.distribution_models.values():
    if not CONFIG.refined_trees(model.name):
        continue

    rule:
        name:
            f"refined_{model.name}"
        input:
            model=paths.model_directory(model.name),
            files=get_quantifier_files(model.name),
        output:
            trees=expand("results/trees/{tree}.parquet", tree=CONFIG.refined_trees(model.name)),
            growths=expand("results/trees/{tree}.json", tree=CONFIG.refined_trees(model.name)),
        log:
            f"results/logs/refined/{model.name}.log",
        benchmark:
            f"results/benchmarks/refined/{model.name}.tsv"
        conda:
            "../../environment.yml"
        threads: get_threads
        resources:
            mem_mb=model.mem_mb,
            gpu=get_gpu(model),
            gpu_mem_mb=get_gpu_mem_mb(model),
            runtime=get_build_minutes(),
        params:
            code=get_code("refined", also=get_quantifier_modules(model.name)),
            trees=get_tree_params(CONFIG.refined_trees(model.name)),
            settings=get_quantifier_settings(get_quantifiers(model.name)),
            growing=get_build_settings(model),
        message:
            f"Growing the trees of {model.name} that are refined for their queries"
        script:
            "../scripts/refined.py"


# A shard of a tree that several jobs grow together.
rule shard:
    input:
        model="resources/models/{model}",
    output:
        tree=f"results/shards/{TREE}/{{number}}-of-{{shards}}.parquet",
        growth=f"results/shards/{TREE}/{{number}}-of-{{shards}}.json",
    log:
        f"results/logs/shards/{TREE}/{{number}}-of-{{shards}}.log",
    benchmark:
        f"results/benchmarks/shards/{TREE}/{{number}}-of-{{shards}}.tsv"
    conda:
        "../../environment.yml"
    threads: get_threads
    resources:
        mem_mb=get_mem_mb,
        gpu=lambda wildcards: get_gpu(get_model(wildcards)),
        gpu_mem_mb=lambda wildcards: get_gpu_mem_mb(get_model(wildcards)),
        runtime=get_build_minutes(),
    params:
        code=get_code("shard"),
        growing=lambda wildcards: get_build_settings(get_model(wildcards)),
        tree=lambda wildcards: get_tree_params([get_tree(wildcards)])[0],
    message:
        "Growing part {wildcards.number} of {wildcards.shards} of a tree of {wildcards.model}"
    script:
        "../scripts/shard.py"
