import time
from dataclasses import asdict

from llmchecker import bounding, chaos, evidence, markov_chain, scores, storm
from llmchecker.files import read_json
from llmchecker.logs import job_log
from llmchecker.properties import parse
from llmchecker.text_tree import TextTree

with job_log(snakemake.log[0]):
    tree = TextTree.read(snakemake.input.tree)
    values = scores.read_all(tree, snakemake.input.scores)
    query = parse(snakemake.params.query)
    began = time.monotonic()
    chain = markov_chain.build(tree, values)
    encode_seconds = time.monotonic() - began
    for timed in (snakemake.input.growth, *snakemake.input.scored):
        encode_seconds += read_json(timed)["seconds"]
    process = chaos.complete(tree, values, query, snakemake.params.ranges)
    verdict = storm.check(chain, query, encode_seconds).bounded(bounding.bounds(process, query))
    decisive = evidence.witnesses(tree, chain, query)
    verdict = verdict.with_witnesses(map(asdict, decisive))
    verdict.write(snakemake.output[0])
