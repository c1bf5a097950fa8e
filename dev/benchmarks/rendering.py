"""The page: tables of ratios from measurements, and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from dev.benchmarks.headlines import headlines
from dev.benchmarks.records import Book
from dev.benchmarks.timing import OURS, Measurement
from dev.benchmarks.units import number, quantity, times

__all__ = ["page", "section_tables"]

_HEAD = """\
# Benchmarks

`make bench` measures this side by side with others, in turns, takes the best of several, and writes this page;
`python -m dev.benchmarks planning` prints all tables of a part. Times differ from machine to machine; ratios differ
less. A ratio says how many times as long another library takes. mdpsolver runs on one core, because its threads stall
wherever something else runs too: divide its ratio by the number of cores for the best that it could do.

{machine}

{headlines}
"""


def page(book: Book) -> str:
    """Return the page as Markdown."""
    machine = "\n".join(f"- {name}: {text}" for name, text in book.machine.items())
    return _HEAD.format(
        machine=machine, headlines=_grid(["", "measured", "aim"], [list(line) for line in headlines(book)])
    )


def section_tables(book: Book, section: str) -> str:
    """Return the tables of a section; jobs with the same contenders and parameters share one."""
    jobs: dict[str, list[Measurement]] = {}
    for each in book.measurements:
        if each.section == section:
            jobs.setdefault(each.job, []).append(each)
    tables: dict[tuple[object, ...], list[Measurement]] = {}
    for job in jobs.values():
        contenders = tuple(dict.fromkeys(each.by for each in job))
        tables.setdefault((contenders, tuple(job[0].at)), []).extend(job)
    return "\n".join(_table(measurements) for measurements in tables.values())


def _table(measurements: Sequence[Measurement]) -> str:
    contenders = list(dict.fromkeys(each.by for each in measurements))
    parameters = list(measurements[0].at)
    rows: dict[tuple[object, ...], dict[str, Measurement]] = {}
    for each in measurements:
        rows.setdefault((each.job, *each.at.values()), {})[each.by] = each
    notes: list[str] = []
    lines = []
    for row in rows.values():
        first = next(iter(row.values()))
        cells = [first.job, *(number(value) for value in first.at.values())]
        lines.append(cells + [_cell(row.get(by), row.get(OURS), notes) for by in contenders])
    table = _grid(["", *parameters, *contenders], lines)
    foot = "".join(f"\n{_mark(i)} {note}  " for i, note in enumerate(notes))
    return f"{table}\n{foot}\n" if foot else f"{table}\n"


def _cell(shown: Measurement | None, ours: Measurement | None, notes: list[str]) -> str:
    """Return a number or a ratio to ours, with the mark of its note."""
    if shown is None:
        return "–"
    if not shown.values:
        text = "–"
    elif ours is None or shown.by == OURS or shown.unit == "MB" or not ours.values:
        text = quantity(shown.best, shown.unit)
    else:
        text = times(shown.best / ours.best)
    if not shown.note:
        return text
    if shown.note not in notes:
        notes.append(shown.note)
    return text + _mark(notes.index(shown.note))


def _mark(index: int) -> str:
    return f"<sup>{chr(ord('a') + index)}</sup>"


def _grid(header: list[str], lines: list[list[str]]) -> str:
    rule = ["---" if i == 0 else "---:" for i in range(len(header))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *lines])
