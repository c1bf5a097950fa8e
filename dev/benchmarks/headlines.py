"""The few numbers to remember, and what the project aims at."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dev.benchmarks import audit, decisions, episodes, limits, logs, planning, runs, sampler, startup
from dev.benchmarks.fitting import fit_curve
from dev.benchmarks.problems import CALLS
from dev.benchmarks.records import Book
from dev.benchmarks.timing import OURS, Measurement
from dev.benchmarks.units import number, quantity, times

__all__ = ["headlines"]

Line = tuple[str, str, str]
_NOTHING = "–"


def headlines(book: Book) -> Iterator[Line]:
    """Yield lines of (what, measured, aim)."""
    yield from _sampler(book)
    yield from _runs(book)
    yield from _episodes_and_growth(book)
    yield from _planning(book)
    yield from _decisions(book)
    yield from _logs(book)
    yield from _around(book)


def _best(found: Sequence[Measurement]) -> float:
    return min((each.best for each in found), default=math.nan)


def _shown(value: float, unit: str = "s") -> str:
    return quantity(value, unit)


def _ratio(slow: float, fast: float) -> str:
    return _NOTHING if math.isnan(slow / fast) else times(slow / fast)


def _sampler(book: Book) -> Iterator[Line]:
    ours, numpy = (_best(book.find("sampler", sampler.ROW, by, m=CALLS)) for by in (OURS, "numpy multinomial"))
    word = _best(book.find("limits", limits.WORD, "xoshiro256++, compiled"))
    yield f"a row of 3 outcomes, m = {number(CALLS)}, one core", _shown(ours), "≤ 45 ns"
    yield "the same, in random words of this machine", _ratio(ours, word), ""
    yield "numpy `Generator.multinomial`, per core", _ratio(numpy, ours), "≥ 2.5×"
    ours_on, bare_on = (book.find("sampler", sampler.ON_CORES, by) for by in (OURS, sampler.BARE))
    if len(ours_on) > 1 and len(bare_on) > 1:
        cores = ours_on[-1].at["cores"]
        faster, possible = (times(curve[0].best / curve[-1].best) for curve in (ours_on, bare_on))
        yield (
            f"draws on {cores} cores, as fast as on one",
            f"{faster}; a bare loop, at that moment: {possible}",
            f"{cores}×",
        )


def _runs(book: Book) -> Iterator[Line]:
    many = book.find("runs", runs.MANY)
    if many:
        at = many[-1].at
        slow = book.find("runs", runs.MANY, "numpy, per sample", **at)
        yield f"{at['runs']} {runs.MANY}, T = {at['T']}, {at['cores']} cores", _shown(many[-1].best), "≤ 0.2 s"
        yield "the same, every sample drawn by numpy (scaled)", _shown(_best(slow)), ""
    seconds = book.find("runs", runs.BIG_TIME)
    if seconds:
        peak = _best(book.find("runs", runs.BIG_MEMORY, until="run"))
        building = _best(book.find("runs", runs.BIG_MEMORY, until="problem"))
        idle = _best(book.find("runs", runs.BIG_MEMORY, until="imports"))
        at = seconds[0].at
        yield f"{runs.BIG_TIME}, T = {at['T']}, {number(at['S'])} states", _shown(seconds[0].best), "minutes"
        both = f"{_shown(max(peak, building), 'MB')}, {_shown(idle, 'MB')} of it before anything"
        yield "its peak memory, building included", both, "≤ 4 GB"


def _episodes_and_growth(book: Book) -> Iterator[Line]:
    ours = _best(book.find("episodes", episodes.ROUND))
    yield f"{episodes.ROUND}, m = {number(episodes.EPISODES)}", _shown(ours), "≤ 0.1 ms"
    for curve in book.curves():
        point = curve[0]
        if point.by != OURS or point.against != "m":
            continue
        slope = fit_curve(curve)
        ends = f"m from {number(point.at['m'])} to {number(curve[-1].at['m'])}"
        percent = [f"{round(100.0 * (10.0**end - 1.0), 2) + 0.0:+.2f}" for end in slope[:3]]
        share = f"{percent[0]} % per tenfold m ({percent[1]} to {percent[2]})"
        yield f"{point.job}, {ends}", share + (", so no slope is seen" if slope.flat else ""), "0 %"


def _planning(book: Book) -> Iterator[Line]:
    for peer in (planning.QUANTECON, planning.MDPSOLVER):
        ratios = []
        for each in book.measurements:
            if each.section == "planning" and each.unit == "s" and each.by == peer and each.values:
                ours = _best(book.find("planning", each.job, OURS, **each.at))
                ratios.append(each.best / ours)
        text = _NOTHING
        if ratios:
            middle = math.exp(sum(map(math.log, ratios)) / len(ratios))
            text = f"{times(middle)} in the geometric mean ({times(min(ratios))} to {times(max(ratios))})"
        yield f"planning: {peer}", text, "≥ 3× from 10<sup>5</sup> states, ≥ 1× below"
    peaks = book.find("planning", planning.MEMORY, OURS, until="planning")
    if peaks:
        idle = _best(book.find("planning", planning.MEMORY, OURS, until="imports"))
        both = f"{_shown(peaks[0].best - idle, 'MB')}, and {_shown(idle, 'MB')} of Python and its libraries"
        yield f"planning with {number(peaks[0].at['S'])} states: peak memory, the model's included", both, "≤ 500 MB"


def _decisions(book: Book) -> Iterator[Line]:
    for each in book.find("decisions", decisions.TABLE, decisions.DEFAULT):
        alone = _best(book.find("decisions", decisions.TABLE, decisions.PLANNING, **each.at))
        what = f"a decision on {number(each.at['S'])} states ({each.at['of']}), in times of planning"
        yield f"{what}, cores: {each.at['cores']}", _ratio(each.best, alone), "≤ 2×"
    for by in (decisions.PROCESSES, decisions.THREADS):
        many = book.find("decisions", decisions.MANY, by)
        if many:
            at = many[-1].at
            yield f"{at['runs']} {decisions.MANY}, {by} on {at['cores']} cores", _shown(many[-1].best), "≤ 0.5 s"
    if found := book.find("decisions", decisions.CALIBRATE):
        yield decisions.CALIBRATE, _shown(found[-1].best), "seconds"


def _logs(book: Book) -> Iterator[Line]:
    for title, aim in ((logs.PARQUET, "≤ 15 s"), (logs.CSV, "≥ 4·10<sup>6</sup> rows a second")):
        if found := book.find("logs", title):
            each = found[-1]
            rows = int(each.at["rows"])
            speed = f"{_shown(each.best)}, {rows / each.best / 1e6:.1f}·10<sup>6</sup> rows a second"
            yield f"{title}, {number(rows)} rows", speed, aim if rows >= 10**7 else ""
            peak = _best(book.find("logs", f"{title}, {logs.MEMORY}", rows=rows))
            yield "its peak memory", _shown(peak, "MB"), "≤ 2 GB" if title == logs.PARQUET else ""
    if found := book.find("logs", logs.DIAGNOSIS):
        yield f"{logs.DIAGNOSIS}, {number(int(found[-1].at['rows']))} rows", _shown(found[-1].best), "seconds"


def _around(book: Book) -> Iterator[Line]:
    yield "`import replicable_rl`", _shown(_best(book.find("startup", startup.IMPORT))), "≤ 0.3 s"
    yield "`replicable-rl --help`", _shown(_best(book.find("startup", startup.HELP))), "≤ 0.35 s"
    bare, kept = (_best(book.find("audit", audit.A_RUN, by)) for by in (audit.BARE, audit.IN_FILE))
    yield "what an audit into a file adds to a run", _shown(kept - bare), ""
