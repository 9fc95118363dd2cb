from pathlib import Path

from llmchecker.reporting import provenance
from llmchecker.reporting.table_io import write_table
from llmchecker.utils.job_logging import job_log
from loop_invariants.experiments.attempts import read_attempts, select_method_attempts
from loop_invariants.reporting import notes, tables
from loop_invariants.verification.esbmc import read_version

PUBLISHED = Path(__file__).parents[2] / "resources/published/invariants.csv"

with job_log(snakemake.log[0]) as work, work():
    params, output = snakemake.params, snakemake.output
    variants = {label: read_attempts(*paths) for label, paths in params.variants.items()}
    sources = {label: read_attempts(*paths) for label, paths in params.sources.items()}
    ours = select_method_attempts(read_attempts(*snakemake.input.method))
    tools = read_attempts(*snakemake.input.tools) + ours
    published = tables.read_published(PUBLISHED)
    footer = f"{params.costs} ESBMC {read_version()}. {provenance.format_current_footer()}"
    for paths, table, remarks in (
        (
            output.variants,
            tables.build_variants_table(variants),
            notes.build_variant_notes(variants),
        ),
        (
            output.sources,
            tables.build_sources_table(sources),
            notes.build_source_notes(sources),
        ),
        (
            output.tools,
            tables.build_tools_table(tools, published),
            notes.build_tool_notes(tools),
        ),
        (
            output.used,
            tables.build_used_invariants_table(ours),
            notes.build_used_invariant_notes(ours),
        ),
    ):
        write_table(table, paths, footer, remarks)
