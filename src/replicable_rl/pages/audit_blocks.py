"""What a page says of one audit: what was run, how often runs agree, what is claimed, and which runs failed."""

from collections import Counter
from collections.abc import Iterator

from replicable_rl.audit import AuditResult
from replicable_rl.canonical import Json
from replicable_rl.logs.several import Logs
from replicable_rl.pages.audit_tables import NOTHING_YET, headline, promise, unfinished
from replicable_rl.pages.blocks import (
    Callout,
    Cell,
    Code,
    DataTable,
    Facts,
    Heading,
    Interval,
    Intervals,
    Mark,
    Plain,
    Text,
    Tone,
)
from replicable_rl.pages.log_texts import about_looks, first_of_all, sample_of
from replicable_rl.pages.page import Block
from replicable_rl.pages.policy_blocks import output_blocks
from replicable_rl.pages.training_blocks import training_blocks
from replicable_rl.pages.training_texts import LOSES_TOO_MUCH, loss_verdict
from replicable_rl.paper import cited
from replicable_rl.runs import usual_level
from replicable_rl.runs.specs import parameter_text
from replicable_rl.wording import brief, interval, number, number_range, percent, plural, share

_PARAMETERS = 40
_FAILURES = 5
_CLAIMS = 8
_VERDICTS: dict[bool | None, tuple[str, Tone]] = {
    True: ("met", "good"),
    False: ("not met", "bad"),
    None: ("undecided", "unsure"),
}


def shown_level(result: AuditResult) -> str | None:
    """Return the level that decides: the one that is asked about, or the usual one of these runs."""
    level = result.level if result.level in result.levels else usual_level(result.levels)
    return level if result.levels else None


def asked_for(result: AuditResult, level: str) -> float | None:
    """Return the agreement that is required at a level, or else what is promised, 1 - rho."""
    if result.spec.require is not None and level == result.level:
        return result.spec.require
    return promise(result)


def verdict(result: AuditResult, level: str) -> Mark | None:
    """Say whether what is asked for was shown, None where nothing is asked for."""
    asked = asked_for(result, level)
    if asked is not None and result.logs is not None and result.logs.differ:
        return Mark("not judged", "unsure")
    judged = None if asked is None else result.judged(asked, level)
    if judged and result.asks_for_nothing:
        return Mark("met, but ε asks for nothing", "unsure")
    return None if asked is None else Mark(*_VERDICTS[judged])


def agreement_bar(result: AuditResult, level: str) -> Interval:
    """Return the agreement at a level as a bar: the interval that holds at every look, for it gives the verdict."""
    found, mark = result.agreement(level).every_look, verdict(result, level)
    tone: Tone = "plain" if mark is None else mark.tone
    return Interval(f"same {level}", float(found), found.low, found.high, asked_for(result, level), tone)


def process_callout(logs: Logs, said: str) -> Callout:
    """Say whether logs come from one process, before anything else."""
    return Callout([Plain(said)], "bad" if logs.differ else "plain" if logs.compared else "unsure")


def audit_blocks(result: AuditResult, command: str | None) -> Iterator[Block]:
    """Yield everything there is to say of an audit; ``command`` is what makes it."""
    level = shown_level(result)
    if result.logs is not None:
        yield process_callout(result.logs, first_of_all(result))
    for said in result.warnings:
        yield Callout([Plain(f"Warning: {said}")], "bad")
    yield Facts([*_parameters(result), *_size(result)])
    if not result.runs:
        yield Callout(NOTHING_YET, "unsure")
    elif level is None:
        yield Callout("Every run failed.", "bad")
    else:
        mark = verdict(result, level)
        yield Callout([Plain(headline(result, level))], "plain" if mark is None else mark.tone)
        yield _figure(result, command)
        yield _levels(result)
        yield from training_blocks(result)
        yield from output_blocks(result, level)
    yield from _claims(result)
    yield from _notes(result)
    yield from _failures(result)


def _parameters(result: AuditResult) -> Iterator[tuple[str, Cell]]:
    if result.logs is not None:
        logs = list(zip(result.logs.names, result.logs.rows, strict=True))
        for i, (name, rows) in enumerate(logs[:_PARAMETERS], start=1):
            yield f"log {i}", f"{brief(name, 80)}, {plural(rows, 'row')}"
        if len(logs) > _PARAMETERS:
            yield "more logs", len(logs) - _PARAMETERS
    for name, spec in (("problem", result.problem), ("algorithm", result.algorithm)):
        yield name, Code(brief(spec.id))
        yield from [(brief(key, 40), _value(value)) for key, value in spec.params.items()][:_PARAMETERS]
        if len(spec.params) > _PARAMETERS:
            yield "more parameters", len(spec.params) - _PARAMETERS


