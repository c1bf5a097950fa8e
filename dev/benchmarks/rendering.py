"""The page: tables of ratios from measurements, and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dev.benchmarks.fitting import Slope, fit_curve
from dev.benchmarks.headlines import headlines
from dev.benchmarks.records import Book
from dev.benchmarks.timing import OURS, Measurement
from dev.benchmarks.units import number, quantity, times

__all__ = ["page", "section_tables", "slope_text"]

SECTIONS = {
    "limits": ("The limits of this machine", "What no program can beat here."),
    "sampler": ("Drawing counts", "One call draws m successors of every row, as counts."),
    "runs": ("Whole runs", "Runs of rPVI, of a model learned from one batch of samples, and of one large problem."),
    "episodes": ("Episodes", "A round is m episodes of H steps under one policy."),
    "planning": (
        "Planning",
        "Optimal values to 10<sup>-6</sup>; the time of solving alone, without building the problem. Garnets have "
        "4 actions and 4 outcomes a row; the grid is empty, with a goal in a corner. mdpsolver runs on one core, "
        "because its threads stall wherever something else runs too: divide its ratios by the number of cores for the "
        "best that it could do.",
    ),
    "decisions": (
        "Decisions",
        "`PlugInPolicy` from 1000 samples of every pair. The large tables have 4 actions and up to 4 outcomes a row; "
        "planning alone and planning with a rule run on the same empirical model, in turns.",
    ),
    "logs": (
        "Logs",
        "A log of 500 states and 6 actions, all of them texts, to counts of (state, action, next state, reward), each "
        "in a fresh process. Polars streams; pandas reads all rows first. Processor time adds up all cores.",
    ),
    "audit": ("Audits", "What the record of every run costs, and many runs."),
    "startup": ("Starting", "A fresh process each time."),
}

_HEAD = """\
# Benchmarks

`make bench` measures everything below side by side, in turns, takes the best of several, and writes this page and its
figure. Times differ from machine to machine; ratios differ less. Ours is a time, every other column says how many
times as long it takes: more than 1× is slower than ours.

{machine}

## In short

{headlines}

## How time grows

![Time against m, S, T, H and the number of cores, with fitted slopes](benchmarks.svg)

The slope of log time against log size, fitted to every round by itself so that a busy moment cancels, with a 95 %
interval over the rounds: 0 is constant, 1 is proportional.

{growth}
"""


def page(book: Book) -> str:
    """Return the whole page as Markdown."""
    machine = "\n".join(f"- {name}: {text}" for name, text in book.machine.items())
    head = _HEAD.format(
        machine=machine,
        headlines=_grid(["", "measured", "aim"], [list(line) for line in headlines(book)]),
        growth=_growth(book),
    )
    parts = [head]
    for name in SECTIONS:
        title, intro = SECTIONS[name]
        parts.append(f"## {title}\n\n{intro}\n\n{section_tables(book, name)}")
    return "\n".join(parts)


def section_tables(book: Book, section: str) -> str:
    """Return the tables of a section; jobs with the same contenders and parameters share one."""
    jobs: dict[str, list[Measurement]] = {}
    for each in book.measurements:
        if each.section == section:
            jobs.setdefault(each.job, []).append(each)
    tables: dict[tuple[object, ...], list[Measurement]] = {}
    for job in jobs.values():
        contenders = tuple(dict.fromkeys(each.by for each in job))
        if all(each.against for each in job) and contenders == (OURS,):
            continue  # a growth curve, which the figure shows
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


def _growth(book: Book) -> str:
    lines = []
    for curve in book.curves():
        point, last = curve[0], curve[-1]
        if point.by != OURS:
            continue
        slope = fit_curve(curve)
        ends = f"{number(point.at[point.against])} to {number(last.at[point.against])}"
        name = f"planning, {point.job}" if point.section == "planning" else point.job
        lines.append([name, point.against, ends, slope_text(slope), times(1.0 + slope.per_decade), str(slope.rounds)])
    return _grid(["", "against", "from", "slope", "time at ten times the size", "rounds"], lines)


def slope_text(slope: Slope) -> str:
    """Return a slope and its interval."""
    digits = 4 if abs(slope.estimate) < 0.05 else 2
    estimate, low, high = (f"{round(end, digits) + 0.0:.{digits}f}" for end in slope[:3])  # 0.0, not -0.0
    return estimate if math.isnan(slope.low) else f"{estimate} ({low} to {high})"


def _grid(header: list[str], lines: list[list[str]]) -> str:
    rule = ["---" if i == 0 else "---:" for i in range(len(header))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *lines])
