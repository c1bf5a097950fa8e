"""The count sampler: time of a row, against numpy, against m, and on several cores."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from dev.benchmarks import kernels
from dev.benchmarks.problems import CALLS, Multinomial, table_of_400
from dev.benchmarks.timing import OURS, Job, Measurement, all_cores, in_turns, one_core, pinned_threads
from replicable_rl.problem.table import TabularMDP
from replicable_rl.randomness import sample_stream
from replicable_rl.testing import PerSample

ROW, AGAINST_M, ON_CORES = "a row of 3 outcomes, one core", "a draw of 400 rows", "a draw, many at once"
BARE = "20 random words a row, compiled"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int = 30
    states: int = 1000
    calls: tuple[int, ...] = (CALLS, 10**6, 10**9, 10**15)
    exponents: tuple[int, ...] = tuple(range(4, 19))


FULL, QUICK = Sizes(), Sizes(rounds=2, states=100, calls=(CALLS,), exponents=(4, 11, 18))


def measure(sizes: Sizes) -> Iterator[Measurement]:
    """Yield the time of a row, its growth with m, and that of many rows with the number of cores."""
    with one_core():
        yield from _rows(sizes)
        small = table_of_400()
        jobs = [Job(OURS, _draws(small, 10**e), {"m": 10**e}) for e in sizes.exponents]
        yield from in_turns("sampler", AGAINST_M, jobs, rounds=sizes.rounds, against="m")
    yield from _cores(sizes)


def _draws(mdp: TabularMDP, calls: int) -> Callable[[], object]:
    return partial(mdp.draw, calls, sample_stream(1))


def _rows(sizes: Sizes) -> Iterator[Measurement]:
    mdp = table_of_400(sizes.states)
    rows, rng = mdp.n_states * mdp.n_actions, np.random.default_rng(1)
    for calls in sizes.calls:
        at = {"m": calls}
        jobs = [
            Job(OURS, _draws(mdp, calls), at, 1.0 / rows),
            Job("numpy multinomial", partial(Multinomial(mdp).draw, calls, rng), at, 1.0 / rows),
        ]
        if calls <= CALLS:
            jobs.append(Job("numpy, per sample", partial(PerSample(mdp).draw, calls, rng), at, 1.0 / rows))
        yield from in_turns("sampler", ROW, jobs, rounds=sizes.rounds, seconds=10.0, at_least=3)


def _cores(sizes: Sizes) -> Iterator[Measurement]:
    """Yield the time of a draw, many of them on some of the cores: 1/cores if nothing is in the way.

    A loop that touches nothing but its own words shows what the machine has to give at the moment.
    """
    mdp, cores, each = table_of_400(sizes.states), all_cores(), 20
    rows = mdp.n_states * mdp.n_actions
    work: dict[str, list[Callable[[], object]]] = {
        OURS: [_draws(mdp, 10**9) for _ in range(cores)],
        BARE: [
            partial(kernels.fill, np.arange(1, 5, dtype=np.uint64), np.empty(rows * 20, "u8")) for _ in range(cores)
        ],
    }

    def several(call: Callable[[], object]) -> None:
        for _ in range(each):
            call()

    with contextlib.ExitStack() as stack:
        jobs = []
        for used in range(1, cores + 1):
            pool = stack.enter_context(pinned_threads(used))
            at = {"rows": rows, "cores": used}
            jobs += [
                Job(by, partial(_on, pool, several, calls), at, 1.0 / (each * cores)) for by, calls in work.items()
            ]
        yield from in_turns("sampler", ON_CORES, jobs, rounds=sizes.rounds, against="cores")


def _on(pool: ThreadPoolExecutor, work: Callable[..., None], items: Sequence[object]) -> None:
    for _ in pool.map(work, items):
        pass
