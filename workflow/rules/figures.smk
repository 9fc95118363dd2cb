localrules:
    figure3,
    figure4,


rule figure3:
    input:
        table="results/tables/figure3.csv",
        provenance="results/provenance.json",
    output:
        pdf="results/figures/figure3.pdf",
        png="results/figures/figure3.png",
        svg=flag_for_report("results/figures/figure3.svg", "Figure 3"),
    log:
        "results/logs/figures/figure3.log",
    conda:
        "../../environment.yml"
    params:
        code=get_code("figure3"),
    message:
        "Figure 3: mass of the most probable tokens"
    script:
        "../scripts/figure3.py"


rule figure4:
    input:
        table="results/tables/figure4.csv",
        provenance="results/provenance.json",
    output:
        pdf="results/figures/figure4.pdf",
        png="results/figures/figure4.png",
        svg=flag_for_report("results/figures/figure4.svg", "Figure 4"),
    log:
        "results/logs/figures/figure4.log",
    conda:
        "../../environment.yml"
    params:
        code=get_code("figure4"),
        # a query may contain braces, which snakemake would read as wildcards in a plain value but
        # leaves alone in what a function returns
        query=lambda _: CONFIG.figure4[0].query.text,
    message:
        "Figure 4: one query for several nouns"
    script:
        "../scripts/figure4.py"
