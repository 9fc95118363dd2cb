rule check:
    input:
        tree=f"results/trees/{TREE}.parquet",
        growth=f"results/trees/{TREE}.json",
        scores=get_check_scores,
        scored=get_check_scored,
        code=code(
            "formulas.py",
            "properties.py",
            "markov_chain.py",
            "evidence.py",
            "valuations.py",
            "chaos.py",
            "storm.py",
            "bounding.py",
        ),
    output:
        f"results/checks/{TREE}/{{query}}.json",
    log:
        f"results/logs/checks/{TREE}/{{query}}.log",
    conda:
        "../../environment.yml"
    params:
        query=lambda wildcards: get_query(wildcards).text,
        ranges=get_ranges,
    message:
        "Checking {wildcards.query} on {input.tree}"
    script:
        "../scripts/check.py"


rule crosscheck:
    input:
        verdict=f"results/checks/{TREE}/{{query}}.json",
        prism=get_prism,
        jani=get_jani,
        code=code(
            "formulas.py", "properties.py", "prism.py", "jani.py", "storm.py", "crosscheck.py"
        ),
    output:
        f"results/crosschecks/{TREE}/{{query}}.json",
    log:
        f"results/logs/crosschecks/{TREE}/{{query}}.log",
    conda:
        "../../environment.yml"
    params:
        maximum_prism=5_000,
        maximum_jani=50_000,
    message:
        "Comparing {input.verdict} with Storm's own front end"
    script:
        "../scripts/crosscheck.py"
