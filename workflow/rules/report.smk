localrules:
    report,


REPORT_CHECKS = [row.check for row in CONFIG.table2]
REPORT_TABLES = ["table1", "table2", "comparison", "audit"]
REPORT_SCORES = [paths.scores_of_check(check) for check in REPORT_CHECKS]


rule report:
    input:
        verdicts=[paths.verdict_file(check) for check in REPORT_CHECKS],
        estimates=get_estimates(REPORT_CHECKS),
        trees=[paths.tree_file(check.tree) for check in REPORT_CHECKS],
        scores=sum(REPORT_SCORES, []),
        prism=[paths.chain_file(check, "prism") for check in REPORT_CHECKS],
        tables=expand("results/tables/{name}.csv", name=REPORT_TABLES),
        figures=expand("results/figures/{name}.svg", name=FIGURES),
        captions=[
            str(BASE / f"workflow/report/{name}.rst")
            for name in (*REPORT_TABLES, *FIGURES, "witnesses")
        ],
        provenance="results/provenance.json",
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    conda:
        "../../environment.yml"
    params:
        code=get_code("report"),
        rows=get_rows(CONFIG.table2, get_start_strings()),
        scores=REPORT_SCORES,
    message:
        "One page with all results"
    script:
        "../scripts/report.py"
