# Invariants of programs. Each model proposes once; all experiments use the same proposals.
from loop_invariants.workflow.attempt_files import find_attempt_files

INVARIANTS = CONFIG.sections["invariants"]
ATTEMPTS = find_attempt_files(CONFIG)
PROGRAMS = "resources/datasets/programs"


localrules:
    fetch_programs,
    invariants_tables,
    invariants_sets,
    invariants_times,
    invariants_provable_table,


wildcard_constraints:
    semantics=build_alternation(INVARIANTS.semantics),


rule fetch_programs:
    output:
        directory(PROGRAMS),
    log:
        "results/logs/fetch_programs.log",
    conda:
        "../../environment.yml"
    params:
        source=vars(INVARIANTS.programs),
        # changes with the files of a local directory
        state=INVARIANTS.programs.state(),
    message:
        "Fetching the programs"
    script:
        "../scripts/fetch_programs.py"


rule invariants_proposals:
    input:
        model=ancient("resources/models/{model}"),
        digest="resources/models/{model}.sha256",
        programs=PROGRAMS,
    output:
        "results/invariants/proposals/{model}.json",
    log:
        "results/logs/invariants/proposals/{model}.log",
    benchmark:
        "results/benchmarks/invariants/proposals/{model}.tsv"
    # most experiments wait for these proposals
    priority: 2
    conda:
        "../../environment.yml"
    # the other half of the cores runs the experiments that need no model
    threads: get_threads(2 * len(INVARIANTS.models))
    resources:
        **get_model_resources(),
        runtime=480,
    params:
        code=get_code("invariants_proposals"),
        loading=lambda wildcards: get_model(wildcards).load_settings,
        asking=vars(INVARIANTS.proposal_settings),
        kept="results/invariants/answers/{model}",
    message:
        "Proposing invariants with {wildcards.model}"
    script:
        "../scripts/invariants_proposals.py"


rule invariants_attempts:
    input:
        proposals="results/invariants/proposals/{model}.json",
        programs=PROGRAMS,
    output:
        "results/invariants/{experiment}/{model}/{semantics}.json",
    log:
        "results/logs/invariants/{experiment}/{model}/{semantics}.log",
    benchmark:
        "results/benchmarks/invariants/{experiment}/{model}/{semantics}.tsv"
    wildcard_constraints:
        experiment="variants|sources",
    # as soon as they can run; those without a model fill the cores while models propose
    priority: 1
    conda:
        "../../environment.yml"
    resources:
        mem_mb=4000,
        runtime=480,
    params:
        code=get_code("invariants_attempts"),
        attempting=INVARIANTS.attempt_settings,
    message:
        "Verifying programs with proposals of {wildcards.model}: {wildcards.experiment}, "
        "{wildcards.semantics}"
    script:
        "../scripts/invariants_attempts.py"


use rule invariants_attempts as invariants_attempts_without_model with:
    input:
        programs=PROGRAMS,
    output:
        "results/invariants/{experiment}/{semantics}.json",
    log:
        "results/logs/invariants/{experiment}/{semantics}.log",
    benchmark:
        "results/benchmarks/invariants/{experiment}/{semantics}.tsv"
    wildcard_constraints:
        experiment="baselines|tools",
    priority: 0
    message:
        "Verifying programs without a model: {wildcards.experiment}, {wildcards.semantics}"


rule invariants_tables:
    input:
        variants=sum(ATTEMPTS.variants.values(), []),
        sources=sum(ATTEMPTS.sources.values(), []),
        tools=ATTEMPTS.tools,
        method=ATTEMPTS.method,
    output:
        variants=flag_tables_for_report("invariants_variants", "Variants of the prompt"),
        used=flag_tables_for_report("invariants_used", "Invariants used"),
        tools=flag_tables_for_report("invariants_tools", "Tools"),
        sources=flag_tables_for_report("invariants_sources", "Sources"),
    log:
        "results/logs/tables/invariants.log",
    conda:
        "../../environment.yml"
    params:
        code=get_code("invariants_tables", files=["resources/published/invariants.csv"]),
        variants=ATTEMPTS.variants,
        sources=ATTEMPTS.sources,
        costs=(
            f"An attempt had {INVARIANTS.seconds:g} s, ESBMC without invariants "
            f"{INVARIANTS.tool_seconds:g} s."
        ),
    message:
        "The tables on programs"
    script:
        "../scripts/invariants_tables.py"


rule invariants_sets:
    input:
        attempts=lambda wildcards: ATTEMPTS.figures[wildcards.figure],
        method=lambda wildcards: ATTEMPTS.method if wildcards.figure == "tools" else [],
    output:
        csv="results/tables/invariants_figure_{figure}.csv",
        pdf="results/figures/invariants_{figure}.pdf",
        png="results/figures/invariants_{figure}.png",
        svg=flag_for_report(
            "results/figures/invariants_{figure}.svg",
            "Programs verified by {figure}",
            caption="invariants_sets",
        ),
    log:
        "results/logs/figures/invariants_{figure}.log",
    wildcard_constraints:
        figure=build_alternation(ATTEMPTS.figures),
    conda:
        "../../environment.yml"
    params:
        code=get_code("invariants_sets"),
    message:
        "Sets of jointly verified programs, {wildcards.figure}"
    script:
        "../scripts/invariants_sets.py"


rule invariants_times:
    input:
        tools=ATTEMPTS.tools,
        method=ATTEMPTS.method,
    output:
        csv="results/tables/invariants_figure_times.csv",
        pdf="results/figures/invariants_times.pdf",
        png="results/figures/invariants_times.png",
        svg=flag_for_report("results/figures/invariants_times.svg", "Seconds of the tools"),
    log:
        "results/logs/figures/invariants_times.log",
    conda:
        "../../environment.yml"
    params:
        code=get_code("invariants_times"),
    message:
        "Seconds of this method against those of the tools"
    script:
        "../scripts/invariants_times.py"


rule invariants_provable:
    input:
        model=ancient("resources/models/{model}"),
        digest="resources/models/{model}.sha256",
        programs=PROGRAMS,
    output:
        "results/invariants/provable/{model}.json",
    log:
        "results/logs/invariants/provable/{model}.log",
    benchmark:
        "results/benchmarks/invariants/provable/{model}.tsv"
    conda:
        "../../environment.yml"
    # the trees are so small that their batches would not occupy a second thread
    threads: 1
    resources:
        **get_model_resources(),
        runtime=480,
    params:
        code=get_code("invariants_provable"),
        loading=lambda wildcards: get_model(wildcards).load_settings,
        semantics=[str(semantics) for semantics in INVARIANTS.semantics],
        truncation=vars(INVARIANTS.provable_truncation),
    message:
        "Probability that {wildcards.model} writes a provable invariant"
    script:
        "../scripts/invariants_provable.py"


rule invariants_provable_table:
    input:
        answers=expand("results/invariants/provable/{model}.json", model=CONFIG.causal_models),
    output:
        flag_tables_for_report("invariants_provable", "Provable invariants"),
    log:
        "results/logs/tables/invariants_provable.log",
    conda:
        "../../environment.yml"
    params:
        code=get_code("invariants_provable_table"),
        # a label may contain braces, which snakemake would read as wildcards in a plain value
        labels=lambda _: [model.label for model in CONFIG.causal_models.values()],
        truncation=str(INVARIANTS.provable_truncation),
    message:
        "The table of provable invariants"
    script:
        "../scripts/invariants_provable_table.py"
