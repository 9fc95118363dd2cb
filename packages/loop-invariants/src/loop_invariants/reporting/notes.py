"""Notes below the tables of experiments on programs: legends and findings."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from llmchecker.utils.number_format import format_count
from loop_invariants.experiments.attempts import (
    MODEL_COMBINATIONS,
    MODEL_FREE_COMBINATIONS,
    Attempt,
)
from loop_invariants.experiments.provable_records import ProvableProbability
from loop_invariants.reporting.tables import (
    PROGRAM_SOURCES,
    TIMEOUT_OUTCOMES,
    UNTREATED_OUTCOMES,
    AttemptsByModel,
    build_frame,
    select_solved_by,
)
from loop_invariants.verification.result import CandidateSource, Outcome

_LEGEND_OF_VARIANTS = """\
Candidates are what the model wrote to this prompt, and nothing else. Unique: solved by no other
variant of that model and semantics. Seconds, those of the model included, and iterations are means
over the programs that are solved; parse errors are all that the used iterations had, in all
programs."""
_LEGEND_OF_SOURCES = """\
Unique: solved by no other row of that model and semantics. Beyond program: not solved by "program",
which proposes nothing but what it makes of the program itself; missed of program: solved by it
only. Timeouts: more candidates prove no less but take longer. Seconds, those of the model included,
are means over the programs that are solved. Every source that proposes may propose equally many
candidates for a loop."""
_LEGEND_OF_TOOLS = """\
Solved: verified. False: a violation was found; this method reports one only if a concrete run shows
it. Other: no answer, for another reason, or no assertion. Seconds are means over the programs that
are solved."""
_LEGEND_OF_LIMITS = """\
Limits: what ended attempts without an answer, with the number of attempts; one may have several.
Prover and ESBMC time are processor time, solver steps are those that Z3 counts for one
question, and the clock, at many times the processor time, only guards against what never ends.
Candidates and answers are how much a source may propose for a loop."""
_LEGEND_OF_PUBLISHED_FIGURES = """\
Published figures are those of Pirzada, Bhayat, Cordeiro and Reger, LLM-Generated Invariants for
Bounded Model Checking Without Loop Unrolling (ASE 2024), on the programs of that paper; they are
not measured here."""
_LEGEND_OF_INVARIANTS = """\
Invariants are those that the proof of the assertions needs; a program without any is proven without
or not at all, as its outcome says. Semicolons separate several invariants of a loop, and the
sources of each."""


_PROGRAM_SOURCE_LABELS = {
    f"{CandidateSource.ATOMS} alone": "The atoms of the programs alone",
    PROGRAM_SOURCES: "All sources of the programs together",
}


def build_variant_notes(attempts: AttemptsByModel) -> list[str]:
    """Build the notes of the table of variants, one paragraph each."""
    return [_LEGEND_OF_VARIANTS, _LEGEND_OF_LIMITS, *_describe_untreated(attempts)]


def build_source_notes(attempts: AttemptsByModel) -> list[str]:
    """Build the notes of the table of sources; the model's gain is first."""
    return [
        *(_describe_model_gain(*group) for group in _iter_groups(attempts)),
        *_describe_unsolved(attempts),
        _LEGEND_OF_SOURCES,
        _LEGEND_OF_LIMITS,
        *_describe_untreated(attempts),
    ]


def build_tool_notes(attempts: Sequence[Attempt]) -> list[str]:
    """Build the notes of the table of tools, one paragraph each."""
    return [
        _LEGEND_OF_TOOLS,
        _LEGEND_OF_LIMITS,
        _LEGEND_OF_PUBLISHED_FIGURES,
        *_describe_contradictions(attempts),
        *_describe_untreated({"": attempts}),
    ]


def build_used_invariant_notes(attempts: Sequence[Attempt]) -> list[str]:
    """Build the notes of the table of used invariants, one paragraph each.

    The notes contain the reason for each untreated program.
    """
    messages = dict.fromkeys(
        f"{a.program} is {a.outcome}: {a.message}"
        for a in attempts
        if a.outcome in UNTREATED_OUTCOMES
    )
    return [
        _LEGEND_OF_INVARIANTS,
        _LEGEND_OF_LIMITS,
        *messages,
        *_describe_untreated({"": attempts}),
    ]


def build_provable_notes(by_model: Mapping[str, Sequence[ProvableProbability]]) -> list[str]:
    """Build the notes of the table of provable invariants: legend and counts."""
    notes = [
        "Invariant: the text after the prompt is a proven invariant up to its closing parenthesis; "
        "proof: every assertion follows from it alone. Certain: the probability for the whole "
        "model within the horizon. Probability (bounded): that of the bounded process. The text is "
        "the most probable invariant or proof."
    ]
    for model, records in by_model.items():
        # Each tree has a record for both queries and counts once.
        proof_records = [record for record in records if record.wanted == "proof"]
        count = sum(record.value > 0 for record in proof_records)
        notes.append(f"{model}: {count} of {len(proof_records)} trees hold a proof.")
    return notes