def _size(result: AuditResult) -> Iterator[tuple[str, Cell]]:
    spec, samples = result.spec, [run.samples for run in result.runs if run.samples is not None]
    if result.runs:
        runs = "runs" if result.logs is None else "logs"
        yield f"shared seeds × {runs}", f"{spec.n_seeds} × {spec.runs_per_seed}"
    if samples:
        yield "samples a run", number_range(min(samples), max(samples))


def _value(value: Json) -> Cell:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number(value) if plain else Code(brief(parameter_text(value), 80))


def _figure(result: AuditResult, command: str | None) -> Intervals:
    rows = [agreement_bar(result, level) for level in result.levels]
    sure = percent(result.spec.confidence)
    samples = "fresh samples" if result.logs is None else "different logs"
    caption = f"How often two runs with one shared seed and {samples} give identical results: {sure} intervals "
    caption += "that hold at every look."
    if any(row.required is not None for row in rows):
        caption += " The dashed line is the agreement that is asked for: met where the whole bar lies right of it."
        caption += LOSES_TOO_MUCH if loss_verdict(result) else ""
    return Intervals(rows, caption, command=command)


def _levels(result: AuditResult) -> DataTable:
    shares = ["modal share", "unique share"]
    columns = ["level", "same pairs", "pairs", "agreement", "one look", "every look", *shares, "groups"]
    rows: list[list[Cell]] = [
        [
            *(level, found.same, found.pairs, share(found.estimate)),
            *(interval(one.low, one.high) for one in (found.value, found.every_look)),
            *map(share, (found.modal_share, found.unique_share)),
            len(result.classes(level)),
        ]
        for level, found in result.agreements.items()
    ]
    caption = (
        f"{about_looks(result)} Under one shared seed, the *modal share* is the largest group of identical runs "
        "divided by all runs, and the *unique share* is the number of groups divided by all runs; both are means over "
        "shared seeds. *Groups* counts different results over all shared seeds."
    )
    return DataTable(columns, rows, caption)


def _claims(result: AuditResult) -> Iterator[Block]:
    """Say what is claimed of the runs, accuracy and replicability apart, and why nothing is where nothing is."""
    seen: Counter[tuple[str, str, str, str]] = Counter()
    for run in result.runs:
        for claim in run.claims:
            holds = f"{claim.statement}{''.join(f'; if {one}' for one in claim.conditions)}"
            source = claim.source if claim.kind == "stated" else cited(claim.source)
            seen[claim.about, holds, claim.ground, source] += 1
        for about, why in run.claims.missing.items():
            seen[about, f"Nothing is proved: {cited(why)}", "none", "–"] += 1
    if not seen:
        return
    rows: list[list[Cell]] = [
        [about, brief(holds, 600), kind, Code(brief(source)), runs]
        for (about, holds, kind, source), runs in sorted(seen.items(), key=lambda one: (one[0][0], -one[1]))[:_CLAIMS]
    ]
    yield Heading("What is claimed about a run")
    note = f"{len(seen) - _CLAIMS} more are not listed." if len(seen) > _CLAIMS else None
    caption = "What the algorithm itself claims, before any measurement, and for how many of the runs."
    yield DataTable(["about", "what holds", "kind", "source", "runs"], rows, caption, note=note)


def _notes(result: AuditResult) -> Iterator[Block]:
    """Say what the runs were made with, and how many are still to be made."""
    versions = Counter(
        brief(", ".join(f"{name} {version}" for name, version in run.made_with.items()) or "not recorded", 300)
        for run in result.runs
    )
    if len(versions) == 1:
        yield Text([["*Made with* ", Plain(next(iter(versions))), "."]])
    elif versions:
        rows: list[list[Cell]] = [[text, runs] for text, runs in versions.items()]
        caption = (
            f"These runs were made with {len(versions)} different sets of versions. Two of them may differ because of "
            "that, and not because of their samples."
        )
        yield DataTable(["made with", "runs"], rows[:_CLAIMS], caption)
    if unfinished(result):
        yield Text([f"*Unfinished:* {unfinished(result)}"])


def _failures(result: AuditResult) -> Iterator[Block]:
    failed = result.failures
    if not failed:
        return
    rows: list[list[Cell]] = [
        [Code(str(run.shared_seed)), Code(sample_of(result, run)), brief(run.error or "", 300)]
        for run in failed[:_FAILURES]
    ]
    yield Heading("Failures")
    more = f"{len(failed) - _FAILURES} more are not listed." if len(failed) > _FAILURES else None
    caption = f"{len(failed)} of {len(result.runs)} runs failed; each counts as different from every other run."
    yield DataTable(["shared seed", "sample", "what it said"], rows, caption, note=more)
