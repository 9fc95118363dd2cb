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
            source=lambda _: str(CONFIG.prompts.dataset.source),
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
            "resources/datasets/prompts.csv.sha256",
        log:
            "results/logs/fetch_prompts.log",
        conda:
            "../../environment.yml"
        params:
            dataset=describe_dataset(CONFIG.prompts.dataset),
        message:
            "Fetching the prompts of the top-k statistics"
        script:
            "../scripts/fetch_prompts.py"

    rule topk:
        input:
            model="resources/models/{model}",
            prompts="resources/datasets/prompts.csv",
        output:
            "results/topk/{model}.parquet",
        log:
            "results/logs/topk/{model}.log",
        benchmark:
            "results/benchmarks/topk/{model}.tsv"
        conda:
            "../../environment.yml"
        resources:
            mem_mb=get_mem_mb,
            gpu=lambda wildcards: get_gpu(get_model(wildcards)),
            gpu_mem_mb=lambda wildcards: get_gpu_mem_mb(get_model(wildcards)),
            runtime=120,
        params:
            code=get_code("topk"),
            column=lambda _: CONFIG.prompts.column,
            maximum_k=CONFIG.prompts.maximum_k,
            growing=lambda wildcards: get_build_settings(get_model(wildcards)),
        message:
            "Top-k statistics of {wildcards.model}"
        script:
            "../scripts/topk.py"
