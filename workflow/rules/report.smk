localrules:
    report,


REPORTED = [row.check for row in CONFIG.table2]
REPORTED_TABLES = ["table1", "table2", "comparison", "audit"]
REPORTED_SCORES = [paths.scores_of_check(check) for check in REPORTED]


rule report:
    input:
        verdicts=[paths.verdict_file(check) for check in REPORTED],
        estimates=get_estimates(REPORTED),
        trees=[paths.tree_file(check.tree) for check in REPORTED],
        scores=sum(REPORTED_SCORES, []),
        prism=[paths.chain_file(check, "prism") for check in REPORTED],
        tables=expand("results/tables/{name}.csv", name=REPORTED_TABLES),
        figures=expand("results/figures/{name}.svg", name=DRAWN),
        captions=[
            str(BASE / f"workflow/report/{name}.rst")
            for name in (*REPORTED_TABLES, *DRAWN, "witnesses")
        ],
        provenance="results/provenance.json",
        code=get_code("report"),
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    conda:
        "../../environment.yml"
    params:
        rows=CONFIG.table2,
        models=lambda wildcards: get_models_asked(CONFIG.table2),
        start_strings=CONFIG.start_strings,
        scores=REPORTED_SCORES,
    message:
        "One page with all results"
    script:
        "../scripts/report.py"
