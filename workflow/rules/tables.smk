localrules:
    table1,
    table2,
    witnesses,
    table_of_figure3,
    table_of_figure4,


rule table1:
    input:
        code=get_code("table1"),
    output:
        csv=report(
            "results/tables/table1.csv",
            caption="../report/table1.rst",
            category="Tables",
            labels={"table": "Table I", "format": "csv"},
        ),
        md="results/tables/table1.md",
        tex="results/tables/table1.tex",
    log:
        "results/logs/tables/table1.log",
    conda:
        "../../environment.yml"
    params:
        start_strings=get_start_texts(),
    message:
        "Table I: the start strings"
    script:
        "../scripts/table1.py"


rule table2:
    input:
        verdicts=[paths.verdict_file(row.check) for row in CONFIG.table2],
        estimates=get_estimates(row.check for row in CONFIG.table2),
        provenance="results/provenance.json",
        code=get_code("table2"),
    output:
        csv=report(
            "results/tables/table2.csv",
            caption="../report/table2.rst",
            category="Tables",
            labels={"table": "Table II", "format": "csv"},
        ),
        md="results/tables/table2.md",
        tex="results/tables/table2.tex",
    log:
        "results/logs/tables/table2.log",
    conda:
        "../../environment.yml"
    params:
        rows=CONFIG.table2,
        models=lambda wildcards: get_models_asked(CONFIG.table2),
        start_strings=get_start_texts(),
    message:
        "Table II: every experiment"
    script:
        "../scripts/table2.py"


rule witnesses:
    input:
        verdicts=[paths.verdict_file(row.check) for row in CONFIG.table2],
        estimates=get_estimates(row.check for row in CONFIG.table2),
        provenance="results/provenance.json",
        code=get_code("witnesses"),
    output:
        report(
            "results/tables/witnesses.md",
            caption="../report/witnesses.rst",
            category="Tables",
            labels={"table": "Witnesses", "format": "md"},
        ),
    log:
        "results/logs/tables/witnesses.log",
    conda:
        "../../environment.yml"
    params:
        rows=CONFIG.table2,
        models=lambda wildcards: get_models_asked(CONFIG.table2),
        start_strings=get_start_texts(),
    message:
        "The texts that decide each query"
    script:
        "../scripts/witnesses.py"


rule table_of_figure3:
    input:
        masses=[paths.masses_file(model) for model in CONFIG.tellers],
        code=get_code("table_of_figure3"),
    output:
        "results/tables/figure3.csv",
    log:
        "results/logs/tables/figure3.log",
    conda:
        "../../environment.yml"
    params:
        # a label may contain braces, which snakemake would read as wildcards in a plain value
        labels=lambda _: [model.asked() for model in CONFIG.tellers.values()],
    message:
        "The numbers of Figure 3"
    script:
        "../scripts/table_of_figure3.py"


rule table_of_figure4:
    input:
        verdicts=[paths.verdict_file(check) for check in CONFIG.figure4],
        estimates=get_estimates(CONFIG.figure4),
        code=get_code("table_of_figure4"),
    output:
        "results/tables/figure4.csv",
    log:
        "results/logs/tables/figure4.log",
    conda:
        "../../environment.yml"
    params:
        rows=get_rows_of_figure4(),
        models=lambda wildcards: get_models_asked(get_rows_of_figure4()),
        start_strings=get_start_texts(),
    message:
        "The numbers of Figure 4"
    script:
        "../scripts/table_of_figure4.py"
