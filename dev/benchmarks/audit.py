"""What an audit adds to the bare runs, and how long many runs take."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import replicable_rl as rr
from dev.benchmarks.timing import At, Job, Measurement, all_cores, in_turns
from replicable_rl.audit import AuditResult

SMALL = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, iterations=1)
A_RUN, MANY = "a small run (rPVI on two-goals-v1, T = 1)", "many runs into one file"
BARE, IN_MEMORY, IN_FILE = "the run alone", "audited, in memory", "audited, in a file"


@dataclass(frozen=True)
class Sizes:
    """How much is measured; two runs a seed."""

    rounds: int = 5
    seeds: int = 500
    many: int = 5_000


FULL, QUICK = Sizes(), Sizes(rounds=1, seeds=20, many=50)


def measure(sizes: Sizes) -> Iterator[Measurement]:
    """Yield the time that an audit adds to a run, and the times of large audits."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _overhead(Path(folder), sizes)
        for cores in range(1, all_cores() + 1):
            yield from _many(Path(folder), sizes.many, cores, sizes.rounds)


def _overhead(folder: Path, sizes: Sizes) -> Iterator[Measurement]:
    """Yield the time per run of the same runs: bare, audited in memory, audited into a file."""
    problem = rr.make("two-goals-v1")
    rr.audit(problem, SMALL, shared_seeds=2).text()  # import all that is needed

    def bare() -> None:
        for seed in range(2 * sizes.seeds):
            rr.solve(problem, SMALL, shared_seed=seed, sample_seed=seed)

    def audited(store: Callable[[], Path | None]) -> Callable[[], object]:
        return lambda: rr.audit(problem, SMALL, shared_seeds=sizes.seeds, store=store())

    def fresh_file() -> Path:
        path = folder / "overhead.sqlite"
        path.unlink(missing_ok=True)
        return path

    calls = {BARE: bare, IN_MEMORY: audited(lambda: None), IN_FILE: audited(fresh_file)}
    jobs = [Job(by, call, {}, 1.0 / (2 * sizes.seeds)) for by, call in calls.items()]
    yield from in_turns("audit", A_RUN, jobs, rounds=sizes.rounds)


def _many(folder: Path, seeds: int, jobs: int, rounds: int) -> Iterator[Measurement]:
    """Yield the time of many runs, of the store's summary, of the same call again, and of its table."""
    problem, store = rr.make("two-goals-v1"), folder / f"{seeds}-{jobs}.sqlite"

    def audit() -> AuditResult:
        result = rr.audit(problem, SMALL, shared_seeds=seeds, store=store, n_jobs=jobs)
        for level in result.levels:
            result.agreement(level)
        return result

    def read() -> None:
        with rr.RunStore(store) as opened:
            for family, _ in opened.families():
                opened.runs(family)

    at: At = {"runs": 2 * seeds, "cores": jobs}
    result: list[AuditResult] = []
    steps: dict[str, Callable[[], object]] = {
        "all runs": audit,
        "again, from the file": lambda: result.append(audit()),
        "read all runs": read,
        "table": lambda: result.pop().text(),  # of a result that knows nothing of it yet
    }
    seconds: dict[str, list[float]] = {step: [] for step in steps}
    for turn in range(rounds):
        for step, call in steps.items():
            if turn == 0 or step != "all runs":
                started = time.perf_counter()
                call()
                seconds[step].append(time.perf_counter() - started)
    for step, times in seconds.items():
        note = "Measured once." if len(times) == 1 else ""
        yield Measurement("audit", MANY, step, at, times, note=note)
    size = store.stat().st_size / 1e6
    yield Measurement("audit", MANY, "file", at, [size], "MB")
