# Invariants of programs. Each model is asked for proposals once; the experiments then try to prove
# programs with the same proposals.
if CONFIG.invariants is not None:

    PROGRAMS = "resources/datasets/programs"
    # the message of each experiment's jobs, by where its results go; an experiment with {model} in
    # its path uses what that model proposed
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
            source=CONFIG.invariants.programs,
            # Snakemake does not notice changes of values whose types it does not know, so that the
            # source is repeated as text. The state tells when files of a local directory change.
            compared=lambda _: [
                repr(CONFIG.invariants.programs),
                CONFIG.invariants.programs.state(),
            ],
        message:
            "Fetching the programs"
        script:
            "../scripts/fetch_programs.py"

    rule invariants_proposals:
        input:
            model="resources/models/{model}",
            programs=PROGRAMS,
            code=get_code("invariants_proposals"),
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
        threads: get_proposing_threads()
        resources:
            mem_mb=get_mem_mb,
            gpu=lambda wildcards: get_gpu(get_model(wildcards)),
            gpu_mem_mb=lambda wildcards: get_gpu_mem_mb(get_model(wildcards)),
            runtime=480,
        params:
            loading=lambda wildcards: get_loading(get_model(wildcards)),
            # a mapping of numbers, since snakemake does not notice changes of values whose types it
            # does not know
            asking=vars(CONFIG.invariants.asking),
            kept=lambda wildcards: paths.answers_directory(wildcards.model),
        message:
            "Asking {wildcards.model} for invariants"
        script:
            "../scripts/invariants_proposals.py"

    rule invariants_repairs:
        input:
            model="resources/models/{model}",
            proposals="results/invariants/proposals/{model}.json",
            programs=PROGRAMS,
            code=get_code("invariants_repairs"),
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
            loading=lambda wildcards: get_loading(get_model(wildcards)),
            asking=vars(CONFIG.invariants.asking),
            repairing=vars(CONFIG.invariants.repairing),
            attempting=get_attempting(),
            kept=lambda wildcards: paths.answers_directory(wildcards.model),
        message:
            "Telling {wildcards.model} what failed, {wildcards.semantics}"
        script:
            "../scripts/invariants_repairs.py"

    for place, doing in EXPERIMENTS.items():
        experiment, _, model = place.partition("/")

        rule:
            name:
                f"invariants_{experiment}"
            input:
                proposals="results/invariants/proposals/{model}.json" if model else [],
                programs=PROGRAMS,
                code=get_code("invariants_attempts"),
            output:
                f"results/invariants/{place}/{{semantics}}.json",
            log:
                f"results/logs/invariants/{place}/{{semantics}}.log",
            benchmark:
                f"results/benchmarks/invariants/{place}/{{semantics}}.tsv"
            # Experiments with a model go first as soon as they can run. Those without a model fill
            # the cores while models are asked.
            priority: int(bool(model))
            conda:
                "../../environment.yml"
            resources:
                mem_mb=4000,
                runtime=480,
            params:
                experiment=experiment,
                attempting=get_attempting(),
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
            method=get_attempts_of_method(),
            published=str(BASE / "resources/published/invariants.csv"),
            code=get_code("invariants_tables"),
        output:
            variants=[
                report(
                    "results/tables/invariants_variants.csv",
                    caption="../report/invariants_variants.rst",
                    category="Programs",
                    labels={"table": "Variants of the prompt", "format": "csv"},
                ),
                "results/tables/invariants_variants.md",
            ],
            used=[
                report(
                    "results/tables/invariants_used.csv",
                    caption="../report/invariants_used.rst",
                    category="Programs",
                    labels={"table": "Invariants used", "format": "csv"},
                ),
                "results/tables/invariants_used.md",
            ],
            tools=[
                report(
                    "results/tables/invariants_tools.csv",
                    caption="../report/invariants_tools.rst",
                    category="Programs",
                    labels={"table": "Tools", "format": "csv"},
                ),
                "results/tables/invariants_tools.md",
            ],
            sources=[
                report(
                    "results/tables/invariants_sources.csv",
                    caption="../report/invariants_sources.rst",
                    category="Programs",
                    labels={"table": "Sources", "format": "csv"},
                ),
                "results/tables/invariants_sources.md",
            ],
        log:
            "results/logs/tables/invariants.log",
        conda:
            "../../environment.yml"
        params:
            # a label may contain braces, which snakemake would read as wildcards in a plain value
            variants=lambda _: get_variants_by_label(),
            sources=lambda _: get_sources_by_label(),
            costs=(
                f"An attempt had {CONFIG.invariants.seconds:g} s, ESBMC without invariants "
                f"{CONFIG.invariants.tool_seconds:g} s."
            ),
        message:
            "The tables on programs"
        script:
            "../scripts/invariants_tables.py"

    rule invariants_sets:
        input:
            attempts=lambda wildcards: get_figures_of_sets()[wildcards.figure],
            method=lambda wildcards: (
                get_attempts_of_method() if wildcards.figure == "tools" else []
            ),
            code=get_code("invariants_sets"),
        output:
            csv="results/tables/invariants_figure_{figure}.csv",
            pdf="results/figures/invariants_{figure}.pdf",
            png="results/figures/invariants_{figure}.png",
            svg=report(
                "results/figures/invariants_{figure}.svg",
                caption="../report/invariants_sets.rst",
                category="Programs",
                labels={"figure": "Programs verified by {figure}"},
            ),
        log:
            "results/logs/figures/invariants_{figure}.log",
        wildcard_constraints:
            figure=one_of(get_figures_of_sets()),
        conda:
            "../../environment.yml"
        message:
            "Which programs are verified together, {wildcards.figure}"
        script:
            "../scripts/invariants_sets.py"

    rule invariants_times:
        input:
            tools=get_attempts("tools"),
            method=get_attempts_of_method(),
            code=get_code("invariants_times"),
        output:
            csv="results/tables/invariants_figure_times.csv",
            pdf="results/figures/invariants_times.pdf",
            png="results/figures/invariants_times.png",
            svg=report(
                "results/figures/invariants_times.svg",
                caption="../report/invariants_times.rst",
                category="Programs",
                labels={"figure": "Seconds of the tools"},
            ),
        log:
            "results/logs/figures/invariants_times.log",
        conda:
            "../../environment.yml"
        message:
            "Seconds of this method against those of the tools"
        script:
            "../scripts/invariants_times.py"

    rule invariants_provable:
        input:
            model="resources/models/{model}",
            programs=PROGRAMS,
            code=get_code("invariants_provable"),
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
            loading=lambda wildcards: get_loading(get_model(wildcards)),
            semantics=[str(semantics) for semantics in CONFIG.invariants.semantics],
            truncation=vars(CONFIG.invariants.provable),
        message:
            "How likely {wildcards.model} writes a provable invariant"
        script:
            "../scripts/invariants_provable.py"

    rule invariants_provable_table:
        input:
            answers=[paths.provable_file(model) for model in get_writing_models()],
            code=get_code("invariants_provable_table"),
        output:
            [
                report(
                    "results/tables/invariants_provable.csv",
                    caption="../report/invariants_provable.rst",
                    category="Programs",
                    labels={"table": "Provable invariants", "format": "csv"},
                ),
                "results/tables/invariants_provable.md",
            ],
        log:
            "results/logs/tables/invariants_provable.log",
        conda:
            "../../environment.yml"
        params:
            # a label may contain braces, which snakemake would read as wildcards in a plain value
            labels=lambda _: [CONFIG.models[name].label for name in get_writing_models()],
            truncation=str(CONFIG.invariants.provable),
        message:
            "The table of provable invariants"
        script:
            "../scripts/invariants_provable_table.py"
