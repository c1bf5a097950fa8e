"""Exact planning to 1e-6, beside QuantEcon and mdpsolver: time, and memory with a million states.

Only solving is timed, of a problem built anew each time, for mdpsolver starts again from its last answer.
Every answer is compared with ours, whose error is certified, so that a ratio is about the same accuracy;
one that is off by more says so.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import replicable_rl as rr
from dev.benchmarks.memory import in_fresh_process
from dev.benchmarks.peers import absence, installed
from dev.benchmarks.problems import grid, with_gamma
from dev.benchmarks.timing import OURS, At, Job, Measurement, in_turns
from replicable_rl.problem.shipped import garnet
from replicable_rl.problem.table import Rows

TOLERANCE = 1e-6
MEMORY = "peak memory of planning"
QUANTECON, MDPSOLVER = "QuantEcon", "mdpsolver"
Solve = Callable[[], "np.ndarray[Any, Any]"]  # returns the values


@dataclass(frozen=True)
class Sizes:
    """How much is measured; a peer that takes more than ``patience`` seconds is timed once and spared larger sizes."""

    rounds: int = 15
    seconds: float = 8.0
    states: tuple[int, ...] = (1000, 10_000, 100_000, 1_000_000)
    gammas: tuple[float, ...] = (0.95, 0.99, 0.999)
    large: int = 1_000_000
    patience: float = 4.0


FULL, QUICK = Sizes(), Sizes(rounds=2, states=(100, 400), gammas=(0.95,), large=1000)


def measure(sizes: Sizes) -> Iterator[Measurement]:
    """Yield the times of planning on grids and Garnets, and the peak memory on a large Garnet."""
    for _, package, prepare in CONTENDERS:
        if installed(package):
            prepare(garnet(10, 4, 4).rows, 4, 0.9)()  # compile
    slow: set[tuple[str, str]] = set()
    for n in sizes.states:
        for kind, build in (("grid", grid), ("Garnet", lambda n, gamma: garnet(n, 4, 4, gamma=gamma))):
            table = build(n, sizes.gammas[0])
            for gamma in sizes.gammas:
                found = list(_side_by_side(f"{kind}, γ = {gamma:g}", n, with_gamma(table, gamma), slow, sizes))
                slow |= {(each.job, each.by) for each in found if not each.best <= sizes.patience}
                yield from found
    yield from _memory(sizes)


def _side_by_side(
    title: str, n: int, mdp: rr.TabularMDP, slow: set[tuple[str, str]], sizes: Sizes
) -> Iterator[Measurement]:
    """Yield the time of every contender; the first answer of each is compared with ours."""
    at, jobs, found = {"S": n}, [], []
    ours = rr.optimal_values(mdp, tolerance=TOLERANCE).value
    for by, package, prepare in CONTENDERS:
        if not installed(package):
            jobs.append(Job(by, None, at, note=absence(package)))
        elif by != OURS and (title, by) in slow:
            note = f"Left out: fewer states took more than {sizes.patience:g} s."
            jobs.append(Job(by, None, at, note=note))
        else:
            fresh = partial(prepare, mdp.rows, mdp.n_actions, mdp.gamma)
            solve = fresh()
            started = time.perf_counter()
            error = float(np.abs(solve() - ours).max())
            seconds = time.perf_counter() - started
            note = "" if error <= 2.0 * TOLERANCE else f"Off by {error:.1g}, so not the same accuracy."
            if by == OURS or seconds <= sizes.patience:
                jobs.append(Job(by, fresh, at, note=note, fresh=True))
            else:
                note = note or "Measured once."
                found.append(Measurement("planning", title, by, at, [seconds], against="S", note=note))
    # mdpsolver takes as long as many turns of the others: it must not eat up their time.
    for some in ([job for job in jobs if job.by != MDPSOLVER], [job for job in jobs if job.by == MDPSOLVER]):
        found += in_turns(
            "planning", title, some, rounds=sizes.rounds, seconds=sizes.seconds, at_least=2, warm=False, against="S"
        )
    order = [by for by, _, _ in CONTENDERS]
    yield from sorted(found, key=lambda each: order.index(each.by))


def _ours(rows: Rows, n_actions: int, gamma: float) -> Solve:
    mdp = rr.TabularMDP(rows, n_actions=n_actions, gamma=gamma)
    return lambda: rr.optimal_values(mdp, tolerance=TOLERANCE).value


def _quantecon(rows: Rows, n_actions: int, gamma: float) -> Solve:
    """Modified policy iteration on state-action pairs and a sparse matrix."""
    from quantecon.markov import DiscreteDP
    from scipy.sparse import csr_matrix

    n_states = (rows.indptr.size - 1) // n_actions
    reward = np.add.reduceat(rows.probability * rows.reward, rows.indptr[:-1])
    transitions = csr_matrix((rows.probability, rows.next_state, rows.indptr), shape=(reward.size, n_states))
    states, actions = np.repeat(np.arange(n_states), n_actions), np.tile(np.arange(n_actions), n_states)
    problem = DiscreteDP(reward, transitions, gamma, states, actions)
    return lambda: np.asarray(problem.solve(method="mpi", epsilon=TOLERANCE).v)


def _mdpsolver(rows: Rows, n_actions: int, gamma: float) -> Solve:
    """Modified policy iteration, mdpsolver's default, on one core: its threads stall where cores are shared."""
    import mdpsolver

    ends, n_states = rows.indptr.tolist(), (rows.indptr.size - 1) // n_actions
    reward = np.add.reduceat(rows.probability * rows.reward, rows.indptr[:-1])
    model = mdpsolver.model()
    model.mdp(
        discount=gamma,
        rewards=reward.reshape(n_states, n_actions).tolist(),
        tranMatProbs=_nested(rows.probability.tolist(), ends, n_actions),
        tranMatColumns=_nested(rows.next_state.tolist(), ends, n_actions),
    )

    def solve() -> np.ndarray[Any, Any]:
        model.solve(tolerance=TOLERANCE, parallel=False)
        return np.asarray(model.getValueVector())

    return solve


