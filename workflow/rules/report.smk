CAPTIONS = [f"workflow/report/{name}.rst" for name in [*TABLES, *FIGURES, "witnesses"]]


rule report:
    input:
        verdicts=[paths.verdict_file(check) for check in TABLE2_BOUNDED],
        answers=CONFIG.answer_files(TABLE2_CHECKS),
        trees=[paths.tree_file(check.tree) for check in TABLE2_BOUNDED],
        scores=[file for check in TABLE2_BOUNDED for file in paths.scores_of_check(check)],
        prism=[paths.chain_file(check, "prism") for check in TABLE2_BOUNDED],
        tables=expand("results/tables/{name}.csv", name=TABLES),
        figures=expand("results/figures/{name}.svg", name=FIGURES),
        provenance="results/provenance.json",
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    conda:
        "../../environment.yml"
    params:
        rows=list_rows(CONFIG, CONFIG.table2),
        code=get_code("report", files=CAPTIONS),
        captions=CAPTIONS,
        ranges={model: collect_ranges(CONFIG.used_quantifiers(model)) for model in CONFIG.models},
    message:
        "One page with all results"
    script:
        "../scripts/report.py"
