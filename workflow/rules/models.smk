localrules:
    lock_model,
    fetch_model,


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
        source=lambda wildcards: get_model(wildcards).source.source,
        kind="model",
    message:
        "Locking the commit of the model {wildcards.model}"
    script:
        "../scripts/lock.py"


rule fetch_model:
    input:
        lock=get_model_lock,
    output:
        directory("resources/models/{model}"),
    log:
        "results/logs/fetch_model/{model}.log",
    # most other jobs wait for a model
    priority: 3
    conda:
        "../../environment.yml"
    resources:
        mem_mb=get_mem_mb,
    params:
        source=lambda wildcards: get_model(wildcards).source,
        # as text too, since snakemake does not notice changes of values whose types it does not
        # know
        compared=lambda wildcards: repr(get_model(wildcards).source.about),
    message:
        "Fetching the model {wildcards.model}"
    script:
        "../scripts/fetch_model.py"
