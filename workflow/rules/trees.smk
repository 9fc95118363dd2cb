rule tree:
    input:
        model="resources/models/{model}",
        code=code("expansion.py", "language_models.py"),
    output:
        tree=f"results/trees/{TREE}.parquet",
        growth=f"results/trees/{TREE}.json",
    log:
        f"results/logs/trees/{TREE}.log",
    benchmark:
        f"results/benchmarks/trees/{TREE}.tsv"
    conda:
        "../../environment.yml"
    threads: CONFIG.expansion.threads
    resources:
        mem_mb=get_mem_mb,
        gpu=get_gpu,
        gpu_mem_mb=get_gpu_mem_mb,
    params:
        start=lambda wildcards: CONFIG.start_strings[wildcards.start],
        bounds=get_bounds,
        loading=get_loading,
        cache_bytes=CONFIG.expansion.cache_bytes,
        end_of_sequence=CONFIG.expansion.end_of_sequence,
    message:
        "Growing the tree of {wildcards.model}, {wildcards.start}: "
        "alpha {wildcards.alpha}, k {wildcards.k}, L {wildcards.L}"
    script:
        "../scripts/tree.py"
