localrules:
    fetch_model,


rule fetch_model:
    output:
        directory("resources/models/{model}"),
    log:
        "results/logs/fetch_model/{model}.log",
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
