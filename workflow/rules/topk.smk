if CONFIG.prompts is not None:

    localrules:
        lock_prompts,
        fetch_prompts,

    rule lock_prompts:
        output:
            update("config/locks/datasets/prompts.json"),
        log:
            "results/logs/lock_prompts.log",
        conda:
            "../../environment.yml"
        params:
            source=CONFIG.prompts.dataset.source,
            kind="dataset",
        message:
            "Locking the commit of the prompts of the top-k statistics"
        script:
            "../scripts/lock.py"

    rule fetch_prompts:
        input:
            lock=get_prompts_lock,
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
            gpu_mem_mb=get_gpu_mem_mb,
        params:
            column=CONFIG.prompts.column,
            maximum_k=CONFIG.prompts.maximum_k,
            loading=get_loading,
        message:
            "Top-k statistics of {wildcards.model}"
        script:
            "../scripts/topk.py"
