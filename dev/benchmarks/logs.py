"""Logs: from rows to counts, beside pandas and Polars on the same files.

Every contender counts the rows of every (state, action, next state, reward), in a process of its own: wall time, the
time of all processors together, which a busy machine changes less, and peak memory. The files are made by DuckDB from a
formula: 500 states, 6 actions, all of them texts, 10 successors of every pair, 11 rewards.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dev.benchmarks.memory import in_fresh_process
from dev.benchmarks.peers import absence, installed
from dev.benchmarks.timing import OURS, At, Measurement

PARQUET, CSV = "Parquet to counts", "CSV to counts"
DIAGNOSIS = "Parquet to a diagnosis, with the data needed and all rules"
PROCESSORS, MEMORY = "processor time", "peak memory"
PANDAS, POLARS = "pandas", "Polars"
KEYS = ["state", "action", "next_state", "reward"]


@dataclass(frozen=True)
class Sizes:
    """How much is measured; ``most`` is how many rows pandas gets, which holds all of them in memory."""

    rounds: int = 3
    parquet: tuple[int, ...] = (10**7, 10**8)
    csv: tuple[int, ...] = (10**7,)
    most: int = 10**7


FULL, QUICK = Sizes(), Sizes(rounds=1, parquet=(10**4,), csv=(10**4,), most=10**4)


def measure(sizes: Sizes) -> Iterator[Measurement]:
    """Yield times and peaks of all contenders, in turns."""
    for ending, title, many in (("parquet", PARQUET, sizes.parquet), ("csv", CSV, sizes.csv)):
        for rows in many:
            with tempfile.TemporaryDirectory() as folder:
                path = str(Path(folder) / f"log.{ending}")
                write_log(path, rows)
                yield from _side_by_side(title, path, rows, sizes)
                if title == PARQUET and rows == 10**7:
                    _, done = in_fresh_process(__name__, "diagnosed", path)
                    yield Measurement("logs", DIAGNOSIS, OURS, {"rows": rows}, [done.seconds], note="Measured once.")


def write_log(path: str, rows: int) -> None:
    """Write a log; the same one everywhere, for it comes from whole numbers alone."""
    import duckdb

    mixed = f"SELECT (i * 2654435761) % 4294967296 AS h FROM range({rows}) t(i)"
    mixed = f"SELECT (CAST(xor(h, h >> 15) AS UBIGINT) * 2246822519) % 4294967296 AS h FROM ({mixed})"
    mixed = f"SELECT xor(h, h >> 13) AS h FROM ({mixed})"
    after = "'state-' || ((s * 7 + a * 11 + k * 13) % 500) AS next_state"
    drawn = "h % 500 AS s, (h // 500) % 6 AS a, (h // 3000) % 10 AS k, (h // 30000) % 11 AS r"
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT 'state-' || s AS state, 'action-' || a AS action, r / 10 AS reward, "
            f"{after} FROM (SELECT {drawn} FROM ({mixed}))) TO '{path}'"
        )


def _side_by_side(title: str, path: str, rows: int, sizes: Sizes) -> Iterator[Measurement]:
    at: At = {"rows": rows}
    notes: dict[str, str] = {}
    for by, package in ((PANDAS, "pandas"), (POLARS, "polars")):
        if not installed(package):
            notes[by] = absence(by)
        elif by == PANDAS and rows > sizes.most:
            notes[by] = "Not tried: it holds all rows in memory at once."
    taken: dict[str, list[tuple[float, float, float]]] = {by: [] for by in CONTENDERS if by not in notes}
    groups = {}
    for number in range(sizes.rounds):
        names = list(taken)
        for by in names[number % len(names) :] + names[: number % len(names)]:
            _, done = in_fresh_process(__name__, "count", by, path)
            taken[by].append((done.seconds, done.cpu, done.peak))
            groups[by] = done.name
    for place, (job, unit) in enumerate(((title, "s"), (f"{title}, {PROCESSORS}", "s"), (f"{title}, {MEMORY}", "MB"))):
        for by in CONTENDERS:
            values = [each[place] for each in taken.get(by, [])]
            wrong = by in groups and groups[by] != groups[OURS]
            note = f"Counts {groups[by]}, not {groups[OURS]}." if wrong else notes.get(by, "")
            yield Measurement("logs", job, by, at, values, unit, note=note)


def count(by: str, path: str) -> Iterator[str]:
    """Count the rows of a log, and say how many groups there are."""
    counter = CONTENDERS[by]
    counter("")
    yield "imports"
    yield f"{counter(path)} groups"


def diagnosed(path: str) -> Iterator[str]:
    """Do what ``replicable-rl diagnose`` does."""
    import replicable_rl as rr
    from replicable_rl.diagnose import Diagnosis

    def asked(found: Diagnosis) -> None:
        found.data_needed(0.95)
        found.text()

    tiny = rr.from_transitions({"state": [0], "action": [0], "reward": [0.0], "next_state": [0]}, gamma=0.9)
    asked(rr.diagnose(tiny, resamples=2))
    yield "imports"
    asked(rr.diagnose(rr.from_transitions(path, gamma=0.9)))
    yield "diagnosed"


def _ours(path: str) -> int:
    import replicable_rl as rr

    if not path:
        rr.from_transitions({"state": [0], "action": [0], "reward": [0.0], "next_state": [0]}, gamma=0.9)
        return 0
    return int(rr.from_transitions(path, gamma=0.9).key.size)


def _pandas(path: str) -> int:
    import pandas as pd

    if not path:
        return 0
    frame = pd.read_csv(path) if path.endswith(".csv") else pd.read_parquet(path)
    return len(frame.groupby(KEYS, sort=False).size())


def _polars(path: str) -> int:
    import polars as pl

    if not path:
        return 0
    frame = pl.scan_csv(path) if path.endswith(".csv") else pl.scan_parquet(path)
    return frame.group_by(KEYS).len().collect(engine="streaming").height


CONTENDERS: dict[str, Callable[[str], int]] = {OURS: _ours, PANDAS: _pandas, POLARS: _polars}


if __name__ == "__main__":
    from dev.benchmarks.__main__ import main

    main(["logs", *sys.argv[1:]])
