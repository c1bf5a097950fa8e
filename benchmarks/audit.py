"""What an audit adds to the bare runs, and how long many runs take.

make bench
.venv/bin/python -m benchmarks.audit --large   # 100 000 runs at the theorem's own m: minutes
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import replicable_rl as rr
from benchmarks.timing import best_of

PROBLEM = rr.make("two-goals-v1")
SMALL = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, iterations=1)
THEOREM = rr.ReplicablePhasedVI(0.1, 0.001, 0.2)
SEEDS = 500  # two runs each


def overhead(folder: Path) -> None:
    """Time per run of the same 1000 runs: bare, audited in memory, audited into a file."""

    def bare() -> None:
        for seed in range(2 * SEEDS):
            rr.solve(PROBLEM, SMALL, shared_seed=seed, sample_seed=seed)

    def audited(store: Callable[[], Path | None]) -> Callable[[], object]:
        return lambda: rr.audit(PROBLEM, SMALL, shared_seeds=SEEDS, store=store())

    def fresh_file() -> Path:
        path = folder / "overhead.sqlite"
        for name in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
            name.unlink(missing_ok=True)
        return path

    times = best_of({"bare": bare, "in memory": audited(lambda: None), "in a file": audited(fresh_file)}, rounds=5)
    print("\na small run (rpvi-v1 on two-goals-v1, T=1), microseconds, best of 5")
    for name, seconds in times.items():
        added = f", {1e6 * (seconds - times['bare']) / (2 * SEEDS):4.0f} added" if name != "bare" else ""
        print(f"  {name:<10} {1e6 * seconds / (2 * SEEDS):5.0f}{added}")


def many_runs(folder: Path, seeds: int, algorithm: rr.ReplicablePhasedVI, jobs: int, name: str) -> None:
    """Time of many runs into one file, of the store's summary, of the same call again, and of its table."""
    store = folder / f"{name}.sqlite"
    started = time.perf_counter()
    rr.audit(PROBLEM, algorithm, shared_seeds=seeds, store=store, n_jobs=jobs)
    first = time.perf_counter() - started
    started = time.perf_counter()
    result = rr.audit(PROBLEM, algorithm, shared_seeds=seeds, store=store, n_jobs=jobs)
    for level in result.levels:
        result.agreement(level)
    summary = time.perf_counter() - started
    started = time.perf_counter()
    with rr.RunStore(store) as opened:
        opened.summary()
    query = time.perf_counter() - started
    started = time.perf_counter()
    result.table()
    print(
        f"\n{2 * seeds} runs, {jobs} job{'s' * (jobs > 1)}, {name}: {first:.1f} s, "
        f"file {store.stat().st_size / 1e6:.0f} MB"
    )
    tabled = time.perf_counter() - started
    print(
        f"  summary query: {query:.2f} s; the audit again, from the store: {summary:.2f} s; its table: {tabled:.2f} s"
    )
    print(f"  {result.agreement('policy')}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        if "--large" in sys.argv:
            many_runs(Path(folder), 50_000, THEOREM, 2, "at the theorem's m, T=100")
        else:
            overhead(Path(folder))
            for jobs in (1, 2):
                many_runs(Path(folder), 5_000, SMALL, jobs, f"T=1, {jobs} at a time")
