"""What to read below each table of the experiments on programs: legends, and what stands out."""

from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from llmchecker.invariants.attempts import REPAIRED, WITH_MODEL, WITHOUT_MODEL, Attempt
from llmchecker.invariants.provability_records import Provability
from llmchecker.programs.expressions import Semantics
from llmchecker.proving.outcomes import CandidateSource, Outcome
from llmchecker.publication.program_tables import (
    NOT_TREATED,
    PROGRAM,
    TIMEOUTS,
    ByModel,
    frame_of,
    solved_by,
)

LEGEND_OF_VARIANTS = """\
Candidates are what the model wrote to this prompt, and nothing else. Unique: solved by no other
variant of that model and semantics. Seconds, those of the model included, and iterations are means
over the programs that are solved; parse errors are all that the used iterations had, in all
programs."""
LEGEND_OF_SOURCES = """\
Unique: solved by no other row of that model and semantics. Beyond program: not solved by "program",
which proposes nothing but what it makes of the program itself; missed of program: solved by it
only. Timeouts: more candidates prove no less but take longer. Seconds, those of the model included,
are means over the programs that are solved. Every source that proposes may propose equally many
candidates for a loop."""
LEGEND_OF_TOOLS = """\
Solved: verified. False: a violation was found; this method reports one only if a concrete run shows
it. Other: no answer, for another reason. Seconds are means over the programs that are solved."""
LEGEND_OF_LIMITS = """\
Limits: what ended attempts without an answer, with the number of attempts; one may have several.
Prover time and ESBMC time are processor time, solver steps are those that Z3 counts for one
question, and the clock, at many times the processor time, only guards against what never ends.
Candidates, answers and nodes are how much a source may propose for a loop."""
LEGEND_OF_PUBLISHED = """\
Published figures are those of Pirzada, Bhayat, Cordeiro and Reger, LLM-Generated Invariants for
Bounded Model Checking Without Loop Unrolling (ASE 2024), on the programs of that paper; they are
not measured here."""
LEGEND_OF_USED = """\
Invariants are those that the proof of the assertions needs; a program without any is proven without
or not at all, as its outcome says. Semicolons separate several invariants of a loop, and the
sources of each."""


_OF_PROGRAMS = {
    f"{CandidateSource.ATOMS} alone": "The atoms of the programs alone",
    PROGRAM: "All sources of the programs together",
}


def notes_on_variants(attempts: ByModel) -> list[str]:
    """What to read below the table of variants, a paragraph each."""
    return [LEGEND_OF_VARIANTS, LEGEND_OF_LIMITS, *_each_once(attempts, _untreated)]


def notes_on_sources(attempts: ByModel) -> list[str]:
    """What to read below the table of sources, a paragraph each; first what the model adds."""
    adds = [
        _what_a_model_adds(model, semantics, group)
        for model, made in attempts.items()
        for semantics, group in frame_of(made).groupby("semantics", sort=False)
    ]
    left = _each_once(attempts, _left_by_atoms)
    return [*adds, *left, LEGEND_OF_SOURCES, LEGEND_OF_LIMITS, *_each_once(attempts, _untreated)]


def notes_on_tools(attempts: Sequence[Attempt]) -> list[str]:
    """What to read below the table of tools, a paragraph each."""
    frame = frame_of(attempts)
    return [
        LEGEND_OF_TOOLS,
        LEGEND_OF_LIMITS,
        LEGEND_OF_PUBLISHED,
        *_contradictions(frame),
        *_untreated(frame),
    ]


def notes_on_used(attempts: Sequence[Attempt]) -> list[str]:
    """What to read below the table of used invariants, a paragraph each.

    Says of every program that is not treated why.
    """
    told = dict.fromkeys(
        f"{a.program} is {a.outcome}: {a.message}" for a in attempts if a.outcome in NOT_TREATED
    )
    return [LEGEND_OF_USED, LEGEND_OF_LIMITS, *told, *_untreated(frame_of(attempts))]


def notes_on_provable(by_model: Mapping[str, Sequence[Provability]]) -> list[str]:
    """What the figures mean, and of how many loops a model writes a proof at all."""
    found = [
        "Invariant: the text after the prompt is a proven invariant up to its closing parenthesis; "
        "proof: every assertion follows from it alone. The value is the probability in the bounded "
        "process, lower and upper bound it for the whole model within the horizon; the text is the "
        "most probable one that does."
    ]
    for model, made in by_model.items():
        asked = [one for one in made if one.wanted == "proof"]
        some = sum(one.value > 0 for one in asked)
        found.append(f"{model}: {some} of {len(asked)} trees hold a proof.")
    return found


