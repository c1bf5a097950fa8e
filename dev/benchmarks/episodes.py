"""Rounds of episodes by count propagation, beside every trajectory played, and runs of RepRMAX."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import gymnasium
import numpy as np
from numpy.typing import NDArray

import replicable_rl as rr
from dev.benchmarks import kernels
from dev.benchmarks.timing import OURS, Job, Measurement, in_turns, one_core
from replicable_rl.randomness import sample_stream
from replicable_rl.testing import PerSample

HORIZON, EPISODES = 50, 10**9
ROUND, AGAINST_M, AGAINST_H = f"a round on FrozenLake 8x8, H = {HORIZON}", "a round of episodes", "a round of episodes"
RMAX = "one run of RepRMAX, default m"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int = 20
    played: int = 10_000  # episodes that are really played, and scaled
    steps: int = 20_000  # steps of Gymnasium
    exponents: tuple[int, ...] = (4, 6, 8, 10, 12, 14, 16)
    horizons: tuple[int, ...] = (10, 30, 100, 300, 1000)


FULL, QUICK = Sizes(), Sizes(rounds=2, played=100, steps=500, exponents=(4, 16), horizons=(10, 20))


def measure(sizes: Sizes) -> Iterator[Measurement]:
    """Yield the time of a round of episodes, its growth with m and H, and that of whole runs."""
    lake = rr.from_gymnasium("FrozenLake-v1", map_name="8x8", gamma=0.95)
    with one_core():
        yield from _round(lake, sizes)
        play = partial(lake.play, rr.optimal_values(lake).policy)
        rng = sample_stream(1)
        jobs = [Job(OURS, partial(play, 10**e, HORIZON, rng), {"m": 10**e}) for e in sizes.exponents]
        yield from in_turns("episodes", AGAINST_M, jobs, rounds=sizes.rounds, against="m")
        jobs = [Job(OURS, partial(play, EPISODES, h, rng), {"H": h}) for h in sizes.horizons]
        yield from in_turns("episodes", AGAINST_H, jobs, rounds=sizes.rounds, against="H")
        yield from _rmax(lake, sizes)


def _round(lake: rr.TabularMDP, sizes: Sizes) -> Iterator[Measurement]:
    policy, rng, at = rr.optimal_values(lake).policy, sample_stream(1), {"m": EPISODES}
    part = f"Measured at {sizes.played} episodes, and scaled."
    all_steps, some = EPISODES * HORIZON / sizes.steps, f"Measured at {sizes.steps} steps, and scaled."
    counts, every = lake, PerSample(lake)
    slow = partial(every.play, policy, sizes.played, HORIZON, np.random.default_rng(1))
    jobs = [
        Job(OURS, partial(counts.play, policy, EPISODES, HORIZON, rng), at),
        Job("trajectories, compiled", _compiled(lake, policy, sizes.played), at, EPISODES / sizes.played, part),
        Job("trajectories, numpy", slow, at, EPISODES / sizes.played, part),
        Job("Gymnasium steps", _gymnasium(policy, sizes.steps), at, all_steps, some),
    ]
    yield from in_turns("episodes", ROUND, jobs, rounds=3 * sizes.rounds)


def _compiled(mdp: rr.TabularMDP, policy: NDArray[np.int64], episodes: int) -> Callable[[], object]:
    """Return a job that plays every episode step by step in a compiled loop; it starts in one state."""
    rows = mdp.rows
    total = np.cumsum(rows.probability)
    before = np.repeat(np.concatenate([[0.0], total])[rows.indptr[:-1]], np.diff(rows.indptr))
    row_of = np.arange(mdp.n_states) * mdp.n_actions + policy
    state, count = np.arange(1, 5, dtype=np.uint64), np.zeros(rows.probability.size, dtype=np.int64)
    start = int(mdp.initial.argmax())
    table = rows.indptr, rows.next_state, total - before, row_of, start
    return partial(kernels.trajectories, *table, episodes, HORIZON, state, count)


def _gymnasium(policy: NDArray[np.int64], steps: int) -> Callable[[], object]:
    """Return a job that makes steps as a user would: step, and reset at the end of an episode."""
    env = gymnasium.make("FrozenLake-v1", map_name="8x8")
    actions = policy.tolist()

    def play() -> None:
        state, _ = env.reset(seed=1)
        for _ in range(steps):
            state, _, terminated, truncated, _ = env.step(actions[state])
            if terminated or truncated:
                state, _ = env.reset()

    return play


def _rmax(lake: rr.TabularMDP, sizes: Sizes) -> Iterator[Measurement]:
    problems = {
        "two-goals-wide-v1": (rr.make("two-goals-wide-v1"), 0.05, 60),
        "riverswim-v1, 20 states": (rr.make("riverswim-v1", n_states=20), 0.01, 150),
        "FrozenLake 8x8": (lake, 0.001, 100),
    }
    jobs = []
    for name, (mdp, epsilon, horizon) in problems.items():
        algorithm = rr.ReplicableRMax(epsilon, 0.001, 0.2, horizon)
        jobs.append(Job(OURS, partial(rr.solve, mdp, algorithm, shared_seed=1, sample_seed=1), {"problem": name}))
    yield from in_turns("episodes", RMAX, jobs, rounds=min(sizes.rounds, 5))
