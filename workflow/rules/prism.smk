rule prism:
    input:
        tree=f"results/trees/{TREE}.parquet",
        scores=get_prism_scores,
        code=code("prism.py"),
    output:
        f"results/prism/{TREE}/{{quantifiers}}.prism",
    log:
        f"results/logs/prism/{TREE}/{{quantifiers}}.log",
    conda:
        "../../environment.yml"
    message:
        "Writing {output}"
    script:
        "../scripts/prism.py"


rule jani:
    input:
        tree=f"results/trees/{TREE}.parquet",
        scores=get_prism_scores,
        code=code("jani.py"),
    output:
        f"results/jani/{TREE}/{{quantifiers}}.jani",
    log:
        f"results/logs/jani/{TREE}/{{quantifiers}}.log",
    conda:
        "../../environment.yml"
    message:
        "Writing {output}"
    script:
        "../scripts/jani.py"
