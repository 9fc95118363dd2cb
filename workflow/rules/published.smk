localrules:
    audit,
    comparison,


PUBLISHED = str(BASE / "resources/published/table2.csv")


rule audit:
    input:
        published=PUBLISHED,
    output:
        csv=flag_for_report("results/tables/audit.csv", "Audit of the published table"),
        md="results/tables/audit.md",
    log:
        "results/logs/tables/audit.log",
    conda:
        "../../environment.yml"
    params:
        code=get_code("audit"),
    message:
        "Auditing the published table against its parameters"
    script:
        "../scripts/audit.py"


rule comparison:
    input:
        published=PUBLISHED,
        verdicts=[paths.verdict_file(row.check) for row in CONFIG.table2],
        provenance="results/provenance.json",
    output:
        csv=flag_for_report("results/tables/comparison.csv", "Published beside reproduced"),
        md="results/tables/comparison.md",
        tex="results/tables/comparison.tex",
    log:
        "results/logs/tables/comparison.log",
    conda:
        "../../environment.yml"
    params:
        code=get_code("comparison"),
        rows=get_rows(CONFIG.table2),
    message:
        "Comparing the published table with this run"
    script:
        "../scripts/comparison.py"
