"""Best times of several jobs, taken in turns so that a busy moment of the machine hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def best_of(jobs: Mapping[str, Callable[[], object]], rounds: int = 15) -> dict[str, float]:
    best = dict.fromkeys(jobs, float("inf"))
    for job in jobs.values():
        job()  # compile and warm up
    for _ in range(rounds):
        for name, job in jobs.items():
            started = time.perf_counter()
            job()
            best[name] = min(best[name], time.perf_counter() - started)
    return best
