# Invariants of programs. Each model proposes once; all experiments use the same proposals.
if CONFIG.invariants is not None:

    PROGRAMS = "resources/datasets/programs"
    # the message of each experiment's jobs, by the path of its results; an experiment with {model}
    # in its path uses the proposals of that model
    EXPERIMENTS = {
        "variants/{model}": "Verifying with each prompt of {wildcards.model}",
        "sources/{model}": "Verifying with proposals of {wildcards.model}",
        "baselines": "Verifying without a model",
        "tools": "Verifying with each tool",
    }

    localrules:
        fetch_programs,
        invariants_provable_table,
        invariants_tables,
        invariants_sets,
        invariants_times,

    rule fetch_programs:
        output:
            directory(PROGRAMS),
        log:
            "results/logs/fetch_programs.log",
        conda:
            "../../environment.yml"
        params:
            source=vars(CONFIG.invariants.programs),
            # changes with the files of a local directory
            state=CONFIG.invariants.programs.state(),
        message:
            "Fetching the programs"
        script:
            "../scripts/fetch_programs.py"

    rule invariants_proposals:
        input:
            model="resources/models/{model}",
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
        threads: get_proposal_threads
        resources:
            mem_mb=get_mem_mb,
            gpu=lambda wildcards: get_gpu(get_model(wildcards)),
            gpu_mem_mb=lambda wildcards: get_gpu_mem_mb(get_model(wildcards)),
            runtime=480,
        params:
            code=get_code("invariants_proposals"),
            loading=lambda wildcards: get_load_settings(get_model(wildcards)),
            asking=vars(CONFIG.invariants.proposal_settings),
            kept=lambda wildcards: paths.answers_directory(wildcards.model),
        message:
            "Proposing invariants with {wildcards.model}"
        script:
            "../scripts/invariants_proposals.py"

    rule invariants_repairs:
        input:
            model="resources/models/{model}",
            proposals="results/invariants/proposals/{model}.json",
            programs=PROGRAMS,
        output:
            attempts="results/invariants/repairs/{model}/{semantics}.json",
            rounds="results/invariants/rounds/{model}/{semantics}.json",
        log:
            "results/logs/invariants/repairs/{model}/{semantics}.log",
        benchmark:
            "results/benchmarks/invariants/repairs/{model}/{semantics}.tsv"
        priority: 1
        conda:
            "../../environment.yml"
        # a round has few answers, which would not occupy a second thread
        threads: 1
        resources:
            mem_mb=get_mem_mb,
            gpu=lambda wildcards: get_gpu(get_model(wildcards)),
            gpu_mem_mb=lambda wildcards: get_gpu_mem_mb(get_model(wildcards)),
            runtime=480,
        params:
            code=get_code("invariants_repairs"),
            loading=lambda wildcards: get_load_settings(get_model(wildcards)),
            asking=vars(CONFIG.invariants.proposal_settings),
            repairing=vars(CONFIG.invariants.repair_settings),
            attempting=get_attempt_settings(),
            kept=lambda wildcards: paths.answers_directory(wildcards.model),
        message:
            "Repairing proposals of {wildcards.model}, {wildcards.semantics}"
        script:
            "../scripts/invariants_repairs.py"

    # a rule for each, since a wildcard for the model cannot be absent from a path
    for place, doing in EXPERIMENTS.items():
        experiment, _, model = place.partition("/")

        rule:
            name:
                f"invariants_{experiment}"
            input:
                proposals="results/invariants/proposals/{model}.json" if model else [],
                programs=PROGRAMS,
            output:
                f"results/invariants/{place}/{{semantics}}.json",
            log:
                f"results/logs/invariants/{place}/{{semantics}}.log",
            benchmark:
                f"results/benchmarks/invariants/{place}/{{semantics}}.tsv"
            # Experiments with a model go first as soon as they can run. Those without a model fill
            # the cores while models propose.
            priority: int(bool(model))
            conda:
                "../../environment.yml"
            resources:
                mem_mb=4000,
                runtime=480,
            params:
                code=get_code("invariants_attempts"),
                experiment=experiment,
                attempting=get_attempt_settings(),
                served=is_served,
            message:
                f"{doing}, {{wildcards.semantics}}"
            script:
                "../scripts/invariants_attempts.py"

    rule invariants_tables:
        input:
            variants=sum(get_variants_by_label().values(), []),
            sources=sum(get_sources_by_label().values(), []),
            tools=get_attempts("tools"),
            method=get_method_attempts(),
            published=str(BASE / "resources/published/invariants.csv"),
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
            code=get_code("invariants_tables"),
            # a label may contain braces, which snakemake would read as wildcards in a plain value
            variants=lambda _: get_variants_by_label(),
            sources=lambda _: get_sources_by_label(),
            costs=(
                f"An attempt had {CONFIG.invariants.seconds:g} s, a tool without invariants "
                f"{CONFIG.invariants.tool_seconds:g} s."
            ),
        message:
            "The tables on programs"
        script:
            "../scripts/invariants_tables.py"

    rule invariants_sets:
        input:
            attempts=lambda wildcards: get_set_figures()[wildcards.figure],
            method=lambda wildcards: (get_method_attempts() if wildcards.figure == "tools" else []),
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
            figure=build_alternation(get_set_figures()),
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
            tools=get_attempts("tools"),
            method=get_method_attempts(),
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
            model="resources/models/{model}",
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
            mem_mb=get_mem_mb,
            gpu=lambda wildcards: get_gpu(get_model(wildcards)),
            gpu_mem_mb=lambda wildcards: get_gpu_mem_mb(get_model(wildcards)),
            runtime=480,
        params:
            code=get_code("invariants_provable"),
            loading=lambda wildcards: get_load_settings(get_model(wildcards)),
            semantics=[str(semantics) for semantics in CONFIG.invariants.semantics],
            truncation=vars(CONFIG.invariants.provable_truncation),
        message:
            "Probability that {wildcards.model} writes a provable invariant"
        script:
            "../scripts/invariants_provable.py"

    rule invariants_provable_table:
        input:
            answers=[paths.provable_file(model) for model in get_causal_models()],
        output:
            flag_tables_for_report("invariants_provable", "Provable invariants"),
        log:
            "results/logs/tables/invariants_provable.log",
        conda:
            "../../environment.yml"
        params:
            code=get_code("invariants_provable_table"),
            # a label may contain braces, which snakemake would read as wildcards in a plain value
            labels=lambda _: [CONFIG.models[name].label for name in get_causal_models()],
            truncation=str(CONFIG.invariants.provable_truncation),
        message:
            "The table of provable invariants"
        script:
            "../scripts/invariants_provable_table.py"