def _each_once(attempts: ByModel, notes: Callable[[pd.DataFrame], list[str]]) -> list[str]:
    """What is to be said of the attempts of every model; what holds for several, once."""
    return list(dict.fromkeys(note for made in attempts.values() for note in notes(frame_of(made))))


def _what_a_model_adds(model: str, semantics: Semantics, group: pd.DataFrame) -> str:
    """Say which programs are solved with a model's proposals and in no other way.

    With: by any combination that holds a source of the model. Without: by any that holds none,
    random and shortest among them. A program that is out of time without is told as such.
    """
    of_model = {**WITH_MODEL, **REPAIRED}
    asked, unasked = solved_by(group, of_model), solved_by(group, WITHOUT_MODEL)
    programs = list(dict.fromkeys(group["program"]))
    added = [program for program in programs if program in asked - unasked]
    late = group["way"].isin(WITHOUT_MODEL) & group["outcome"].isin(TIMEOUTS)
    out_of_time = set(group.loc[late, "program"]).intersection(added)
    adds = f"The model adds {_programs(added) if added else 'nothing'}"
    if out_of_time:
        adds += f"; without it, time ran out in {len(out_of_time)} of these"
    tried = set(group["way"])
    alone = ", ".join(
        f"{way.removesuffix(' alone')} {len(solved_by(group, [way]))}"
        for way in (*of_model, *WITHOUT_MODEL)
        if way.endswith(" alone") and way in tried
    )
    bare = group.loc[group["bare"], "program"].nunique()
    return (
        f"{model} over {semantics}: of {_counted(len(programs))}, {len(asked)} verified with "
        f"the model's proposals and {len(unasked)} without. {adds}. Each source alone: {alone}; "
        f"{_counted(bare)} among them without any invariant."
    )


def _left_by_atoms(frame: pd.DataFrame) -> list[str]:
    """Name what the atoms of the programs alone leave open, and what all their sources do."""
    told = []
    for semantics, group in frame.groupby("semantics", sort=False):
        settled = group["outcome"].isin((*NOT_TREATED, Outcome.FALSE))
        open_ = list(dict.fromkeys(group.loc[~settled, "program"]))
        for way, which in _OF_PROGRAMS.items():
            tried = set(group.loc[group["way"] == way, "program"])
            left = [p for p in open_ if p in tried - solved_by(group, [way])]
            if tried:
                names = _programs(left) if left else "no program"
                told.append(f"{which} leave {names} open over {semantics}.")
    return told


def _untreated(frame: pd.DataFrame) -> list[str]:
    """Name the programs that are unsupported, unreadable or false, a sentence each.

    Where the ways do not agree, it says which of them call the programs so.
    """
    told = []
    for semantics, group in frame.groupby("semantics", sort=False):
        for outcome in (*NOT_TREATED, Outcome.FALSE):
            ways: dict[tuple[str, ...], list[str]] = {}
            for way, of_way in group.groupby("way", sort=False):
                programs = tuple(of_way.loc[of_way["outcome"] == outcome, "program"])
                ways.setdefault(programs, []).append(way)
            for programs, agreeing in ways.items():
                by = f" according to {', '.join(agreeing)}" if len(ways) > 1 else ""
                if programs:
                    told.append(
                        f"{outcome.capitalize()} over {semantics}{by}: {_programs(programs)}."
                    )
    return told


def _contradictions(frame: pd.DataFrame) -> list[str]:
    """Name the programs that one way verifies and another calls false, a sentence each."""
    told = []
    for (semantics, program), group in frame.groupby(["semantics", "program"], sort=False):
        ways = {
            outcome: ", ".join(group.loc[group["outcome"] == outcome, "way"])
            for outcome in (Outcome.VERIFIED, Outcome.FALSE)
        }
        if all(ways.values()):
            told.append(
                f"Contradiction over {semantics}: {program} is verified by "
                f"{ways[Outcome.VERIFIED]} and false according to {ways[Outcome.FALSE]}."
            )
    return told


def _programs(names: Sequence[str]) -> str:
    return f"{_counted(len(names))} ({', '.join(names)})"


def _counted(programs: int) -> str:
    return f"{programs} {'program' if programs == 1 else 'programs'}"
