rule fetch_model:
    output:
        directory("resources/models/{model}"),
    resources:
        mem_mb=get_mem_mb,
    log:
        "results/logs/fetch_model/{model}.log",
    conda:
        "../../environment.yml"
    params:
        source=lambda wildcards: get_model(wildcards).source,
    message:
        "Fetching the model {wildcards.model}"
    script:
        "../scripts/fetch_model.py"
