localrules:
    audit,
    comparison,


PUBLISHED = str(BASE / "resources/published/table2.csv")


rule audit:
    input:
        published=PUBLISHED,
        code=get_code("audit"),
    output:
        csv=report(
            "results/tables/audit.csv",
            caption="../report/audit.rst",
            category="Tables",
            labels={"table": "Audit of the published table", "format": "csv"},
        ),
        md="results/tables/audit.md",
    log:
        "results/logs/tables/audit.log",
    conda:
        "../../environment.yml"
    message:
        "The published table, held against what its parameters allow"
    script:
        "../scripts/audit.py"


rule comparison:
    input:
        published=PUBLISHED,
        verdicts=[paths.verdict_file(row.check) for row in CONFIG.table2],
        provenance="results/provenance.json",
        code=get_code("comparison"),
    output:
        csv=report(
            "results/tables/comparison.csv",
            caption="../report/comparison.rst",
            category="Tables",
            labels={"table": "Published beside reproduced", "format": "csv"},
        ),
        md="results/tables/comparison.md",
        tex="results/tables/comparison.tex",
    log:
        "results/logs/tables/comparison.log",
    conda:
        "../../environment.yml"
    params:
        rows=CONFIG.table2,
        models=lambda wildcards: get_models_asked(CONFIG.table2),
        start_strings=get_start_texts(),
    message:
        "Published beside reproduced"
    script:
        "../scripts/comparison.py"
