PUBLISHED = "resources/published/table2.csv"
PUBLISHED_FIGURES = ["resources/published/figure3.csv", "resources/published/figure4.csv"]
TABLE2_CHECKS = [row.check for row in CONFIG.table2]
TABLE2_BOUNDED = [check for check in TABLE2_CHECKS if check.is_bounded]


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
        verdicts=[paths.verdict_file(check) for check in TABLE2_BOUNDED],
        answers=CONFIG.answer_files(TABLE2_CHECKS),
        provenance="results/provenance.json",
    output:
        csv=flag_for_report("results/tables/table2.csv", "Table II"),
        md="results/tables/table2.md",
        tex="results/tables/table2.tex",
        witnesses=flag_for_report("results/tables/witnesses.md", "Witnesses"),
    log:
        "results/logs/tables/table2.log",
    conda:
        "../../environment.yml"
    params:
        rows=list_rows(CONFIG, CONFIG.table2),
        code=get_code("table2"),
    message:
        "Table II: every experiment, and the texts that decide each query"
    script:
        "../scripts/table2.py"


rule audit:
    output:
        csv=flag_for_report("results/tables/audit.csv", "Audit of the published table"),
        md="results/tables/audit.md",
    log:
        "results/logs/tables/audit.log",
    conda:
        "../../environment.yml"
    params:
        code=get_code("audit", files=[PUBLISHED]),
    message:
        "Auditing the published table against its parameters"
    script:
        "../scripts/audit.py"


rule comparison:
    input:
        verdicts=[paths.verdict_file(check) for check in TABLE2_BOUNDED],
        masses="results/tables/figure3.csv" if "figure3" in FIGURES else [],
        nouns="results/tables/figure4.csv" if is_figure4(CONFIG.figure4) else [],
        provenance="results/provenance.json",
    output:
        csv=flag_for_report("results/tables/comparison.csv", "Published and reproduced figures"),
        md="results/tables/comparison.md",
        tex="results/tables/comparison.tex",
        claims=flag_for_report("results/tables/claims.csv", "Claims of the paper"),
        claims_md="results/tables/claims.md",
    log:
        "results/logs/tables/comparison.log",
    conda:
        "../../environment.yml"
    params:
        rows=list_rows(CONFIG, [row for row in CONFIG.table2 if row.check.is_bounded]),
        code=get_code("comparison", files=[PUBLISHED, *PUBLISHED_FIGURES]),
    message:
        "Comparing the paper with this run"
    script:
        "../scripts/comparison.py"
