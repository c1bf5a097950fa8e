"""Time of one run of rPVI against m, and against drawing every sample.

    make bench

Every time is the best of several runs, taken in turns so that a busy moment of the machine hits all
columns alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import replicable_rl as rr
from benchmarks.timing import best_of
from replicable_rl.randomness import sample_stream
from replicable_rl.sampling import CountSampler, PerSampleSampler

EXPONENTS = (2, 4, 6, 8, 10, 12, 14, 16, 18)


def runs_against_m(problem: str) -> None:
    mdp = rr.make(problem)

    def run(calls: int) -> Callable[[], object]:
        algorithm = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, calls=calls)
        return lambda: rr.solve(mdp, algorithm, shared_seed=1, sample_seed=1)

    times = best_of({f"1e{e}": run(10**e) for e in EXPONENTS})
    base = times["1e4"]
    print(f"\none run of rpvi-v1 on {problem}, T=100: time against m, relative to m=1e4 ({base * 1e3:.2f} ms)")
    print("  ".join(f"{m:>5}" for m in times))
    print("  ".join(f"{t / base:5.2f}" for t in times.values()))


def counts_against_samples(problem: str) -> None:
    mdp = rr.make(problem)
    counts, samples, rng = CountSampler(mdp), PerSampleSampler(mdp), sample_stream(1)
    print(f"\none call of the sampler on {problem}: counts, and every sample drawn")
    print(f"{'m':>9} {'counts':>10} {'per sample':>12} {'ratio':>9}")
    for calls in (13_000, 130_000, 1_300_000):
        times = best_of({"samples": partial(samples.draw, calls, rng)}, rounds=3)
        times |= best_of({"counts": partial(counts.draw, calls, rng)}, rounds=1000)
        ratio = times["samples"] / times["counts"]
        print(f"{calls:>9} {times['counts'] * 1e6:>8.1f}us {times['samples'] * 1e3:>10.2f}ms {ratio:>9.0f}")


if __name__ == "__main__":
    runs_against_m("two-goals-v1")
    runs_against_m("two-goals-wide-v1")
    counts_against_samples("two-goals-v1")
