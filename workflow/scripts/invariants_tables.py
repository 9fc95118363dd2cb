from llmchecker.invariants.attempts import beside_tools, read_attempts
from llmchecker.logs import job_log
from llmchecker.proving import esbmc
from llmchecker.publication import program_notes, program_tables, provenance
from llmchecker.publication.table_files import write_table

with job_log(snakemake.log[0]) as work, work():
    params, output = snakemake.params, snakemake.output
    variants = {label: read_attempts(*paths) for label, paths in params.variants.items()}
    sources = {label: read_attempts(*paths) for label, paths in params.sources.items()}
    ours = beside_tools(read_attempts(*snakemake.input.method))
    tools = read_attempts(*snakemake.input.tools) + ours
    published = program_tables.read_published(snakemake.input.published)
    footer = f"{params.costs} ESBMC {esbmc.version()}. {provenance.footer_of_now()}"
    for paths, table, notes in (
        (
            output.variants,
            program_tables.variants(variants),
            program_notes.notes_on_variants(variants),
        ),
        (output.sources, program_tables.sources(sources), program_notes.notes_on_sources(sources)),
        (
            output.tools,
            program_tables.tools(tools, published),
            program_notes.notes_on_tools(tools),
        ),
        (output.used, program_tables.used(ours), program_notes.notes_on_used(ours)),
    ):
        write_table(table, paths, footer, notes)
