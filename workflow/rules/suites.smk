localrules:
    suites,


# For each suite and model one job computes all verdicts, so that cases share batches. With shards
# it takes over their results.
rule suite:
    input:
        model=ancient("resources/models/{model}"),
        digest="resources/models/{model}.sha256",
        shards=lambda wildcards: CONFIG.suite_shard_files(wildcards.suite, wildcards.model),
        # judges, simulated users and the model to compare with
        others=get_suite_models,
    output:
        results="results/suites/{suite}/{model}.jsonl",
        page="results/suites/{suite}/{model}.html",
    log:
        "results/logs/suites/{suite}/{model}.log",
    benchmark:
        "results/benchmarks/suites/{suite}/{model}.tsv"
    conda:
        "../../environment.yml"
    threads: get_threads(len(CONFIG.suite_files))
    resources:
        **get_model_resources(),
        runtime=480,
    params:
        code=get_code("suite"),
        # the types of its quantifiers, too
        types=lambda wildcards: get_code("suite", list_suite_modules(get_suite(wildcards))),
        digest=lambda wildcards: get_suite(wildcards).digest,
        # changes with the files of its quantifiers and judges
        files=lambda wildcards: sorted(get_suite(wildcards).quantifier_files.values()),
        # Paths of files differ in a copy. Snakemake does not compare a function of the inputs, and the
        # digest has all that a suite takes from the configuration.
        config=lambda wildcards, input: {
            "files": CONFIG_FILES,
            "changes": workflow.config_settings.config,
        },
    message:
        "Deciding the requirements of {wildcards.suite} for {wildcards.model}"
    script:
        "../scripts/suite.py"


# A part of the cases, if several jobs divide them.
rule suite_shard:
    input:
        model=ancient("resources/models/{model}"),
        digest="resources/models/{model}.sha256",
        # judges, simulated users and the model to compare with
        others=get_suite_models,
    output:
        results="results/suites/{suite}/{model}/{number}-of-{shards}.jsonl",
    log:
        "results/logs/suites/{suite}/{model}/{number}-of-{shards}.log",
    benchmark:
        "results/benchmarks/suites/{suite}/{model}/{number}-of-{shards}.tsv"
    conda:
        "../../environment.yml"
    threads: get_threads(len(CONFIG.suite_files))
    resources:
        **get_model_resources(),
        runtime=480,
    params:
        code=get_code("suite_shard"),
        # the types of its quantifiers, too
        types=lambda wildcards: get_code("suite_shard", list_suite_modules(get_suite(wildcards))),
        # the code of the job of the whole suite, by which kept results count as current
        whole=lambda wildcards: get_code("suite", list_suite_modules(get_suite(wildcards))),
        digest=lambda wildcards: get_suite(wildcards).digest,
        # changes with the files of its quantifiers and judges
        files=lambda wildcards: sorted(get_suite(wildcards).quantifier_files.values()),
        # Paths of files differ in a copy. Snakemake does not compare a function of the inputs, and the
        # digest has all that a suite takes from the configuration.
        config=lambda wildcards, input: {
            "files": CONFIG_FILES,
            "changes": workflow.config_settings.config,
        },
    message:
        "Deciding part {wildcards.number} of {wildcards.shards} of {wildcards.suite} for {wildcards.model}"
    script:
        "../scripts/suite_shard.py"


rule suites:
    input:
        results=CONFIG.suite_files,
        provenance="results/provenance.json",
    output:
        csv=flag_for_report("results/tables/suites.csv", "Suites"),
        md="results/tables/suites.md",
    log:
        "results/logs/tables/suites.log",
    conda:
        "../../environment.yml"
    params:
        code=get_code("suites"),
        labels={name: model.label for name, model in CONFIG.models.items()},
        digests=lambda _: get_suite_digests(),
    message:
        "The verdicts of all suites"
    script:
        "../scripts/suites.py"
