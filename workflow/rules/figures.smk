rule figure4:
    input:
        verdicts=[paths.verdict_file(check) for check in CONFIG.figure4 if check.is_bounded],
        answers=CONFIG.answer_files(CONFIG.figure4),
        provenance="results/provenance.json",
    output:
        csv="results/tables/figure4.csv",
        pdf="results/figures/figure4.pdf",
        png="results/figures/figure4.png",
        svg=flag_for_report("results/figures/figure4.svg", "Figure 4"),
    log:
        "results/logs/figures/figure4.log",
    conda:
        "../../environment.yml"
    params:
        rows=list_rows(CONFIG, [TableRow("Figure 4", "", check) for check in CONFIG.figure4]),
        # as for labels, the name of a quantifier may contain braces
        code=get_code("figure4"),
        axis=lambda _: describe_answer(
            CONFIG.figure4[0].query,
            CONFIG.quantifiers,
            CONFIG.figure4[0].tree.truncation.length,
        ),
    message:
        "Figure 4: one query for several nouns"
    script:
        "../scripts/figure4.py"
