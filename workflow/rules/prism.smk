rule prism:
    input:
        tree=f"results/trees/{TREE}.parquet",
        scores=get_prism_scores,
        code=code("prism.py", "jani.py"),
    output:
        prism=f"results/prism/{TREE}/{{quantifiers}}.prism",
        jani=f"results/jani/{TREE}/{{quantifiers}}.jani",
    log:
        f"results/logs/prism/{TREE}/{{quantifiers}}.log",
    conda:
        "../../environment.yml"
    message:
        "Writing {output}"
    script:
        "../scripts/prism.py"
