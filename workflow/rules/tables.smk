localrules:
    table1,
    table2,
    witnesses,
    table_of_figure3,
    table_of_figure4,


rule table1:
    output:
        csv=flag_for_report("results/tables/table1.csv", "Table I"),
        md="results/tables/table1.md",
        tex="results/tables/table1.tex",
    log:
        "results/logs/tables/table1.log",
    conda:
        "../../environment.yml"
    params:
        code=get_code("table1"),
        start_strings={name: str(start) for name, start in CONFIG.start_strings.items()},
    message:
        "Table I: the start strings"
    script:
        "../scripts/table1.py"


rule table2:
    input:
        verdicts=[paths.verdict_file(row.check) for row in CONFIG.table2],
        estimates=get_estimates(row.check for row in CONFIG.table2),
        provenance="results/provenance.json",
    output:
        csv=flag_for_report("results/tables/table2.csv", "Table II"),
        md="results/tables/table2.md",
        tex="results/tables/table2.tex",
    log:
        "results/logs/tables/table2.log",
    conda:
        "../../environment.yml"
    params:
        code=get_code("table2"),
        rows=get_rows(CONFIG.table2),
    message:
        "Table II: every experiment"
    script:
        "../scripts/table2.py"


rule witnesses:
    input:
        verdicts=[paths.verdict_file(row.check) for row in CONFIG.table2],
        estimates=get_estimates(row.check for row in CONFIG.table2),
        provenance="results/provenance.json",
    output:
        flag_for_report("results/tables/witnesses.md", "Witnesses"),
    log:
        "results/logs/tables/witnesses.log",
    conda:
        "../../environment.yml"
    params:
        code=get_code("witnesses"),
        rows=get_rows(CONFIG.table2),
    message:
        "The texts that decide each query"
    script:
        "../scripts/witnesses.py"


rule table_of_figure3:
    input:
        masses=[paths.masses_file(model) for model in CONFIG.distribution_models],
    output:
        "results/tables/figure3.csv",
    log:
        "results/logs/tables/figure3.log",
    conda:
        "../../environment.yml"
    params:
        code=get_code("table_of_figure3"),
        # a label may contain braces, which snakemake would read as wildcards in a plain value
        labels=lambda _: [model.display_name() for model in CONFIG.distribution_models.values()],
    message:
        "The numbers of Figure 3"
    script:
        "../scripts/table_of_figure3.py"


rule table_of_figure4:
    input:
        verdicts=[paths.verdict_file(check) for check in CONFIG.figure4],
        estimates=get_estimates(CONFIG.figure4),
    output:
        "results/tables/figure4.csv",
    log:
        "results/logs/tables/figure4.log",
    conda:
        "../../environment.yml"
    params:
        code=get_code("table_of_figure4"),
        rows=get_rows(get_figure4_rows()),
    message:
        "The numbers of Figure 4"
    script:
        "../scripts/table_of_figure4.py"
