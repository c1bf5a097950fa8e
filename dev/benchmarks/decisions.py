"""Decisions: what a rule adds to planning on a million states, and many small ones through an audit.

A decision takes the counts of one batch to a policy. Building the empirical model from the counts is no part of either
side of the comparison: planning needs it too.
"""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import joblib

import replicable_rl as rr
from dev.benchmarks.problems import grid, table_of_400
from dev.benchmarks.timing import At, Job, Measurement, all_cores, in_turns, one_core
from replicable_rl.problem.shipped import garnet
from replicable_rl.randomness import SharedRandomness, sample_stream
from replicable_rl.rules.model import EmpiricalModel

TABLE, MANY = "a decision on a large table", "decisions through an audit, 400 rows"
CALIBRATE = "calibrate on two-goals-v1"
PLANNING, DEFAULT = "planning alone", "with affordable"
RULES = ("affordable", "tolerance", "greedy")
PROCESSES, THREADS = "processes", "threads"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int = 5
    states: int = 1_000_000
    decisions: int = 1000
    largest: int | None = None  # sample size that a calibration tries


FULL, QUICK = Sizes(), Sizes(rounds=1, states=1000, decisions=20, largest=32)


def measure(sizes: Sizes) -> Iterator[Measurement]:
    """Yield the times of large decisions beside planning alone, of many small ones, and of a calibration."""
    tables: dict[str, Callable[[int], rr.TabularMDP]] = {
        "Garnet": lambda n: garnet(n, 4, 4, gamma=0.95),
        "grid": lambda n: grid(n, 0.95),
    }
    for kind, build in tables.items():
        yield from _large(kind, build(sizes.states), sizes)
    yield from _many(sizes)
    yield from _calibrate(sizes)


def _large(kind: str, mdp: rr.TabularMDP, sizes: Sizes) -> Iterator[Measurement]:
    """Yield planning on an empirical model, and planning and a rule on the same, side by side."""
    source = mdp
    model = EmpiricalModel(source, source.draw(1000, sample_stream(1)))
    for cores in sorted({1, all_cores()}):
        at: At = {"of": kind, "S": sizes.states, "cores": cores}
        jobs = [Job(PLANNING, partial(rr.optimal_values, model.table), at)]
        for rule in RULES:
            chosen = rr.PlugInPolicy(0.05, 0.01, 0.2, samples=1000, rule=rule)
            jobs.append(Job(f"with {rule}", partial(_fresh, model, chosen, chosen.plan(source)), at, fresh=True))
        with one_core() if cores == 1 else contextlib.nullcontext():
            yield from in_turns("decisions", TABLE, jobs, rounds=sizes.rounds, seconds=60.0, at_least=2)


def _fresh(model: EmpiricalModel, algorithm: rr.PlugInPolicy, plan: Any) -> Callable[[], object]:
    """Return a decision on a model that has not been planned on."""
    return partial(algorithm.decide, copy.copy(model), plan, SharedRandomness(1))


def _many(sizes: Sizes) -> Iterator[Measurement]:
    """Yield the time of an audit of many decisions on a 100-state problem."""
    mdp, algorithm = table_of_400(), rr.PlugInPolicy(0.05, 0.01, 0.2, samples=1000)

    def audit(backend: str | None, cores: int) -> None:
        with joblib.parallel_config(backend=backend) if backend else joblib.parallel_config():
            rr.audit(mdp, algorithm, shared_seeds=sizes.decisions // 2, n_jobs=cores)

    jobs = []
    for cores in sorted({1, all_cores()}):
        at: At = {"runs": sizes.decisions, "samples": 1000, "cores": cores}
        jobs.append(Job(PROCESSES, partial(audit, None, cores), at))
        jobs.append(Job(THREADS, partial(audit, "threading", cores), at))
    yield from in_turns("decisions", MANY, jobs, rounds=max(sizes.rounds, 1), seconds=30.0, at_least=1)


def _calibrate(sizes: Sizes) -> Iterator[Measurement]:
    """Yield the time of a calibration, where the library has one."""
    calibrate = getattr(rr, "calibrate", None)
    if calibrate is None:
        yield Measurement("decisions", CALIBRATE, "ours", note="This version has no calibrate.")
        return
    mdp, algorithm = rr.make("two-goals-v1"), rr.PlugInPolicy(0.0176, 0.01, 0.2)
    job = Job("ours", lambda: calibrate(mdp, algorithm, rho=0.2, epsilon=0.0176, most=sizes.largest))
    yield from in_turns("decisions", CALIBRATE, [job], rounds=min(sizes.rounds, 3), seconds=60.0, warm=False)


if __name__ == "__main__":
    from dev.benchmarks.__main__ import main

    main(["decisions", *sys.argv[1:]])