def _iter_groups(attempts: AttemptsByModel) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield each model and semantics with their attempts."""
    groups = build_frame(attempts).groupby(["model", "semantics"], sort=False)
    yield from ((str(model), str(semantics), group) for (model, semantics), group in groups)


def _describe_model_gain(model: str, semantics: str, group: pd.DataFrame) -> str:
    """Describe the programs that are solved with a model's proposals only.

    With the model: solved by any combination with a source of the model. Without: solved by any
    other combination, including random. The note counts programs that ran out of time
    without the model.
    """
    solved_programs = select_solved_by(group, MODEL_COMBINATIONS)
    model_free_programs = select_solved_by(group, MODEL_FREE_COMBINATIONS)
    programs = group["program"].unique()
    gained_programs = [p for p in programs if p in solved_programs - model_free_programs]
    # Such a program might be verified without the model in more time.
    is_late = group["way"].isin(MODEL_FREE_COMBINATIONS) & group["outcome"].isin(TIMEOUT_OUTCOMES)
    timeouts = set(group.loc[is_late, "program"]).intersection(gained_programs)
    gain = f"The model adds {_format_programs(gained_programs) if gained_programs else 'nothing'}"
    if timeouts:
        gain += f"; without it, time ran out in {len(timeouts)} of these"
    # An experiment may have tried only part of the combinations.
    strategies = set(group["way"])
    single_sources = ", ".join(
        f"{strategy.removesuffix(' alone')} {len(select_solved_by(group, [strategy]))}"
        for strategy in (*MODEL_COMBINATIONS, *MODEL_FREE_COMBINATIONS)
        if strategy.endswith(" alone") and strategy in strategies
    )
    bare_count = group.loc[group["bare"], "program"].nunique()
    return (
        f"{model} over {semantics}: of {format_count(len(programs), 'program')}, "
        f"{len(solved_programs)} verified with the model's proposals and "
        f"{len(model_free_programs)} without. {gain}. Each source alone: {single_sources}; "
        f"{format_count(bare_count, 'program')} among them without any invariant."
    )


def _describe_unsolved(attempts: AttemptsByModel) -> list[str]:
    """List the programs that the atoms or all program sources leave open."""
    notes: dict[str, None] = {}
    for _, semantics, group in _iter_groups(attempts):
        # False and untreated programs cannot be solved by any source.
        is_settled = group["outcome"].isin((*UNTREATED_OUTCOMES, Outcome.FALSE))
        open_programs = group.loc[~is_settled, "program"].unique()
        for strategy, label in _PROGRAM_SOURCE_LABELS.items():
            tried_programs = set(group.loc[group["way"] == strategy, "program"])
            unsolved = tried_programs - select_solved_by(group, [strategy])
            unsolved_programs = [program for program in open_programs if program in unsolved]
            # A combination that was not tried leaves no program open.
            if tried_programs:
                names = _format_programs(unsolved_programs) if unsolved_programs else "no program"
                notes[f"{label} leave {names} open over {semantics}."] = None
    return list(notes)


def _describe_untreated(attempts: AttemptsByModel) -> list[str]:
    """List the false, unsupported, unreadable and assertion-free programs.

    If the ways disagree, each note contains the ways with this outcome.
    """
    notes: dict[str, None] = {}
    for _, semantics, group in _iter_groups(attempts):
        for outcome in (*UNTREATED_OUTCOMES, Outcome.FALSE):
            strategies: dict[tuple[str, ...], list[str]] = {}
            for strategy, rows in group.groupby("way", sort=False):
                programs = tuple(rows.loc[rows["outcome"] == outcome, "program"])
                strategies.setdefault(programs, []).append(str(strategy))
            for programs, agreeing_strategies in strategies.items():
                # If all strategies agree, the note needs no names of strategies.
                source = (
                    f" according to {', '.join(agreeing_strategies)}" if len(strategies) > 1 else ""
                )
                if programs:
                    names = _format_programs(programs)
                    notes[f"{outcome.capitalize()} over {semantics}{source}: {names}."] = None
    return list(notes)


def _describe_contradictions(attempts: Sequence[Attempt]) -> list[str]:
    """List the programs with contradictory verdicts, one sentence each."""
    sentences = []
    groups = build_frame({"": attempts}).groupby(["semantics", "program"], sort=False)
    for (semantics, program), group in groups:
        provers, refuters = (
            ", ".join(group.loc[group["outcome"] == outcome, "way"])
            for outcome in (Outcome.VERIFIED, Outcome.FALSE)
        )
        # Both verdicts together are a contradiction.
        if provers and refuters:
            sentences.append(
                f"Contradiction over {semantics}: {program} is verified by {provers} and false "
                f"according to {refuters}."
            )
    return sentences


def _format_programs(names: Sequence[str]) -> str:
    return f"{format_count(len(names), 'program')} ({', '.join(names)})"
