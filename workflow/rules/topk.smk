if CONFIG.prompts is not None:

    localrules:
        fetch_prompts,

    rule fetch_prompts:
        output:
            "resources/datasets/prompts.csv",
        log:
            "results/logs/fetch_prompts.log",
        conda:
            "../../environment.yml"
        params:
            dataset=CONFIG.prompts.dataset,
        message:
            "Fetching the prompts of the top-k statistics"
        script:
            "../scripts/fetch_prompts.py"

    rule topk:
        input:
            model="resources/models/{model}",
            prompts="resources/datasets/prompts.csv",
            code=code("topk.py", "language_models.py"),
        output:
            "results/topk/{model}.parquet",
        log:
            "results/logs/topk/{model}.log",
        benchmark:
            "results/benchmarks/topk/{model}.tsv"
        conda:
            "../../environment.yml"
        threads: CONFIG.expansion.threads
        resources:
            mem_mb=get_mem_mb,
            gpu=get_gpu,
        params:
            column=CONFIG.prompts.column,
            maximum_k=CONFIG.prompts.maximum_k,
            loading=get_loading,
        message:
            "Top-k statistics of {wildcards.model}"
        script:
            "../scripts/topk.py"
