localrules:
    lock_prompts,
    fetch_prompts,
    figure3,


use rule lock_model as lock_prompts with:
    output:
        update("config/locks/datasets/prompts.json"),
    log:
        "results/logs/lock_prompts.log",
    params:
        source=lambda _: str(CONFIG.prompts.dataset.source),
        kind="dataset",
    message:
        "Locking the commit of the prompts of the top-k statistics"


rule fetch_prompts:
    input:
        lock=get_lock(CONFIG.prompts.dataset.source, "config/locks/datasets/prompts.json"),
    output:
        "resources/datasets/prompts.csv",
        "resources/datasets/prompts.csv.sha256",
    log:
        "results/logs/fetch_prompts.log",
    # before the jobs of trees, which evaluate the prompts while the model is loaded
    priority: 2
    conda:
        "../../environment.yml"
    params:
        dataset=describe_dataset(CONFIG.prompts.dataset, paths.PROMPTS_FILE),
    message:
        "Fetching the prompts of the top-k statistics"
    script:
        "../scripts/fetch_prompts.py"


rule topk:
    input:
        model=ancient("resources/models/{model}"),
        digest="resources/models/{model}.sha256",
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
        **get_model_resources(),
        runtime=120,
    params:
        code=get_code("topk"),
        # in a list, because Snakemake compares no other frozen value
        caches=[build_cache(CONFIG.expansion)],
        column=lambda _: CONFIG.prompts.column,
        maximum_k=CONFIG.prompts.maximum_k,
        model=get_model_settings,
    message:
        "Top-k statistics of {wildcards.model}"
    script:
        "../scripts/topk.py"


rule figure3:
    input:
        masses=expand("results/topk/{model}.parquet", model=CONFIG.distribution_models),
        provenance="results/provenance.json",
    output:
        csv="results/tables/figure3.csv",
        pdf="results/figures/figure3.pdf",
        png="results/figures/figure3.png",
        svg=flag_for_report("results/figures/figure3.svg", "Figure 3"),
    log:
        "results/logs/figures/figure3.log",
    conda:
        "../../environment.yml"
    params:
        code=get_code("figure3"),
        # a label may contain braces, which snakemake would read as wildcards in a plain value
        labels=lambda _: [model.display_name() for model in CONFIG.distribution_models.values()],
    message:
        "Figure 3: mass of the most probable tokens"
    script:
        "../scripts/figure3.py"
