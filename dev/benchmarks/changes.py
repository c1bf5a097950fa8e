"""How often a changed process is found in logs, and how often for nothing.

.venv/bin/python -m dev.benchmarks.changes            # two minutes; prints the table of docs/data.md
.venv/bin/python -m dev.benchmarks.changes --quick    # small
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import replicable_rl as rr
from replicable_rl.audit.intervals import clopper_pearson

PROCESSES = ("riverswim-v1", "two-goals-v1", "garnet-v1", "machine-repair-v1")
RANGE = (-9.0, 9.0)
Log = dict[str, Any]


def homogeneous(i: int) -> float:
    """Return the p-value over time of a log of one process."""
    mdp = rr.make(PROCESSES[i % len(PROCESSES)])
    return _over_time(mdp.to_transitions(samples=500, seed=i))


def same_rewards(i: int) -> float:
    """Return the p-value of two logs of one process with normal rewards; one log is twenty times as long."""
    return _of_two(_normal(20_000, 2 * i), _normal(1_000, 2 * i + 1))


def disturbed(i: int) -> float:
    """Return the p-value over time of 10^6 rows; in the middle half, one row is off by 0.1."""
    return _over_time(_joined(_rows(250_000, 3 * i), _rows(500_000, 3 * i + 1, off=0.1), _rows(250_000, 3 * i + 2)))


def changed_late(i: int) -> float:
    """Return the p-value over time of 10^6 rows; in the last eighth, one row is off by 0.1."""
    return _over_time(_joined(_rows(875_000, 2 * i), _rows(125_000, 2 * i + 1, off=0.1)))


def shuffled(i: int) -> float:
    """Return the p-value over time of 10^6 shuffled rows with a time; in the second half, one row is off by 0.1."""
    log = _joined(_rows(500_000, 2 * i), _rows(500_000, 2 * i + 1, off=0.1))
    log |= {"t": np.arange(10**6), "visit": np.arange(10**6) // 10}
    order = np.random.default_rng(i).permutation(10**6)
    return _over_time({name: column[order] for name, column in log.items()}, episode="visit", order="t")


def shifted(i: int, rows: int, by: float) -> float:
    """Return the p-value of two logs with normal rewards on eight pairs, those of one shifted."""
    return _of_two(_normal(rows, 2 * i), _normal(rows, 2 * i + 1, by))


CASES: list[tuple[str, int, Callable[[int], float]]] = [
    ("one process over time", 400, homogeneous),
    ("two logs of one process, normal rewards, 1000 and 20000 rows", 400, same_rewards),
    ("10⁶ rows, one row off by 0.1 in the middle half", 20, disturbed),
    ("10⁶ rows, one row off by 0.1 in the last eighth", 20, changed_late),
    ("10⁶ rows, shuffled, with a time; one row off by 0.1 in the second half", 20, shuffled),
    ("two logs, 1100 rows, rewards N(0, 1) and N(1, 1)", 50, lambda i: shifted(i, 1_100, 1.0)),
    ("two logs, 5000 rows, rewards N(0, 1) and N(0.2, 1)", 50, lambda i: shifted(i, 5_000, 0.2)),
]


def table(quick: bool = False) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| logs | of | p < 0.01 | p < 0.001 |"
    yield "|---|---:|---:|---:|"
    for name, times, case in CASES:
        many = max(2, times // 50) if quick else times
        found = np.array([case(i) for i in range(many)])
        shares = (_share(int((found < level).sum()), many) for level in (0.01, 0.001))
        yield f"| {name} | {many} | {' | '.join(shares)} |"


def _share(some: int, of: int) -> str:
    low, high = clopper_pearson(some, of, 0.95)
    return f"{some / of:.3f} ({low:.3f}–{high:.3f})"


def _rows(rows: int, seed: int, off: float = 0.0) -> Log:
    """Return rows of a process with 20 states and 5 actions; ``off`` of one row's probability goes elsewhere."""
    rng, shares = np.random.default_rng([7, seed]), np.random.default_rng(1).dirichlet(np.ones(20), size=(20, 5))
    shares[3, 2] += np.where(np.arange(20) == shares[3, 2].argmax(), -off, off / 19)
    state, action = rng.integers(20, size=rows), rng.integers(5, size=rows)
    successor = (rng.random((rows, 1)) > shares[state, action].cumsum(axis=1)).sum(axis=1).clip(0, 19)
    return {"state": state, "action": action, "reward": (successor == 0) * 1.0, "next_state": successor}


def _normal(rows: int, seed: int, mean: float = 0.0) -> Log:
    """Return rows of a process with 4 states and 2 actions, whose rewards are normal."""
    rng = np.random.default_rng([8, seed])
    log = {name: rng.integers(many, size=rows) for name, many in (("state", 4), ("action", 2), ("next_state", 4))}
    return log | {"reward": rng.normal(mean, 1.0, rows).clip(*RANGE)}


def _joined(*logs: Log) -> Log:
    return {name: np.concatenate([log[name] for log in logs]) for name in logs[0]}


def _over_time(log: Log, **options: Any) -> float:
    found = rr.from_transitions(log, gamma=0.9, **options).summary().change
    return 1.0 if found is None else found.p_value


def _of_two(one: Log, two: Log) -> float:
    logs = rr.from_logs([one, two], gamma=0.9, reward_range=RANGE)
    found = rr.same_process(*logs.values())
    return 1.0 if found is None else found.p_value


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m dev.benchmarks.changes", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small")
    for line in table(parser.parse_args(arguments).quick):
        print(line, flush=True)


if __name__ == "__main__":
    main()
