rule lock_model:
    output:
        # `update` keeps snakemake from deleting a lock first: an existing lock is obeyed even when
        # this rule is forced to run
        update("config/locks/models/{model}.json"),
    log:
        "results/logs/lock_model/{model}.log",
    conda:
        "../../environment.yml"
    params:
        source=lambda wildcards: str(get_model(wildcards).source.source),
        kind="model",
    message:
        "Locking the commit of the model {wildcards.model}"
    script:
        "../scripts/lock.py"


# A job and no localrule, since it converts and loads the weights, which needs the model's memory.
rule fetch_model:
    input:
        lock=lambda wildcards: get_lock(
            get_model(wildcards).source.source, paths.model_lock(wildcards.model)
        ),
    output:
        model=directory("resources/models/{model}"),
        digest="resources/models/{model}.sha256",
    log:
        "results/logs/fetch_model/{model}.log",
    # most other jobs wait for a model
    priority: 3
    conda:
        "../../environment.yml"
    resources:
        mem_mb=lambda wildcards: get_model(wildcards).mem_mb,
        runtime=120,
    params:
        # changes with the files of a local source
        source=lambda wildcards: describe_model_source(
            get_model(wildcards).source, paths.model_directory(wildcards.model)
        ),
    message:
        "Fetching the model {wildcards.model}"
    script:
        "../scripts/fetch_model.py"
