"""Time of a round of episodes and of a whole run of RepRMAX, against m.

make bench
"""

from __future__ import annotations

from functools import partial

import replicable_rl as rr
from benchmarks.timing import best_of
from replicable_rl.randomness import sample_stream
from replicable_rl.sampling import EpisodicTable, PerTrajectorySampler

HORIZON = 50


def episodes_against_m() -> None:
    mdp = rr.from_gymnasium("FrozenLake-v1", map_name="8x8", gamma=0.95)
    policy, rng = rr.optimal_values(mdp).policy, sample_stream(1)
    counts, trajectories = EpisodicTable(mdp), PerTrajectorySampler(mdp)
    sizes = (10**3, 10**5, 10**9, 10**15)
    times = best_of({f"{m:.0e}": partial(counts.play, policy, m, HORIZON, rng) for m in sizes}, rounds=50)
    slow = best_of({f"{m:.0e}": partial(trajectories.play, policy, m, HORIZON, rng) for m in sizes[:2]}, rounds=3)
    print(f"\nm episodes of {HORIZON} steps on FrozenLake 8x8: count propagation, and every trajectory played")
    print(f"{'m':>9} {'counts':>10} {'trajectories':>14}")
    for m, seconds in times.items():
        other = f"{slow[m] * 1e3:>12.1f}ms" if m in slow else f"{'-':>14}"
        print(f"{m:>9} {seconds * 1e3:>8.2f}ms {other}")


def runs_against_m() -> None:
    problems = {
        "two-goals-wide-v1": (rr.make("two-goals-wide-v1"), 0.05, 60),
        "riverswim-v1, 20 states": (rr.make("riverswim-v1", n_states=20), 0.01, 150),
        "FrozenLake 8x8": (rr.from_gymnasium("FrozenLake-v1", map_name="8x8", gamma=0.95), 0.001, 100),
    }
    print("\none run of replicable-rmax-v1")
    print(f"{'':>24} {'m=1e+09':>10} {'default m':>10}")
    for name, (mdp, epsilon, horizon) in problems.items():
        jobs = {
            str(m): partial(
                rr.solve,
                mdp,
                rr.ReplicableRMax(epsilon, 0.001, 0.2, horizon, episodes=m),
                shared_seed=1,
                sample_seed=1,
            )
            for m in (10**9, None)
        }
        times = best_of(jobs, rounds=10)
        print(f"{name:>24} " + " ".join(f"{seconds * 1e3:>8.1f}ms" for seconds in times.values()))


if __name__ == "__main__":
    episodes_against_m()
    runs_against_m()
