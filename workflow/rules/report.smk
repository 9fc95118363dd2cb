localrules:
    report,


REPORTED = [row.check for row in CONFIG.table2]
REPORTED_TABLES = ["table1", "table2", "comparison", "audit"]
REPORTED_SCORES = [
    [f"results/scores/{check.tree}/{name}.parquet" for name in quantifiers_in(check.query)]
    for check in REPORTED
]


rule report:
    input:
        verdicts=[f"results/checks/{check}.json" for check in REPORTED],
        trees=[f"results/trees/{check.tree}.parquet" for check in REPORTED],
        scores=sum(REPORTED_SCORES, []),
        prism=[get_chain(check, "prism") for check in REPORTED],
        tables=expand("results/tables/{name}.csv", name=REPORTED_TABLES),
        figures=expand("results/figures/{name}.svg", name=DRAWN),
        captions=[
            str(BASE / f"workflow/report/{name}.rst")
            for name in (*REPORTED_TABLES, *DRAWN, "witnesses")
        ],
        provenance=ancient("results/provenance.json"),
        code=get_code("report"),
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    conda:
        "../../environment.yml"
    params:
        rows=CONFIG.table2,
        labels={name: model.label for name, model in CONFIG.models.items()},
        start_strings=CONFIG.start_strings,
        scores=REPORTED_SCORES,
    message:
        "One page with all results"
    script:
        "../scripts/report.py"
