"""Times of several jobs, taken in turns so that a busy moment of the machine hits all alike."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

__all__ = ["OURS", "At", "Job", "Measurement", "all_cores", "in_turns", "one_core", "pinned_threads"]

OURS = "ours"
At = Mapping[str, float | str]
_SHORTEST = 1e-2  # seconds: what is shorter is repeated


@dataclass(frozen=True)
class Measurement:
    """What one contender took for one job: a number a round, in the order of the rounds.

    ``at`` holds the parameters that the rows of a table differ in; ``against`` names the one that a growth
    curve runs along, if it is part of one. ``values`` is empty if nothing was measured, and ``note`` says why.
    """

    section: str
    job: str
    by: str
    at: At = field(default_factory=dict)
    values: Sequence[float] = ()
    unit: str = "s"
    against: str = ""
    note: str = ""

    @property
    def best(self) -> float:
        """The smallest value: other processes only ever add; NaN if nothing was measured."""
        return min(self.values, default=math.nan)


@dataclass(frozen=True)
class Job:
    """Something to time, or None for a peer that is not there; ``factor`` scales seconds to what is reported.

    With ``fresh``, ``call`` returns what is timed, anew every time: some peers remember their last answer.
    """

    by: str
    call: Callable[[], object] | None
    at: At = field(default_factory=dict)
    factor: float = 1.0
    note: str = ""
    fresh: bool = False


def in_turns(
    section: str,
    title: str,
    jobs: Sequence[Job],
    *,
    rounds: int,
    seconds: float = math.inf,
    at_least: int = 1,
    warm: bool = True,
    unit: str = "s",
    against: str = "",
) -> Iterator[Measurement]:
    """Time all jobs once a round, until ``rounds`` are done or ``seconds`` are over after ``at_least`` of them.

    Every round starts with another job, so that none is always the one after a change of the machine's mood.
    """
    present = [job for job in jobs if job.call is not None]
    repeats = [_warm_up(job) if warm else 1 for job in present]
    values: list[list[float]] = [[] for _ in present]
    started = time.perf_counter()
    for number in range(rounds):
        if number >= at_least and time.perf_counter() - started > seconds:
            break
        for turn in range(len(present)):
            i = (turn + number) % len(present)
            values[i].append(_time(present[i], repeats[i]))
    taken = iter(values)
    for job in jobs:
        scaled = [job.factor * value for value in next(taken)] if job.call is not None else []
        yield Measurement(section, title, job.by, job.at, scaled, unit, against, job.note)


def _warm_up(job: Job) -> int:
    """Compile and fill the caches; return how many calls to time together."""
    _time(job, 1)
    return 1 if job.fresh else max(1, math.ceil(_SHORTEST / max(_time(job, 1), 1e-9)))


def _time(job: Job, repeats: int) -> float:
    call: Any = job.call() if job.fresh and job.call else job.call
    started = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - started) / repeats


def all_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Keep this thread, and the threads that it starts, on one core, where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def pinned_threads(number: int) -> ThreadPoolExecutor:
    """Return a pool of threads, each on a core of its own: on a busy machine they would be woken on the same one."""
    if not hasattr(os, "sched_setaffinity"):
        return ThreadPoolExecutor(number)
    cores = sorted(os.sched_getaffinity(0))

    def pin() -> None:
        os.sched_setaffinity(0, {cores.pop()})

    return ThreadPoolExecutor(number, initializer=pin)
