# For each model one job grows all its trees, so that the model is loaded once and never asked the
# same question twice. The same job asks what the top-k statistics need, while the model is loaded.
# A change of the prompts must not run it again, though: the rule `topk` asks the model itself if it
# must.
for model in CONFIG.tellers.values():
    if not CONFIG.truncated(model.name):
        continue

    rule:
        name:
            f"trees_{model.name}"
        input:
            model=paths.model_directory(model.name),
            shards=[file for tree in CONFIG.truncated(model.name) for file in get_shards(tree)],
            prompts=ancient(paths.PROMPTS_FILE) if CONFIG.prompts is not None else [],
            code=get_code("trees"),
        output:
            # `update` keeps snakemake from deleting old trees first: the script keeps each tree
            # that is still what it would grow
            trees=update(expand("results/trees/{tree}.parquet", tree=CONFIG.truncated(model.name))),
            growths=update(expand("results/trees/{tree}.json", tree=CONFIG.truncated(model.name))),
            # After a failure snakemake puts the old trees back with a new time, so that they look
            # current. This mark is missing then, which makes the job run again.
            grown=touch(f"results/trees/{model.name}.grown"),
        log:
            f"results/logs/trees/{model.name}.log",
        benchmark:
            f"results/benchmarks/trees/{model.name}.tsv"
        # before the rule `topk`, which finds its answers stored after this job
        priority: 1
        conda:
            "../../environment.yml"
        threads: get_threads()
        resources:
            mem_mb=model.mem_mb,
            gpu=get_gpu(model),
            gpu_mem_mb=get_gpu_mem_mb(model),
            runtime=get_growing_minutes(),
        params:
            trees=CONFIG.truncated(model.name),
            shards={tree: get_shards(tree) for tree in CONFIG.truncated(model.name)},
            start_strings=get_start_strings(CONFIG.truncated(model.name)),
            growing=get_growing(model),
            # Snakemake does not notice changes of values whose types it does not know. Here that is
            # wanted: other prompts or limits must not grow the trees again.
            topk=CONFIG.prompts,
            limits=get_limits(model),
        message:
            f"Growing the trees of {model.name}"
        script:
            "../scripts/trees.py"


# For each model one job grows all its trees that are refined for the bounds of their queries.
for model in CONFIG.tellers.values():
    if not CONFIG.refined(model.name):
        continue

    rule:
        name:
            f"refined_{model.name}"
        input:
            model=paths.model_directory(model.name),
            files=get_quantifier_files(model.name),
            code=get_code("refined", without=get_unasked_quantifiers(model.name)),
        output:
            trees=expand("results/trees/{tree}.parquet", tree=CONFIG.refined(model.name)),
            growths=expand("results/trees/{tree}.json", tree=CONFIG.refined(model.name)),
        log:
            f"results/logs/refined/{model.name}.log",
        benchmark:
            f"results/benchmarks/refined/{model.name}.tsv"
        conda:
            "../../environment.yml"
        threads: get_threads()
        resources:
            mem_mb=model.mem_mb,
            gpu=get_gpu(model),
            gpu_mem_mb=get_gpu_mem_mb(model),
            runtime=get_growing_minutes(),
        params:
            trees=CONFIG.refined(model.name),
            start_strings=get_start_strings(CONFIG.refined(model.name)),
            settings=get_settings(get_quantifiers(model.name)),
            growing=get_growing(model),
        message:
            f"Growing the trees of {model.name} that are refined for their queries"
        script:
            "../scripts/refined.py"


# A shard of a tree that several jobs grow together.
rule shard:
    input:
        model="resources/models/{model}",
        code=get_code("shard"),
    output:
        tree=f"results/shards/{TREE}/{{number}}-of-{{shards}}.parquet",
        growth=f"results/shards/{TREE}/{{number}}-of-{{shards}}.json",
    log:
        f"results/logs/shards/{TREE}/{{number}}-of-{{shards}}.log",
    benchmark:
        f"results/benchmarks/shards/{TREE}/{{number}}-of-{{shards}}.tsv"
    conda:
        "../../environment.yml"
    threads: get_threads()
    resources:
        mem_mb=get_mem_mb,
        gpu=lambda wildcards: get_gpu(get_model(wildcards)),
        gpu_mem_mb=lambda wildcards: get_gpu_mem_mb(get_model(wildcards)),
        runtime=get_growing_minutes(),
    params:
        # in a tuple, since snakemake compares no values of types that it does not know
        start=lambda wildcards: (CONFIG.start_strings[wildcards.start],),
        growing=lambda wildcards: get_growing(get_model(wildcards)),
        tree=lambda wildcards: (get_tree(wildcards),),
        limits=lambda wildcards: get_limits(get_model(wildcards)),
    message:
        "Growing part {wildcards.number} of {wildcards.shards} of a tree of {wildcards.model}"
    script:
        "../scripts/shard.py"
