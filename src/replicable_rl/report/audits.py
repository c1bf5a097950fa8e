"""The page of a run store: every audit in it, first side by side, then one by one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from replicable_rl.errors import InvalidFile, InvalidInput, check_in_open_interval, did_you_mean
from replicable_rl.records import LEVELS, Level, ObjectSpec
from replicable_rl.report.audit_blocks import audit_blocks, shown_level, tone_of, verdict
from replicable_rl.report.commands import brief
from replicable_rl.report.page import Cell, Code, DataTable, Interval, Intervals, Mark, Page, Section
from replicable_rl.report.stored import StoredAudit, StoredProblems, read_audit
from replicable_rl.store import RunStore

__all__ = ["StorePage", "store_page"]

_SECTIONS = 60  # audits with a section of their own
_ROWS = 1_000  # audits in the table
_BARS = 40  # audits in the figure


class StorePage(NamedTuple):
    """The page, and how many audits and runs it is about."""

    page: Page
    audits: int
    runs: int


class _Line(NamedTuple):
    """An audit in the overview."""

    problem: ObjectSpec
    algorithm: ObjectSpec
    runs: int
    agreements: dict[Level, str]
    required: float | None
    verdict: Mark | None
    bar: Interval | None


def store_page(
    path: str | os.PathLike[str],
    *,
    problem: str | None = None,
    algorithm: str | None = None,
    confidence: float = 0.95,
    command: str | None = None,
) -> StorePage:
    """Make the page of a store; ``problem`` and ``algorithm`` are ids of what to show, all by default."""
    confidence = check_in_open_interval("report", "confidence", confidence)
    name = _check_is_there(path)
    with RunStore(path) as store:
        families = _chosen(name, store.families(), problem, algorithm)
        problems = StoredProblems()
        lines, sections = [], []
        for number, (one, two, _) in enumerate(families[:_ROWS], start=1):
            audit = read_audit(store, one, two, confidence, problems)
            id = f"audit-{number}" if number <= _SECTIONS else None
            lines.append(_line(audit, id))
            if id is not None:
                sections.append(_section(audit, id, name))
    overview = Section("overview", "Overview", _overview(lines, len(families), confidence, command))
    runs = sum(line.runs for line in lines)
    audits = f"{len(families)} audit{'s' * (len(families) > 1)}"
    lead = (f"If one trains again, with fresh samples, is the policy the same? {audits} of ", Code(name), ".")
    page = Page(f"Audits in {Path(name).name}", lead, [overview, *sections], command)
    return StorePage(page, len(families), runs)


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


def _chosen(
    name: str, families: Sequence[tuple[ObjectSpec, ObjectSpec, int]], problem: str | None, algorithm: str | None
) -> list[tuple[ObjectSpec, ObjectSpec, int]]:
    """Return the families with these ids, those of one problem together."""
    if not families:
        raise InvalidInput(f"{name}: holds no finished runs.")
    chosen = list(families)
    for which, wanted, what in ((0, problem, "problem"), (1, algorithm, "algorithm")):
        if wanted is None:
            continue
        ids = list(dict.fromkeys(family[which].id for family in chosen))  # type: ignore[union-attr]  # specs
        chosen = [family for family in chosen if wanted in (family[which].id, family[which].text)]  # type: ignore[union-attr]
        if not chosen:
            hint = did_you_mean(wanted, ids) or f" It has: {', '.join(brief(id, 40) for id in ids[:8])}."
            raise InvalidInput(f"{name}: holds no runs of the {what} {wanted!r}.{hint}")
    order = {text: i for i, text in reversed(list(enumerate(one.text for one, _, _ in chosen)))}
    return sorted(chosen, key=lambda family: order[family[0].text])


def _section(audit: StoredAudit, id: str, store: str) -> Section:
    problem, algorithm = (brief(spec.text) for spec in (audit.family.problem, audit.family.algorithm))
    title = (Code(algorithm), " on ", Code(problem))
    return Section(id, title, list(audit_blocks(audit, store)), [Code(brief(algorithm, 70))], brief(problem, 70))


def _line(audit: StoredAudit, id: str | None) -> _Line:
    result, (problem, algorithm) = audit.result, (audit.family.problem, audit.family.algorithm)
    level = None if result is None else shown_level(result)
    if result is None or level is None:
        return _Line(problem, algorithm, audit.runs, {}, None, None, None)
    agreements = {one: str(agreement.value) for one, agreement in result.agreements.items()}
    required = None if result.rho is None else 1.0 - result.rho
    found = result.agreement(level)
    label = (Code(brief(algorithm.text, 60)), " on ", Code(brief(problem.text, 40)))
    href = None if id is None else f"#{id}"
    bar = Interval(label, found.estimate, found.low, found.high, required, tone_of(result, level), href)
    return _Line(problem, algorithm, audit.runs, agreements, required, verdict(result, level), bar)


def _overview(
    lines: Sequence[_Line], audits: int, confidence: float, command: str | None
) -> list[Intervals | DataTable]:
    percent = f"{100 * confidence:.10g} %"
    bars = [line.bar for line in lines if line.bar is not None]
    cut = f" The first {_BARS} of {len(bars)} are drawn." if len(bars) > _BARS else ""
    caption = (
        "How often two runs with one shared seed and fresh samples give the same policy. The tick is the estimate, "
        f"the bar its {percent} interval, the dashed line what is promised, 1−ρ: *met* where the whole bar lies right "
        f"of it, *not met* where it lies left of it, *undecided* in between.{cut}"
    )
    levels = [level for level in reversed(LEVELS) if any(level in line.agreements for line in lines)]
    columns = ["problem", "algorithm", "1−ρ", "promise", *(f"same {level}" for level in levels), "runs"]
    rows: list[list[Cell]] = [
        [Code(brief(line.problem.text)), Code(brief(line.algorithm.text)), line.required, line.verdict]
        + [line.agreements.get(level) for level in levels]
        + [line.runs]
        for line in lines
    ]
    notes = []
    if audits > len(lines):
        notes.append(f"{audits - len(lines)} more audits are not listed.")
    if audits > _SECTIONS:
        notes.append(f"The first {_SECTIONS} have a section below; choose others with `--problem` and `--algorithm`.")
    table = DataTable(
        columns,
        rows,
        f"Agreement at every level that an algorithm produces, with {percent} intervals. The same model implies the "
        "same values, and these the same policy.",
        note=" ".join(notes) or None,
    )
    return [*([Intervals(bars[:_BARS], caption, command=command)] if bars else []), table]