def _nested(flat: list[Any], ends: list[int], n_actions: int) -> list[list[list[Any]]]:
    rows = [flat[first:last] for first, last in itertools.pairwise(ends)]
    return [rows[first : first + n_actions] for first in range(0, len(rows), n_actions)]


CONTENDERS: tuple[tuple[str, str, Callable[[Rows, int, float], Solve]], ...] = (
    (OURS, "replicable_rl", _ours),
    (QUANTECON, "quantecon", _quantecon),
    (MDPSOLVER, "mdpsolver", _mdpsolver),
)


def _memory(sizes: Sizes) -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder:
        for name, array in garnet(sizes.large, 4, 4).rows._asdict().items():
            np.save(Path(folder) / f"{name}.npy", array)
        for by, package, _ in CONTENDERS:
            if not installed(package):
                at: At = {"S": sizes.large, "until": "planning"}
                yield Measurement("planning", MEMORY, by, at, unit="MB", note=absence(package))
                continue
            for stage in in_fresh_process(__name__, "large_plan", by, folder):
                at = {"S": sizes.large, "until": stage.name}
                yield Measurement("planning", MEMORY, by, at, [stage.peak], "MB")


def large_plan(by: str, folder: str) -> Iterator[str]:
    """Plan on the arrays in a folder, in stages."""
    prepare = next(prepare for name, _, prepare in CONTENDERS if name == by)
    tiny = garnet(10, 4, 4)
    prepare(tiny.rows, 4, 0.95)()
    yield "imports"
    arrays = {path.stem: np.load(path) for path in Path(folder).glob("*.npy")}
    solve = prepare(Rows(**arrays), 4, 0.95)
    del arrays
    yield "problem"
    solve()
    yield "planning"
