"""What every step of the sharp form is worth on two-goals-v1: the table of docs/proofs.md.

.venv/bin/python -m dev.benchmarks.steps
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

import replicable_rl as rr
from replicable_rl.theory.phased_vi import rising_schedule

EPSILON, DELTA, RHO = 0.1, 0.001, 0.2
Line = tuple[str, float, float]  # what, the largest m, samples in all


def lines() -> Iterator[Line]:
    """Yield every step, from what the paper prints to what a run draws."""
    mdp = rr.make("two-goals-v1")
    N, gamma = mdp.n_states * mdp.n_actions, mdp.gamma
    for printed, name in ((True, "as printed"), (False, "as its proof needs")):
        paper = rr.theory.paper_phased_vi(N, gamma, EPSILON, DELTA, RHO, printed=printed)
        yield name, paper["calls"], N * paper["iterations"] * paper["calls"]
    T, tau = paper["iterations"], paper["tolerance"]
    m = _constant(N, T, tau)
    yield "the mean distance instead of the deviation (Theorems 5 and 7)", m, N * T * m
    m, T = min((_constant(N, t, _tau(gamma, t)), t) for t in range(40, 140) if _tau(gamma, t) > 0.0)
    yield f"T = {T} chosen together with τ", m, N * T * m
    m, T = min((_rising(N, t, gamma), t) for t in range(25, 140))
    yield f"values that only rise (Theorem 8), T = {T}", m, N * T * m
    schedule = rising_schedule(N, gamma, EPSILON, DELTA, RHO)
    yield (
        f"a schedule of its own for every iteration, T = {schedule.iterations}",
        max(schedule.calls),
        N * schedule.total,
    )
    run = rr.solve(mdp, rr.ReplicablePhasedVI(EPSILON, DELTA, RHO), shared_seed=2023, sample_seed=1)
    yield "calls that fall with the spread of V_t (Theorem 10), drawn", math.nan, run.samples or 0


def _tau(gamma: float, T: int) -> float:
    """The tolerance with which T iterations of the paper's listing lose epsilon."""
    return ((1.0 - gamma) * EPSILON / 2.0 - gamma**T) * (1.0 - gamma) / (gamma * (1.0 - gamma**T))


def _constant(N: int, T: int, tau: float) -> float:
    """One m and one width for all iterations, with rho by the mean distance: tau' + beta/2 = tau."""
    root = (math.sqrt(math.log(2.0 * N * T / DELTA) / 2.0) + N * T / (2.0 * RHO * math.sqrt(math.pi))) / tau
    return math.ceil(root * root)


def _rising(N: int, T: int, gamma: float) -> float:
    """The rising update with one m and one width for all iterations, and values in [0, 1]."""
    weights = float(gamma * np.power(gamma, np.arange(T)).sum())
    spare = EPSILON - gamma ** (T + 1)
    if spare <= 0.0:
        return math.inf
    root = weights * (math.sqrt(2.0 * math.log(2.0 * N * T / DELTA)) + N * T / (RHO * math.sqrt(math.pi))) / spare
    return math.ceil(root * root)


def rows() -> Iterator[str]:
    """Yield the rows of the table."""
    table = list(lines())
    needed = {name: total for name, _, total in table}["as its proof needs"]
    for name, m, total in table:
        shown = "–" if math.isnan(m) else f"{m:.2e}"
        yield f"| {name} | {shown} | {total:.2e} | {needed / total:.3g}× |"


if __name__ == "__main__":
    print(*rows(), sep="\n")
