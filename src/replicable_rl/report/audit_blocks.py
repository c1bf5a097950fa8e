"""What a page says of one audit: what was run, how often runs agree, what is promised, and which runs failed."""

from __future__ import annotations

from collections.abc import Iterator

from replicable_rl.audit import AuditResult
from replicable_rl.audit.tables import headline, short
from replicable_rl.records import Level
from replicable_rl.report.commands import audit_command, brief
from replicable_rl.report.page import (
    Block,
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
from replicable_rl.report.policy_blocks import policy_blocks
from replicable_rl.report.stored import StoredAudit

__all__ = ["audit_blocks", "shown_level", "tone_of", "verdict"]

_PARAMETERS = 40
_FAILURES = 5
_VERDICTS: dict[bool | None, tuple[str, Tone]] = {
    True: ("met", "good"),
    False: ("not met", "bad"),
    None: ("undecided", "unsure"),
}


def shown_level(result: AuditResult) -> Level | None:
    """Return the level that decides: the policy, or the last that the runs have."""
    return result.levels[-1] if result.levels else None


def verdict(result: AuditResult, level: Level) -> Mark | None:
    """Say whether what is promised was shown, None where nothing is promised."""
    return None if result.rho is None else Mark(*_VERDICTS[result.meets(1.0 - result.rho, level)])


def tone_of(result: AuditResult, level: Level) -> Tone:
    """Return the tone of the verdict."""
    mark = verdict(result, level)
    return "plain" if mark is None else mark.tone


def audit_blocks(audit: StoredAudit, store: str) -> Iterator[Block]:
    """Yield everything there is to say of an audit."""
    result = audit.result
    yield _parameters(audit)
    if result is None:
        yield Callout("No two of these runs have one shared seed, so there is nothing to compare.", "unsure")
        return
    level = shown_level(result)
    if level is None:
        yield Callout("Every run failed.", "bad")
    else:
        yield Callout([Plain(headline(result, level))], tone_of(result, level))
        yield _figure(result, audit_command(audit, store))
        yield _levels(result)
        if "policy" in result.levels:
            yield from policy_blocks(result)
    yield from _notes(audit)
    yield from _failures(result)


def _parameters(audit: StoredAudit) -> Facts:
    specs = (("problem", audit.family.problem), ("algorithm", audit.family.algorithm))
    pairs: list[tuple[str, Cell]] = []
    for name, spec in specs:
        pairs.append((name, Code(brief(spec.id))))
        given = [(brief(key, 40), _value(value)) for key, value in spec.params.items()]
        pairs += given[:_PARAMETERS]
        if len(given) > _PARAMETERS:
            pairs.append(("more parameters", len(given) - _PARAMETERS))
    result = audit.result
    if result is not None:
        samples = {record.samples for record in result.records if record.error is None} - {None}
        pairs.append(("shared seeds × runs", f"{len(result.plan.shared_seeds)} × {result.plan.runs_per_seed}"))
        if samples:
            low, high = min(filter(None, samples), default=0), max(filter(None, samples), default=0)
            pairs.append(("samples a run", short(low) if low == high else f"{short(low)} to {short(high)}"))
    return Facts(pairs)


def _value(value: object) -> Cell:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return short(value) if plain else Code(brief(str(value), 80))  # type: ignore[arg-type]  # a number


def _figure(result: AuditResult, command: str | None) -> Intervals:
    required = None if result.rho is None else 1.0 - result.rho
    rows = [
        Interval(f"same {level}", found.estimate, found.low, found.high, required, tone_of(result, level))
        for level, found in result.agreements.items()
    ]
    percent = f"{100 * result.plan.confidence:.10g} %"
    caption = f"How often two runs with one shared seed and fresh samples give identical results: {percent} intervals."
    if required is not None:
        caption += (
            f" The dashed line is what is promised, 1−ρ = {required:.6g}: met where the whole bar lies right of it."
        )
    return Intervals(rows, caption, command=command)


def _levels(result: AuditResult) -> DataTable:
    columns = ["level", "same pairs", "pairs", "agreement", "interval", "modal share", "unique share", "groups"]
    rows: list[list[Cell]] = [
        [
            level,
            found.same,
            found.pairs,
            f"{found.estimate:.3f}",
            f"{found.low:.3f}–{found.high:.3f}",
            f"{float(found.modal_share):.3f}",
            f"{float(found.unique_share):.3f}",
            len(result.classes(level)),
        ]
        for level, found in result.agreements.items()
    ]
    caption = (
        "Of the runs under one shared seed, the *modal share* is in the largest group of identical ones, and the "
        "*unique share* is the number of groups divided by the runs; both are means over shared seeds. "
        "*Groups* counts different results over all shared seeds."
    )
    return DataTable(columns, rows, caption)


def _notes(audit: StoredAudit) -> Iterator[Block]:
    result = audit.result
    assert result is not None
    said = list(dict.fromkeys(str(record.guarantee) for record in result.records if record.guarantee is not None))
    if said:
        yield Heading("What the runs themselves promise")
        yield Text([[Plain(brief(sentence, 600))] for sentence in said[:3]])
    if audit.left_out:
        R = result.plan.runs_per_seed
        yield Text(
            [
                f"*Left out:* {audit.left_out} of {audit.runs} runs. The numbers are about the "
                f"{len(result.plan.shared_seeds)} shared seeds with at least {R} runs, and {R} of each, chosen by "
                "their seeds alone."
            ]
        )


def _failures(result: AuditResult) -> Iterator[Block]:
    failed = result.failures
    if not failed:
        return
    rows: list[list[Cell]] = [
        [Code(str(r.shared_seed)), Code(str(r.sample_seed)), brief(r.error or "", 300)] for r in failed[:_FAILURES]
    ]
    yield Heading("Failures")
    more = f"{len(failed) - _FAILURES} more are not listed." if len(failed) > _FAILURES else None
    caption = f"{len(failed)} of {len(result.records)} runs failed; each counts as different from every other run."
    yield DataTable(["shared seed", "sample seed", "what it said"], rows, caption, note=more)
