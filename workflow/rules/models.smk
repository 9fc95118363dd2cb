localrules:
    lock_model,
    fetch_model,


rule lock_model:
    output:
        # a lock that is there is obeyed, even when this rule is forced to run
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
    # most of a run waits for the models
    priority: 3
    conda:
        "../../environment.yml"
    resources:
        mem_mb=get_mem_mb,
    params:
        source=lambda wildcards: get_model(wildcards).source,
        # snakemake compares parameters of its own types only
        compared=lambda wildcards: repr(get_model(wildcards).source),
    message:
        "Fetching the model {wildcards.model}"
    script:
        "../scripts/fetch_model.py"
