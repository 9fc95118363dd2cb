rule scores:
    input:
        tree=f"results/trees/{TREE}.parquet",
        files=get_quantifier_files,
        code=lambda wildcards: code("scores.py", f"quantifiers/{wildcards.quantifier}.py"),
    output:
        scores=f"results/scores/{TREE}/{{quantifier}}.parquet",
        seconds=f"results/scores/{TREE}/{{quantifier}}.json",
    log:
        f"results/logs/scores/{TREE}/{{quantifier}}.log",
    conda:
        "../../environment.yml"
    params:
        settings=lambda wildcards: config["quantifiers"][wildcards.quantifier],
    message:
        "Scoring {wildcards.quantifier} on {input.tree}"
    script:
        "../scripts/scores.py"
