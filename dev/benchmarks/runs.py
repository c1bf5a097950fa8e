"""Whole runs: 150 of rPVI, their growth with m, S, T and cores and one with a million states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import joblib
import numpy as np

import replicable_rl as rr
from dev.benchmarks.memory import in_fresh_process
from dev.benchmarks.problems import CALLS, Multinomial, table_of_400
from dev.benchmarks.timing import OURS, Job, Measurement, all_cores, in_turns, one_core
from replicable_rl.problem.shipped import garnet
from replicable_rl.testing import PerSample

MANY, ONE = "runs of rPVI, 400 rows", "one run of rPVI, one core"
BIG_TIME, BIG_MEMORY = "one run of rPVI on a large Garnet", "peak memory of that run"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int = 15
    runs: int = 150
    iterations: int = 100
    exponents: tuple[int, ...] = tuple(range(4, 19))
    states: tuple[int, ...] = (10, 100, 1000, 10_000)
    lengths: tuple[int, ...] = (10, 30, 100, 300, 1000)
    large: int = 1_000_000


FULL = Sizes()
QUICK = Sizes(rounds=2, runs=4, iterations=5, exponents=(4, 18), states=(10, 100), lengths=(2, 4), large=1000)


def measure(sizes: Sizes) -> Iterator[Measurement]:
    """Yield the times of whole runs, and the memory of a large one."""
    yield from _many(sizes)
    with one_core():
        yield from _growth(sizes)
    yield from _large(sizes)


def _rpvi(calls: int, iterations: int) -> rr.ReplicablePhasedVI:
    return rr.ReplicablePhasedVI(0.1, 0.001, 0.2, calls=calls, iterations=iterations)


def _run(mdp: rr.TabularMDP, calls: int, iterations: int) -> Callable[[], object]:
    return partial(rr.solve, mdp, _rpvi(calls, iterations), shared_seed=1, sample_seed=1)


def _many(sizes: Sizes) -> Iterator[Measurement]:
    """Yield the time of an audit on threads; the others are measured in part, on one core, and scaled."""
    mdp, algorithm, rng = table_of_400(), _rpvi(CALLS, sizes.iterations), np.random.default_rng(1)

    def audit(cores: int) -> None:
        with joblib.parallel_config(backend="threading"):
            rr.audit(mdp, algorithm, shared_seeds=sizes.runs // 2, n_jobs=cores)

    one_by_numpy = partial(rr.solve, Multinomial(mdp), algorithm, shared_seed=1, sample_seed=1)
    one_draw = partial(PerSample(mdp).draw, CALLS, rng)
    draws = sizes.runs * sizes.iterations
    part = "Measured {} on one core, and scaled; several cores are granted as if nothing were lost."
    jobs = []
    for cores in range(1, all_cores() + 1):
        at = {"runs": sizes.runs, "T": sizes.iterations, "m": CALLS, "cores": cores}
        jobs += [
            Job(OURS, partial(audit, cores), at),
            Job("numpy multinomial", one_by_numpy, at, sizes.runs / cores, part.format(f"1/{sizes.runs} of it")),
            Job("numpy, per sample", one_draw, at, draws / cores, part.format(f"1/{draws} of it, the draws alone,")),
        ]
    yield from in_turns("runs", MANY, jobs, rounds=sizes.rounds, seconds=20.0, at_least=5)


def _growth(sizes: Sizes) -> Iterator[Measurement]:
    small, T = table_of_400(), sizes.iterations
    tables = {n: table_of_400(n) for n in sizes.states}
    curves = {
        "m": {10**e: _run(small, 10**e, T) for e in sizes.exponents},
        "S": {n: _run(mdp, CALLS, T) for n, mdp in tables.items()},
        "T": {t: _run(small, CALLS, t) for t in sizes.lengths},
    }
    for size, calls in curves.items():
        jobs = [Job(OURS, call, {size: at}) for at, call in calls.items()]
        yield from in_turns("runs", ONE, jobs, rounds=sizes.rounds, seconds=10.0, at_least=5, against=size)


def _large(sizes: Sizes) -> Iterator[Measurement]:
    at = {"S": sizes.large, "A": 4, "outcomes": 4, "T": sizes.iterations}
    stages = in_fresh_process(__name__, "large_run", sizes.large, sizes.iterations)
    yield Measurement("runs", BIG_TIME, OURS, at, [stages[-1].seconds], note="Measured once.")
    for stage in stages:
        yield Measurement("runs", BIG_MEMORY, OURS, {"until": stage.name}, [stage.peak], "MB")


def large_run(n_states: int, iterations: int) -> Iterator[str]:
    """Run rPVI on a large Garnet with 4 actions and 4 outcomes a row, in stages."""
    _run(garnet(10, 4, 4), CALLS, 2)()
    yield "imports"
    mdp = garnet(n_states, 4, 4)
    yield "problem"
    rr.solve(mdp, _rpvi(10**9, iterations), shared_seed=1, sample_seed=1)
    yield "run"
