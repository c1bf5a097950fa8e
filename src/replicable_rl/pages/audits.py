"""The page of a run store: every audit in it, first side by side, then one by one."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from replicable_rl.audit import AuditResult, read_audits
from replicable_rl.audit.evidence import AuditSpec, audits_of
from replicable_rl.audit.reading import current
from replicable_rl.errors import InvalidFile, InvalidInput, check_in_open_interval, did_you_mean
from replicable_rl.pages.audit_blocks import (
    agreement_bar,
    asked_for,
    audit_blocks,
    process_callout,
    shown_level,
    verdict,
)
from replicable_rl.pages.audit_tables import unfinished
from replicable_rl.pages.blocks import Cell, Code, DataTable, Interval, Intervals
from replicable_rl.pages.commands import audit_command
from replicable_rl.pages.log_texts import logs_text, process_text
from replicable_rl.pages.page import Block, Page, Section
from replicable_rl.pages.training_texts import LOSES_TOO_MUCH, loss_verdict, with_interval
from replicable_rl.runs import LEVELS, in_order
from replicable_rl.store import RunStore
from replicable_rl.wording import brief, listed, percent, plural

_SECTIONS = 60  # audits with a section of their own
_ROWS = 1_000  # audits in the table
_BARS = 40  # audits in the figure


class StorePage(NamedTuple):
    """The page, and how many audits and runs it is about."""

    page: Page
    audits: int
    runs: int


def store_page(
    path: str | os.PathLike[str],
    *,
    problem: str | None = None,
    algorithm: str | None = None,
    confidence: float | None = None,
    command: str | None = None,
) -> StorePage:
    """Make the page of a store.

    ``problem`` and ``algorithm`` are ids of what to show, all by default; ``confidence`` is that of every interval, by
    default what each audit asked for.
    """
    if confidence is not None:
        confidence = check_in_open_interval("report", "confidence", confidence)
    name = _check_is_there(path)
    with RunStore(path) as store:
        specs = _chosen(name, store, problem, algorithm)
        read = zip(specs, read_audits(store, confidence=confidence, wanted=lambda spec: spec in specs), strict=True)
        order = list(dict.fromkeys(spec.problem for spec in specs))
        audits = sorted(read, key=lambda audit: order.index(audit[0].problem))  # those of one problem together
        results = [result for _, result in audits]
        sections = [
            _section(result, f"audit-{i}", audit_command(spec, name))
            for i, (spec, result) in enumerate(audits[:_SECTIONS], start=1)
        ]
        blocks = [*_differing(results), *_overview(results, command)]
    runs = sum(len(result.runs) for result in results)
    lead = ("If one trains again, with fresh samples, is the policy the same? ", plural(len(specs), "audit"), " in ")
    overview = Section("overview", "Overview", blocks)
    page = Page(f"Audits in {Path(name).name}", (*lead, Code(name), "."), [overview, *sections], command)
    return StorePage(page, len(specs), runs)


def _check_is_there(path: str | os.PathLike[str]) -> str:
    """Refuse what is no file with something in it: opening a store makes one where there is none."""
    try:
        name = os.fsdecode(path)
        if not os.path.exists(path):  # noqa: PTH110  # Path's raises where a name is too long
            raise InvalidFile(f"{name}: there is no such file. Make a store with `replicable-rl audit --store {name}`.")
        if Path(path).is_file() and not Path(path).stat().st_size:
            raise InvalidFile(f"{name}: is empty, and no run store. Name the file that an audit wrote.")
    except InvalidFile:
        raise
    except (OSError, ValueError):  # a name that no file can have
        raise InvalidFile(f"{os.fspath(path)!r}: cannot be opened. Name the file that an audit wrote.") from None
    return name


def _chosen(name: str, store: RunStore, problem: str | None, algorithm: str | None) -> list[AuditSpec]:
    """Return the audits with these ids."""
    specs = current(audits_of(store))
    if not specs:
        raise InvalidInput(f"{name}: holds no audits.")
    for part, wanted in (("problem", problem), ("algorithm", algorithm)):
        ids = list(dict.fromkeys(getattr(spec, part).id for spec in specs))
        if wanted is not None:
            specs = [spec for spec in specs if wanted in (getattr(spec, part).id, getattr(spec, part).text)]
        if not specs:
            hint = did_you_mean(str(wanted), ids) or f" It has: {', '.join(brief(id, 40) for id in ids[:8])}."
            raise InvalidInput(f"{name}: holds no runs of the {part} {wanted!r}.{hint}")
    return specs[:_ROWS]


def _differing(results: Sequence[AuditResult]) -> list[Block]:
    """Say, before anything else, which audits are of logs that come from different processes."""
    found = [result.logs for result in results if result.logs is not None and result.logs.differ]
    return [process_callout(logs, process_text(logs)) for logs in found[:_BARS]]


def _section(result: AuditResult, id: str, command: str | None) -> Section:
    problem, algorithm = _subject(result), brief(result.algorithm.text)
    title, label = (Code(algorithm), " on ", Code(problem)), (Code(brief(algorithm, 70)), f" {_size(result)}")
    return Section(id, title, list(audit_blocks(result, command)), label, brief(problem, 70))


def _subject(result: AuditResult) -> str:
    return brief(result.problem.text if result.logs is None else logs_text(result.logs))


def _size(result: AuditResult) -> str:
    return f"{result.spec.n_seeds} × {result.spec.runs_per_seed}"


def _overview(results: Sequence[AuditResult], command: str | None) -> list[Block]:
    """Return the figure and the table of all audits."""
    bars = [bar for i, result in enumerate(results, start=1) if (bar := _bar(result, i)) is not None]
    levels = list(reversed(in_order({level for result in results for level in result.levels})))
    columns = ["problem", "algorithm", "asked for", "verdict", *(f"same {level}" for level in levels), "runs"]
    earned = any(result.returns is not None for result in results)
    columns += ["mean return"] if earned else []
    rows = [[*_line(result, levels), *([_earned(result)] if earned else [])] for result in results]
    confidences = {result.spec.confidence for result in results}
    sure = f"{percent(min(confidences))} " if len(confidences) == 1 else ""
    implied = (
        f" The same {level} implies the same {listed(list(LEVELS[level].implies))}."
        for level in reversed(levels)
        if level in LEVELS and LEVELS[level].implies
    )
    caption = (
        "How often two runs with one shared seed and fresh samples give the same result, at the level that the audit "
        f"asks about. The tick is the estimate, the bar its {sure}interval, which holds at every look, the dashed line "
        "the agreement that is asked for, 1−ρ unless the audit says otherwise: *met* where the whole bar lies right of "
        "it, *not met* where it lies left of it, *undecided* in between."
    )
    caption += LOSES_TOO_MUCH if any(loss_verdict(result) for result in results) else ""
    cut = f" The first {_BARS} of {len(bars)} are drawn." if len(bars) > _BARS else ""
    figure = Intervals(bars[:_BARS], caption + cut, command=command)
    many = f"The first {_SECTIONS} have a section below; choose others with `--problem` and `--algorithm`."
    note = many if len(results) > _SECTIONS else None
    said = f"Agreement at every level that an algorithm produces, with {sure}intervals.{''.join(implied)}"
    table = DataTable(columns, rows, said, note=note)
    return [*([figure] if bars else []), *([table] if rows else [])]


def _bar(result: AuditResult, number: int) -> Interval | None:
    level = shown_level(result)
    if level is None:
        return None
    more = f", {_size(result)}{'' if level == 'policy' else f', {level}'}"
    label = (Code(brief(result.algorithm.text, 60)), " on ", Code(brief(_subject(result), 40)), more)
    return replace(agreement_bar(result, level), label=label, href=f"#audit-{number}" if number <= _SECTIONS else None)


def _line(result: AuditResult, levels: Sequence[str]) -> list[Cell]:
    level = shown_level(result)
    judged = [None, None] if level is None else [asked_for(result, level), verdict(result, level)]
    agreements = {name: str(found.every_look) for name, found in result.agreements.items()}
    names: list[Cell] = [Code(_subject(result)), Code(brief(result.algorithm.text))]
    size = f"{len(result.runs)} of {result.runs_asked}" if unfinished(result) else _size(result)
    return [*names, *judged, *(agreements.get(name) for name in levels), size]


def _earned(result: AuditResult) -> Cell:
    """Return the mean return of the runs of an audit: what they learned, beside how alike they are."""
    return None if result.returns is None else with_interval(result.returns.mean)
